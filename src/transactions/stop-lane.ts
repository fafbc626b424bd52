import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'

/** A nonce of ours was used by someone else: another one holds the key, so no new write until an operator has looked. */
export type Intrusion = { chainId: number; sender: Hex; nonce: number; hash: Hex | null; reason: 'foreign_nonce' }

/**
 * Stops an account, or notes that it happened again: what an operator asked for before knew nothing of this. Inside a
 * transaction. The alarm is the caller's, after the commit.
 */
export async function stopLane(db: Db, { chainId, sender, nonce, hash, reason }: Intrusion): Promise<void> {
  const newest = { nonce, hash: hash === null ? null : fromHex(hash), reason }
  await db
    .insertInto('stopped_lanes')
    .values({ chain_id: chainId, sender: fromHex(sender), ...newest })
    .onConflict((on) =>
      on
        .columns(['chain_id', 'sender'])
        .doUpdateSet({ ...newest, resume_asked_at: null })
        // A block that is followed once more tells nothing new.
        .where(
          sql<boolean>`(stopped_lanes.nonce, stopped_lanes.hash) is distinct from (excluded.nonce, excluded.hash)`,
        ),
    )
    .execute()
}

/** Business event: an account was stopped. */
export function laneStopped({ telemetry }: App, { chainId, sender, nonce, hash, reason }: Intrusion): void {
  telemetry.log.error('account_stopped', { chainId, sender, nonce, hash, reason })
}

/** The interval in SQL; the database's clock is the only one that replicas share. */
export const secondsAgo = (seconds: number) => sql<Date>`now() - ${`${seconds} seconds`}::interval`
