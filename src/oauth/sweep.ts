import { sql } from 'kysely'
import type { RootDb } from '../store/db.ts'

/** rows deleted by one statement, at most */
const BATCH = 2_000
/** Expired rows are kept this long, so that a late request is answered "expired" instead of "unknown", seconds. */
const KEEP_SECONDS = 3_600

/**
 * Deletes what has expired: records of the authorization server, visits to providers, revocations whose last access
 * token is gone. Safe on any number of replicas at once.
 * @returns how many rows it deleted; as many as fit into one batch per table
 */
export async function sweep(db: RootDb): Promise<number> {
  const before = sql`now() - make_interval(secs => ${KEEP_SECONDS})`
  const results = [
    await sql`delete from oauth_records where (kind, id_hash) in (select kind, id_hash from oauth_records where expires_at < ${before} limit ${BATCH})`.execute(
      db,
    ),
    await sql`delete from sign_ins where state_hash in (select state_hash from sign_ins where expires_at < ${before} limit ${BATCH})`.execute(
      db,
    ),
    await sql`delete from revoked_grants where grant_id in (select grant_id from revoked_grants where forget_at < now() limit ${BATCH})`.execute(
      db,
    ),
  ]
  return results.reduce((sum, { numAffectedRows }) => sum + Number(numAffectedRows ?? 0n), 0)
}
