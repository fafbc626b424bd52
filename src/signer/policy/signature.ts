import { keccak } from '../../keccak.ts'

/** A function as its selector names it. */
export type FunctionShape = { signature: string; /** 8 hexadecimal digits */ selector: string; types: string[] }

/** What the head of calldata holds for one argument; null for what is not a single word. */
export type HeadValue = bigint | null

const WORD = 32
const ELEMENTARY = /^(?:address|bool|string|bytes|u?int(\d+)|bytes(\d+))$/

/**
 * Reads a signature text such as `transfer(address,uint256)`: canonical types only, since a selector is the hash of the text and
 * `uint` would be another function. @returns null for what is no signature
 */
export function readSignature(text: string): FunctionShape | null {
  const [, list] = /^[A-Za-z_$][\w$]{0,127}\((.*)\)$/s.exec(text) ?? []
  const types = list === undefined || text.length > 1_000 ? null : splitTypes(list)
  if (types === null || !types.every(isType)) return null
  return { signature: text, selector: keccak(Buffer.from(text, 'utf8')).toString('hex', 0, 4), types }
}

/** @returns null where parentheses do not match */
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

/** Arguments that fill one word of the head and say all of themselves there. */
export const isOneWord = (type: string): boolean => /^(?:address|bool|u?int\d+|bytes\d+)$/.test(type)

/**
 * The head of calldata as the ABI has it, for functions whose arguments each take one word there. Strict: an address with bits
 * above its 160, a number beyond its width and bytes that end outside the calldata are no such arguments, whatever an old contract
 * makes of them. What follows the arguments is ignored, as contracts do.
 * @returns null when the words are missing or malformed
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

/** The word of one argument alone, as it is there; null where the calldata ends before. */
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

/** Length and bytes that an offset points at. */
function isInside(offset: bigint, data: Buffer): boolean {
  if (offset > BigInt(data.length)) return false
  const start = 4 + Number(offset)
  const length = wordAt(data, start)
  return length !== null && length <= BigInt(data.length - start - WORD)
}
