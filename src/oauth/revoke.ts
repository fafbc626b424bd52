import { sql } from 'kysely'
import type { App } from '../app.ts'
import { configKeys } from '../config.ts'
import { addRevokedGrant } from '../http/bearer.ts'
import type { RootDb } from '../store/db.ts'
import { publishSoon } from './revocations.ts'

/** Clocks of replicas and verifiers may differ by this much, seconds. */
const CLOCK_SLACK_SECONDS = 60
/** No access token lives longer, whatever the settings were when it was issued. */
const MAX_ACCESS_SECONDS = configKeys.ACCESS_TOKEN_SECONDS.max!

/**
 * Ends a grant: its codes and refresh tokens are deleted, and its access tokens, which are stored nowhere, are
 * refused from now on until the last of them has expired by itself. Twice is the same as once.
 */
export async function revokeGrant(app: App, grantId: string): Promise<void> {
  await endGrant(app.db, grantId, app.config.ACCESS_TOKEN_SECONDS)
  addRevokedGrant(app, grantId)
  publishSoon(app)
}

/**
 * The same in the database alone, where no server runs in this process: the servers read it within seconds.
 * @param atLeastSeconds  it is remembered so long whatever its row says, which is under no MAC
 */
export async function endGrant(db: RootDb, grantId: string, atLeastSeconds = MAX_ACCESS_SECONDS): Promise<void> {
  // One statement: between two of them a refresh would give a token that outlives what is remembered. A row that a refresh has
  // changed meanwhile is deleted as it is then. What has no row of its own (a machine's token) may have been issued a moment
  // ago; of what was revoked before, nothing is.
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
