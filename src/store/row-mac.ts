import { createHmac, timingSafeEqual, type KeyObject } from 'node:crypto'

/** Keys by which the authorization server knows rows that it wrote itself. Nobody else has them. */
export type RowKeys = {
  /** by which rows are written */
  signing: { kid: string; key: KeyObject }
  /** by their ids, the one that signs among them */
  known: ReadonlyMap<string, KeyObject>
}

/** What of a row is believed, as JSON has it: its table, its primary key, and every column that leads to a token. */
export type RowContent = readonly [table: string, ...columns: unknown[]]

/** A row as it was read, for who looks at all of them. */
export type MacedRow = {
  content: RowContent
  mac: string | null
  /** writes the MAC by the key that signs; false where the row was changed since it was read */
  write: (keys: RowKeys) => Promise<boolean>
}

/**
 * HMAC-SHA256 (RFC 2104) over what a row says: id of the key, a space, base64url. Null where this program has no key.
 * A row under another key, in another table or with another value has another one.
 */
export function macOf(keys: RowKeys | null, content: RowContent): string | null {
  if (keys === null) return null
  const { kid, key } = keys.signing
  return `${kid} ${digestOf(key, content).toString('base64url')}`
}

/** Whether a row says what it said when the holder of one of the keys wrote it. */
export function isMacRight({ known }: Pick<RowKeys, 'known'>, content: RowContent, mac: string | null): boolean {
  if (mac === null) return false
  const key = known.get(keyOfMac(mac))
  if (key === undefined) return false
  const [given, expected] = [Buffer.from(mac.slice(keyOfMac(mac).length + 1), 'base64url'), digestOf(key, content)]
  return given.length === expected.length && timingSafeEqual(given, expected)
}

/** The id of the key that a MAC is by. */
export const keyOfMac = (mac: string): string => mac.split(' ', 1)[0]!

const digestOf = (key: KeyObject, content: RowContent): Buffer =>
  createHmac('sha256', key)
    .update(`chatelaine row\n${canonical(content)}`)
    .digest()

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
