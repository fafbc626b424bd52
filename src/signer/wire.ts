import type { Hex } from '../ids.ts'

/**
 * What travels between the server and the signer over the Unix socket: frames of a 32-bit big-endian length and
 * that many bytes of UTF-8 JSON. Requests carry an `id`, answers repeat it and may come in any order. wei and gas
 * are decimal strings. There is no verb for a raw digest.
 */
export type SignRequest = {
  /** our transaction id: the same intent never gets two nonces */
  intentId: string
  /** the user's own bearer token; absent only for `replace` and `cancel` of a nonce the ledger already knows or may fill */
  accessToken?: string
  chainId: number
  /** the account that signs, and the user it belongs to */
  from: Hex
  nonce: number
  /** never absent: contract creation is refused */
  to: Hex
  value: string
  data: Hex
  gas: string
  /** EIP-1559 fees, or a legacy price; exactly one of the two forms */
  maxFeePerGas?: string
  maxPriorityFeePerGas?: string
  gasPrice?: string
  kind: 'send' | 'replace' | 'cancel'
}

export type Signed = {
  /** signed transaction bytes, ready for eth_sendRawTransaction */
  raw: Hex
  hash: Hex
  nonce: number
  /** true when the ledger already held these bytes */
  stored: boolean
  /** the policy rule that decided */
  rule: string
}

export type Verbs = {
  /** Makes the user's account, or finds it: one per user, for ever. */
  createAccount: { request: { userId: string }; answer: { address: Hex } }
  sign: { request: SignRequest; answer: Signed }
  /** Bytes the ledger holds for an intent, newest first; empty when it signed none. */
  recall: { request: { intentId: string }; answer: { attempts: (Signed & { maxFeePerGas?: string; maxPriorityFeePerGas?: string; gasPrice?: string })[] } }
  health: { request: Record<string, never>; answer: { ok: true; accounts: number; ledgerEntries: number } }
}
export type Verb = keyof Verbs

/** codes: those of errors.ts, plus the signer's own refusals, which are bugs or attacks when a server meets them */
export type SignerRefusal = 'nonce_conflict' | 'nonce_gap' | 'intent_conflict' | 'replacement_underpriced' | 'unknown_account' | 'bad_request' | 'ledger_damaged'

export type RequestFrame = { [V in Verb]: { id: number; verb: V; request: Verbs[V]['request'] } }[Verb]
export type AnswerFrame = { id: number; answer: unknown } | { id: number; error: { code: string; detail: string } }

/** bytes; a body of 64 KiB holds at most 64 KiB of calldata, which is 128 KiB of hex */
export const MAX_FRAME_BYTES = 524_288
