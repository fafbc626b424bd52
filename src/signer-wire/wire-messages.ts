import type { MessageClass } from '../messages/classify.ts'
import type { Message } from '../messages/message.ts'
import type { Hex } from '../ids.ts'
import type { LimitLeft } from './wire-limits.ts'

/** A message to sign, exactly one of the three forms: text, bytes in 0x-hex, or EIP-712 typed data as JSON text. */
export type MessageContent = { text: string } | { hex: Hex } | { typedData: string }

/** A request to sign a message with the user's account. The signer parses, classifies and hashes the content itself. */
export type SignMessageRequest = MessageContent & {
  /** the server's id of the signature: one intent signs one message forever */
  intentId: string
  accessToken: string
  chainId: number
  from: Hex
  /** the user's approval of exactly this request (approval.ts) */
  approval?: string
  /** SHA-256 of the request under an idempotency key */
  requestHash?: Hex
}

export type SignedMessage = {
  /** 65 bytes: r, s and v (27 or 28) */
  signature: Hex
  /** the digest that was signed: EIP-191 or EIP-712 */
  hash: Hex
  class: MessageClass
  /** the rule that allows it */
  rule: string
  /** true if the ledger already held the signature */
  stored: boolean
}

/** A message of the ledger: the text, 0x-hex of bytes, or JSON text of typed data. `signature` as in `SignedMessage`. */
export type ListedMessage = {
  kind: Message['kind']
  content: string
  class: MessageClass
  signature: Hex
}

/** What `signMessage` would do. `requires`: as of a checked write. */
export type CheckedMessage = Omit<SignedMessage, 'signature'> & { requires: string | null; limits?: LimitLeft[] }
