import { sql } from 'kysely'
import { checksumAddress } from '../../abi/address.ts'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { AppError } from '../../errors.ts'
import type { Hex, UserId } from '../../ids.ts'
import { fromHex, toHex } from '../../hex.ts'
import { retrying, type Db } from '../../store/db.ts'
import type { Transition } from '../../store/column-values.ts'
import { findNamed } from '../../users/find.ts'
import { countAt } from '../settle/nonce-count.ts'
import type { StoppedLane } from '../lane-wire.ts'
import { transactionRows } from '../rows.ts'
import { isolateRowErrors } from './recover.ts'
import { emptyNonce } from './reconcile.ts'
import { provenLeast, usedForGood } from '../settle/nonce-used.ts'
import type { Clock } from '../../clock.ts'

/** Every account that is stopped on a network, the longest stopped first. */
export async function listStopped(db: Db): Promise<StoppedLane[]> {
  const rows = await db
    .selectFrom('stopped_lanes as lane')
    .innerJoin('accounts as account', 'account.address', 'lane.sender')
    .selectAll('lane')
    .select('account.user_id')
    .orderBy('lane.created_at')
    .orderBy('lane.chain_id')
    .orderBy('lane.sender')
    .execute()
  return rows.map((row) => ({
    userId: row.user_id,
    address: checksumAddress(toHex(row.sender)),
    chainId: row.chain_id,
    nonce: row.nonce,
    hash: row.hash === null ? null : toHex(row.hash),
    reason: row.reason,
    stoppedAt: row.created_at.toISOString(),
    resumeAskedAt: row.resume_asked_at === null ? null : row.resume_asked_at.toISOString(),
  }))
}

/**
 * Asks for an account to continue, on every network where it is stopped. Another holder of its key may use its nonces again;
 * then it is stopped again.
 * @param userId  the user, by any identity of theirs
 * @returns what is stopped of the account; none where nothing is
 * @throws not_found
 */
export async function askToResume(db: Db, userId: UserId): Promise<StoppedLane[]> {
  const user = await findNamed(db, userId)
  if (user === null) throw new AppError('not_found', 'There is no such user.')
  await db
    .updateTable('stopped_lanes')
    .set({ resume_asked_at: sql`coalesce(resume_asked_at, now())` })
    .where('sender', '=', fromHex(user.stored.address))
    .execute()
  return (await listStopped(db)).filter((lane) => lane.userId === user.userId)
}

/** nonces that others used, held one by one */
const MAX_HELD = 256

/**
 * Asks for sponsors to continue as soon as what used their nonce is final: what they send is what people signed, and those wait. That it
 * happened stays an alarm.
 */
const askForSponsors = ({ db }: App, { chainId }: Chain): Promise<unknown> =>
  sql`
    update stopped_lanes set resume_asked_at = now() where chain_id = ${chainId}::bigint and resume_asked_at is null
      and exists (select 1 from sponsors s join accounts a on a.account_id = s.account_id
        where s.chain_id = stopped_lanes.chain_id and a.address = stopped_lanes.sender)
      and exists (select 1 from transactions t
        where t.chain_id = stopped_lanes.chain_id and t.sender = stopped_lanes.sender and t.nonce = stopped_lanes.nonce and t.is_final)`.execute(
    db,
  )

/** Lets accounts of a network continue whose operator asked for it, and sponsors by themselves. */
export async function resumeAsked(app: App, chain: Chain): Promise<void> {
  await askForSponsors(app, chain)
  const lanes = await app.db
    .selectFrom('stopped_lanes as lane')
    .innerJoin('accounts as account', 'account.address', 'lane.sender')
    .select(['lane.sender', 'account.account_id'])
    .where('lane.chain_id', '=', chain.chainId)
    .where('lane.resume_asked_at', 'is not', null)
    .orderBy('lane.resume_asked_at')
    .limit(100)
    .execute()
  for (const { sender, account_id: accountId } of lanes) {
    const from = toHex(sender)
    await isolateRowErrors(app, { id: from }, () => resumeOne(app, chain, { from, accountId }))
  }
}

/**
 * The next nonce has to be one that nobody used, or its write would be given a hash that is never mined. The follower holds
 * a row for each foreign transaction that it meets; where the chain has counted more than there are rows for, that is
 * believed once it is proven, and not before: a node that counts too high would lock the account.
 */
async function resumeOne(app: App, chain: Chain, { from, accountId }: { from: Hex; accountId: string }): Promise<void> {
  // A node that counts too low knows less than what is proven.
  const count = Math.max(await countAt(chain, from, 'latest'), await provenLeast(app, chain, from))
  const { highest } = await app.db
    .selectFrom('transactions')
    .select(({ fn }) => fn.max('nonce').as('highest'))
    .where('chain_id', '=', chain.chainId)
    .where('sender', '=', fromHex(from))
    .executeTakeFirstOrThrow()
  const isHeld = highest !== null && highest >= count - 1
  const block = isHeld ? null : await usedForGood(app, chain, { id: from, from, nonce: count - 1 })
  if (!isHeld && block === null) return
  const isResumed = await retrying(() =>
    app.db.transaction().execute(async (db) => {
      if (block !== null) {
        // Each of them, as far as that is possible: a rewind may give back any.
        const first = Math.max((highest ?? count - 2) + 1, count - MAX_HELD)
        for (let nonce = first; nonce < count; nonce++) {
          const foreign = { chainId: chain.chainId, from, accountId, nonce, block, isFinal: true, hash: null }
          await holdForeign(db, foreign, app.clock)
        }
      }
      const seen = await db
        .deleteFrom('stopped_lanes')
        .where('chain_id', '=', chain.chainId)
        .where('sender', '=', fromHex(from))
        // Used again since the operator asked, it stays stopped.
        .where('resume_asked_at', 'is not', null)
        .returning('nonce')
        .executeTakeFirst()
      return seen !== undefined
    }),
  )
  if (!isResumed) return
  app.telemetry.log.warn('account_resumed', { chainId: chain.chainId, sender: from, nonce: count })
}

/**
 * Holds a nonce that someone else has used: no write of ours gets it. As REPLACED, of an intent that nobody had; with the
 * block that it is in, so that a reorganisation, or a rewind, gives it back. Inside a transaction.
 */
export async function holdForeign(
  db: Db,
  foreign: {
    chainId: number
    from: Hex
    accountId: string
    nonce: number
    /** that it is in, or that proves that it is used */
    block: { number: number; hash: Hex }
    isFinal: boolean
    /** what used it, where that is known */
    hash: Hex | null
  },
  { wall }: Clock,
): Promise<void> {
  const { chainId, from, accountId, nonce, block, isFinal, hash } = foreign
  const transition: Transition = {
    state: 'REPLACED',
    at: new Date(wall()).toISOString(),
    ...(hash === null ? {} : { hash }),
    blockNumber: block.number,
  }
  await transactionRows
    .insert(db, 'holdForeign', [
      {
        ...emptyNonce({ chainId, from, nonce }, accountId),
        transitions: JSON.stringify([transition]),
        is_final: isFinal,
        block_number: block.number,
        block_hash: fromHex(block.hash),
      },
    ])
    .onConflict((on) => on.doNothing())
    .execute()
}
