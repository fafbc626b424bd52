import { sql, type Transaction } from 'kysely'
import type { Db, RootDb } from './db.ts'
import type { Database } from './rows.ts'

/** Works in a transaction: the open one, or a new one. */
export const inTransaction = <T>(db: Db, work: (db: Transaction<Database>) => Promise<T>): Promise<T> =>
  db.isTransaction ? work(db as Transaction<Database>) : (db as RootDb).transaction().execute(work)

/**
 * Waits until no other transaction holds a name, and holds it until this one ends. A count that follows, in a statement
 * of its own, sees the rows of all earlier holders. The API's database role cannot lock rows of `applications`.
 */
export async function holdName(db: Transaction<Database>, name: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`.execute(db)
}
