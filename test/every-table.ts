import { randomBytes, randomUUID } from 'node:crypto'
import type { CopySession } from '../src/store/copy.ts'

/** Rows in every table that the database has, by the types of its columns alone: what a table of tomorrow has, too. */

type Column = { table: string; name: string; type: string; isNullable: boolean; isKey: boolean }
type Query = Pick<CopySession, 'query'>

/** Texts that a format of lines and tabs could trip over. */
const TEXTS = [
  'plain',
  'tab\tand\nline\r\n',
  'back\\slash \\N \\. \\x41',
  '"quoted", \'too\'',
  'ünïcødé 🔑 \u{10ffff}',
  '',
]
const JSONS = [
  'null',
  '{"a": null, "n": 1234567890.123456789, "t": "tab\\tline\\n\\\\"}',
  '[]',
  '{}',
  '[{"key": "\\u00e9"}]',
]

/** @param rows  of each table; of those that have one row at most, one */
export async function fillEveryTable({ query }: Query, rows: number): Promise<void> {
  const columns = await query<Column>(`
    select c.relname as table, a.attname as name, format_type(a.atttypid, a.atttypmod) as type, not a.attnotnull as "isNullable",
      exists (select from pg_constraint k where k.conrelid = c.oid and k.contype in ('p', 'u') and a.attnum = any (k.conkey)) as "isKey"
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
    order by c.relname, a.attnum`)
  // accounts first: the others refer to them where the database looks.
  const tables = [...new Set(['accounts', ...columns.map(({ table }) => table)])].filter(
    (name) => name !== 'migrations',
  )
  for (const table of tables) {
    const mine = columns.filter((column) => column.table === table)
    const isSingle = mine.some(({ name }) => name === 'only_row' || table === 'operator_head')
    if (isSingle) await query(`delete from ${table}`)
    const accounts = table === 'accounts' ? [] : (await query<{ id: string }>('select account_id as id from accounts order by 1')).map(({ id }) => id) // prettier-ignore
    for (let n = 0; n < (isSingle ? 1 : rows); n++) {
      const values = mine.map((column) => valueOf(column, n, accounts))
      const holes = values.map((_, index) => `$${index + 1}`).join()
      await query(`insert into ${table} (${mine.map(({ name }) => name).join()}) values (${holes})`, values)
    }
  }
}

function valueOf({ table, name, type, isNullable, isKey }: Column, n: number, accounts: string[]): unknown {
  if (name === 'only_row' || (table === 'operator_head' && name === 'id')) return 1
  if (table === 'approvals' && name === 'state') return ['waiting', 'approved', 'denied', 'expired'][n % 4]
  if (table === 'denials' && name === 'request') return 'write'
  if (table === 'low_balances' && name === 'kind') return 'waiting'
  if (table === 'webhook_deliveries' && name === 'kind') return ['event', 'retry', 'test'][n % 3]
  if (name === 'disabled_reason') return ['gone', 'failing', null][n % 3]
  // Applications with a feed: what is inserted into other tables would be noted for it.
  if (name === 'permissions') return '["events:read"]'
  if (name === 'transitions') return '[{"state": "SUBMITTED", "at": "2026-01-31T12:00:00.000Z"}]'
  if (name === 'client_id') return `client ${n}`
  if (table === 'facts' && name === 'seq') return 1_000 + n
  if (name === 'via') return ['api', 'command', 'console'][n % 3]
  if (table === 'operators' && name === 'role') return ['owner', 'operator', 'support', 'viewer'][n % 4]
  if (name === 'change') return ['cancel', 'speed-up'][n % 2]
  if (table === 'activity' && name === 'kind') return ['write', 'read', 'sign-in'][n % 3]
  // Both of an application, or neither.
  if (name.startsWith('sponsor_per_')) return n % 2 === 0 ? null : (2n ** 256n - 1n).toString()
  if (isNullable && !isKey && n % 3 === 2) return null
  if (type.startsWith('numeric')) return n % 2 === 0 ? '0' : (2n ** 256n - 1n).toString()
  switch (type) {
    case 'uuid':
      return accounts.length > 0 ? accounts[n % accounts.length] : randomUUID()
    case 'uuid[]':
      return n % 2 === 0 ? [] : [randomUUID(), randomUUID()]
    case 'bytea':
      return isKey || n % 2 === 0
        ? randomBytes(32)
        : Buffer.concat([Buffer.from([0, 10, 9, 92, 255]), Buffer.alloc(27)])
    case 'bigint':
      return n % 2 === 0 || isKey ? 1_000 + n : Number.MAX_SAFE_INTEGER - n
    case 'integer':
      return n % 2 === 0 || isKey ? n + 1 : 2 ** 31 - 1 - n
    case 'smallint':
      return n % 2
    // Of which text has to have all 17 digits.
    case 'double precision':
      return n % 2 === 0 ? 0.1 + 0.2 : Number.MIN_VALUE
    case 'boolean':
      return n % 2 === 0
    case 'timestamp with time zone':
      return isKey ? `2026-01-01 00:00:0${n % 10}.00000${n % 10}+00` : '2026-02-03 04:05:06.123456+07'
    case 'jsonb':
      return JSONS[n % JSONS.length]
    case 'text':
      return isKey ? `${name} ${n} ${TEXTS[n % TEXTS.length]}` : TEXTS[n % TEXTS.length]
    default:
      throw new Error(`no value for ${name} ${type}: add one`)
  }
}

/** Every row of every table as text, in an order of its own. */
export async function readEveryTable({ query }: Query): Promise<Record<string, string[]>> {
  const tables = await query<{ name: string }>(
    `select table_name as name from information_schema.tables where table_schema = current_schema() and table_type = 'BASE TABLE' order by 1`,
  )
  const all: Record<string, string[]> = {}
  for (const { name } of tables.filter((one) => one.name !== 'migrations')) {
    const rows = await query<{ row: string }>(`select t::text as row from ${name} t`)
    all[name] = rows.map(({ row }) => row).toSorted()
  }
  return all
}
