import type { App } from '../app.ts'
import { forgetGrant } from '../http/bearer.ts'
import { retrying } from '../store/db.ts'
import { publishSoon } from './revocations.ts'

/** Clocks of replicas and verifiers may differ by this much, seconds. */
const CLOCK_SLACK_SECONDS = 60

/**
 * Ends a grant: its codes and refresh tokens are deleted, and its access tokens, which are stored nowhere, are
 * refused from now on until the last of them has expired by itself. Twice is the same as once.
 */
export async function revokeGrant(app: App, grantId: string): Promise<void> {
  const { db, config } = app
  const forgetAt = new Date(Date.now() + (config.ACCESS_TOKEN_SECONDS + CLOCK_SLACK_SECONDS) * 1_000)
  await retrying(() =>
    db
      .insertInto('revoked_grants')
      .values({ grant_id: grantId, forget_at: forgetAt })
      .onConflict((on) => on.doNothing())
      .execute(),
  )
  await retrying(() => db.deleteFrom('oauth_records').where('grant_id', '=', grantId).execute())
  forgetGrant(app, grantId)
  publishSoon(app)
}
