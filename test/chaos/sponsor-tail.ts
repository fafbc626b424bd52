import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import type { RootDb } from '../../src/store/db.ts'
import { until } from '../kit/until.ts'
import type { ChaosWorld } from './transactions-world.ts'

type Table = { name: string; columns: string }

/** Every table of the service with the columns that hold something of their own. */
async function tablesOf(db: RootDb): Promise<Table[]> {
  const { rows } = await sql<Table>`
    select c.relname as name, string_agg(quote_ident(a.attname), ', ' order by a.attnum) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    group by c.relname order by c.relname`.execute(db)
  return rows
}

/** Remembers the whole database as it is at one moment. @returns what makes it that again, while nobody else is in it */
export async function rememberAll(db: RootDb): Promise<() => Promise<void>> {
  const tables = await tablesOf(db)
  await db
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute(async (work) => {
      await sql`drop schema if exists kept cascade`.execute(work)
      await sql`create schema kept`.execute(work)
      for (const { name, columns } of tables)
        await sql`create table kept.${sql.id(name)} as select ${sql.raw(columns)} from public.${sql.id(name)}`.execute(
          work,
        )
    })
  return () =>
    db.transaction().execute(async (work) => {
      // What refers to what is put back in any order.
      await sql`set local session_replication_role = replica`.execute(work)
      await sql`truncate ${sql.join(tables.map(({ name }) => sql`public.${sql.id(name)}`))}`.execute(work)
      for (const { name, columns } of tables)
        await sql`insert into public.${sql.id(name)} (${sql.raw(columns)}) overriding system value select ${sql.raw(columns)} from kept.${sql.id(name)}`.execute(
          work,
        )
    })
}

/** All servers die, and what the database has taken since is gone, as with a standby that was behind and became the first. */
export async function loseTail({ servers, db }: ChaosWorld, goBack: () => Promise<void>): Promise<void> {
  for (const server of servers) {
    server.hold()
    server.signal('SIGKILL')
  }
  await Promise.all(servers.map((server) => server.gone()))
  // What they had asked for is done though nobody waits for it: above what is put back it would be a commit that no standby has.
  if (db !== null) await until('their last statements are done', async () => (await busyIn(db)) === 0)
  await goBack()
  for (const server of servers) server.goOn()
}

async function busyIn(db: RootDb): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend' and state <> 'idle'`.execute(
    db,
  )
  return rows[0]!.count
}

/** milliseconds between two losses, and how much is lost each time */
const BETWEEN_MS = 3_000
const TAIL_MS = 2_000

/** Loses the newest seconds of the database again and again, until the storm is over. @returns how often */
export async function loseTails(world: ChaosWorld, signal: AbortSignal): Promise<number> {
  let times = 0
  while (world.db !== null && !signal.aborted) {
    await pause(BETWEEN_MS + world.roll() * BETWEEN_MS)
    if (!world.servers.some((server) => server.isReady())) continue
    const goBack = await rememberAll(world.db).catch(() => null)
    if (goBack === null) continue
    await pause(500 + world.roll() * TAIL_MS)
    if (signal.aborted) break
    await loseTail(world, goBack)
    times++
  }
  return times
}
