import { sql } from 'kysely'
import type { App } from '../src/app.ts'
import { startReplay } from '../src/transactions/replay.ts'
import type { Replica, Writing } from './writing.ts'

/** The tables of transactions, children first. */
const TABLES = ['attempts', 'transactions', 'stopped_lanes', 'ledger_cursor'] as const

/** Remembers what the database holds now. @returns what makes it hold that again, and nothing newer */
export async function remember({ db: root }: Pick<App, 'db'>): Promise<() => Promise<void>> {
  for (const table of TABLES) {
    await sql`drop table if exists ${sql.table(`kept_${table}`)}`.execute(root)
    await sql`create table ${sql.table(`kept_${table}`)} as table ${sql.table(table)}`.execute(root)
  }
  return () =>
    root.transaction().execute(async (db) => {
      for (const table of TABLES) {
        await sql`delete from ${sql.table(table)}`.execute(db)
        await sql`insert into ${sql.table(table)} select * from ${sql.table(`kept_${table}`)}`.execute(db)
      }
    })
}

/** One look of a replay. */
export async function replay({ app }: Replica): Promise<void> {
  const running = startReplay(app)
  await running.look()
  await running.stop()
}

/** One round of the keeper. */
export async function keep({ first }: Writing): Promise<void> {
  const keeper = first.keeper()
  await keeper.round()
  await keeper.stop()
}

/** Makes all rows of transactions so much older, by the database's clock and by ours. */
export const age = ({ db }: Pick<App, 'db'>, seconds: number): Promise<unknown> =>
  sql`update transactions set created_at = created_at - ${`${seconds} seconds`}::interval, updated_at = updated_at - ${`${seconds} seconds`}::interval,
    transitions = coalesce((select jsonb_agg(jsonb_set(step, '{at}', to_jsonb((step->>'at')::timestamptz - ${`${seconds} seconds`}::interval)) order by place)
      from jsonb_array_elements(transitions) with ordinality as steps (step, place)), '[]'::jsonb)`.execute(db)
