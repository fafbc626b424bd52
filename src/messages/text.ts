import { keccak } from '../keccak.ts'
import { MessageInvalid } from './invalid.ts'

const MAX_MESSAGE_BYTES = 32_768

/** Computes the 32 bytes that `personal_sign` signs. Source: EIP-191, version 0x45 */
export const personalDigest = (bytes: Buffer): Buffer =>
  keccak(Buffer.concat([Buffer.from(`\u0019Ethereum Signed Message:\n${bytes.length}`), bytes]))

/** Asserts that a message is not too large to be signed. @throws MessageInvalid */
export function assertSize(bytes: Buffer): Buffer {
  if (bytes.length > MAX_MESSAGE_BYTES)
    throw new MessageInvalid('invalid_message', '', `it is over ${MAX_MESSAGE_BYTES} bytes`)
  return bytes
}

/**
 * Returns the readable text of bytes. Returns null if they are not UTF-8, or contain control characters other than
 * line breaks and tabs.
 */
export function printableOf(bytes: Buffer): string | null {
  const text = bytes.toString('utf8')
  return Buffer.from(text).equals(bytes) && isPrintable(text) ? text : null
}

export const isPrintable = (text: string): boolean => text.isWellFormed() && !/[^\P{Cc}\n\r\t]/u.test(text)

/** Returns whether a text is 32 bytes in hexadecimal digits: a digest, whose meaning nobody can see. */
export const isDigestText = (text: string): boolean => /^\s*(?:0x)?[0-9a-f]{64}\s*$/i.test(text)

/**
 * Replaces invisible characters, and characters that change the order of others, by their code points: ⟨U+202E⟩. A carriage return
 * counts as invisible unless a line feed follows.
 */
export const visible = (text: string): string =>
  text.replaceAll(/[\p{Cf}\p{Zl}\p{Zp}\u034F\u115F\u1160\u17B4\u17B5\u3164\uFFA0\u180B-\u180F]|\r(?!\n)/gu, codePointOf)

const codePointOf = (character: string): string =>
  `⟨U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}⟩`
