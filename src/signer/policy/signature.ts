import { keccak } from '../../keccak.ts'

/** A function, as its selector identifies it. */
export type FunctionShape = { signature: string; /** 8 hexadecimal digits */ selector: string; types: string[] }

/** The word of one argument in the head of calldata; null for an argument that is not a single word. */
export type HeadValue = bigint | null

const WORD = 32
const ELEMENTARY = /^(?:address|bool|string|bytes|u?int(\d+)|bytes(\d+))$/

/**
 * Parses a signature such as `transfer(address,uint256)`. Only canonical types are accepted: a selector is the hash of the text, so
 * `uint` would be another function.
 * @returns null if it is not a signature
 */
export function readSignature(text: string): FunctionShape | null {
  const [, list] = /^[A-Za-z_$][\w$]{0,127}\((.*)\)$/s.exec(text) ?? []
  const types = list === undefined || text.length > 1_000 ? null : splitTypes(list)
  if (types === null || !types.every(isType)) return null
  return { signature: text, selector: keccak(Buffer.from(text, 'utf8')).toString('hex', 0, 4), types }
}

/** Splits a list of types. @returns null if parentheses do not match */
function splitTypes(list: string): string[] | null {
  if (list === '') return []
  const types: string[] = []
  let [depth, start] = [0, 0]
  for (let index = 0; index < list.length; index++) {
    const character = list[index]
    if (character === '(') depth++
    else if (character === ')') depth--
    else if (character === ',' && depth === 0) {
      types.push(list.slice(start, index))
      start = index + 1
    }
    if (depth < 0) return null
  }
  return depth === 0 ? [...types, list.slice(start)] : null
}

function isType(text: string): boolean {
  const base = text.replace(/(?:\[(?:[1-9]\d{0,5})?\])*$/, '')
  if (base.startsWith('(') && base.endsWith(')')) return splitTypes(base.slice(1, -1))?.every(isType) ?? false
  const [matched, bits, bytes] = ELEMENTARY.exec(base) ?? []
  if (matched === undefined) return false
  if (bits !== undefined) return !bits.startsWith('0') && Number(bits) % 8 === 0 && Number(bits) <= 256
  return bytes === undefined || (!bytes.startsWith('0') && Number(bytes) <= 32)
}

/** Returns whether a type takes exactly one word of the head and has all of its value there. */
export const isOneWord = (type: string): boolean => /^(?:address|bool|u?int\d+|bytes\d+)$/.test(type)

/**
 * Reads the head of calldata for functions whose arguments each take one word there. An address with more than 160 bits, a number
 * beyond its width, or bytes that end outside the calldata are malformed. This is stricter than old contracts. Like contracts, it
 * ignores what follows the arguments.
 * @returns null if words are missing or malformed
 * Source: Solidity, contract ABI specification, strict mode
 */
export function readHead(types: readonly string[], data: Buffer): HeadValue[] | null {
  const values: HeadValue[] = []
  for (const [index, type] of types.entries()) {
    const word = wordAt(data, 4 + index * WORD)
    if (word === null || !fits(type, word, data)) return null
    values.push(isOneWord(type) ? word : null)
  }
  return values
}

/** Reads the word of one argument; null if the calldata ends before it. */
export const headWord = (index: number, data: Buffer): bigint | null => wordAt(data, 4 + index * WORD)

function wordAt(data: Buffer, start: number): bigint | null {
  return data.length < start + WORD ? null : BigInt(`0x${data.toString('hex', start, start + WORD)}`)
}

function fits(type: string, word: bigint, data: Buffer): boolean {
  if (type === 'address') return word >> 160n === 0n
  if (type === 'bool') return word <= 1n
  if (type === 'bytes' || type === 'string') return isInside(word, data)
  const [, bits] = /^uint(\d+)$/.exec(type) ?? []
  return bits === undefined || word >> BigInt(bits) === 0n
}

/** Returns whether the length and bytes at an offset lie inside the calldata. */
function isInside(offset: bigint, data: Buffer): boolean {
  if (offset > BigInt(data.length)) return false
  const start = 4 + Number(offset)
  const length = wordAt(data, start)
  return length !== null && length <= BigInt(data.length - start - WORD)
}
