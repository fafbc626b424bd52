import { elementaryType, explainUnknownType } from './elementary.ts'
import type { AbiErrorItem, AbiFunction, AbiParameter, ParsedAbi, StateMutability } from './item.ts'
import { type JsonNode, JsonError, readJson } from './json.ts'
import { MAX_ERROR_ITEMS, MAX_NAME, MAX_PARAMETERS, MAX_TUPLE_DEPTH } from './limits.ts'
import { abiError } from './refusal.ts'
import { checkDimensions, checkSize } from './size.ts'

type JsonFields = Map<string, JsonNode>

/**
 * Parses JSON ABI text: one item, or an array with exactly one function and any number of errors. Fields that do not
 * matter for a call (`internalType`, `indexed`, `gas`, …) are skipped.
 * @throws invalid_abi
 * Source: docs.soliditylang.org, "Contract ABI Specification", JSON
 */
export function readFragment(text: string): ParsedAbi {
  const document = readDocument(text)
  let found: AbiFunction | null = null
  const errors: AbiErrorItem[] = []
  for (const node of document.kind === 'array' ? document.items : [document]) {
    if (node.kind !== 'object') throw refuse(node, 'invalid_item', 'an item of a JSON ABI must be an object')
    const kind = readText(node.fields.get('type'), 'type') ?? 'function'
    if (kind === 'error') errors.push(readError(node, node.fields))
    else if (kind !== 'function') throw refuse(node, 'not_a_function', 'an item must be a function or an error')
    else if (found) throw refuse(node, 'second_function', 'expected exactly one function, found a second function')
    else found = readFunction(node, node.fields)
    if (errors.length > MAX_ERROR_ITEMS) {
      throw refuse(node, 'too_many_errors', `more than ${MAX_ERROR_ITEMS} error items`)
    }
  }
  if (!found) throw refuse(document, 'no_function', 'expected a function, found none')
  return { function: found, errors }
}

function readDocument(text: string): JsonNode {
  // Check also the strings that are skipped, because the text is stored: half of a surrogate pair has no UTF-8 form.
  const broken = text.search(/\p{Surrogate}/u)
  if (broken !== -1) throw abiError(broken + 1, 'not_text', 'the text has an unpaired surrogate')
  try {
    return readJson(text)
  } catch (error) {
    if (error instanceof JsonError) throw abiError(error.at + 1, error.code, error.message)
    throw error
  }
}

function readFunction(node: JsonNode, fields: JsonFields): AbiFunction {
  const name = readItemName(node, fields)
  const inputs = readParameters(fields.get('inputs') ?? refuseMissing(node, 'inputs'), 0)
  const outputNode = fields.get('outputs')
  const outputs = outputNode ? readParameters(outputNode, 0) : []
  checkSize(inputs, node.at + 1)
  checkSize(outputs, node.at + 1)
  return { name, inputs, outputs, stateMutability: readMutability(fields) }
}

function readError(node: JsonNode, fields: JsonFields): AbiErrorItem {
  const name = readItemName(node, fields)
  const inputs = readParameters(fields.get('inputs') ?? refuseMissing(node, 'inputs'), 0)
  checkSize(inputs, node.at + 1)
  return { name, inputs }
}

function readMutability(fields: JsonFields): StateMutability | null {
  const node = fields.get('stateMutability')
  const mutability = readText(node, 'stateMutability')
  if (mutability === 'view' || mutability === 'pure') return mutability
  if (mutability === 'payable' || mutability === 'nonpayable') return mutability
  if (node && mutability !== null) throw refuse(node, 'unexpected_word', 'stateMutability has an unknown value')
  // Before Solidity 0.4.16, two booleans expressed the mutability.
  if (readBoolean(fields.get('constant'), 'constant')) return 'view'
  const isPayable = readBoolean(fields.get('payable'), 'payable')
  return isPayable === null ? null : isPayable ? 'payable' : 'nonpayable'
}

function readParameters(node: JsonNode, tupleDepth: number): AbiParameter[] {
  if (node.kind !== 'array') throw refuse(node, 'invalid_item', 'a list of parameters must be an array')
  if (node.items.length > MAX_PARAMETERS) {
    throw refuse(node, 'too_many_parameters', `more than ${MAX_PARAMETERS} parameters in one list`)
  }
  return node.items.map((item) => readParameter(item, tupleDepth))
}

function readParameter(node: JsonNode, tupleDepth: number): AbiParameter {
  if (node.kind !== 'object') throw refuse(node, 'invalid_item', 'a parameter must be an object')
  const name = readText(node.fields.get('name'), 'name') ?? ''
  if (name !== '' && !isIdentifier(name))
    throw refuse(node, 'invalid_name', 'the name of a parameter is not an identifier')
  if (name.length > MAX_NAME) throw refuse(node, 'too_long', `a name has more than ${MAX_NAME} characters`)
  const typeNode = node.fields.get('type') ?? refuseMissing(node, 'type')
  const { base, suffix } = readType(typeNode)
  if (base !== 'tuple') return { name, type: base + suffix }
  if (tupleDepth === MAX_TUPLE_DEPTH) {
    throw refuse(node, 'too_deep', `tuples are nested more than ${MAX_TUPLE_DEPTH} deep`)
  }
  const components = readParameters(node.fields.get('components') ?? refuseMissing(node, 'components'), tupleDepth + 1)
  if (components.length === 0) throw refuse(node, 'empty_tuple', 'a tuple has no components')
  return { name, type: base + suffix, components }
}

/** Splits a type into base and array suffix: `tuple[2][]` → `tuple` and `[2][]`. */
function readType(node: JsonNode): { base: string; suffix: string } {
  const text = readText(node, 'type') ?? ''
  const open = text.indexOf('[')
  const word = open === -1 ? text : text.slice(0, open)
  const suffix = text.slice(word.length)
  const base = word === 'tuple' ? word : elementaryType(word)
  if (base === null) {
    const { code, detail } = /^[\w$]*$/.test(word)
      ? explainUnknownType(word)
      : { code: 'unknown_type', detail: 'a type has invalid characters' }
    throw refuse(node, code, detail)
  }
  if (!/^(\[[0-9]*\])*$/.test(suffix)) throw refuse(node, 'unknown_type', 'the brackets of an array are not balanced')
  const dimensions = suffix === '' ? [] : suffix.slice(1, -1).split('][')
  // Throws at the first dimension too many.
  dimensions.forEach((_, index) => checkDimensions(dimensions.slice(0, index + 1), node.at + 1))
  return { base, suffix }
}

function readItemName(node: JsonNode, fields: JsonFields): string {
  const name = readText(fields.get('name'), 'name')
  if (name === null || !isIdentifier(name))
    throw refuse(node, 'invalid_name', 'an item has no name, or its name is not an identifier')
  return name
}

const isIdentifier = (text: string): boolean => /^[A-Za-z_$][A-Za-z0-9_$]*$/.test(text)

function readText(node: JsonNode | undefined, field: string): string | null {
  if (!node || node.kind === 'null') return null
  if (node.kind !== 'string') throw refuse(node, 'invalid_item', `${field} must be a string`)
  return node.value
}

function readBoolean(node: JsonNode | undefined, field: string): boolean | null {
  if (!node || node.kind === 'null') return null
  if (node.kind !== 'boolean') throw refuse(node, 'invalid_item', `${field} must be true or false`)
  return node.value
}

function refuseMissing(node: JsonNode, field: string): never {
  throw refuse(node, 'missing_field', `an item lacks ${field}`)
}

const refuse = (node: JsonNode, code: string, detail: string) => abiError(node.at + 1, code, detail)
