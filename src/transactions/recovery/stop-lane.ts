import { sql, type RawBuilder } from 'kysely'
import type { App } from '../../app.ts'
import type { Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import type { Db } from '../../store/db.ts'

/** A nonce of ours was used by someone else: another one holds the key, so no new write until an operator has looked. */
export type Intrusion = { chainId: number; sender: Hex; nonce: number; hash: Hex | null; reason: 'foreign_nonce' }

/**
 * Stops an account, or notes that it happened again: what an operator asked for before knew nothing of this. One whose key is
 * known to be elsewhere, exported or brought, is asked to resume as soon as it stops: nobody has to look, and it continues as any
 * other does, behind every nonce that others used. Inside a transaction. The alarm is the caller's, after the commit.
 * @returns whether it is such a one
 */
export async function stopLane(db: Db, { chainId, sender, nonce, hash, reason }: Intrusion): Promise<boolean> {
  const isExpected = await isHeldElsewhere(db, sender)
  const newest = { nonce, hash: hash === null ? null : fromHex(hash), reason }
  const asked = { resume_asked_at: isExpected ? sql<Date>`now()` : null }
  await db
    .insertInto('stopped_lanes')
    .values({ chain_id: chainId, sender: fromHex(sender), ...newest, ...asked })
    .onConflict((on) =>
      on
        .columns(['chain_id', 'sender'])
        .doUpdateSet({ ...newest, ...asked })
        // A block that is followed once more tells nothing new.
        .where(
          sql<boolean>`(stopped_lanes.nonce, stopped_lanes.hash) is distinct from (excluded.nonce, excluded.hash)`,
        ),
    )
    .execute()
  return isExpected
}

async function isHeldElsewhere(db: Db, sender: Hex): Promise<boolean> {
  const found = await db
    .selectFrom('accounts')
    .select('account_id')
    .where('address', '=', fromHex(sender))
    .where((eb) => eb.or([eb('exported_at', 'is not', null), eb('imported_at', 'is not', null)]))
    .executeTakeFirst()
  return found !== undefined
}

/** Business event: an account was stopped; or, where its key is known to be elsewhere, only used there. */
export function laneStopped(
  { telemetry }: App,
  { chainId, sender, nonce, hash, reason }: Intrusion,
  isExpected: boolean,
): void {
  const fields = { chainId, sender, nonce, hash, reason }
  if (isExpected) telemetry.log.info('account_used_elsewhere', fields)
  else telemetry.log.error('account_stopped', fields)
}
/** The interval in SQL; the database's clock is the only one that replicas share. */
const secondsAgo = (seconds: number) => sql<Date>`now() - ${`${seconds} seconds`}::interval`

/** seconds by which another transaction of the database may have begun after this one */
const MAX_AHEAD_SECONDS = 10

/**
 * Whether a moment in the database was so many seconds ago. So was one that lies further ahead than any that is noted: the clock that it is of
 * has been put back since.
 * @param ahead  seconds by which what is noted may lie ahead on purpose
 */
export const isAgo = (moment: RawBuilder<unknown>, seconds: number, ahead = 0): RawBuilder<boolean> =>
  sql<boolean>`(${moment} <= ${secondsAgo(seconds)} or ${moment} > ${secondsAgo(-MAX_AHEAD_SECONDS - ahead)})`
