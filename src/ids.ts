import { createHash, randomBytes, randomUUID } from 'node:crypto'

/** Shape `<PROVIDER>-<provider_user_id>`; only the first hyphen separates. */
export type UserId = string

/** 0x-prefixed hexadecimal. */
export type Hex = `0x${string}`

/** What code accounts delegate to, so that a sponsor can send what they sign: our own, or Calibur (docs/gas-contracts.md). */
export const DELEGATES = ['chatelaine', 'calibur'] as const
export type DelegateName = (typeof DELEGATES)[number]

export const isDelegateName = (text: string): text is DelegateName => DELEGATES.some((name) => name === text)

/** A number as nodes take it: no leading zeros. Source: Ethereum JSON-RPC, QUANTITY */
export const quantityOf = (number: number | bigint): Hex => `0x${number.toString(16)}`

/** The 64 hexadecimal digits of a uint256. */
export const wordDigits = (value: bigint): string => value.toString(16).padStart(64, '0')

export const userIdOf = (provider: string, subject: string): UserId => `${provider}-${subject}`

const PROVIDER = /^[A-Z0-9_]{1,32}$/

/** Splits at the first hyphen; null when the text is no user id. */
export function parseUserId(userId: string): { provider: string; subject: string } | null {
  const at = userId.indexOf('-')
  const provider = userId.slice(0, at)
  const subject = userId.slice(at + 1)
  if (at < 1 || !PROVIDER.test(provider) || !isSubject(subject)) return null
  return { provider, subject }
}

/** A provider's user id: 1 to 255 characters, no control characters, no lone surrogates (PostgreSQL refuses both). */
export function isSubject(subject: string): boolean {
  return subject.length >= 1 && subject.length <= 255 && !/\p{Cc}/u.test(subject) && subject.isWellFormed()
}

export const isProviderName = (text: string): boolean => PROVIDER.test(text)

/**
 * The providers that an application brings have names of their own: anyone who vouches for the people of one application
 * can by no configuration vouch for those of a provider of the installation.
 */
export const isApplicationProvider = (name: string): boolean => isProviderName(name) && /^APP_./.test(name)

/** What user ids of sponsors begin with: accounts of the operator, that no identity provider can vouch for. */
export const SPONSOR_PROVIDER = 'SPONSOR'

/** What a sponsor is called: the rest of its user id. */
export const isSponsorName = (text: string): boolean => /^[A-Z0-9_]{1,32}$/.test(text)

/** Claims that people can change, or that are given to someone else later: never the key of an account. */
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
 * The account of a first identity. Deterministic, so that creating it twice meets the same row
 * and a shard is found without a look-up. RFC 9562 version 8 over SHA-256.
 */
export function accountIdOf(provider: string, subject: string): string {
  return uuidOf(`chatelaine account\0${provider}\0${subject}`)
}

/** A UUID that says nothing but the same thing of the same text. RFC 9562 §5.8, over SHA-256 */
function uuidOf(text: string): string {
  const hash = createHash('sha256').update(text).digest()
  hash[6] = (hash[6]! & 0x0f) | 0x80
  hash[8] = (hash[8]! & 0x3f) | 0x80
  const hex = hash.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`
}

/** Whose idempotency key it is: the same text means nothing to another user, application or route. */
export type KeyScope = { accountId: string; clientId: string; route: string; key: string }

/**
 * The id of what an idempotency key stands for. Deterministic, so that anyone who has forgotten the one can ask for the
 * other: the signer's ledger, which gives an id one nonce forever, is then the judge of the key too.
 * @param use  which use of the key it is, from 0: one that was abandoned, or was over for long, leaves it to the next
 */
export const transactionIdOf = ({ accountId, clientId, route, key }: KeyScope, use: number): string =>
  `tx_${uuidOf(`chatelaine transaction\0${accountId}\0${clientId}\0${route}\0${key}\0${use}`)}`

/** The id of what nobody has a key to. */
export const newTransactionId = (): string => `tx_${randomUUID()}`
export const newRequestId = (): string => randomUUID()
export const newSecret = (bytes = 32): string => randomBytes(bytes).toString('base64url')
