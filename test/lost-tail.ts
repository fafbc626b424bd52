import { sql } from 'kysely'
import type { App } from '../src/app.ts'
import type { Hex } from '../src/ids.ts'
import { fromHex } from '../src/hex.ts'
import { retrying } from '../src/store/db.ts'
import { startReplay } from '../src/transactions/recovery/replay.ts'
import type { Replica, Writer, Writing } from './writing.ts'

/** The tables of transactions, children first. */
const TABLES = [
  'carried',
  'operations',
  'operation_sequences',
  'attempts',
  'transactions',
  'stopped_lanes',
  'ledger_cursor',
  'top_ups',
  'gas_spent',
  'gas_spent_on_network',
  'withdrawals',
] as const

/** What the follower knows of the chain. It is of the same moment wherever a database as a whole goes back. */
const FOLLOWED = ['cursors', 'history_cursors', 'blocks', 'retracted_blocks', 'facts', 'events', 'feeds'] as const

/** Remembers what the tables of transactions hold now. @returns what makes them hold that again, and nothing newer */
export const remember = (app: Pick<App, 'db'>): Promise<() => Promise<void>> => rememberTables(app, TABLES)

/** The same with what the follower knows: states are of blocks, and go back with them. */
export const rememberWithBlocks = (app: Pick<App, 'db'>): Promise<() => Promise<void>> =>
  rememberTables(app, [...FOLLOWED, ...TABLES])

async function rememberTables({ db: root }: Pick<App, 'db'>, tables: readonly string[]): Promise<() => Promise<void>> {
  // All of one moment, as in any database that goes back: a block that the follower stores meanwhile is in every table or in none.
  await root
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute(async (db) => {
      for (const table of tables) {
        await sql`drop table if exists ${sql.table(`kept_${table}`)}`.execute(db)
        await sql`create table ${sql.table(`kept_${table}`)} as table ${sql.table(table)}`.execute(db)
      }
    })
  return () =>
    root.transaction().execute(async (db) => {
      // The follower's first statement locks its cursor, so that what it has begun is done before.
      // A database that goes back notes no change: as for a restored one, triggers are off.
      for (const table of tables) {
        await sql`alter table ${sql.table(table)} disable trigger user`.execute(db)
        await sql`delete from ${sql.table(table)}`.execute(db)
        await sql`insert into ${sql.table(table)} select * from ${sql.table(`kept_${table}`)}`.execute(db)
        await sql`alter table ${sql.table(table)} enable trigger user`.execute(db)
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

/** Makes all rows of transactions so much older, by the database's clock and by ours; or those alone that are not final. */
export async function age(
  { db }: Pick<App, 'db'>,
  seconds: number,
  { isOpenOnly = false }: { isOpenOnly?: boolean } = {},
): Promise<void> {
  // Again where the running program locked the rows in another order.
  for (const table of ['transactions', 'operations']) await retrying(() => ageTable(db, table, seconds, isOpenOnly))
}

const ageTable = (db: App['db'], table: string, seconds: number, isOpenOnly: boolean): Promise<unknown> =>
  sql`update ${sql.table(table)} set created_at = created_at - ${`${seconds} seconds`}::interval, updated_at = updated_at - ${`${seconds} seconds`}::interval,
    transitions = coalesce((select jsonb_agg(jsonb_set(step, '{at}', to_jsonb((step->>'at')::timestamptz - ${`${seconds} seconds`}::interval)) order by place)
      from jsonb_array_elements(transitions) with ordinality as steps (step, place)), '[]'::jsonb)
    where not ${isOpenOnly} or not is_final`.execute(db)

/** Somebody else who has the account's key uses its next nonces. @returns what was sent */
export async function useElsewhere(world: Writing, { address: from }: Writer, times = 1): Promise<Hex[]> {
  const hashes: Hex[] = []
  await world.rpc('anvil_impersonateAccount', from)
  for (let time = 0; time < times; time++)
    hashes.push(await world.rpc<Hex>('eth_sendTransaction', { from, to: from, value: '0x1', gas: '0x5208' }))
  await world.rpc('anvil_stopImpersonatingAccount', from)
  return hashes
}

/** While the database lacks the account its transactions pass by. */
export async function unseen(world: Writing, { address }: Writer, work: () => Promise<unknown>): Promise<void> {
  const [shown, hidden] = [fromHex(address), Buffer.alloc(20, 0xee)]
  await world.db.updateTable('accounts').set({ address: hidden }).where('address', '=', shown).execute()
  await work()
  await world.db.updateTable('accounts').set({ address: shown }).where('address', '=', hidden).execute()
}
