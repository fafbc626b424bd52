import { JsonInvalid, readUniqueJson } from '../../unique-json.ts'

/** A policy file that cannot be used; the text names the place in the file and is for the operator. */
export class PolicyInvalid extends Error {
  constructor(path: string, problem: string) {
    super(path === '' ? problem : `${path}: ${problem}`)
    this.name = 'PolicyInvalid'
  }
}

/** Parses the JSON of a policy file. @throws PolicyInvalid */
export function readPolicyJson(text: string): unknown {
  try {
    return readUniqueJson(text)
  } catch (error) {
    throw error instanceof JsonInvalid ? new PolicyInvalid('', error.message) : error
  }
}
