import { sql, type RawBuilder } from 'kysely'
import type { App } from '../../app.ts'
import type { Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import type { Db } from '../../store/db.ts'

/**
 * Use of an account's nonce by a foreign transaction. Either someone else holds the key, or the ledger was restored and
 * lost the record. The account accepts no new write until an operator has examined it.
 */
export type Intrusion = { chainId: number; sender: Hex; nonce: number; hash: Hex | null; reason: 'foreign_nonce' }

/**
 * Stops an account, or records that its key was used again: an earlier request to resume becomes void.
 * An account whose key was exported or imported is expected to be used elsewhere: its resumption is requested at once,
 * without an operator. It continues above every nonce used elsewhere. Inside a transaction; the caller raises the alarm
 * after the commit.
 * @returns whether the use was expected
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
        // A block that is followed again is not a new event.
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

/** Logs that an account was stopped. If its key is held elsewhere, logs only that the key was used there. */
export function laneStopped(
  { telemetry }: App,
  { chainId, sender, nonce, hash, reason }: Intrusion,
  isExpected: boolean,
): void {
  const fields = { chainId, sender, nonce, hash, reason }
  if (isExpected) telemetry.log.info('account_used_elsewhere', fields)
  else telemetry.log.error('account_stopped', fields)
}
/** Returns a time in the past as SQL. It uses the database's clock, the only clock that replicas share. */
const secondsAgo = (seconds: number) => sql<Date>`now() - ${`${seconds} seconds`}::interval`

/** seconds by which another database transaction may have begun after this one */
const MAX_AHEAD_SECONDS = 10

/**
 * Returns SQL for: a stored time is at least so many seconds ago. Also true for a time too far in the future to have
 * been stored by the current clock: the clock has been set back since.
 * @param ahead  seconds by which a stored time may lie in the future on purpose
 */
export const isAgo = (moment: RawBuilder<unknown>, seconds: number, ahead = 0): RawBuilder<boolean> =>
  sql<boolean>`(${moment} <= ${secondsAgo(seconds)} or ${moment} > ${secondsAgo(-MAX_AHEAD_SECONDS - ahead)})`
