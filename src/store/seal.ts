import { createHmac, sign, timingSafeEqual, verify, type KeyObject } from 'node:crypto'
import type { Selectable } from 'kysely'
import type { Database } from './rows.ts'

/** Keys by which the authorization server seals rows, so that rows written by others are recognized. */
export type SealKeys = {
  /** the key that seals; null in a program that only checks */
  signing: { kid: string; key: KeyObject } | null
  /** public keys by id, including the one that seals */
  known: ReadonlyMap<string, KeyObject>
  /**
   * MAC keys, derived from the private keys; null in a program without them, which accepts rows under a MAC unchecked
   */
  macs: ReadonlyMap<string, KeyObject> | null
}

type Columns<T extends keyof Database> = Selectable<Database[T]>

/** The columns that are read for a seal. Times and bytes are texts if the statement converts them. */
export type SealedRows = {
  applications: Columns<'applications'>
  consents: Pick<Columns<'consents'>, 'account_id' | 'client_id' | 'permissions' | 'keys' | 'ways'>
  identities: { provider: string; subject: string; user_id: string }
  oauth_records: {
    kind: string
    /** hexadecimal */
    id_hash: string
    grant_id: string | null
    uid: string | null
    user_id: string | null
    client_id: string | null
    /** null: someone with write access may have stored a JSON null */
    payload: Record<string, unknown> | null
    consumed_at: string | null
  }
  operators: Pick<Columns<'operators'>, 'user_id' | 'role'>
  sign_ins: Omit<Columns<'sign_ins'>, 'created_at' | 'consumed_at' | 'seal'>
}

export type SealedTable = keyof SealedRows

/**
 * The columns that a seal covers: the primary key, and every column that leads to a token or to an account. A MAC costs
 * a tenth of a signature. Signatures can be checked by the API, which has no secret of the authorization server.
 */
const TABLES: { [T in SealedTable]: { by: 'mac' | 'signature'; covers: (row: SealedRows[T]) => unknown[] } } = {
  /** Columns that decide about tokens, and columns that pages show. Quotas, weight and gas budgets lead to no token. */
  applications: {
    by: 'mac',
    covers: (row) => [
      row.client_id,
      row.name,
      row.chain_id,
      row.kind,
      row.redirect_uris,
      row.permissions,
      row.allowed_origins,
      row.secret_hashes,
      row.logo_uri,
      row.needs_pkce,
      row.needs_dpop,
      row.suspended_at !== null,
      row.issuers,
      row.post_logout_redirect_uris,
      row.is_first_party,
    ],
  },
  consents: {
    by: 'mac',
    covers: (row) => [row.account_id, row.client_id, row.permissions, row.keys, row.ways],
  },
  /** For a linked identity: the user that it leads to. */
  identities: { by: 'signature', covers: (row) => [row.provider, row.subject, row.user_id] },
  /**
   * Covers the time of use, so that a used code cannot be made unused. Does not cover a grant's expiry: refreshing a
   * token extends the grant, and everything issued under it has its own expiry.
   */
  oauth_records: {
    by: 'mac',
    covers: (row) => {
      const { exp: _exp, ...lasting } = row.payload ?? {}
      const payload = row.kind === 'Grant' && row.payload !== null ? lasting : row.payload
      return [row.kind, row.id_hash, row.grant_id, row.uid, row.user_id, row.client_id, payload, row.consumed_at]
    },
  },
  /** The identity and its role in the console. */
  operators: { by: 'mac', covers: (row) => [row.user_id, row.role] },
  /**
   * Covers sign-in, provider, browser, request and expiry. Does not cover the use, because the provider accepts each
   * code only once.
   */
  sign_ins: {
    by: 'mac',
    covers: (row) => [
      Buffer.from(row.state_hash).toString('hex'),
      row.interaction_uid,
      row.provider,
      row.nonce,
      row.code_verifier,
      Buffer.from(row.browser_hash).toString('hex'),
      row.request,
      row.expires_at.toISOString(),
    ],
  },
}

/**
 * Computes the seal of a row: key id, a space, HMAC-SHA256 (RFC 2104) or Ed25519 signature in base64url. It differs for
 * another table, key or value. Returns null if this program lacks the key.
 */
export function sealOf<T extends SealedTable>(keys: SealKeys, table: T, row: SealedRows[T]): string | null {
  const { signing, macs } = keys
  if (signing === null) return null
  const text = sealedText(table, row)
  if (TABLES[table].by === 'signature') return `${signing.kid} ${sign(null, text, signing.key).toString('base64url')}`
  const key = macs?.get(signing.kid)
  return key === undefined ? null : `${signing.kid} ${hmac(key, text).toString('base64url')}`
}

/**
 * Returns whether a holder of a known key sealed the row with these values. Without MAC keys, a row under a MAC counts
 * as sealed.
 */
export function isSealed<T extends SealedTable>(
  { known, macs }: Omit<SealKeys, 'signing'>,
  table: T,
  row: SealedRows[T] & { seal: string | null },
): boolean {
  const isSigned = TABLES[table].by === 'signature'
  if (!isSigned && macs === null) return true
  if (row.seal === null) return false
  const kid = keyIdOf(row.seal)
  const given = Buffer.from(row.seal.slice(kid.length + 1), 'base64url')
  const key = isSigned ? known.get(kid) : macs!.get(kid)
  if (key === undefined) return false
  const text = sealedText(table, row)
  if (isSigned) return verify(null, text, key, given)
  const expected = hmac(key, text)
  return given.length === expected.length && timingSafeEqual(given, expected)
}

/** Returns the id of the key that made a text: a seal, or an encrypted secret. */
export const keyIdOf = (text: string): string => text.split(' ', 1)[0]!

/** Encodes table and covered columns. The encoding is unambiguous: no two rows have the same. */
export const sealedText = <T extends SealedTable>(table: T, row: SealedRows[T]): Buffer =>
  Buffer.from(`chatelaine row\n${canonical([table, ...TABLES[table].covers(row)])}`, 'utf8')

const hmac = (key: KeyObject, text: Buffer): Buffer => createHmac('sha256', key).update(text).digest()

/**
 * Writes JSON with sorted object members, because the database reorders them; numbers and texts come back unchanged.
 * Undefined members are omitted, as when the row is written.
 */
function canonical(value: unknown): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`
}
