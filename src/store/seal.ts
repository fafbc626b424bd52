import { createHmac, sign, timingSafeEqual, verify, type KeyObject } from 'node:crypto'
import type { Selectable } from 'kysely'
import type { Database } from './rows.ts'

/** Keys by which the authorization server seals rows, so that what someone else wrote is told from it. */
export type SealKeys = {
  /** the one that seals; null in a program that only checks */
  signing: { kid: string; key: KeyObject } | null
  /** public halves by their ids, that of the one that seals among them */
  known: ReadonlyMap<string, KeyObject>
  /** keys of MACs, made of the private halves; null in a program that has none: a row under a MAC counts unseen there */
  macs: ReadonlyMap<string, KeyObject> | null
}

type Columns<T extends keyof Database> = Selectable<Database[T]>

/** What is read of a row for its seal. Times and bytes are texts where the statement makes them so. */
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
    /** anyone who writes to the database may have put a JSON null there */
    payload: Record<string, unknown> | null
    consumed_at: string | null
  }
  sign_ins: Omit<Columns<'sign_ins'>, 'created_at' | 'consumed_at' | 'seal'>
}

export type SealedTable = keyof SealedRows

/**
 * What the seal of a row covers: its primary key, and every column that leads to a token or to someone's account. A MAC costs a tenth of a
 * signature; a signature can be checked by the program of the API, which has no secret of the authorization server.
 */
const TABLES: { [T in SealedTable]: { by: 'mac' | 'signature'; covers: (row: SealedRows[T]) => unknown[] } } = {
  /** By which it is given tokens, and what people are shown of it. Quotas, weight and budgets of sponsors lead to no token. */
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
  /** Of one that was linked: the user that it leads to. */
  identities: { by: 'signature', covers: (row) => [row.provider, row.subject, row.user_id] },
  /**
   * When it was used belongs to it: a used code that is made unused is another row. The end of a grant does not: the refresh of a token
   * moves it, and what comes of a grant has an end of its own.
   */
  oauth_records: {
    by: 'mac',
    covers: (row) => {
      const { exp: _exp, ...lasting } = row.payload ?? {}
      const payload = row.kind === 'Grant' && row.payload !== null ? lasting : row.payload
      return [row.kind, row.id_hash, row.grant_id, row.uid, row.user_id, row.client_id, payload, row.consumed_at]
    },
  },
  /** For which sign-in, at whom, in which browser, for which request, until when. That it came back the provider allows once. */
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
 * The seal of a row: id of the key, a space, HMAC-SHA256 (RFC 2104) or Ed25519 in base64url. Null where this program makes none. A row in
 * another table, under another key or with another value has another one.
 */
export function sealOf<T extends SealedTable>(keys: SealKeys, table: T, row: SealedRows[T]): string | null {
  const { signing, macs } = keys
  if (signing === null) return null
  const text = sealedText(table, row)
  if (TABLES[table].by === 'signature') return `${signing.kid} ${sign(null, text, signing.key).toString('base64url')}`
  const key = macs?.get(signing.kid)
  return key === undefined ? null : `${signing.kid} ${hmac(key, text).toString('base64url')}`
}

/** Whether a row says what it said when the holder of one of the keys sealed it. */
export function isSealed<T extends SealedTable>(
  { known, macs }: Omit<SealKeys, 'signing'>,
  table: T,
  row: SealedRows[T] & { seal: string | null },
): boolean {
  const isSigned = TABLES[table].by === 'signature'
  if (!isSigned && macs === null) return true
  if (row.seal === null) return false
  const kid = keyOfSeal(row.seal)
  const given = Buffer.from(row.seal.slice(kid.length + 1), 'base64url')
  const key = isSigned ? known.get(kid) : macs!.get(kid)
  if (key === undefined) return false
  const text = sealedText(table, row)
  if (isSigned) return verify(null, text, key, given)
  const expected = hmac(key, text)
  return given.length === expected.length && timingSafeEqual(given, expected)
}

/** The id of the key that a seal is by. */
export const keyOfSeal = (seal: string): string => seal.split(' ', 1)[0]!

/** No two rows have the same. */
export const sealedText = <T extends SealedTable>(table: T, row: SealedRows[T]): Buffer =>
  Buffer.from(`chatelaine row\n${canonical([table, ...TABLES[table].covers(row)])}`, 'utf8')

const hmac = (key: KeyObject, text: Buffer): Buffer => createHmac('sha256', key).update(text).digest()

/**
 * JSON with the members of each object in one order: the database keeps its own, and gives numbers and texts back as they were.
 * What JSON has no word for is left out, as it is where the row is written.
 */
function canonical(value: unknown): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`
}
