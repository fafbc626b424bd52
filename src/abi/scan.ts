import type { AppError } from '../errors.ts'
import { abiError } from './refusal.ts'

/** A position in a text. The functions below move it forward by one token and read each character once. */
export type ScanCursor = { readonly text: string; at: number }

export const atEnd = ({ text, at }: ScanCursor): boolean => at >= text.length

/** Skips space, tab, line feed, vertical tab, form feed and carriage return. */
export function skipSpace(cursor: ScanCursor): void {
  while (cursor.at < cursor.text.length) {
    const code = cursor.text.charCodeAt(cursor.at)
    if (code !== 0x20 && (code < 0x09 || code > 0x0d)) return
    cursor.at++
  }
}

/** Takes a Solidity identifier; returns '' if none starts here. */
export function takeWord(cursor: ScanCursor): string {
  const start = cursor.at
  if (!isWordNext(cursor)) return ''
  do cursor.at++
  while (cursor.at < cursor.text.length && isWordPart(cursor.text.charCodeAt(cursor.at)))
  return cursor.text.slice(start, cursor.at)
}

/** Takes decimal digits; returns '' if none start here. */
export function takeDigits(cursor: ScanCursor): string {
  const start = cursor.at
  while (cursor.at < cursor.text.length && isDigit(cursor.text.charCodeAt(cursor.at))) cursor.at++
  return cursor.text.slice(start, cursor.at)
}

/** Skips white space and takes the character if it comes next. Returns whether it did. */
export function takeSymbol(cursor: ScanCursor, symbol: string): boolean {
  skipSpace(cursor)
  if (atEnd(cursor) || cursor.text.charCodeAt(cursor.at) !== symbol.charCodeAt(0)) return false
  cursor.at++
  return true
}

export function isWordNext(cursor: ScanCursor): boolean {
  if (atEnd(cursor)) return false
  const code = cursor.text.charCodeAt(cursor.at)
  return isWordPart(code) && !isDigit(code)
}

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39

// Letters (with the case bit folded), digits, _ and $.
const isWordPart = (code: number): boolean =>
  ((code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a) || isDigit(code) || code === 0x5f || code === 0x24

/** Creates the error at the cursor: what was expected, and what was found. */
export function fail(cursor: ScanCursor, code: string, expected: string): AppError {
  if (code !== 'unexpected_character') return abiError(cursor.at + 1, code, expected)
  if (atEnd(cursor)) return abiError(cursor.at + 1, 'unexpected_end', `${expected}, but the text ends`)
  const found = cursor.text.codePointAt(cursor.at)!
  // Repeat only printable ASCII, because the text goes into a response and a log.
  const shown = found > 0x20 && found < 0x7f ? `"${String.fromCodePoint(found)}"` : `U+${hex4(found)}`
  return abiError(cursor.at + 1, code, `${expected}, found ${shown}`)
}

const hex4 = (code: number): string => code.toString(16).toUpperCase().padStart(4, '0')
