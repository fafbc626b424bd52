import { sql } from 'kysely'
import type { RootDb } from '../store/db.ts'

/** maximum number of rows that one statement deletes */
const BATCH = 2_000
/** Expired rows remain this long, in seconds, so that a late request gets "expired" instead of "unknown". */
const KEEP_SECONDS = 3_600

/**
 * Deletes expired rows: records of the authorization server, visits to providers, and revocations whose last access
 * token has expired. Safe on any number of replicas at once.
 * @returns how many rows it deleted, at most one batch per table
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
