import { sql } from 'kysely'
import type { App } from '../app.ts'
import { configKeys } from '../config.ts'
import { forgetGrant } from '../http/bearer.ts'
import { retrying, type RootDb } from '../store/db.ts'
import { publishSoon } from './revocations.ts'
import { sha256 } from './secrets.ts'

/** Clocks of replicas and verifiers may differ by this much, seconds. */
const CLOCK_SLACK_SECONDS = 60
/** No access token lives longer, whatever the settings were when it was issued. */
const MAX_ACCESS_SECONDS = configKeys.ACCESS_TOKEN_SECONDS.max!

/**
 * Ends a grant: its codes and refresh tokens are deleted, and its access tokens, which are stored nowhere, are
 * refused from now on until the last of them has expired by itself. Twice is the same as once.
 */
export async function revokeGrant(app: App, grantId: string): Promise<void> {
  await endGrant(app.db, grantId)
  forgetGrant(app, grantId)
  publishSoon(app)
}

/** The same in the database alone, where no server runs in this process: the servers read it within seconds. */
export async function endGrant(db: RootDb, grantId: string): Promise<void> {
  // What has no row of its own (a machine's token) may have been issued a moment ago.
  await retrying(() =>
    db
      .insertInto('revoked_grants')
      .values({
        grant_id: grantId,
        forget_at: sql<Date>`coalesce(
          (select coalesce(access_until, expires_at) from oauth_records where kind = 'Grant' and id_hash = ${sha256(grantId)}),
          now() + make_interval(secs => ${MAX_ACCESS_SECONDS})
        ) + make_interval(secs => ${CLOCK_SLACK_SECONDS})`,
      })
      .onConflict((on) => on.doNothing())
      .execute(),
  )
  await retrying(() => db.deleteFrom('oauth_records').where('grant_id', '=', grantId).execute())
}
