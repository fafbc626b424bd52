import { sql } from 'kysely'
import { checksumAddress } from '../../digits.ts'
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

/**
 * Returns the stopped accounts of every network, the longest stopped first. Uses the index stopped_lanes_longest.
 * @param limit  maximum number of them; default: all
 */
export async function listStopped(db: Db, limit?: number): Promise<StoppedLane[]> {
  const rows = await db
    .selectFrom('stopped_lanes as lane')
    .innerJoin('accounts as account', 'account.address', 'lane.sender')
    .selectAll('lane')
    .select('account.user_id')
    .orderBy('lane.created_at')
    .orderBy('lane.chain_id')
    .orderBy('lane.sender')
    .$if(limit !== undefined, (query) => query.limit(limit!))
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

/** Counts stopped accounts on every network, up to a limit. */
export async function countStopped(db: Db, limit: number): Promise<number> {
  const { count } = await db
    .selectFrom(db.selectFrom('stopped_lanes').select('nonce').limit(limit).as('some'))
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/**
 * Requests that an account continues on every network where it is stopped. If another holder of its key uses a nonce
 * again, the account is stopped again.
 * @param userId  the user, by any identity
 * @returns the networks where the account is stopped
 * @throws not_found
 */
export async function askToResume(db: Db, userId: UserId): Promise<StoppedLane[]> {
  const user = await findNamed(db, userId)
  if (user === null)
    throw new AppError('not_found', 'No account has this user id. Nothing was changed. Check the user id.')
  await db
    .updateTable('stopped_lanes')
    .set({ resume_asked_at: sql`coalesce(resume_asked_at, now())` })
    .where('sender', '=', fromHex(user.stored.address))
    .execute()
  return (await listStopped(db)).filter((lane) => lane.userId === user.userId)
}

/** maximum number of nonces used elsewhere that get a row each */
const MAX_HELD = 256

/**
 * Requests that stopped sponsors continue as soon as the foreign transaction is final, because users' writes wait for
 * them. The alarm remains.
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

/** Resumes accounts whose resumption was requested, and sponsors. */
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
 * Resumes an account at an unused nonce. With a used nonce, its next write would get a hash that is never mined. The
 * follower inserts a row for each foreign transaction that it sees. If the chain's count is above the rows, the count
 * is used only once it is proven: a node that counts too high would lock the account.
 */
async function resumeOne(app: App, chain: Chain, { from, accountId }: { from: Hex; accountId: string }): Promise<void> {
  // Use the proven count if a node reports a lower one.
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
        // Insert a row for each nonce, as far as possible: a rewind may make any of them unused again.
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
        // If the key was used again since the request, the account remains stopped.
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
 * Inserts a row for a nonce that a foreign transaction has used, so that no write gets that nonce. The row is REPLACED
 * and has no intent. It has the block, so that a reorganisation or a rewind frees the nonce. Inside a transaction.
 */
export async function holdForeign(
  db: Db,
  foreign: {
    chainId: number
    from: Hex
    accountId: string
    nonce: number
    /** the block that includes the foreign transaction, or proves that the nonce is used */
    block: { number: number; hash: Hex }
    isFinal: boolean
    /** the foreign transaction, if known */
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
