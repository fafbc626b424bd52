/**
 * transactions/recovery: writes that nobody is at work on.
 * Owns: the worker of each network (`keeper.ts`), what a dead process left (`recover.ts`), what the database lost and the signer's ledger
 *   has (`replay.ts`), stopped accounts.
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

/** milliseconds between two rounds when nothing pokes */
const ROUND_MS = 1_000
/** seconds after which stored bytes are sent again unasked; then each time after half as long as they have been out */
const RESEND_AFTER_SECONDS = 15
const RESEND_AT_LEAST_EVERY_SECONDS = 300
/** seconds after which a bound row is nobody's work in progress */
const IDLE_SECONDS = 8

export type Keeper = {
  stop: () => Promise<void>
  round: () => Promise<void>
  /** the database was away, and may have come back older: the next round takes everything up, as the first one does */
  suspect: () => void
  /** the node was away, and may have lost what it was given: the next round sends again everything that is in flight */
  nodeIsBack: () => void
}

/**
 * Keeps every accepted write of a network alive until it is mined or its nonce is owned by another final transaction:
 * sends everything once at start, finishes intents without bytes, sends again what the node may have lost, raises the
 * fee of the lowest unmined nonce of each account. Any number of replicas may do so: bytes sent twice are known, and
 * of two raises the signer's ledger lets one through.
 */
export function startKeeper(app: App, chain: Chain): Keeper {
  let isStopped = false
  // Losses of the database that were noticed, and how many of them a round came after. The start is one.
  let losses = 1
  let tended = 0
  let returns = 0
  let greeted = 0
  let next: Promise<void> | null = null

  /** @returns whether there is more to do immediately */
  async function work(): Promise<boolean> {
    // Everything is taken up immediately: a process before this one may have left it at any point, and of an intent that was
    // told the database may have kept the row and lost the bytes.
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

  /** One round at a time. Asked for during one, another follows: it sees what the one under way may have passed by. */
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

  // A round under way may be long past the queues, and busy with fees for a while: what a block made room for goes at once.
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
 * Sends stored bytes again, as they are: every attempt that nobody has sent for a while, by account and nonce; the longer
 * it has waited, the longer that while, because a node that has it needs no more copies. Taking
 * them on and reading them is one statement, so that replicas do not all send the same. Then what has come to the front of
 * its account's queue.
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
  // Patience is for what a node said that it has, not where something is known to be in the way: that may be gone any
  // moment. A row is touched, too, when a reorganisation gives it back.
  const isPatient =
    afterSeconds === 0
      ? sql`true`
      : sql`(a.broadcast_at + least(${RESEND_AT_LEAST_EVERY_SECONDS}::int * interval '1 second', (a.broadcast_at - greatest(a.created_at, t.updated_at)) / 2) < now()
        or a.broadcast_at > now()
        or exists (select 1 from waits w where ${ofNonce} and w.trouble is not null))`
  // Two searches by index: under load there are thousands under way, and hardly any of them is due. A row is not
  // touched after its newest attempt was stored, so one that is due by its age was written before that, too. Of those
  // found, what is above too many is queued instead: bytes that were found in the ledger, or that a reorganisation gave back.
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

/** What is in the way of the account, or of a replacement. */
const TOUCHED: ReadonlySet<string> = new Set(['nonce_too_low', 'insufficient_funds', 'replacement_underpriced'])

async function resendOne(app: App, chain: Chain, due: DueTransaction): Promise<void> {
  const [from, hash] = [toHex(due.sender), toHex(due.hash)]
  if (due.raw === null) return bringBack(app, { id: due.id, chainId: chain.chainId, from, nonce: due.nonce })
  const attempt = { id: due.id, from, raw: toHex(due.raw), hash }
  const sent = await giveToNode(app, chain, attempt)
  // The first has it; of the others nobody is sure, or it is noted when they are sent again.
  if (sent === 'sent' && due.was_refused)
    await forgetRefusals(app.db, { chainId: chain.chainId, from, nonce: due.nonce })
  if (!TOUCHED.has(sent)) return
  // Touched: what a node has refused it may take any moment, and is asked again after 15 s.
  const row = await transactionRows
    .update(app.db, 'resend')
    .set({ updated_at: sql`now()` })
    .where('id', '=', attempt.id)
    .returningAll()
    .executeTakeFirst()
  if (row === undefined) return
  if (sent === 'nonce_too_low') await lookUp(app, chain, row)
  else if (sent === 'insufficient_funds') await lowBalance(app, chain, toBound(row))
}

/**
 * A rewind has given a write back whose bytes were dropped, long after it was final: the signer's ledger has them. They are
 * sent in the next round.
 */
async function bringBack(app: App, { id, ...of }: NonceSlot & { id: string }): Promise<void> {
  if (await reconcileNonce(app, of)) return void lostBytes.of(app).delete(id)
  const lost = lostBytes.of(app)
  if (lost.has(id)) return
  lost.set(id, true)
  const { chainId, from: sender, nonce } = of
  app.telemetry.log.error('bytes_lost', { chainId, id, sender, nonce })
}

/** writes whose bytes are lost, as this process has logged: they stay lost, and are looked for again each time they are due */
const MAX_LOST = 10_000
const lostBytes = slot('writes whose bytes are lost', (_app: App) => new BoundedMap<string, true>(MAX_LOST))

/** A block that a node says one of our attempts is in. */
type ReceiptLocation = { hash: Hex; blockNumber: number; blockHash: Hex }

/** Null where the node knows of no receipt. @throws RpcError | RpcUnavailable | InvalidResponse */
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
 * The nonce is used, the node says: by one of our own hashes, which the follower will see, or has passed while our row
 * was lost; or, once that is final and proven, by someone else's. Never is it signed again under another nonce.
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
 * Marks what the follower has passed, by the whole block, as the follower does: a receipt alone is one node's word. Only
 * for a block that the follower has stored, and while its cursor is stuck: otherwise nobody would give it back when
 * the chain does.
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
  // What the follower has not passed it marks itself. After a start that may be hundreds in one block: nobody fetches it
  // for each of them.
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
