import { sql } from 'kysely'
import type { App } from '../app.ts'
import { configKeys } from '../config.ts'
import { addRevokedGrant } from '../http/bearer.ts'
import type { RootDb } from '../store/db.ts'
import { publishSoon } from './revocations.ts'

/** Maximum difference between the clocks of replicas and verifiers, in seconds. */
const CLOCK_SLACK_SECONDS = 60
/** Maximum lifetime of an access token under any settings, in seconds. */
const MAX_ACCESS_SECONDS = configKeys.ACCESS_TOKEN_SECONDS.max!

/**
 * Ends a grant: its codes and refresh tokens are deleted. Its access tokens, which are not stored, are rejected until
 * the last of them has expired. Idempotent.
 */
export async function revokeGrant(app: App, grantId: string): Promise<void> {
  await endGrant(app.db, grantId, app.config.ACCESS_TOKEN_SECONDS)
  addRevokedGrant(app, grantId)
  publishSoon(app)
}

/**
 * Ends a grant in the database alone, in a process without a server. The servers read it within seconds.
 * @param atLeastSeconds  minimum time for which the grant counts as revoked; its row could say less, because no MAC
 *                        covers that
 */
export async function endGrant(db: RootDb, grantId: string, atLeastSeconds = MAX_ACCESS_SECONDS): Promise<void> {
  // One statement: otherwise a concurrent refresh could issue a token that outlives the revocation. A row that a
  // refresh has changed is deleted in its new state. A grant without a row (of a machine's token) may be a moment old,
  // so it counts as revoked for the maximum time. A repeated revocation of one changes nothing.
  await sql`
      with ended as (
        delete from oauth_records where grant_id = ${grantId}
        returning case kind when 'Grant' then coalesce(access_until, expires_at) end as lives_until
      )
      insert into revoked_grants (grant_id, forget_at)
      select ${grantId}, least(
          greatest(
            coalesce((select max(lives_until) from ended), now() + make_interval(secs => ${MAX_ACCESS_SECONDS}::int)),
            now() + make_interval(secs => ${atLeastSeconds}::int)
          ),
          now() + make_interval(secs => ${MAX_ACCESS_SECONDS}::int)
        ) + make_interval(secs => ${CLOCK_SLACK_SECONDS}::int)
      on conflict (grant_id) do update set forget_at = greatest(revoked_grants.forget_at, excluded.forget_at)
        where exists (select from ended where lives_until is not null)`.execute(db)
}
