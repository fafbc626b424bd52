import { createHash, randomBytes, randomUUID } from 'node:crypto'

/** User id: `<PROVIDER>-<provider_user_id>`. Only the first hyphen separates. */
export type UserId = string

/** 0x-prefixed hexadecimal. */
export type Hex = `0x${string}`

/**
 * Codes that accounts can delegate to, so that a sponsor can send what users sign: ours, or Calibur
 * (docs/operate/gas/calibur.md).
 */
export const DELEGATES = ['chatelaine', 'calibur'] as const
export type DelegateName = (typeof DELEGATES)[number]

export const isDelegateName = (text: string): text is DelegateName => DELEGATES.some((name) => name === text)

/** Formats a number for a node, without leading zeros. Source: Ethereum JSON-RPC, QUANTITY */
export const quantityOf = (number: number | bigint): Hex => `0x${number.toString(16)}`

/** Formats a uint256 as 64 hexadecimal digits, without 0x. */
export const wordDigits = (value: bigint): string => value.toString(16).padStart(64, '0')

export const userIdOf = (provider: string, subject: string): UserId => `${provider}-${subject}`

const PROVIDER = /^[A-Z0-9_]{1,32}$/

/** Splits a user id at its first hyphen. Returns null if the text is not a user id. */
export function parseUserId(userId: string): { provider: string; subject: string } | null {
  const at = userId.indexOf('-')
  const provider = userId.slice(0, at)
  const subject = userId.slice(at + 1)
  if (at < 1 || !PROVIDER.test(provider) || !isSubject(subject)) return null
  return { provider, subject }
}

/**
 * Returns whether a text can be a provider's user id: 1 to 255 characters, no control characters, no lone surrogates.
 * PostgreSQL rejects NUL and lone surrogates.
 */
export function isSubject(subject: string): boolean {
  return subject.length >= 1 && subject.length <= 255 && !/\p{Cc}/u.test(subject) && subject.isWellFormed()
}

export const isProviderName = (text: string): boolean => PROVIDER.test(text)

/**
 * Returns whether a name belongs to a provider that an application brings. These names have a prefix of their own, so
 * that no configuration lets such a provider vouch for users of a provider of the installation.
 */
export const isApplicationProvider = (name: string): boolean => isProviderName(name) && /^APP_./.test(name)

/** Provider part of the user ids of sponsors: operator accounts, for which no identity provider can vouch. */
export const SPONSOR_PROVIDER = 'SPONSOR'

/** Client id of our own account pages. Ids of registered applications contain no colon, so none can equal it. */
export const OWN_CLIENT = 'urn:chatelaine:account'

/** Returns whether a text can be the name of a sponsor, which is the rest of its user id. */
export const isSponsorName = (text: string): boolean => /^[A-Z0-9_]{1,32}$/.test(text)

/** Claims that users can change, or that can pass to another user. They must never identify an account. */
const MUTABLE_CLAIMS = new Set([
  'email',
  'username',
  'user_name',
  'preferred_username',
  'login',
  'name',
  'nickname',
  'given_name',
  'family_name',
  'display_name',
  'displayname',
  'screen_name',
  'handle',
  'upn',
  'unique_name',
  'phone_number',
  'mail',
  'profile',
  'picture',
])

export const isMutableClaim = (claim: string): boolean => MUTABLE_CLAIMS.has(claim.toLowerCase())

/**
 * Derives the id of the account of a first identity. It is deterministic, so that creating an account twice finds the
 * same row, and a shard is known without a look-up.
 * Source: RFC 9562 version 8, over SHA-256
 */
export function accountIdOf(provider: string, subject: string): string {
  return uuidOf(`chatelaine account\0${provider}\0${subject}`)
}

/** Derives a UUID from a text. Source: RFC 9562 §5.8, over SHA-256 */
export function uuidOf(text: string): string {
  const hash = createHash('sha256').update(text).digest()
  hash[6] = (hash[6]! & 0x0f) | 0x80
  hash[8] = (hash[8]! & 0x3f) | 0x80
  const hex = hash.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`
}

/** Scope of an idempotency key: the same text is another key for another user, application or route. */
export type KeyScope = { accountId: string; clientId: string; route: string; key: string }

/**
 * Derives the id of the transaction that an idempotency key stands for. The signer's ledger gives an id one nonce
 * forever. As the id is deterministic, the ledger detects a repeated key even if the database has lost it.
 * @param use  number of earlier uses of the key: a key is free again after its write was abandoned, or ended long ago
 */
export const transactionIdOf = ({ accountId, clientId, route, key }: KeyScope, use: number): string =>
  `tx_${uuidOf(`chatelaine transaction\0${accountId}\0${clientId}\0${route}\0${key}\0${use}`)}`

/** Returns a random transaction id, for transactions without an idempotency key. */
export const newTransactionId = (): string => `tx_${randomUUID()}`

/** Derives the id of the signature that an idempotency key stands for, forever: the key is never free again. */
export const signatureIdOf = ({ accountId, clientId, route, key }: KeyScope): string =>
  `sig_${uuidOf(`chatelaine signature\0${accountId}\0${clientId}\0${route}\0${key}`)}`

/** Returns a random signature id, for signatures without an idempotency key. */
export const newSignatureId = (): string => `sig_${randomUUID()}`

/**
 * Derives the id of the question that follows another about the same intent, so that concurrent requests ask one question.
 * @param previous  id of the newest question about the intent; null: there is none
 */
export const approvalIdOf = (intentId: string, previous: string | null): string =>
  `apr_${uuidOf(`chatelaine approval\0${intentId}\0${previous ?? ''}`)}`

/** Returns whether a text can be the id of a signature or an approval. PostgreSQL rejects some others, such as NUL. */
export const isId = (text: string): boolean => /^[\w-]{1,64}$/.test(text)

export const newRequestId = (): string => randomUUID()
export const newSecret = (bytes = 32): string => randomBytes(bytes).toString('base64url')
