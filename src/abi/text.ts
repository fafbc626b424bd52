import type { Hex } from '../ids.ts'

// Control and format characters (bidirectional, zero-width, tags), line separators, halves of surrogate pairs,
// default-ignorable characters, and noncharacters.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}]/gu

/** Maximum input that is read for cleaning: characters, or bytes of UTF-8. */
const MAX_READ = 4096

/**
 * Cleans a text from a contract, so that it is fit for a page, a log and a database.
 * @param max  maximum length of the result, in code points
 */
export function cleanText(text: string, max = 64): string {
  const visible = text.slice(0, MAX_READ).replace(INVISIBLE, '').trim()
  return visible.length <= max ? visible : Array.from(visible).slice(0, max).join('').trimEnd()
}

/**
 * Decodes and cleans the result of a token's `symbol()` or `name()`: an ABI string, else old-style bytes32 text.
 * Returns null for anything else. It reads at most 4 kB, whatever the size of the result.
 */
export function decodeTokenText(data: Hex): string | null {
  if (data.length % 2 !== 0 || !data.startsWith('0x')) return null
  const size = data.length / 2 - 1
  const text = size === 32 ? readBytes32(data) : readString(data, size)
  return text === null ? null : cleanText(text)
}

/**
 * Decodes an ABI string, as `tokenURI(uint256)` returns it, without invisible characters.
 * @param max  maximum length in bytes of UTF-8
 * @returns null for anything else, and for a longer text
 */
export function decodeText(data: Hex, max: number): string | null {
  if (data.length % 2 !== 0 || !data.startsWith('0x') || data.length < 130) return null
  const size = data.length / 2 - 1
  const offset = readSize(data, 0, size)
  const length = offset === null ? null : readSize(data, offset, size)
  if (length === null || length > max) return null
  const text = readString(data, size)
  return text === null ? null : cleanText(text, max)
}

function readString(data: string, size: number): string | null {
  const offset = readSize(data, 0, size)
  const length = offset === null ? null : readSize(data, offset, size)
  if (offset === null || length === null || offset + 32 + length > size) return null
  const bytes = readSlice(data, offset + 32, Math.min(length, MAX_READ))
  // Decode as a stream, so that a character that is cut off at the end is dropped, not replaced.
  return bytes && new TextDecoder('utf-8').decode(bytes, { stream: true })
}

/** Decodes text up to the first NUL, as the first tokens stored it. Returns null if it is not UTF-8. */
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

/** Reads an offset or a length. Returns null if it lies outside the data. */
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
