import { sql } from 'kysely'
import type { App } from '../app.ts'
import { every, type Rounds } from '../clock.ts'
import type { FactKind } from '../store/column-values.ts'
import type { Db, RootDb } from '../store/db.ts'
import { isReadable } from '../users/authorize.ts'
import { describe, type DescribedEvent, type WrittenFact } from './describe.ts'

/** milliseconds between two looks for facts */
const LOOK_MS = 100
/** facts per database transaction */
const BATCH = 500
/** milliseconds for which a process may be stuck in its turn. Then the database ends its transaction, and another has its turn. */
const MAX_STILL_MS = 5_000

/** Moves facts into the feeds of applications until the process stops. Any number of replicas may run it: one works at a time. */
export function startSequencing({ clock, db, telemetry }: Pick<App, 'clock' | 'db' | 'telemetry'>): Rounds {
  let failures = 0
  const logDamaged: ReportDamaged = ({ kind, subject }, error) =>
    telemetry.log.error('event_not_described', { kind, subject }, error)
  return every(clock, LOOK_MS, async () => {
    try {
      while ((await sequence(db, logDamaged)) === BATCH);
      failures = 0
    } catch (error) {
      if (failures++ % 60 === 0) telemetry.log.warn('events_not_numbered', {}, error)
    }
  })
}

type FactRow = {
  seq: number
  kind: FactKind
  chain_id: number | null
  account_id: string | null
  client_id: string | null
  subject: string
  data: Record<string, unknown>
  at: Date
}

/** Receives a fact without events, because the row that changed had contents that the program never writes. */
type ReportDamaged = (fact: Pick<WrittenFact, 'kind' | 'subject'>, error: unknown) => void

/** An event of one feed, before it has a number. */
type FeedEvent = DescribedEvent &
  Pick<FactRow, 'account_id' | 'chain_id' | 'at' | 'subject'> & { client_id: string; is_own: boolean }

/**
 * Moves the oldest facts into feeds, in one transaction: a fact is deleted with the commit that makes it an event.
 * A fact that is committed later, with a lower number, is of another subject: it is found by the next call.
 * @returns number of facts that were moved; 0 also if another process works on them
 */
export async function sequence(root: RootDb, report: ReportDamaged = () => {}): Promise<number> {
  // Nearly always there is nothing, and this is one statement.
  const some = await sql`select 1 from facts limit 1`.execute(root)
  if (some.rows.length === 0) return 0
  return root.transaction().execute(async (db) => {
    const { rows: turn } =
      await sql`select set_config('idle_in_transaction_session_timeout', ${String(MAX_STILL_MS)}, true) from sequencer for update skip locked`.execute(
        db,
      )
    if (turn.length === 0) return 0
    const { rows: facts } = await sql<FactRow>`
      select seq, kind, chain_id, account_id, client_id, subject, data, at from facts order by seq limit ${BATCH}::int`.execute(
      db,
    )
    if (facts.length === 0) return 0
    const readers = await readersOf(db, facts)
    const placed = facts.flatMap((fact) => placeFact(fact, readers, report))
    if (placed.length > 0) await store(db, placed)
    await sql`delete from facts where seq in (select value::int8 from json_array_elements_text(${JSON.stringify(facts.map(({ seq }) => seq))}::json))`.execute(
      db,
    )
    return facts.length
  })
}

/** An application with a feed that an account has signed in to. */
type FeedReader = { client_id: string; account_id: string; chain_id: number; is_allowed: boolean }

/** Returns who may read about accounts, by account. */
async function readersOf(db: Db, facts: readonly FactRow[]): Promise<Map<string, FeedReader[]>> {
  const accountIds = [...new Set(facts.flatMap(({ account_id: id }) => (id === null ? [] : [id])))]
  if (accountIds.length === 0) return new Map()
  const { rows } = await sql<FeedReader>`
    select use.client_id, use.account_id, application.chain_id,
      exists (select 1 from identities identity where identity.account_id = use.account_id and ${isReadable(sql.ref('use.client_id'))}) as is_allowed
    from application_users use join applications application on application.client_id = use.client_id
    where application.permissions ? 'events:read'
      and use.account_id in (select value::uuid from json_array_elements_text(${JSON.stringify(accountIds)}::json))`.execute(
    db,
  )
  return Map.groupBy(rows, ({ account_id: id }) => id)
}

/**
 * Returns the events of a fact for each feed. What an application did goes to its feed. What happened to an account goes
 * to each application that the user signed in to, if it is on the application's network; until the user allows
 * `users:read`, only the user sees it there.
 */
function placeFact(fact: FactRow, readers: ReadonlyMap<string, FeedReader[]>, report: ReportDamaged): FeedEvent[] {
  const { account_id, chain_id, client_id, at, subject } = fact
  const described = describeIfWhole(fact, report)
  if (client_id !== null)
    return described.map((one) => ({ ...one, account_id, chain_id, at, subject, client_id, is_own: false }))
  const to = (readers.get(account_id ?? '') ?? []).filter((reader) => chain_id === null || reader.chain_id === chain_id)
  return described.flatMap((one) =>
    to.map((reader) => ({
      ...one,
      account_id,
      chain_id,
      at,
      subject,
      client_id: reader.client_id,
      is_own: !reader.is_allowed,
    })),
  )
}

/** One damaged row must not stop the feeds of all applications. */
function describeIfWhole(fact: FactRow, report: ReportDamaged): DescribedEvent[] {
  try {
    return describe({ ...fact, chainId: fact.chain_id, accountId: fact.account_id })
  } catch (error) {
    report(fact, error)
    return []
  }
}

/** Numbers events and stores them. Holding the row of a feed, its newest number is committed before the next is given. */
async function store(db: Db, placed: readonly FeedEvent[]): Promise<void> {
  const byFeed = Map.groupBy(placed, ({ client_id: clientId }) => clientId)
  const counts = [...byFeed].map(([clientId, events]) => ({ clientId, count: events.length }))
  await sql`insert into feeds (client_id, seq) select value, 0 from json_array_elements_text(${JSON.stringify([...byFeed.keys()])}::json)
    on conflict do nothing`.execute(db)
  const { rows } = await sql<{ client_id: string; seq: number }>`
    update feeds set seq = greatest(feeds.seq, (extract(epoch from clock_timestamp()) * 1000000)::int8) + counts.count
    from json_to_recordset(${JSON.stringify(counts)}::json) as counts ("clientId" text, count int)
    where feeds.client_id = counts."clientId" returning feeds.client_id, feeds.seq`.execute(db)
  const ends = new Map(rows.map(({ client_id: clientId, seq }) => [clientId, seq]))
  const events = [...byFeed].flatMap(([clientId, list]) =>
    list.map((event, index) => ({ ...event, seq: ends.get(clientId)! - list.length + 1 + index })),
  )
  await sql`
    insert into events (client_id, seq, id, type, subject, account_id, chain_id, is_own, data, at)
    select client_id, seq, id, type, subject, account_id, chain_id, is_own, data, at
    from json_to_recordset(${JSON.stringify(events)}::json) as rows (client_id text, seq int8, id uuid, type text, subject text,
      account_id uuid, chain_id int8, is_own boolean, data jsonb, at timestamptz)`.execute(db)
}
