import { sql } from 'kysely'
import { BoundedMap } from '../bounded-map.ts'
import { AppError } from '../errors.ts'
import type { Db } from '../store/db.ts'
import type { Quota } from '../store/column-values.ts'

/** Quotas of applications per hour, day or month, across all processes. */
export type Quotas = {
  /**
   * Counts `count` requests of an application against every matching quota, all or none.
   * @throws quota_exhausted, database_unavailable
   */
  take(clientId: string, quotas: readonly Quota[], counts: Quota['counts'], count?: number): Promise<QuotaCharge>
  /**
   * Returns the leased requests that this process has not used. If a process is killed, they stay used: a quota is
   * never exceeded.
   */
  close(): Promise<void>
}

/** Counted requests. Return it at most once. If its hour, day or month is over, returning it has no effect. */
export type QuotaCharge = { giveBack(): void }

/** Requests of a quota that this process may still admit without asking the database. */
type QuotaLease = {
  left: number
  limit: number
  /** start of the hour, day or month; and its end on this process's clock, milliseconds */
  startsAt: Date
  endsAt: number
  /** when to ask the database again after it had nothing left, milliseconds */
  askAgainAt: number
  asking: Promise<void> | null
}

/**
 * Share of a quota that a process leases at a time. One statement covers that many requests, and a killed process loses
 * at most that many.
 */
const LEASED_SHARE = 0.01
/** milliseconds between two database queries while a quota is used up */
const ASK_AGAIN_MS = 1_000
const MAX_LEASES = 10_000

/**
 * Opens the quotas. A process leases part of a quota by one conditional statement and admits that many requests without
 * asking. Hours, days and months follow the database's clock, in UTC. A process's clock only decides when to ask.
 * @param now     monotonic clock, milliseconds
 * @param onUsed  receives the leased share of a quota, 0 to 1, whenever this process learns it
 */
export function openQuotas({
  db,
  now,
  onUsed = () => {},
}: {
  db: Db
  now: () => number
  onUsed?: (clientId: string, quota: Quota, share: number) => void
}): Quotas {
  const leases = new BoundedMap<string, QuotaLease>(MAX_LEASES)

  return {
    async take(clientId, quotas, counts, count = 1) {
      const taken: { lease: QuotaLease; startsAt: Date }[] = []
      const giveBack = () => {
        // The lease may have moved to the next period, in which the database has not granted these.
        for (const { lease, startsAt } of taken)
          if (lease.startsAt.getTime() === startsAt.getTime()) lease.left += count
      }
      for (const quota of quotas) {
        if (quota.counts !== counts) continue
        const { lease, startsAt, isHeld } = await draw(clientId, quota, count)
        if (!isHeld) {
          giveBack()
          throw exhausted(quota, lease.endsAt - now())
        }
        taken.push({ lease, startsAt })
      }
      return { giveBack }
    },
    async close() {
      const open = [...leases]
      leases.clear()
      for (const [key, { left, startsAt }] of open) if (left > 0) await giveBack(db, key, left, startsAt)
    },
  }

  /** Takes `count` from a lease if it holds that many. `startsAt` is the start of the period they belong to. */
  async function draw(
    clientId: string,
    quota: Quota,
    count: number,
  ): Promise<{ lease: QuotaLease; startsAt: Date; isHeld: boolean }> {
    const key = JSON.stringify([clientId, quota.counts, quota.per])
    for (;;) {
      const lease = current(key, quota)
      // Take them in the same turn: others that waited for the same statement look at this lease next.
      const isHeld = lease.left >= count
      if (isHeld) lease.left -= count
      if (isHeld || now() < lease.askAgainAt) return { lease, startsAt: lease.startsAt, isHeld }
      // All that wait for one statement share its result.
      lease.asking ??= ask(clientId, quota, lease, count).finally(() => (lease.asking = null))
      await lease.asking
    }
  }

  function current(key: string, quota: Quota): QuotaLease {
    const known = leases.get(key)
    const isOver = known !== undefined && now() >= known.endsAt
    // A lease under a higher limit may exceed the rest of a lower limit.
    if (known !== undefined && known.limit === quota.limit && !isOver) return known
    if (known !== undefined && known.asking !== null) {
      if (isOver) known.left = 0
      return known
    }
    const nothing: QuotaLease = {
      left: 0,
      limit: quota.limit,
      startsAt: new Date(0),
      endsAt: Infinity,
      askAgainAt: 0,
      asking: null,
    }
    leases.set(key, nothing)
    return nothing
  }

  async function ask(clientId: string, quota: Quota, lease: QuotaLease, count: number): Promise<void> {
    const wanted = Math.max(count - lease.left, Math.floor(quota.limit * LEASED_SHARE), 1)
    const askedAt = now()
    const { granted, used, startsAt, secondsLeft } = await leaseOf(db, clientId, quota, wanted)
    // The rest of the lease belongs to another period.
    if (startsAt.getTime() !== lease.startsAt.getTime()) lease.left = 0
    lease.left += granted
    lease.startsAt = startsAt
    lease.endsAt = askedAt + secondsLeft * 1_000
    if (granted < wanted) lease.askAgainAt = now() + ASK_AGAIN_MS
    onUsed(clientId, quota, Math.min(1, used / quota.limit))
  }
}

type Granted = { granted: number; used: number; startsAt: Date; secondsLeft: number }

/**
 * Leases by one statement, so that two processes cannot be granted the same requests. `granted` is this process's part.
 */
async function leaseOf(db: Db, clientId: string, { counts, limit, per }: Quota, wanted: number): Promise<Granted> {
  const begins = sql`date_trunc(${per}::text, clock_timestamp() at time zone 'UTC') at time zone 'UTC'`
  // After a failover the clock may be behind; an earlier period never starts again.
  const before = sql`(case when usage.starts_at < excluded.starts_at then 0 else usage.used end)`
  const share = sql`least(${wanted}::bigint, greatest(${limit}::bigint - ${before}, 0))`
  const first = Math.min(wanted, limit)
  const { rows } = await sql<Granted>`
      insert into application_usage as usage (client_id, counts, per, starts_at, used, granted)
      values (${clientId}, ${counts}, ${per}, ${begins}, ${first}::bigint, ${first}::bigint)
      on conflict (client_id, counts, per) do update set
        starts_at = greatest(usage.starts_at, excluded.starts_at), used = ${before} + ${share}, granted = ${share}
      returning granted, used, starts_at as "startsAt", extract(epoch from
        (starts_at at time zone 'UTC' + ('1 ' || per)::interval) at time zone 'UTC' - clock_timestamp())::float8 as "secondsLeft"
    `.execute(db)
  return rows[0]!
}

async function giveBack(db: Db, key: string, left: number, startsAt: Date): Promise<void> {
  const [clientId, counts, per] = JSON.parse(key) as [string, Quota['counts'], Quota['per']]
  await db
    .updateTable('application_usage')
    .set((row) => ({ used: row('used', '-', left) }))
    .where('client_id', '=', clientId)
    .where('counts', '=', counts)
    .where('per', '=', per)
    .where('starts_at', '=', startsAt)
    .execute()
}

function exhausted({ counts, limit, per }: Quota, leftMs: number): AppError {
  return new AppError(
    'quota_exhausted',
    `The application has used its ${limit} ${counts} for this ${per} (UTC). Nothing was done. Retry when the next period begins.`,
    {
      retryAfter: Math.max(1, Math.ceil(leftMs / 1_000)),
    },
  )
}
