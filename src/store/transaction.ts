import type { Transaction } from 'kysely'
import type { Db, RootDb } from './db.ts'
import type { Database } from './rows.ts'

/** Works in a transaction: the open one, or a new one. */
export const inTransaction = <T>(db: Db, work: (db: Transaction<Database>) => Promise<T>): Promise<T> =>
  db.isTransaction ? work(db as Transaction<Database>) : (db as RootDb).transaction().execute(work)
