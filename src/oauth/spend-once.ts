import type { RootDb } from '../store/db.ts'
import { sha256 } from '../sha256.ts'

/**
 * Records that something was used. It is one conditional insert: of parallel uses on any replica, one is the first.
 * @param parts  what distinguishes it from all others of its kind
 * @param until  when it stops being accepted, in seconds since 1970; it is remembered for a while longer
 * @returns      whether this is the first use
 */
export async function spendOnce(
  db: RootDb,
  { kind, parts, until }: { kind: 'SubjectToken' | 'Proof'; parts: unknown[]; until: number },
): Promise<boolean> {
  const first = await db
    .insertInto('oauth_records')
    .values({
      kind,
      id_hash: sha256(JSON.stringify(parts)),
      grant_id: null,
      uid: null,
      user_id: null,
      client_id: null,
      payload: '{}',
      expires_at: new Date(until * 1_000),
    })
    .onConflict((on) => on.doNothing())
    .returning('kind')
    .executeTakeFirst()
  return first !== undefined
}
