import type { Hex } from '../ids.ts'

// Control and format characters (bidirectional, zero-width, tags), line separators, halves of surrogate pairs,
// characters that no font draws, and code points that are no characters.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}]/gu

/** Cleaned text is made from at most this much of the hostile one: characters, or bytes of UTF-8. */
const MAX_READ = 4096

/**
 * Text from a contract, fit for a page, a log and a database.
 * @param max  characters (code points) that are kept
 */
export function cleanText(text: string, max = 64): string {
  const visible = text.slice(0, MAX_READ).replace(INVISIBLE, '').trim()
  return visible.length <= max ? visible : Array.from(visible).slice(0, max).join('').trimEnd()
}

/**
 * What `symbol()` or `name()` of a token returned, cleaned: an ABI string, else old bytes32 text, else null.
 * Reads at most 4 kB, whatever the answer's size.
 */
export function decodeTokenText(data: Hex): string | null {
  if (data.length % 2 !== 0 || !data.startsWith('0x')) return null
  const size = data.length / 2 - 1
  const text = size === 32 ? readBytes32(data) : readString(data, size)
  return text === null ? null : cleanText(text)
}

function readString(data: string, size: number): string | null {
  const offset = readSize(data, 0, size)
  const length = offset === null ? null : readSize(data, offset, size)
  if (offset === null || length === null || offset + 32 + length > size) return null
  const bytes = readSlice(data, offset + 32, Math.min(length, MAX_READ))
  // As a stream, so that a character cut in half at the end is dropped and not replaced.
  return bytes && new TextDecoder('utf-8').decode(bytes, { stream: true })
}

/** Text up to the first NUL, as the first tokens stored it; null when it is no UTF-8: then it is not text. */
function readBytes32(data: string): string | null {
  const bytes = readSlice(data, 0, 32)
  if (!bytes) return null
  const end = bytes.indexOf(0)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(end === -1 ? bytes : bytes.subarray(0, end))
  } catch {
    return null
  }
}

/** An offset or a length within the data; null when it lies. */
function readSize(data: string, at: number, size: number): number | null {
  if (at + 32 > size) return null
  const word = readSlice(data, at, 32)
  const value = word && BigInt(`0x${word.toString('hex')}`)
  return value !== null && value <= BigInt(size) ? Number(value) : null
}

function readSlice(data: string, at: number, length: number): Buffer | null {
  const digits = data.slice(2 + at * 2, 2 + (at + length) * 2)
  return /^[0-9a-fA-F]*$/.test(digits) ? Buffer.from(digits, 'hex') : null
}
