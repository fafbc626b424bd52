/**
 * transactions/recovery: continues writes that no process handles.
 * Owns: the worker of each network (`keeper.ts`), writes of dead processes (`recover.ts`), restoring from the signer's
 *   ledger what the database has lost (`replay.ts`), stopped accounts.
 * Does not own: signing and sending (`transactions/lanes/send.ts`).
 */

import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { every } from '../../clock.ts'
import { BoundedMap } from '../../bounded-map.ts'
import { readHash, readNumber, readObject } from '../../chain/rpc/answers.ts'
import { InvalidResponse } from '../../chain/rpc/failures.ts'
import type { Chain } from '../../chain/network.ts'
import { fetchBlock } from '../../follower/fetch.ts'
import { sourceOf } from '../../follower/receipt-source.ts'
import type { Hex } from '../../ids.ts'
import { storedBlockHash } from '../../store/block-hash.ts'
import { toHex } from '../../hex.ts'
import { giveToNode, sendQueued } from '../lanes/broadcast.ts'
import { onPoke } from './poke.ts'
import { toBound, type AttemptRow, type TransactionRow } from '../intent.ts'
import { isAgo } from './stop-lane.ts'
import { isolateRowErrors, giveUp, recoverBound } from './recover.ts'
import { prove } from '../settle/prove.ts'
import { isFar } from '../lanes/queue.ts'
import { lowBalance, raiseLowest } from '../lanes/raise.ts'
import { readAttempts } from '../attempts.ts'
import { resumeAsked } from './resume.ts'
import { markMined } from '../settle/states.ts'
import { transactionRows } from '../rows.ts'
import { reconcileNonce, type NonceSlot } from './reconcile.ts'
import { findUse } from '../settle/nonce-used.ts'
import { forgetRefusals, isPaused, noteUsed, wasRefused } from './trouble.ts'
import { settleOperations } from '../settle/settle-operations.ts'
import { tendTopUps } from '../settle/settle-top-ups.ts'
import { tendOperations } from '../sponsors/tend-operations.ts'
import { slot } from '../../state.ts'

/** milliseconds between two rounds without a poke */
const ROUND_MS = 1_000
/** seconds after which stored bytes are sent again; each later interval is half of their age at the last broadcast */
const RESEND_AFTER_SECONDS = 15
const RESEND_AT_LEAST_EVERY_SECONDS = 300
/** seconds after an update of a bound row after which no process is assumed to handle it */
const IDLE_SECONDS = 8

export type Keeper = {
  stop: () => Promise<void>
  round: () => Promise<void>
  /**
   * Reports that the database was unavailable, and may be an older copy now: the next round resumes everything, as the
   * first round does.
   */
  suspect: () => void
  /**
   * Reports that the node was unavailable, and may have lost its pool: the next round sends everything in flight again.
   */
  nodeIsBack: () => void
}

/**
 * Retries every accepted write of a network until it is mined, or until another final transaction has used its nonce.
 * At start it sends everything once. Then it finishes intents without bytes, sends bytes again that the node may have
 * lost, and bumps the fee of each account's lowest unmined nonce.
 * Any number of replicas may run it: a node recognizes bytes that it gets twice, and the signer's ledger accepts only
 * one of two fee bumps.
 */
export function startKeeper(app: App, chain: Chain): Keeper {
  let isStopped = false
  // Counts losses of the database. A round that finishes records the count at its start. The start counts as a loss.
  let losses = 1
  let tended = 0
  let returns = 0
  let greeted = 0
  let next: Promise<void> | null = null

  /** Runs one round. @returns whether another should follow immediately */
  async function work(): Promise<boolean> {
    // The first round resumes everything immediately: the previous process may have died at any point. The database may
    // also have lost the bytes of an answered intent and retained its row.
    const before = losses
    const first = tended !== before
    await recoverBound(app, chain, { idleSeconds: first ? 0 : IDLE_SECONDS })
    const seen = returns
    await resend(app, chain, { afterSeconds: first || greeted !== seen ? 0 : RESEND_AFTER_SECONDS })
    tended = before
    greeted = seen
    await tendOperations(app, chain)
    await tendTopUps(app, chain)
    await resumeAsked(app, chain)
    return raiseLowest(app, chain)
  }

  /**
   * Runs one round at a time. If a round is requested during another, one more follows, because the running round may
   * have passed the reason.
   */
  function round(): Promise<void> {
    const running = rounds.current()
    if (running === null) return rounds.round()
    next ??= running.then(() => {
      next = null
      return isStopped ? undefined : rounds.round()
    })
    return next
  }

  const rounds = every(app.clock, ROUND_MS, () =>
    work().then(
      (isMore) => (isMore ? 0 : ROUND_MS),
      (error: unknown) => app.telemetry.log.warn('keeper_round_failed', { chainId: chain.chainId }, error),
    ),
  )

  // A running round may have passed the queues already, and be busy with fees. So bytes for which a new block has made
  // space are sent at once.
  let releasing: Promise<void> | null = null
  function poke(): void {
    if (rounds.current() !== null)
      releasing ??= sendQueued(app, chain)
        .catch((error: unknown) => app.telemetry.log.warn('queue_not_sent', { chainId: chain.chainId }, error))
        .finally(() => (releasing = null))
    void round()
  }

  const endPokes = onPoke(app, chain, poke)
  void round()
  return {
    round,
    suspect: () => {
      losses++
      if (!isStopped) void round()
    },
    nodeIsBack: () => {
      returns++
      if (!isStopped) void round()
    },
    stop: async () => {
      isStopped = true
      endPokes()
      await Promise.all([rounds.stop(), next, releasing])
    },
  }
}

type DueTransaction = {
  id: string
  raw: Uint8Array | null
  hash: Uint8Array
  sender: Uint8Array
  nonce: number
  is_far: boolean
  was_refused: boolean
}

/** attempts per statement */
const RESEND_CHUNK = 500

/**
 * Sends stored bytes again, unchanged, by account and nonce: every attempt that was not sent for a while. The interval
 * grows with the age of the attempt, because a node that has it needs no more copies.
 * One statement claims and reads the attempts, so that replicas do not all send the same ones. Then queued bytes whose
 * turn has come are sent.
 */
async function resend(app: App, chain: Chain, { afterSeconds }: { afterSeconds: number }): Promise<void> {
  for (let last: DueTransaction | null = null; ;) {
    const due = await takeDue(app, chain, { afterSeconds, last })
    await Promise.all(
      due
        .filter(({ is_far: isFar, raw }) => !isFar || raw === null)
        .map((one) => isolateRowErrors(app, one, () => resendOne(app, chain, one))),
    )
    if (due.length < RESEND_CHUNK) break
    last = due.at(-1)!
  }
  await sendQueued(app, chain)
}

async function takeDue(
  app: App,
  { chainId }: Chain,
  { afterSeconds, last }: { afterSeconds: number; last: DueTransaction | null },
): Promise<DueTransaction[]> {
  const isAfter =
    last === null
      ? sql`true`
      : sql`(t.sender, t.nonce, a.hash) > (${last.sender}::bytea, ${last.nonce}::bigint, ${last.hash}::bytea)`
  const ofNonce = sql`w.chain_id = t.chain_id and w.sender = t.sender and w.nonce = t.nonce`
  // Back off only from attempts that a node has confirmed. If `waits` has a problem of the write, retry at every round,
  // because the problem may end at any moment. A reorganisation also updates `updated_at`.
  const isPatient =
    afterSeconds === 0
      ? sql`true`
      : sql`(a.broadcast_at + least(${RESEND_AT_LEAST_EVERY_SECONDS}::int * interval '1 second', (a.broadcast_at - greatest(a.created_at, t.updated_at)) / 2) < now()
        or a.broadcast_at > now()
        or exists (select 1 from waits w where ${ofNonce} and w.trouble is not null))`
  // Two index searches: under load thousands are in flight, and hardly any is due. A row is not updated after its
  // newest attempt was stored, so the condition on `updated_at` excludes no due attempt.
  // Rows with too many open lower nonces are queued instead: bytes from the ledger, or from a reorganised block.
  const { rows } = await sql<DueTransaction>`
    update attempts set broadcast_at = now(),
      queued_sender = case when is_far and raw is not null then due.sender end, queued_nonce = case when is_far and raw is not null then due.nonce end
    from (select due.*, ${isFar(app, 'due')} as is_far from (
      select t.id, t.sender, t.nonce, a.chain_id, a.hash from attempts a join transactions t on t.id = a.transaction_id
      where a.chain_id = ${chainId}::bigint and a.broadcast_at is null
        and t.chain_id = ${chainId}::bigint and t.state = 'SUBMITTED' and ${isAfter}
        and not exists (select 1 from waits w where ${ofNonce} and ${isPaused})
      union
      select t.id, t.sender, t.nonce, a.chain_id, a.hash from transactions t join attempts a on a.chain_id = t.chain_id and a.hash = t.hash
      where t.chain_id = ${chainId}::bigint and t.state = 'SUBMITTED' and ${isAgo(sql.ref('t.updated_at'), afterSeconds)} and ${isAgo(sql.ref('a.broadcast_at'), afterSeconds)}
        and a.queued_nonce is null and ${isPatient} and ${isAfter}
      order by sender, nonce, hash limit ${RESEND_CHUNK}::int) as due) as due
    where attempts.chain_id = due.chain_id and attempts.hash = due.hash
    returning due.id, attempts.raw, attempts.hash, due.sender, due.nonce, due.is_far,
      exists (select 1 from waits w where w.chain_id = due.chain_id and w.sender = due.sender and w.nonce = due.nonce and ${wasRefused}) as was_refused`.execute(
    app.db,
  )
  return rows.toSorted(
    (a, b) => Buffer.compare(a.sender, b.sender) || a.nonce - b.nonce || Buffer.compare(a.hash, b.hash),
  )
}

/** Results that concern the account or a replacement, and not only these bytes. */
const TOUCHED: ReadonlySet<string> = new Set(['nonce_too_low', 'insufficient_funds', 'replacement_underpriced'])

async function resendOne(app: App, chain: Chain, due: DueTransaction): Promise<void> {
  const [from, hash] = [toHex(due.sender), toHex(due.hash)]
  if (due.raw === null) return bringBack(app, { id: due.id, chainId: chain.chainId, from, nonce: due.nonce })
  const attempt = { id: due.id, from, raw: toHex(due.raw), hash }
  const sent = await giveToNode(app, chain, attempt)
  // `sent` means that a node has the transaction. For other results that is unknown, or recorded when it is sent again.
  if (sent === 'sent' && due.was_refused)
    await forgetRefusals(app.db, { chainId: chain.chainId, from, nonce: due.nonce })
  if (!TOUCHED.has(sent)) return
  // Update the row, so that it is sent again in 15 s: the node may accept at any moment what it has refused.
  const row = await transactionRows
    .update(app.db, 'resend')
    .set({ updated_at: sql`now()` })
    .where('id', '=', attempt.id)
    .returningAll()
    .executeTakeFirst()
  if (row === undefined) return
  if (sent === 'nonce_too_low') await lookUp(app, chain, row)
  else if (sent === 'insufficient_funds') await lowBalance(app, chain, toBound(row), null)
}

/**
 * Restores the bytes of a write from the signer's ledger. The bytes were dropped long after finality, and a rewind has
 * made the write pending again. The next round sends them.
 */
async function bringBack(app: App, { id, ...of }: NonceSlot & { id: string }): Promise<void> {
  if (await reconcileNonce(app, of)) return void lostBytes.of(app).delete(id)
  const lost = lostBytes.of(app)
  if (lost.has(id)) return
  lost.set(id, true)
  const { chainId, from: sender, nonce } = of
  app.telemetry.log.error('bytes_lost', { chainId, id, sender, nonce })
}

/** writes whose lost bytes this process has logged; it searches for the bytes again whenever they are due */
const MAX_LOST = 10_000
const lostBytes = slot('writes whose bytes are lost', (_app: App) => new BoundedMap<string, true>(MAX_LOST))

/** Block that includes one of our attempts, according to a node. */
type ReceiptLocation = { hash: Hex; blockNumber: number; blockHash: Hex }

/**
 * Returns the block of a transaction; null if the node has no receipt.
 * @throws RpcError | RpcUnavailable | InvalidResponse
 */
async function findBlock({ rpc }: Chain, hash: Hex): Promise<ReceiptLocation | null> {
  const answer = await rpc.call('eth_getTransactionReceipt', [hash])
  if (answer === null) return null
  const receipt = readObject(answer, 'a receipt')
  if (readHash(receipt.transactionHash, 'transaction hash of a receipt') !== hash)
    throw new InvalidResponse('the receipt is of another transaction')
  return {
    hash,
    blockNumber: readNumber(receipt.blockNumber, 'block number of a receipt'),
    blockHash: readHash(receipt.blockHash, 'block hash of a receipt'),
  }
}

/**
 * Handles a nonce that the node reports as used. If one of our attempts used it, the follower will see that attempt, or
 * has passed it while the row was lost. If a foreign transaction used it, that counts once it is final and proven. The
 * write is never signed under another nonce.
 */
async function lookUp(app: App, chain: Chain, row: TransactionRow): Promise<void> {
  const bound = toBound(row)
  const attempts = await readAttempts(app, bound)
  const places = await Promise.all(attempts.map(({ hash }) => findBlock(chain, toHex(hash))))
  const place = places.find((one) => one !== null)
  if (place !== undefined && place !== null) {
    return catchUp(app, chain, row, place, attempts[places.indexOf(place)]!)
  }
  const use = await findUse(app, chain, bound)
  if (use === null) return noteUsed(app, bound)
  const own = attempts.find(({ hash }) => toHex(hash) === use.hash)
  if (own !== undefined) return catchUp(app, chain, row, use, own)
  await giveUp(app, bound, { block: { number: use.blockNumber, hash: use.blockHash }, hash: use.hash })
}

/**
 * Marks a transaction in a block that the follower has passed. Verifies the whole block, as the follower does: a
 * receipt is only one node's claim.
 * The block has to be stored, and this transaction locks the follower's cursor. Otherwise nothing would undo the change
 * when the chain reorganises.
 */
async function catchUp(
  app: App,
  chain: Chain,
  row: TransactionRow,
  where: ReceiptLocation,
  { raw, is_cancel: isCancel }: Pick<AttemptRow, 'raw' | 'is_cancel'>,
): Promise<void> {
  const { chainId } = chain
  const { hash, blockNumber, blockHash } = where
  // The follower itself marks transactions of a block that it has not passed. After a start, hundreds may be in one
  // block, which must not be fetched for each of them.
  if ((await storedBlockHash(app.db, chainId, blockNumber)) !== blockHash) return
  const block = await fetchBlock(chain.rpc, blockHash, sourceOf(chain))
  const ours = raw === null ? { signed: new Map(), claimed: [hash] } : { signed: new Map([[hash, Buffer.from(raw)]]), claimed: [] } // prettier-ignore
  const { nonces, receipts } = await prove(app, chain, block, ours)
  const receipt = receipts.get(hash)
  if (receipt === undefined || block.number !== blockNumber || nonces.get(hash) !== row.nonce)
    throw new InvalidResponse('the block does not hold what the receipt is of')
  const { status: succeeded, gasUsed, effectiveGasPrice, logs = [] } = receipt
  await app.db.transaction().execute(async (db) => {
    await db.selectFrom('cursors').select('chain_id').where('chain_id', '=', chainId).forUpdate().execute()
    if ((await storedBlockHash(db, chainId, blockNumber)) !== blockHash) return
    await markMined(db, app, chainId, [{ ...where, id: row.id, isCancel, succeeded, gasUsed, effectiveGasPrice }])
    await settleOperations(db, app, chain, block, [{ hash, status: succeeded, logs }])
  })
}
