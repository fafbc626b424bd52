import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { every } from '../clock.ts'
import { classOf } from '../http/gate.ts'
import { slot } from '../state.ts'
import type { Db } from '../store/db.ts'

export const ACTIVITY_KINDS = ['write', 'read', 'sign-in'] as const
type ActivityKind = (typeof ACTIVITY_KINDS)[number]
type Counts = Record<ActivityKind, number>

const FLUSH_MS = 15_000

const none = (): Counts => ({ write: 0, read: 0, 'sign-in': 0 })
/** requests of this process that are not stored yet, and sign-ins as they were counted last */
const counted = slot('requests for the console', (_app: App) => ({ ...none(), signInsSoFar: 0 }))

/** Counts successful requests to the API. Register it before the routes. A count is never on the way of a request. */
export function countRequests(server: FastifyInstance, app: App): void {
  server.addHook('onResponse', (request, reply, done) => {
    const { url = '', config } = request.routeOptions
    if (reply.statusCode < 400 && url.startsWith('/v1/') && request.method !== 'OPTIONS') {
      const kind = classOf(config)
      if (kind === 'write' || kind === 'read') counted.of(app)[kind] += 1
    }
    done()
  })
}

/** Stores the counts of this process at intervals, and when it stops; deletes old rows. */
export function startStoringActivity(app: App): { stop(): Promise<void> } {
  const store = () =>
    storeActivity(app).catch((error: unknown) => app.telemetry.log.warn('activity_not_stored', {}, error))
  const rounds = every(app.clock, FLUSH_MS, store)
  return {
    stop: async () => {
      await rounds.stop()
      await store()
    },
  }
}

/** Adds the counts of this process to those of its five minutes. A failure loses no count. */
export async function storeActivity(app: App): Promise<void> {
  const counts = counted.of(app)
  const { values } = await app.telemetry.signIns.get()
  const signIns = values.reduce((sum, { value }) => sum + value, 0)
  const now: Counts = { write: counts.write, read: counts.read, 'sign-in': signIns - counts.signInsSoFar }
  const rows = ACTIVITY_KINDS.filter((kind) => now[kind] > 0)
  if (rows.length > 0)
    await addTo(
      app.db,
      rows.map((kind) => ({ kind, count: now[kind] })),
    )
  counts.write -= now.write
  counts.read -= now.read
  counts.signInsSoFar = signIns
  await app.db
    .deleteFrom('activity')
    .where('kind', 'in', ACTIVITY_KINDS)
    .where('at', '<', sql<Date>`now() - interval '8 days'`)
    .execute()
}

async function addTo(db: Db, rows: { kind: ActivityKind; count: number }[]): Promise<void> {
  // In the order of the key, so that two processes cannot deadlock.
  const sorted = rows.toSorted((one, other) => (one.kind < other.kind ? -1 : 1))
  await sql`insert into activity (kind, at, count)
    select kind, to_timestamp(floor(extract(epoch from now()) / 300) * 300), count
    from json_to_recordset(${JSON.stringify(sorted)}::json) as given (kind text, count bigint)
    on conflict (kind, at) do update set count = activity.count + excluded.count`.execute(db)
}

export type ActivitySeries = { lastHour: number; lastDay: number; hours: { at: Date; count: number }[] }

/** Reads the counts of the last 24 hours by kind: at most 864 rows, by the primary key. */
export async function readActivity({
  db,
  clock,
}: Pick<App, 'db' | 'clock'>): Promise<Record<ActivityKind, ActivitySeries>> {
  const now = clock.wall()
  const HOUR = 3_600_000
  const first = Math.floor(now / HOUR) * HOUR - 23 * HOUR
  const rows = await db
    .selectFrom('activity')
    .select(['kind', 'at', 'count'])
    .where('kind', 'in', ACTIVITY_KINDS)
    .where('at', '>=', new Date(now - 24 * HOUR))
    .execute()
  const seriesOf = (kind: ActivityKind): ActivitySeries => {
    const mine = rows.filter((row) => row.kind === kind)
    const sum = (from: number, to = Number.POSITIVE_INFINITY) =>
      mine.reduce((all, { at, count }) => all + (at.getTime() >= from && at.getTime() < to ? Number(count) : 0), 0)
    return {
      lastHour: sum(now - HOUR),
      lastDay: sum(now - 24 * HOUR),
      hours: Array.from({ length: 24 }, (_, index) => {
        const from = first + index * HOUR
        return { at: new Date(from), count: sum(from, from + HOUR) }
      }),
    }
  }
  return { write: seriesOf('write'), read: seriesOf('read'), 'sign-in': seriesOf('sign-in') }
}
