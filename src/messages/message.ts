/**
 * messages: texts and typed data that accounts sign, and the effect of their signatures.
 * Owns: texts (EIP-191), typed data (EIP-712) and logins (ERC-4361): parsers, one canonical form, digests, the classes of messages and the calls with the same effect.
 * Does not own: whether a message is signed (`signer/rules/authority.ts`), the effect of a call (`signer/policy/calldata.ts`).
 */

import { MessageInvalid } from './invalid.ts'
import { assertSize, isDigestText, isPrintable, personalDigest, printableOf } from './text.ts'
import { bytesIn } from './struct-values.ts'
import { readTypedData, typedDataDigest, typedDataText, type TypedData } from './typed-data.ts'

export { MessageInvalid } from './invalid.ts'

/** A parsed message. `bytes` are signed like a text (EIP-191), and may be readable text. */
export type Message =
  | { kind: 'text'; text: string }
  | { kind: 'bytes'; bytes: Buffer }
  | { kind: 'typedData'; typed: TypedData }

/** Reads a message of a request. @throws MessageInvalid */
export function readMessage(input: { text: unknown } | { hex: unknown } | { typedData: unknown }): Message {
  if ('typedData' in input) return { kind: 'typedData', typed: readTypedData(input.typedData) }
  if ('hex' in input) {
    const bytes = bytesIn(input.hex)
    if (bytes === null) throw new MessageInvalid('invalid_message', '', 'expected bytes as 0x-hex')
    return { kind: 'bytes', bytes: assertSize(bytes) }
  }
  const { text } = input
  if (typeof text !== 'string') throw new MessageInvalid('invalid_message', '', 'expected a text')
  if (!text.isWellFormed()) throw new MessageInvalid('invalid_message', '', 'half of a surrogate pair is missing')
  assertSize(Buffer.from(text))
  return { kind: 'text', text }
}

/** Computes the 32 bytes that are signed. */
export function digestOf(message: Message): Buffer {
  if (message.kind === 'typedData') return typedDataDigest(message.typed)
  return personalDigest(message.kind === 'text' ? Buffer.from(message.text) : message.bytes)
}

/** Returns the canonical form of a message, which is stored and sent: the text, 0x-hex, or JSON text of the parsed typed data. */
export function messageText(message: Message): { kind: Message['kind']; content: string } {
  if (message.kind === 'text') return { kind: 'text', content: message.text }
  if (message.kind === 'bytes') return { kind: 'bytes', content: `0x${message.bytes.toString('hex')}` }
  return { kind: 'typedData', content: typedDataText(message.typed) }
}

/**
 * Returns the readable text of a message; null for typed data, unreadable bytes and digests. Nobody can see the meaning of a
 * digest.
 */
export function textOf(message: Message): string | null {
  if (message.kind === 'typedData') return null
  const text = message.kind === 'text' ? message.text : printableOf(message.bytes)
  // An attacker can search for a digest whose 32 bytes are readable characters.
  const isHash = message.kind === 'bytes' && message.bytes.length === 32
  return text === null || isHash || isDigestText(text) || !isPrintable(text) ? null : text
}
