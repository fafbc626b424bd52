import type { CopySession, TableColumns } from '../store/copy.ts'
import { BackupError } from './fault.ts'

/** Tables that are not backed up, and why. */
export const LEFT_OUT: Readonly<Record<string, string>> = {
  migrations: 'the manifest says which were applied, and restoring applies them',
}

/**
 * Returns the tables of the schema with their columns, read from the database, so that a new table is included
 * automatically. Each table follows those that it refers to.
 */
export async function readTables({ query }: Pick<CopySession, 'query'>): Promise<TableColumns[]> {
  const rows = await query<{ name: string; columns: string }>(`
    select c.relname as name, json_agg(a.attname order by a.attnum)::text as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    group by c.relname order by c.relname`)
  const references = await query<{ name: string; to: string }>(`
    select c.relname as name, r.relname as to from pg_constraint k
    join pg_class c on c.oid = k.conrelid join pg_class r on r.oid = k.confrelid
    where k.contype = 'f' and c.oid <> r.oid and c.relnamespace = current_schema()::regnamespace`)
  const left = rows
    .filter(({ name }) => !(name in LEFT_OUT))
    .map(({ name, columns }) => ({ name, columns: JSON.parse(columns) as string[] }))
  const ordered: TableColumns[] = []
  while (left.length > 0) {
    const at = left.findIndex(({ name }) =>
      references.every((one) => one.name !== name || ordered.some((table) => table.name === one.to)),
    )
    if (at < 0) throw new BackupError('Tables refer to each other in a circle.')
    ordered.push(...left.splice(at, 1))
  }
  return ordered
}

/**
 * Checks that a table was not rewritten, emptied or recreated after the snapshot began: the snapshot would see such a
 * table as empty (PostgreSQL, MVCC caveats). Call it after the rows were read: from then on, the read locks the table.
 * @throws BackupError
 */
export async function assertAsItWas({ query }: Pick<CopySession, 'query'>, { name }: TableColumns): Promise<void> {
  const [is] = await query<{ same: boolean }>(
    `select coalesce(pg_relation_filenode(oid) = relfilenode, relkind = 'p') as same from pg_class where oid = '"${name}"'::regclass`,
  )
  if (is?.same !== true) throw new BackupError(`The table ${name} was changed during the backup, by an upgrade or by hand. Run the backup again.`) // prettier-ignore
}

/**
 * References that accounts, writes and attempts need: [table, column, referenced table, its column]. Most have no
 * constraint in the database. Null refers to nothing, such as an operation that is not in a transaction yet.
 */
const REFERENCES = [
  ['identities', 'account_id', 'accounts', 'account_id'],
  ['transactions', 'account_id', 'accounts', 'account_id'],
  ['attempts', 'transaction_id', 'transactions', 'id'],
  ['wrapped_keys', 'data_key_id', 'wrapped_data_keys', 'id'],
  ['sponsors', 'account_id', 'accounts', 'account_id'],
  ['top_ups', 'sponsor_id', 'accounts', 'account_id'],
  ['operations', 'outer_id', 'transactions', 'id'],
  ['carried', 'operation_id', 'operations', 'id'],
  ['carried', 'transaction_id', 'transactions', 'id'],
] as const

/** Counts rows that refer to missing rows, by table and column. Omits columns without such rows. */
export async function findDangling({ query }: Pick<CopySession, 'query'>): Promise<{ place: string; rows: number }[]> {
  const found: { place: string; rows: number }[] = []
  for (const [table, column, to, key] of REFERENCES) {
    const [row] = await query<{ rows: number }>(
      `select count(*)::int as rows from ${table} a where a.${column} is not null and not exists (select from ${to} b where b.${key} = a.${column})`,
    )
    if (row!.rows > 0) found.push({ place: `${table}.${column}`, rows: row!.rows })
  }
  return found
}

/**
 * Drops the indexes without a constraint, so that rows are inserted faster.
 * @returns their definitions, to create them again
 */
export async function dropIndexes({ query }: Pick<CopySession, 'query'>): Promise<string[]> {
  const indexes = await query<{ name: string; definition: string }>(`
    select i.indexrelid::regclass::text as name, pg_get_indexdef(i.indexrelid) as definition
    from pg_index i join pg_class c on c.oid = i.indrelid
    where c.relnamespace = current_schema()::regnamespace and not i.indisunique
      and not exists (select from pg_constraint k where k.conindid = i.indexrelid)`)
  for (const { name } of indexes) await query(`drop index ${name}`)
  return indexes.map(({ definition }) => definition)
}
