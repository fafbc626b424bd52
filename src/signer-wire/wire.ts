import type { ErrorCode } from '../errors.ts'
import type { Hex } from '../ids.ts'
import type { Proof } from './wire-heads.ts'
import type { LimitLeft } from './wire-limits.ts'
import type * as messages from './wire-messages.ts'
import type * as operations from './wire-operations.ts'

export type { Hex } from '../ids.ts'
export * from './wire-heads.ts'
export * from './wire-limits.ts'
export * from './wire-messages.ts'
export * from './wire-operations.ts'

/**
 * The version of the wire; it changes with every change of its messages, because server and signer are of one release. The greeting
 * states it.
 */
export const WIRE_VERSION = 1

/**
 * A request to sign. Messages between server and signer travel over the Unix socket as frames: a 32-bit big-endian length, then
 * that many bytes of UTF-8 JSON. A request has an `id`; its answer repeats it, and answers may come in any order. `expiresAt`,
 * milliseconds since 1970, says how long the caller waits: a request that is read later is rejected. wei and gas are decimal
 * strings. No verb signs a raw digest.
 */
export type SignRequest = {
  /** the server's transaction id: one intent never gets two nonces */
  intentId: string
  /**
   * the user's own bearer token, or a withdrawal grant; absent only for `replace` and `cancel` of a nonce that the ledger knows or
   * may fill
   */
  accessToken?: string
  /** the user's approval of exactly this call, where a rule of the policy requires one; for a first `send` */
  approval?: string
  chainId: number
  /** the account that signs: the user's own, or a sponsor's for a `send` of native currency to the user's account (top-up.ts) */
  from: Hex
  nonce: number
  /** never absent: contract creation is rejected */
  to: Hex
  value: string
  data: Hex
  gas: string
  /** EIP-1559 fees, or a legacy price; exactly one of the two forms */
  maxFeePerGas?: string
  maxPriorityFeePerGas?: string
  gasPrice?: string
  kind: 'send' | 'replace' | 'cancel'
  /**
   * Only with a `send` whose intent id was derived from an idempotency key: SHA-256 of the request. The ledger stores it, so that a
   * database that lost the request can still reject another request with the same key.
   */
  requestHash?: Hex
}

export type Signed = {
  /** signed transaction bytes, ready for eth_sendRawTransaction */
  raw: Hex
  hash: Hex
  nonce: number
  /** what these bytes do: the intent's effect for the first time, the same at a higher fee, or a cancellation */
  kind: SignRequest['kind']
  /** true if the ledger already held these bytes */
  stored: boolean
  /** the policy rule that decided */
  rule: string
}

/** Result that `sign` would have for a request at the time of the check. */
export type Checked = Pick<Signed, 'kind' | 'stored' | 'rule'> & {
  /** the rule that requires the user's approval, if no valid one was shown; null if no approval is missing */
  requires: string | null
  /** the policy limits that apply to it, as they are before it; absent if there are none */
  limits?: LimitLeft[]
}

export type Verbs = {
  /**
   * Returns the user's account and creates it if there is none; a user has one account forever. The answer includes its wrapped
   * key, to be stored elsewhere before the address is published. If the signer's disk is lost, the key is restored from there.
   * `isNew`: this call created it.
   */
  createAccount: {
    request: { userId: string }
    answer: { address: Hex; wrapped: WrappedAccount; attestation: Hex; isNew: boolean }
  }
  /** Returns the addresses of these users, signed by the signer’s identity; users without an account are omitted. */
  attest: { request: { userIds: string[] }; answer: { attested: AttestedAddress[] } }
  sign: { request: SignRequest; answer: Signed }
  /**
   * Makes the same checks as `sign`, in the same order, and rejects what `sign` would, but reports a missing approval. It signs,
   * writes and counts nothing.
   */
  check: { request: SignRequest; answer: Checked }
  /** Signs an operation of the user's account and, with `authorizationNonce`, its delegation. The policy charges it once, without fees. */
  signOperation: { request: operations.SignOperationRequest; answer: operations.SignedOperationText }
  /** Makes the same checks as `signOperation`, and with `carried` those of the sponsor’s limits; signs, writes and counts nothing. */
  checkOperation: { request: operations.CheckOperationRequest; answer: Omit<Checked, 'kind'> }
  /** Signs a message or typed data with the user's account. The policy charges what it lets others take, in full, once. */
  signMessage: { request: messages.SignMessageRequest; answer: messages.SignedMessage }
  /** Makes the same checks as `signMessage`; signs, writes and counts nothing. */
  checkMessage: { request: messages.SignMessageRequest; answer: messages.CheckedMessage }
  /** Signs a sponsor transaction with operations that this signer has signed. The verb `sign` with kind `cancel` cancels its nonce. */
  signOuter: { request: operations.SignOuterRequest; answer: Signed }
  /** Cancels such a nonce, but can include its authorizations and use up ids of operations that their user no longer wants. */
  cancelOuter: { request: operations.CancelOuterRequest; answer: Signed }
  /**
   * Returns the bytes that the ledger holds for an intent, or for a nonce of any intent, newest first, as many as one frame holds.
   * A `cancel` does not execute the intent. `hasMore`: ask again, with `before` set to the `seq` of the last one. `operation`
   * belongs to the intent; `authorization` belongs to the intent or the nonce.
   */
  recall: {
    request: RecallRequest
    answer: {
      attempts: Recalled[]
      hasMore: boolean
      operation?: operations.RecalledOperation
      authorization?: operations.RecalledDelegation
    }
  }
  /**
   * Lists what was signed after a record of the ledger, oldest first, from at most 500 records at a time, without the bytes. A
   * restored database uses it to find what it lost, by replaying the ledger.
   */
  recallSince: { request: { after: number }; answer: RecalledSince }
  /**
   * The first message of a server on each connection: its wire version, and the newest head of this signer that it has stored. With
   * another version, nothing on the connection is answered. A head that the ledger does not continue stops the signer until its
   * operator accepts the loss. `key`: the verifier key of the signer's identity.
   */
  greeting: { request: { wire: number; head: string | null }; answer: { key: string } }
  /**
   * Proves that a record is in the ledger, or that a size of the ledger continues a smaller one. The default is the size of the
   * newest head.
   */
  prove: { request: ProveRequest; answer: Proof }
  /**
   * Lists what was signed with a user's account, newest first, whichever application requested it. It returns records below
   * `before`, on one network if `chainId` is given, of one intent if `intentId` is given, at most 20 and as many as one frame
   * holds. Each has its proof to the head.
   */
  signatures: {
    request: { userId: string; before?: number; chainId?: number; intentId?: string }
    answer: SignaturePage
  }
  /**
   * Checks the draft of a policy and evaluates it, and the policy in force, for the newest MAX_TRIED records, with meters that begin
   * empty. `text`: a document or a signed file of at most MAX_DRAFT_BYTES; signatures are not checked. It changes nothing.
   */
  tryPolicy: { request: { text: string }; answer: PolicyTrial }
  /** Returns wrapped keys of accounts after a row number, and all wrapped data keys. */
  wrapped: { request: { after: number }; answer: WrappedPage }
  /** Requests the user's key; repeating it while the request is open changes nothing. `token`: EXPORT_TOKEN_TYPE, purpose `ask`. */
  askKey: { request: { token: string }; answer: KeyExport }
  /** Cancels a request for a key. It needs no token, because it only prevents an export. */
  cancelKey: { request: { userId: string; by: 'person' | 'operator' }; answer: KeyExport }
  /** Returns the key, encrypted to the recipient that the token names, once the delay is over. `token`: purpose `take`. */
  takeKey: { request: { token: string }; answer: SealedKey & { address: Hex; id: string } }
  keyExport: { request: { userId: string }; answer: KeyExport }
  /** Lists keys exported by a user or by the operator, and imported keys, from records after one, oldest first. */
  exported: { request: { after: number }; answer: ExportedPage }
  /**
   * Reports what a server has stored of `exported`, so that an older ledger learns of it. `refused`: the number that this signer
   * has not signed.
   */
  heldElsewhere: { request: { accounts: HeldElsewhere[] }; answer: { taken: number; refused: number } }
  /** Lists open requests for keys: the newest 500, oldest first. `total`: how many there are. */
  keyExports: { request: Record<string, never>; answer: { exports: OpenExport[]; total: number } }
  /** Sends one part of a revocation list, signed by the authorization server. */
  revocations: { request: { list: string }; answer: { issuedAt: number } }
  health: {
    request: Record<string, never>
    answer: {
      ok: true
      /** version of the signer's release */
      version: string
      accounts: number
      ledgerEntries: number
      revocations: 'fresh' | 'stale' | 'unused'
      /** the verifier key of the signer's identity */
      identity: string
      /** the chain ids of SIGNER_CHAINS; null in development if it is not set: all */
      chains: number[] | null
      /** fingerprints (RFC 7638) of the trusted token keys */
      tokenKeys: string[]
      policy: PolicyHealth
      /** maximum lifetime of an accepted access token */
      maxTokenSeconds: number
      /** why the last use of the master key (KEK) failed, null if it worked; keys that are unwrapped continue to sign */
      masterKey: { provider: string; fault: string | null }
      operations: operations.OperationsHealth
    }
  }
}
export type Verb = keyof Verbs

/**
 * The callers of a verb, if the signer has a socket for each: the API, the authorization server, or both. `renews`: if the
 * revocation list is stale, a new one is sent first and the request is repeated.
 */
type VerbUse = { of: 'api' | 'auth' | 'both'; renews?: true }

/**
 * Every verb of the wire. The API requests signatures with the tokens that it shows. The authorization server manages accounts and
 * their keys, and requests no transactions.
 */
export const VERBS: { readonly [V in Verb]: VerbUse } = {
  greeting: { of: 'both' },
  prove: { of: 'both' },
  attest: { of: 'both' },
  signatures: { of: 'both' },
  tryPolicy: { of: 'auth' },
  health: { of: 'both' },
  sign: { of: 'api', renews: true },
  check: { of: 'api', renews: true },
  signOperation: { of: 'api', renews: true },
  checkOperation: { of: 'api', renews: true },
  signMessage: { of: 'api', renews: true },
  checkMessage: { of: 'api', renews: true },
  signOuter: { of: 'api', renews: true },
  cancelOuter: { of: 'api', renews: true },
  recall: { of: 'api' },
  recallSince: { of: 'api' },
  createAccount: { of: 'auth' },
  wrapped: { of: 'auth' },
  revocations: { of: 'auth' },
  askKey: { of: 'auth', renews: true },
  cancelKey: { of: 'auth' },
  takeKey: { of: 'auth', renews: true },
  keyExport: { of: 'auth' },
  exported: { of: 'auth' },
  heldElsewhere: { of: 'auth' },
  keyExports: { of: 'auth' },
}

/** The state of a user's key export; times in milliseconds since 1970 by the signer's clock. */
export type KeyExport = {
  /** `ready`: the delay is over; it ends at `lapsesAt` */
  state: 'none' | 'waiting' | 'ready'
  id: string | null
  askedAt: number | null
  readyAt: number | null
  lapsesAt: number | null
  /** when a key was last exported; null: never */
  exportedAt: number | null
  /** null: this signer exports no keys */
  delaySeconds: number | null
}
export type ExportedPage = {
  exported: HeldElsewhere[]
  /** record hash of the last restore, '' for none; it identifies the ledger's history */
  restored: string
  /** the `after` of the next request; below the `after` of this one, the ledger is an older one */
  through: number
  /** there are no more */
  isEnd: boolean
}
/**
 * A statement that a key was exported, or imported if `isBrought`. `at` is milliseconds since 1970 by the clock of the signer,
 * whose identity signed it (elsewhere.ts). MAX_HELD of them fit into one frame.
 */
export type HeldElsewhere = { userId: string; at: number; isBrought: boolean; statement: Hex }
export const MAX_HELD = 100
/** maximum requests for keys per answer, so that it fits into a frame */
export const MAX_OPEN_EXPORTS = 500
/** `damaged`: its record was altered, and no key is exported by it */
export type OpenExport = Omit<KeyExport, 'state'> & { state: KeyExport['state'] | 'damaged'; userId: string }
/** HPKE (RFC 9180) with DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, as base64url; `info` is `exportInfo`. */
export type SealedKey = { enc: string; ciphertext: string }
export const EXPORT_TOKEN_TYPE = 'chatelaine-export+jwt'
export const EXPORT_AUDIENCE = 'urn:chatelaine:signer'

/** An account's key as the signer stores it: useless without the data key, which is useless without the master key (KEK). */
export type WrappedKey = {
  userId: string
  address: Hex
  version: number
  /** `id` of the data key that wraps it */
  dataKeyId: Hex
  /** the stored attestation of the address; null: there is none */
  attestation?: Hex | null
  /** the stored statement that the key is also held elsewhere */
  elsewhere?: Omit<HeldElsewhere, 'userId'> | null
  /** AES-256-GCM; the additional data holds user, address, version and epoch */
  wrapped: Hex
  iv: Hex
  tag: Hex
}
/** A data key as the signer stores it, wrapped by its master key (KEK); `createdAt` in milliseconds since 1970. */
export type WrappedDataKey = {
  id: Hex
  epoch: number
  provider: string
  wrapped: Hex
  createdAt: number
}
export type WrappedAccount = { key: WrappedKey; dataKey: WrappedDataKey }

export type WrappedPage = {
  keys: WrappedKey[]
  dataKeys: WrappedDataKey[]
  /** changes if keys up to `after` may be wrapped again; then start again from 0 */
  generation: number
  /** the `after` of the next request */
  through: number
  /** there are no more */
  isEnd: boolean
}

/**
 * The policy in force; null: only the built-in rules.
 * - `file`: it is the content of the file.
 * - `refused`, `missing`: it is the last usable content; the file now is refused or missing.
 * - `kept`: it is stored from when SIGNER_POLICY_FILE was set.
 */
export type PolicyHealth = {
  version: number
  hash: string
  state: 'file' | 'refused' | 'missing' | 'kept'
  /** number of rules */
  rules: number
  /** true if a rule requires approvals of users */
  asksUsers: boolean
  /** since when this process uses it, milliseconds since 1970 */
  since: number
  /** why the content of SIGNER_POLICY_FILE is not in force; null if it is, or if the setting is absent */
  problem: string | null
} | null

/**
 * The claims of a revocation list, besides `iss`. Each part is a compact JWS (ES256, with this `typ`) by a key that also signs
 * access tokens. A list names everything that is revoked now; a newer list replaces it.
 */
export type RevocationList = {
  /** seconds since 1970 by the database's clock, with a fraction: the list includes everything committed before */
  iat: number
  /** the same for all parts of a list, and unique to it */
  jti: string
  /** from 0 */
  part: number
  parts: number
  /** made by `revoked` and `frozenEntry` */
  entries: string[]
}
export const REVOCATIONS_TYPE = 'chatelaine-revocations+jwt'
/** 64 parts of 300,000 bytes: about 400,000 grants within the lifetime of an access token */
export const MAX_REVOCATION_PARTS = 64

/** Formats list entries of a revoked grant (`gid` of a token), a suspended application and a frozen user. */
export const revoked = {
  grant: (grantId: string): string => `grant ${grantId}`,
  application: (clientId: string): string => `application ${clientId}`,
  user: (userId: string): string => `user ${userId}`,
}

/**
 * Formats a list entry about a freeze or its lifting; `at` is milliseconds since 1970 by the database's clock. An entry of
 * `revoked` holds as long as the list has it. A freeze remains in the signer until a list lifts it, so that an older database lifts
 * nothing.
 */
export const frozenEntry = (subject: string, { isFrozen, at }: { isFrozen: boolean; at: number }): string =>
  `${isFrozen ? 'frozen' : 'unfrozen'} ${at} ${subject}`

export type FrozenEntry = { subject: string; isFrozen: boolean; at: number }

/** Parses an entry of `frozenEntry`. @returns null for other entries */
export function readFrozenEntry(entry: string): FrozenEntry | null {
  const [, word, at, subject] =
    /^(frozen|unfrozen) (\d{1,15}) (user [A-Z0-9_]{1,32}-\P{Cc}{1,255}|application [\x21-\x7e]{1,255})$/u.exec(entry) ??
    []
  return subject === undefined ? null : { subject, isFrozen: word === 'frozen', at: Number(at) }
}

export type RecallRequest = ({ intentId: string } | { chainId: number; from: Hex; nonce: number }) & {
  /** only records before this one */
  before?: number
}

/** A stored attempt with its terms; wei and gas in decimal digits. */
export type Recalled = Signed & {
  /** number of its record in the ledger, from 1 */
  seq: number
  /** when it was signed, milliseconds since 1970 by the signer's clock */
  signedAt: number
  userId: string
  /** the application whose token was shown; null if none was */
  clientId: string | null
  requestHash: Hex | null
  intentId: string
  chainId: number
  from: Hex
  gas: string
  maxFeePerGas?: string
  maxPriorityFeePerGas?: string
  gasPrice?: string
}

export type RecalledSince = {
  /** the hash of the record that `after` names, in hexadecimal digits; null if the ledger ends before it */
  record: string | null
  /** number and hash of the last record that was read; `seq` is the `after` of the next request */
  through: { seq: number; record: string }
  /** true if the ledger ends there */
  isEnd: boolean
  signatures: Pick<Recalled, 'seq' | 'intentId' | 'chainId' | 'from' | 'nonce' | 'hash' | 'kind'>[]
  /** `hash`: the digest */
  operations: (Pick<Recalled, 'seq' | 'intentId' | 'chainId' | 'from' | 'hash'> & { space: Hex; sequence: string })[]
  authorizations: Pick<Recalled, 'seq' | 'intentId' | 'chainId' | 'from' | 'nonce'>[]
}

/**
 * An attested address. `attestation`: the Ed25519 signature of the signer’s identity over `attestedText`, 64 bytes; it is the same
 * for every request.
 */
export type AttestedAddress = { userId: string; address: Hex; attestation: Hex }

/** Maximum users per request for attestations. */
export const MAX_ATTESTED = 32

/**
 * Formats the text that the signer signs for an address. `origin` binds it to one signer, and the first line distinguishes it from
 * anything else that an identity key signs. It omits the key's version and epoch, because no rotation changes an address.
 */
export const attestedText = (origin: string, { userId, address }: { userId: string; address: Hex }): string =>
  `chatelaine address 1\n${origin}\n${userId}\n${address.toLowerCase()}\n`

type ProveRequest = { seq: number; size?: number } | { from: number; to?: number }

/** A signature of the ledger, with the proof from its record to the page's head (RFC 9162 §2.1.3.1), hashes in hexadecimal digits. */
export type ListedSignature = Pick<
  Recalled,
  'seq' | 'signedAt' | 'raw' | 'hash' | 'chainId' | 'intentId' | 'clientId'
> & {
  kind: Recalled['kind'] | 'operation' | 'authorization' | 'message'
  /** null for an operation or a message, which have none */
  nonce: number | null
  /** for an operation, its calls, executed in this order or not at all; for an authorization, the code that it authorizes */
  calls?: operations.OperationCallText[]
  delegate?: Hex
  /** for a message, its content and its class */
  message?: messages.ListedMessage
  /** the rule that allowed it */
  rule: string
  /** SHA-256 of the record's `evidence`; null if it has none */
  evidenceHash: string | null
  record: string
  proof: string[]
}

export type SignaturePage = { signatures: ListedSignature[]; hasMore: boolean; head: string }

/** Maximum bytes of a policy that `tryPolicy` reads, and newest records that it evaluates. */
export const MAX_DRAFT_BYTES = 65_536
export const MAX_TRIED = 500
/** Maximum signatures that `tryPolicy` lists. */
export const MAX_LISTED_TRIALS = 50
/**
 * The result of a draft; `problem`: it is not a valid policy.
 * - `words`, `doubts`: each rule and each probable mistake as a sentence
 * - `records`: first and last record that was read; `signatures`: how many of them a policy decides
 * - `refused`: signatures that the draft alone rejects; `allowed`: those that only the policy in force rejects
 * - `differences`: the newest of both
 */
export type PolicyTrial =
  | { problem: string }
  | {
      problem: null
      version: number
      hash: string
      words: string[]
      doubts: string[]
      records: { first: number; last: number }
      signatures: number
      refused: number
      allowed: number
      differences: PolicyDifference[]
    }
/** A signature that one of two policies rejects, and the rule and reason of that policy. */
export type PolicyDifference = {
  seq: number
  /** milliseconds since 1970 */
  at: number
  userId: string
  clientId: string
  chainId: number
  intentId: string
  refusedBy: 'draft' | 'in force'
  rule: string
  reason: string
}

/** the signer's own refusal codes, in addition to errors.ts; a server gets them only through a bug or an attack */
export type SignerRefusal =
  | 'nonce_conflict'
  | 'nonce_gap'
  | 'intent_conflict'
  | 'replacement_underpriced'
  | 'unknown_account'
  | 'bad_request'
  | 'key_damaged'
  | 'ledger_damaged'
  /** the id of an operation belongs to another intent or may have been lost in a restore: use another sequence */
  | 'sequence_conflict'
  /** from `signOuter`: without that operation the transaction may be signed */
  | 'operation_refused'
  /** operations lost in a restore may still be executed; `health` says until when */
  | 'operations_paused'

/** The facts that a server decides by, besides the code of a refusal. The sentence is for humans. */
export type RefusalFacts = {
  /** for `operation_refused`: the index of the operation in the calldata, from 0 */
  operation?: number
  /** for `operation_refused`: the code with which the operation alone is rejected */
  because?: ErrorCode | SignerRefusal | 'operation_unknown' | 'operation_expired'
  /** for `invalid_message` and `invalid_typed_data`: JSON pointer to the fault, below the message */
  pointer?: string
  /** for `policy_denied` and `approval_required`, also as the reason of another code: the rule that decides */
  rule?: string
  /** when the limit of that rule has more room, ISO 8601; null: nothing in it expires */
  resetsAt?: string | null
}

/** The signer’s own rules that a server handles specifically. No rule of a policy has one of these names. */
export const OWN_RULES = {
  topUpOff: 'top-up-off',
  topUpPerUser: 'top-up-per-user',
  topUpPerSponsor: 'top-up-per-sponsor',
  sponsoredPerUser: 'sponsored-per-user',
} as const

/** `head`: the newest signed head of the ledger, if this connection has not received it yet. */
export type AnswerFrame = (
  | { id: number; answer: unknown }
  | { id: number; error: { code: string; detail: string } & RefusalFacts }
) & {
  head?: string
}
