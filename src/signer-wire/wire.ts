import type { ErrorCode } from '../errors.ts'
import type { Hex } from '../ids.ts'
import type { Proof } from './wire-heads.ts'
import type * as operations from './wire-operations.ts'

export type { Hex } from '../ids.ts'
export * from './wire-heads.ts'
export * from './wire-operations.ts'

/** Another one with each change of what travels: server and signer are of one release. A greeting says it. */
export const WIRE_VERSION = 1

/**
 * What travels between the server and the signer over the Unix socket: frames of a 32-bit big-endian length and
 * that many bytes of UTF-8 JSON. Requests carry an `id`, answers repeat it and may come in any order; with
 * `expiresAt`, milliseconds since 1970, they say until when someone waits: what is read later is refused, not done. wei and gas
 * are decimal strings. There is no verb for a raw digest.
 */
export type SignRequest = {
  /** our transaction id: the same intent never gets two nonces */
  intentId: string
  /** the user's own bearer token; absent only for `replace` and `cancel` of a nonce the ledger already knows or may fill */
  accessToken?: string
  chainId: number
  /** the account that signs: the user's own, or a sponsor's for a `send` of native currency to the user's own (top-up.ts) */
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
  /**
   * SHA-256 of the request that the intent stands for, with a `send` whose intent id was made from an idempotency key:
   * the ledger keeps it, so that a database that has lost the request can still refuse another one under the same key.
   */
  requestHash?: Hex
}

export type Signed = {
  /** signed transaction bytes, ready for eth_sendRawTransaction */
  raw: Hex
  hash: Hex
  nonce: number
  /** what these bytes do: the intent's effect for the first time, the same at a higher fee, or nothing at all */
  kind: SignRequest['kind']
  /** true when the ledger already held these bytes */
  stored: boolean
  /** the policy rule that decided */
  rule: string
}

/** What `sign` would do with a request, as things stood when it was asked. */
export type Checked = Pick<Signed, 'kind' | 'stored' | 'rule'> & {
  /** the limits of the policy in force that it is measured by, as they are before it; absent where there are none */
  limits?: LimitLeft[]
}

/** How much of a limit is left; amounts in decimal digits of the smallest unit, absent where other people use it, too. */
export type LimitLeft = {
  rule: string
  /** such as `native.periodAmount` */
  limit: string
  amount?: string
  used?: string
  left?: string
  /** when the oldest of what is used stops counting, ISO 8601; null while nothing is used */
  resetsAt: string | null
}

export type Verbs = {
  /**
   * Makes the user's account, or finds it: one per user, forever. Its key comes along as the signer keeps it, to be stored
   * elsewhere before the address is told: a signer whose disk is gone has it from there. `isNew`: this call made it.
   */
  createAccount: {
    request: { userId: string }
    answer: { address: Hex; wrapped: WrappedAccount; attestation: Hex; isNew: boolean }
  }
  /** That these users have these addresses, signed by the signer’s identity; one who has no account here is left out. */
  attest: { request: { userIds: string[] }; answer: { attested: AttestedAddress[] } }
  sign: { request: SignRequest; answer: Signed }
  /** The same checks as `sign`, in the same order: refuses what that would refuse. Signs, writes and counts nothing. */
  check: { request: SignRequest; answer: Checked }
  /** An operation of the person's account, and with `authorizationNonce` its delegation. Charged once, at no fees. */
  signOperation: { request: operations.SignOperationRequest; answer: operations.SignedOperationText }
  /** The same checks as `signOperation`, and with `carried` those of the sponsor’s limits; signs, writes and counts nothing. */
  checkOperation: { request: operations.CheckOperationRequest; answer: Omit<Checked, 'kind'> }
  /** A sponsor's transaction with operations that this signer has signed. A cancel of its nonce is `sign` with kind `cancel`. */
  signOuter: { request: operations.SignOuterRequest; answer: Signed }
  /** A cancel of that nonce that keeps its authorizations, and uses up ids of operations in it that their person does not want any more. */
  cancelOuter: { request: operations.CancelOuterRequest; answer: Signed }
  /**
   * Bytes the ledger holds for an intent, or for a nonce whosever it is, newest first, as many as a frame holds; none
   * when it signed none. A `cancel` is not the intent. `hasMore`: ask again, with `before` the `seq` of the last one.
   * `operation` of the intent; `authorization` of the intent or the nonce.
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
   * What was signed after a record of the ledger, oldest first, at most 500 signatures at a time; without the bytes.
   * With it a database finds what it has lost: the ledger is the log that it is replayed from.
   */
  recallSince: { request: { after: number }; answer: RecalledSince }
  /**
   * What a server says first on each connection: which wire it speaks, and the newest head that it has kept of this signer. Of another
   * wire nothing on the connection is answered. A head that the ledger does not continue stops the signer until its operator accepts what
   * was lost. `key`: the signer's identity, as readers of signed notes take it.
   */
  greeting: { request: { wire: number; head: string | null }; answer: { key: string } }
  /** That a record is in the ledger, or that a size of the ledger continues a smaller one; of the newest head where none is named. */
  prove: { request: ProveRequest; answer: Proof }
  /**
   * What was signed with a user's account, newest first, whatever asked for it: records below `before`, of one network where it is
   * named, at most 20 and as many as a frame holds, each with its proof to the head.
   */
  signatures: { request: { userId: string; before?: number; chainId?: number }; answer: SignaturePage }
  /** Keys of accounts after a number of theirs, and all data keys, as the signer keeps them. */
  wrapped: { request: { after: number }; answer: WrappedPage }
  /** A person asks for their key; again while that is open, and nothing changes. `token`: EXPORT_TOKEN_TYPE, purpose `ask`. */
  askKey: { request: { token: string }; answer: KeyExport }
  /** Ends a request for a key; does nothing where there is none. Needs no token: it only forbids. */
  cancelKey: { request: { userId: string; by: 'person' | 'operator' }; answer: KeyExport }
  /** The key, sealed to the recipient that the token names, once the delay is over. Purpose `take`. */
  takeKey: { request: { token: string }; answer: SealedKey & { address: Hex; id: string } }
  keyExport: { request: { userId: string }; answer: KeyExport }
  /** Keys that left by records after one, oldest first, taken by a person, or the operator with all of them. */
  exported: { request: { after: number }; answer: ExportedPage }
  /** What a server has kept of `exported`: a ledger from before learns of it. `refused`: what this signer has not signed. */
  heldElsewhere: { request: { accounts: HeldElsewhere[] }; answer: { taken: number; refused: number } }
  /** Requests for keys that are under way: the newest 500, the oldest first. `total`: how many there are. */
  keyExports: { request: Record<string, never>; answer: { exports: OpenExport[]; total: number } }
  /** One part of a list of what is revoked, signed by the authorization server. */
  revocations: { request: { list: string }; answer: { issuedAt: number } }
  health: {
    request: Record<string, never>
    answer: {
      ok: true
      accounts: number
      ledgerEntries: number
      revocations: 'fresh' | 'stale' | 'unused'
      /** the signer's identity, as readers of signed notes take it */
      identity: string
      /** what SIGNER_CHAINS lists; null in development without it: every one */
      chains: number[] | null
      /** fingerprints (RFC 7638) of the keys that tokens may be signed with */
      tokenKeys: string[]
      policy: PolicyHealth
      /** longest lifetime of an access token that is accepted */
      maxTokenSeconds: number
      /** why the master key (KEK) could not be used when it was last asked, null when it could: keys that are open sign on */
      masterKey: { provider: string; fault: string | null }
      operations: operations.OperationsHealth
    }
  }
}
export type Verb = keyof Verbs

/** Who may ask a verb, where the signer has a socket for each: the API, the authorization server, or both. `renews`: a stale list of revocations is brought first, then it is asked again. */
type VerbUse = { of: 'api' | 'auth' | 'both'; renews?: true }

/** Every verb of the wire. The API has signatures for tokens that it shows; the authorization server has accounts and their keys, and nothing signed. */
export const VERBS: { readonly [V in Verb]: VerbUse } = {
  greeting: { of: 'both' },
  prove: { of: 'both' },
  attest: { of: 'both' },
  signatures: { of: 'both' },
  health: { of: 'both' },
  sign: { of: 'api', renews: true },
  check: { of: 'api', renews: true },
  signOperation: { of: 'api', renews: true },
  checkOperation: { of: 'api', renews: true },
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

/** Where a person's key is on its way out; times in milliseconds since 1970 by the clock of the signer. */
export type KeyExport = {
  /** `ready`: the delay is over, until `lapsesAt` */
  state: 'none' | 'waiting' | 'ready'
  id: string | null
  askedAt: number | null
  readyAt: number | null
  lapsesAt: number | null
  /** when a key last left; null: never */
  exportedAt: number | null
  /** null: this signer gives no keys away */
  delaySeconds: number | null
}
export type ExportedPage = {
  exported: HeldElsewhere[]
  /** hash of the record of the last restore, '' for none: of another ledger another one */
  restored: string
  /** the record where the next question continues; below the one that was asked for, the ledger is an older one */
  through: number
  /** there was no more */
  isEnd: boolean
}
/** That a key left, or `isBrought`; `at` in milliseconds since 1970 by the clock of the signer, whose identity signed it (elsewhere.ts); MAX_HELD of them in one frame. */
export type HeldElsewhere = { userId: string; at: number; isBrought: boolean; statement: Hex }
export const MAX_HELD = 100
/** of requests for keys in an answer, which a frame has to hold */
export const MAX_OPEN_EXPORTS = 500
/** `damaged`: its record was altered, and nothing is given by it */
export type OpenExport = Omit<KeyExport, 'state'> & { state: KeyExport['state'] | 'damaged'; userId: string }
/** HPKE (RFC 9180) with DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, as base64url; `info` is `exportInfo`. */
export type SealedKey = { enc: string; ciphertext: string }
export const EXPORT_TOKEN_TYPE = 'chatelaine-export+jwt'
export const EXPORT_AUDIENCE = 'urn:chatelaine:signer'

/** The key of an account as the signer keeps it: nothing without the data key, and that nothing without the master key (KEK). */
export type WrappedKey = {
  userId: string
  address: Hex
  version: number
  /** `id` of the data key that wraps it */
  dataKeyId: Hex
  /** what `attest` says of the address, where someone keeps that; null: nothing was kept */
  attestation?: Hex | null
  /** that the key is elsewhere, too, where someone keeps that */
  elsewhere?: Omit<HeldElsewhere, 'userId'> | null
  /** AES-256-GCM; the additional data holds user, address, version and epoch */
  wrapped: Hex
  iv: Hex
  tag: Hex
}
/** A data key as the signer keeps it, wrapped by its master key (KEK); `createdAt` in milliseconds since 1970. */
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
  /** another one when keys before `after` may be wrapped otherwise: they are asked for again, from 0 */
  generation: number
  /** where the next question continues */
  through: number
  /** there was no more */
  isEnd: boolean
}

/**
 * The policy in force; null: the built-in rules alone. `state`: it is what the file says, what a file said before one that is
 * refused or missing, or what is kept from when SIGNER_POLICY_FILE was set.
 */
export type PolicyHealth = {
  version: number
  hash: string
  state: 'file' | 'refused' | 'missing' | 'kept'
  /** how many */
  rules: number
  /** since when this process of the signer has decided by it, milliseconds since 1970 */
  since: number
  /** why what SIGNER_POLICY_FILE says is not in force; null where it is, or the setting is not there */
  problem: string | null
} | null

/**
 * What a revocation list holds: a compact JWS (ES256, with a key that access tokens are signed with, and this `typ`) for
 * each part, claims `iss` and those below. A list says all that is revoked now; a newer one takes its place.
 */
export type RevocationList = {
  /** seconds since 1970 by the clock of the database, with its fraction: what was committed before is in the list */
  iat: number
  /** the same for all parts of a list, and of no other */
  jti: string
  /** from 0 */
  part: number
  parts: number
  /** made by `revoked` */
  entries: string[]
}
export const REVOCATIONS_TYPE = 'chatelaine-revocations+jwt'
/** 64 parts of 300,000 bytes: about 400,000 grants within one life of an access token */
export const MAX_REVOCATION_PARTS = 64

/** How a revoked grant (`gid` of a token), a suspended application and a frozen user are in a list. */
export const revoked = {
  grant: (grantId: string): string => `grant ${grantId}`,
  application: (clientId: string): string => `application ${clientId}`,
  user: (userId: string): string => `user ${userId}`,
}

/**
 * That something is frozen, or is no longer, as a list says it: since a time of the database's clock, milliseconds since 1970.
 * Beside the entry of `revoked`, which holds as long as it is in the list: what a freeze names stays frozen in the signer
 * until a list says otherwise, so that a database from before it lifts nothing.
 */
export const frozenEntry = (subject: string, { isFrozen, at }: { isFrozen: boolean; at: number }): string =>
  `${isFrozen ? 'frozen' : 'unfrozen'} ${at} ${subject}`

export type FrozenEntry = { subject: string; isFrozen: boolean; at: number }

/** @returns null for an entry of another kind */
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

/** One stored attempt with the terms it was signed at; wei and gas in decimal digits. */
export type Recalled = Signed & {
  /** number of its record in the ledger, from 1 */
  seq: number
  /** when it was signed, milliseconds since 1970 by the clock of the signer */
  signedAt: number
  userId: string
  /** the application whose token was shown; null when none was */
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
  /** the record that `after` names, in hexadecimal digits; null when the ledger ends before it */
  record: string | null
  /** the last record that was looked at, where the next question continues, and what the ledger says of it */
  through: { seq: number; record: string }
  /** the ledger ends there */
  isEnd: boolean
  signatures: Pick<Recalled, 'seq' | 'intentId' | 'chainId' | 'from' | 'nonce' | 'hash' | 'kind'>[]
  /** `hash`: the digest */
  operations: (Pick<Recalled, 'seq' | 'intentId' | 'chainId' | 'from' | 'hash'> & { space: Hex; sequence: string })[]
  authorizations: Pick<Recalled, 'seq' | 'intentId' | 'chainId' | 'from' | 'nonce'>[]
}

/** `attestation`: the Ed25519 signature of the signer’s identity over `attestedText`, 64 bytes; the same whenever it is asked for. */
export type AttestedAddress = { userId: string; address: Hex; attestation: Hex }

/** Users in one request for attestations. */
export const MAX_ATTESTED = 32

/**
 * What the signer signs of an address. By `origin` it is of one signer only, and by its first line nothing else that an identity
 * signs. The version of a key and its epoch are not in it: no rotation changes an address.
 */
export const attestedText = (origin: string, { userId, address }: { userId: string; address: Hex }): string =>
  `chatelaine address 1\n${origin}\n${userId}\n${address.toLowerCase()}\n`

type ProveRequest = { seq: number; size?: number } | { from: number; to?: number }

/** A signature as the ledger has it, and RFC 9162 §2.1.3.1 from its record to the head of the page, hashes in hexadecimal digits. */
export type ListedSignature = Pick<
  Recalled,
  'seq' | 'signedAt' | 'raw' | 'hash' | 'chainId' | 'intentId' | 'clientId'
> & {
  kind: Recalled['kind'] | 'operation' | 'authorization'
  /** null of an operation, which has none */
  nonce: number | null
  /** of an operation what it does, in this order or not at all; of an authorization the code that it authorizes */
  calls?: operations.OperationCallText[]
  delegate?: Hex
  /** SHA-256 of the record's `evidence`; null where it has none */
  evidenceHash: string | null
  record: string
  proof: string[]
}

export type SignaturePage = { signatures: ListedSignature[]; hasMore: boolean; head: string }

/** codes: those of errors.ts, plus the signer's own refusals, which are bugs or attacks when a server meets them */
export type SignerRefusal =
  | 'nonce_conflict'
  | 'nonce_gap'
  | 'intent_conflict'
  | 'replacement_underpriced'
  | 'unknown_account'
  | 'bad_request'
  | 'key_damaged'
  | 'ledger_damaged'
  /** the id of an operation is another intent's, or may be one that a restore lost: another sequence is needed */
  | 'sequence_conflict'
  /** of `signOuter`: without that operation it may be signed */
  | 'operation_refused'
  /** a restore may have lost operations that are under way; `health` says until when */
  | 'operations_paused'

/** What a server decides by, besides the code of a refusal. The sentence is for people. */
export type RefusalFacts = {
  /** of `operation_refused`: which operation of the calldata, from 0 */
  operation?: number
  /** of `operation_refused`: the code that the operation alone is refused with */
  because?: ErrorCode | SignerRefusal | 'operation_unknown' | 'operation_expired'
  /** of `policy_denied`, or because of it: the name of the rule that rejects */
  rule?: string
  /** when the limit of that rule has more room, ISO 8601; null: what is in it frees none */
  resetsAt?: string | null
}

/** Rules of the signer’s own that a server answers in particular. No rule of a policy has such a name. */
export const OWN_RULES = {
  topUpOff: 'top-up-off',
  topUpPerUser: 'top-up-per-user',
  topUpPerSponsor: 'top-up-per-sponsor',
  sponsoredPerUser: 'sponsored-per-user',
} as const

/** `head`: the newest signed head of the ledger, where this connection was not told it yet. */
export type AnswerFrame = (
  | { id: number; answer: unknown }
  | { id: number; error: { code: string; detail: string } & RefusalFacts }
) & {
  head?: string
}
