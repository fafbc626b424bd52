import { sql } from 'kysely'
import type { RootDb } from '../store/db.ts'
import { spentOfBudget } from '../store/sponsor-budget.ts'
import { readApplication } from './manage.ts'
import type { ApplicationUsage } from './wire.ts'

/**
 * Returns how much of its quotas an application has used in the current hours, days and months, by the database clock.
 * Units that a server has leased and not used yet count as used: at most 1 % of a quota per server.
 * @throws not_found
 */
export async function readUsage(db: RootDb, clientId: string): Promise<ApplicationUsage> {
  const { quotas, sponsor } = await readApplication(db, clientId)
  const { rows } = await sql<{ counts: string; per: string; used: number; startsAt: Date; endsAt: Date }>`
      select given.counts, given.per, coalesce(usage.used, 0)::bigint as used,
        given.begins at time zone 'UTC' as "startsAt", (given.begins + ('1 ' || given.per)::interval) at time zone 'UTC' as "endsAt"
      from (
        select counts, per, date_trunc(per, clock_timestamp() at time zone 'UTC') as begins
        from unnest(${quotas.map(({ counts }) => counts)}::text[], ${quotas.map(({ per }) => per)}::text[]) as asked (counts, per)
      ) as given
      left join application_usage as usage on usage.client_id = ${clientId} and usage.counts = given.counts
        and usage.per = given.per and usage.starts_at >= given.begins at time zone 'UTC'
    `.execute(db)
  return {
    quotas: quotas.map((quota) => {
      const { used, startsAt, endsAt } = rows.find(({ counts, per }) => counts === quota.counts && per === quota.per)!
      return { ...quota, used, startsAt: startsAt.toISOString(), endsAt: endsAt.toISOString() }
    }),
    sponsored:
      sponsor === null
        ? null
        : { perApplication: sponsor.perApplication, used: String(await spentOfBudget(db, clientId)) },
  }
}
