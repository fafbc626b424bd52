import { sql } from 'kysely'
import { BoundedMap } from '../bounded-map.ts'
import { AppError } from '../errors.ts'
import type { Db } from '../store/db.ts'
import type { Quota } from '../store/column-values.ts'

/** What each application may use in an hour, a day or a month, over all processes. */
export type Quotas = {
  /**
   * Counts so many requests of an application against every quota that counts them, all or none.
   * @throws quota_exhausted, database_unavailable
   */
  take(clientId: string, quotas: readonly Quota[], counts: Quota['counts'], count?: number): Promise<QuotaCharge>
  /** Gives back what this process has leased and not used. One that is killed leaves it used: never is more let in than a quota says. */
  close(): Promise<void>
}

/** What was counted; to be given back at most once. What belongs to an hour, day or month that is over stays used. */
export type QuotaCharge = { giveBack(): void }

/** What this process may still let in of a quota without asking. */
type QuotaLease = {
  left: number
  limit: number
  /** start of the hour, day or month, and its end on the clock of this process, milliseconds */
  startsAt: Date
  endsAt: number
  /** when the database is asked again after it had nothing left, milliseconds */
  askAgainAt: number
  asking: Promise<void> | null
}

/** A process takes so much of a quota at once: a statement for that many requests, and the most that a process that dies takes along. */
const LEASED_SHARE = 0.01
/** milliseconds: while a quota is used up the database is asked once in so long, not by every request */
const ASK_AGAIN_MS = 1_000
const MAX_LEASES = 10_000

/**
 * Counts by leases: a process takes a part of a quota by one conditional statement and lets that many in without asking.
 * Hours, days and months are those of the database's clock, in UTC; the clock of a process decides nothing but when to ask.
 * @param now     monotonic clock, milliseconds
 * @param onUsed  told what part of a quota is leased, 0 to 1, whenever this process learns it
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
        // A lease may have become the next hour's: to that one the database has not granted these.
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

  /** Takes so many from a lease, where it holds them; `startsAt` is that of the hour, day or month they are of. */
  async function draw(
    clientId: string,
    quota: Quota,
    count: number,
  ): Promise<{ lease: QuotaLease; startsAt: Date; isHeld: boolean }> {
    const key = JSON.stringify([clientId, quota.counts, quota.per])
    for (;;) {
      const lease = current(key, quota)
      // Taken here, not by the caller: others who waited with us look at the same lease next.
      const isHeld = lease.left >= count
      if (isHeld) lease.left -= count
      if (isHeld || now() < lease.askAgainAt) return { lease, startsAt: lease.startsAt, isHeld }
      // All who wait for one statement share what it brings.
      lease.asking ??= ask(clientId, quota, lease, count).finally(() => (lease.asking = null))
      await lease.asking
    }
  }

  function current(key: string, quota: Quota): QuotaLease {
    const known = leases.get(key)
    const isOver = known !== undefined && now() >= known.endsAt
    // What was leased under a higher limit may be more than a lower one has left.
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
    // From another hour than what was left.
    if (startsAt.getTime() !== lease.startsAt.getTime()) lease.left = 0
    lease.left += granted
    lease.startsAt = startsAt
    lease.endsAt = askedAt + secondsLeft * 1_000
    if (granted < wanted) lease.askAgainAt = now() + ASK_AGAIN_MS
    onUsed(clientId, quota, Math.min(1, used / quota.limit))
  }
}

type Granted = { granted: number; used: number; startsAt: Date; secondsLeft: number }

/** One statement, so that two processes cannot be given the same; `granted` is what this one was. */
async function leaseOf(db: Db, clientId: string, { counts, limit, per }: Quota, wanted: number): Promise<Granted> {
  const begins = sql`date_trunc(${per}::text, clock_timestamp() at time zone 'UTC') at time zone 'UTC'`
  // A clock that was put back, by a failover, begins no earlier hour again.
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
