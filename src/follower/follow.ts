/**
 * follower: reads the blocks of a network in order, in one process at a time.
 * Owns: the lease, the cursors of transactions and of the history, recent blocks for reorganisations, verification of
 *   blocks, finality.
 * Does not own: what is derived from a block. Listeners do that in the transaction that moves their cursor:
 *   `transactions/settle/follow.ts` at the follower's, `history/` at the history's, which may lag.
 * Start here, then `advance.ts` and `apply.ts`; `trail.ts` for the history.
 * Tables: blocks, cursors, history_cursors, retracted_blocks.
 */

import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { App } from '../app.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Block } from '../chain/rpc/block.ts'
import { isDevelopment, isEmbedded, type Chain } from '../chain/network.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import { advance } from './advance.ts'
import type { BlockListener } from './block.ts'
import {
  BEFORE_GENESIS,
  endLease,
  Fenced,
  readFollowerCursor,
  releaseLease,
  renewLease,
  setBlockedBy,
  setReadFrom,
  type FollowerStop,
} from './cursor.ts'
import { fetchHeader } from './fetch.ts'
import { readsFrom, sourceOf } from './receipt-source.ts'
import { findFinality } from './finality.ts'
import { openCursors, takeLeaseAndHistory } from './history-cursor.ts'
import { showLag, showStop } from './lag.ts'
import { startTrail } from './trail.ts'
import { askLatest, confirmHead, FAR_BEHIND, showHead, untilStopped, type Follower } from './follower.ts'
import { type Timer } from '../clock.ts'

const RENEW_EVERY_MS = 1_000
const ASK_NODE_EVERY_MS = 2_000
/** milliseconds after a renewal during which the lease of four seconds certainly belongs to this process */
const ALONE_MS = 3_000
const MAX_BACKOFF_MS = 2_000
/**
 * Shares of the shortest interval between two blocks: HALF_WAY after a block the node is queried once, and
 * SHORTLY_BEFORE the next block polling starts.
 */
const HALF_WAY = 0.5
const SHORTLY_BEFORE = 0.04
/** multiple of the block interval: a network without a block for so long is polled once a second */
const OVERDUE = 2
/** multiple of the block interval after which to poll despite a subscription, which may have lost an announcement */
const UNANNOUNCED = 1.5
const MAX_UNANNOUNCED = 2
/** Shortest pause after an announcement, milliseconds; bounds the queries that a node's announcements can cause. */
const MIN_PAUSE_MS = 20

/** Consecutive failures at one block, about 5 s, after which that block is reported as blocking the follower. */
const MIN_FAILURES = 7

/** Consecutive requests without a response, about 1.5 s, after which the node may have restarted and lost its pool. */
const MIN_UNANSWERED = 5

/**
 * Follows a network until stopped. Listeners receive every block of its canonical chain exactly once and in order, and
 * its retraction if the chain reorganises. A trailing listener receives them later, in its own transaction. One process
 * follows; the others only update their head. Failures of node and database are retried.
 * @param onNodeBack  called when the node responds again after an outage
 * @returns a function to stop: it resolves when running work is finished and the lease is released
 */
export function startFollower(
  app: App,
  chain: Chain,
  listeners: BlockListener[],
  { onNodeBack = () => {} }: { onNodeBack?: () => void } = {},
): { stop(): Promise<void> } {
  const stopping = new AbortController()
  const follower: Follower = {
    app,
    chain,
    listeners,
    stopping: stopping.signal,
    owner: `${hostname()}:${process.pid}:${randomBytes(4).toString('hex')}`,
    held: null,
    epoch: null,
    renewedAt: Number.NEGATIVE_INFINITY,
    hasStarted: false,
    observed: null,
    newest: null,
    lookedAt: Number.NEGATIVE_INFINITY,
    wake: () => {},
    wasHinted: false,
    unannounced: 0,
    final: null,
    receipts: sourceOf(chain),
    ahead: null,
    hasWarnedOfFinality: false,
    trail: null,
    toldReadFrom: null,
    isAtBlock: false,
    blockedBy: null,
    shownStop: null,
  }
  const trailing = listeners.find((listener) => listener.isTrailing === true)
  if (trailing !== undefined) follower.trail = startTrail(follower, trailing)
  const done = Promise.all([run(follower, onNodeBack), follower.trail?.done])
  return {
    stop: async () => {
      stopping.abort()
      await done
    },
  }
}

async function run(follower: Follower, onNodeBack: () => void): Promise<void> {
  const { app, chain, stopping } = follower
  let failures = 0
  let unanswered = 0
  const unlisten = listen(follower)
  while (!stopping.aborted) {
    let waitMs: number
    try {
      const isBehind = await step(follower)
      await tellReadFrom(follower)
      await tellBlockedBy(follower, null)
      if (failures > 0) app.telemetry.log.info('follower_recovered', { chainId: chain.chainId, failures })
      failures = 0
      if (unanswered >= MIN_UNANSWERED) onNodeBack()
      unanswered = 0
      waitMs = isBehind ? 0 : Math.min(patience(follower), follower.held === null ? Infinity : RENEW_EVERY_MS)
    } catch (error) {
      if (stopping.aborted) break
      waitMs = Math.min(MAX_BACKOFF_MS, 50 * 2 ** Math.min(failures, 10))
      if (error instanceof RpcUnavailable) unanswered++
      recover(follower, error, failures++)
      if (follower.isAtBlock && failures >= MIN_FAILURES) await tellBlockedBy(follower, causeOf(error)).catch(() => {})
    }
    chain.head.setFollowed(aloneMs(follower))
    const { held, blockedBy } = follower
    if (held !== null) showStop(follower, { followed: held.number, halted: held.halted, blockedBy })
    if (waitMs > 0) await pause(waitMs, follower)
  }
  unlisten()
  chain.head.setFollowed(0)
  const { epoch, owner } = follower
  if (epoch === null) return
  await releaseLease(app.db, chain.chainId, { epoch, owner }).catch((error: unknown) => {
    app.telemetry.log.warn('lease_release_failed', { chainId: chain.chainId }, error)
  })
}

/** Returns the milliseconds for which no other process can follow. A database that hangs must not extend this time. */
function aloneMs({ app, held, renewedAt }: Follower): number {
  return held === null || held.halted !== null ? 0 : renewedAt + ALONE_MS - app.clock.ticks()
}

/**
 * Reports in the log, in `/readyz` and in `network show` if a node lacks eth_getBlockReceipts, which costs more calls.
 */
async function tellReadFrom(follower: Follower): Promise<void> {
  const { app, chain, receipts, held } = follower
  const readFrom = readsFrom(receipts)
  if (held === null || readFrom === follower.toldReadFrom) return
  if (readFrom !== 'block receipts')
    app.telemetry.log.warn('block_receipts_missing', { chainId: chain.chainId, readFrom })
  await setReadFrom(app.db, chain.chainId, held, readFrom)
  follower.toldReadFrom = readFrom
}

/** Stores why a network is not followed further, so that any process can explain why a write waits. */
async function tellBlockedBy(follower: Follower, blockedBy: string | null): Promise<void> {
  const { app, chain, epoch, owner } = follower
  if (epoch === null || blockedBy === follower.blockedBy) return
  await setBlockedBy(app.db, chain.chainId, { epoch, owner }, blockedBy)
  follower.blockedBy = blockedBy
}

/**
 * Returns the cause in our own words, because a message of a node or database may include confidential data. The
 * original message is in the log.
 */
function causeOf(error: unknown): string {
  if (error instanceof RpcUnavailable) return error.message
  if (error instanceof RpcError) return `the node answers with the error ${error.rpcCode}`
  return 'an internal error, which the log has as `follower_retrying`'
}

/** Discards the state in memory except the epoch. After a failure of the node, retains the cursor as well. */
function recover(follower: Follower, error: unknown, failures: number): void {
  const { telemetry } = follower.app
  const { chainId } = follower.chain
  follower.ahead = null
  follower.lookedAt = Number.NEGATIVE_INFINITY
  if (error instanceof Fenced) {
    follower.held = null
    telemetry.log.info('lease_lost', { chainId })
    return
  }
  const isNodes = error instanceof RpcError || error instanceof RpcUnavailable
  if (!isNodes) follower.held = null
  // A node often lacks a block below its own head for a moment. Log such failures only if they continue.
  const level = failures === 3 || failures % 60 === 59 ? 'warn' : 'debug'
  telemetry.log[isNodes ? level : failures % 60 === 0 ? 'error' : 'debug'](
    'follower_retrying',
    { chainId, failures },
    error,
  )
}

/**
 * Checks the chain once.
 * @returns true if another step should follow immediately
 */
async function step(follower: Follower): Promise<boolean> {
  const { app, chain } = follower
  follower.isAtBlock = false
  if (!follower.hasStarted) {
    // The embedded database has a single process: after a SIGKILL the dead process's lease is ended.
    if (app.config.DATABASE_URL === undefined) await endLease(app.db, chain.chainId)
    follower.hasStarted = true
  }
  if (follower.held === null && follower.epoch !== null) {
    const { epoch, owner } = follower
    const from = app.clock.ticks()
    follower.held = await renewLease(app.db, chain.chainId, { epoch, owner })
    follower.renewedAt = from
    if (follower.held === null) follower.epoch = null
  }
  if (follower.held === null) {
    const cursor = await readFollowerCursor(app.db, chain.chainId)
    if (cursor?.isLeased) {
      await watch(follower, cursor)
      return false
    }
    // Query the node before acquiring the lease: a process whose node is unavailable leaves the lease to others.
    const latest = await askLatest(follower)
    if (cursor === null) await openCursors(app.db, chain.chainId, await findStart(follower, latest))
    await lead(follower)
    return true
  }
  // Query the node before renewing the lease, so that a process whose node is down loses it. `patience` may be NaN;
  // then query at once.
  const latest = patience(follower) > 0 ? null : await look(follower)
  if (app.clock.ticks() - follower.renewedAt >= RENEW_EVERY_MS) {
    const from = app.clock.ticks()
    follower.held = await renewLease(app.db, chain.chainId, follower.held)
    if (follower.held === null) throw new Fenced()
    follower.renewedAt = from
  }
  if (latest === null) return false
  follower.isAtBlock = true
  if (!(await advance(follower, follower.held, latest))) return false
  follower.lookedAt = Number.NEGATIVE_INFINITY
  return true
}

async function look(follower: Follower): Promise<Block> {
  // Set before the request: a block that is announced during the request may be missing in the response, and is then
  // queried again.
  follower.lookedAt = follower.app.clock.ticks()
  const { wasHinted } = follower
  follower.wasHinted = false
  const latest = await askLatest(follower)
  if (wasHinted || follower.wasHinted) follower.unannounced = 0
  else if (latest.number > follower.held!.number) follower.unannounced++
  return latest
}

async function lead(follower: Follower): Promise<void> {
  const { app, chain, owner } = follower
  const from = app.clock.ticks()
  follower.held = await takeLeaseAndHistory(app.db, chain.chainId, owner)
  if (follower.held === null) return
  follower.epoch = follower.held.epoch
  follower.renewedAt = from
  app.telemetry.log.info('lease_acquired', {
    chainId: chain.chainId,
    epoch: follower.held.epoch,
    block: follower.held.number,
  })
}

/**
 * Returns the start block of a network that was never followed: the first for the embedded chain, the final one for
 * others.
 */
async function findStart(follower: Follower, latest: Block): Promise<{ number: number; hash: Block['hash'] }> {
  if (isEmbedded(follower.chain)) return BEFORE_GENESIS
  const finality = await untilStopped(follower, findFinality(follower, latest))
  const first = await untilStopped(follower, fetchHeader(follower.chain.rpc, Math.max(0, finality.number)))
  if (first === null) throw new InvalidResponse('the node lacks its own finalized block')
  return first.number === 0 ? BEFORE_GENESIS : { number: first.number - 1, hash: first.parentHash }
}

/** Updates this process's head from the cursor of another follower, or from the node if that follower is far behind. */
async function watch(
  follower: Follower,
  cursor: FollowerStop & { block: Block | null; indexedTo: number | null },
): Promise<void> {
  const { app, chain } = follower
  const askedMs = app.clock.ticks() - (follower.observed?.at ?? Number.NEGATIVE_INFINITY)
  if (askedMs > ASK_NODE_EVERY_MS) {
    // The node of the following process may be ahead of ours, so the block of its cursor is enough.
    const block = await observeLatest(follower, cursor.block).catch((error: unknown) =>
      follower.stopping.aborted ? Promise.reject(error) : null,
    )
    follower.observed = { block, at: app.clock.ticks() }
  }
  const observed = follower.observed?.block ?? null
  showStop(follower, cursor)
  if (cursor.block !== null) showLag(follower, { transactions: cursor.block.number })
  if (cursor.indexedTo !== null) showLag(follower, { history: cursor.indexedTo })
  if (observed !== null && isFarAbove(observed, cursor.block)) showHead(follower, observed)
  // The lease holder renews it only while its node responds; a halted follower does not update the head.
  else if (cursor.block !== null && cursor.halted === null && !isParent(cursor.block, chain.head.current()))
    showHead(follower, cursor.block)
}

/** A read in this process may already have seen the block above the cursor's block, and the head only moves forward. */
const isParent = (block: Block, ours: Block | null): boolean =>
  ours?.number === block.number + 1 && ours.parentHash === block.hash

const isFarAbove = (block: Block, ours: Block | null): boolean => block.number - (ours?.number ?? -1) > FAR_BEHIND

async function observeLatest(follower: Follower, ours: Block | null): Promise<Block> {
  const latest = await askLatest(follower)
  if (isFarAbove(latest, ours)) await confirmHead(follower, latest)
  return latest
}

/** Returns the milliseconds until the node is queried next; 0 or less: now. */
function patience(follower: Follower): number {
  const { app, chain, held, lookedAt } = follower
  const every = app.config.FOLLOW_INTERVAL_MS
  const sinceLookMs = app.clock.ticks() - lookedAt
  const newest = chain.head.current()
  // A read may have seen a newer block than the followed one.
  const isBehind = held !== null && newest !== null && newest.number > held.number
  if (held === null) return every
  if (lookedAt === Number.NEGATIVE_INFINITY) return 0
  if (held.halted !== null || isBehind) return every - sinceLookMs
  const at = chain.head.sinceChangeMs() - sinceLookMs
  const isSubscribed = chain.newHeads?.isLive() === true && follower.unannounced < MAX_UNANNOUNCED
  return afterLook({ chain, every, at, isSubscribed }) - sinceLookMs
}

/**
 * Returns the milliseconds from a query to the next useful one, if blocks keep their recent interval. With an active
 * subscription, the next one is due when a block is overdue. Otherwise one is due half-way to the next block, and more
 * at the configured interval from shortly before that block.
 * @param at  age of the head at the first query, milliseconds
 */
function afterLook({
  chain,
  every,
  at,
  isSubscribed,
}: {
  chain: Chain
  every: number
  at: number
  isSubscribed: boolean
}): number {
  const { head, newHeads } = chain
  if (isSubscribed && newHeads!.hasAbove(head.current()?.number ?? -1)) return every
  const slowly = Math.max(every, RENEW_EVERY_MS)
  const intervalMs = isDevelopment(chain) ? null : head.pace.intervalMs()
  if (intervalMs === null) return isSubscribed ? slowly : every
  const planned = isSubscribed
    ? [UNANNOUNCED * intervalMs + RENEW_EVERY_MS]
    : [HALF_WAY * intervalMs, intervalMs - Math.max(2 * every, SHORTLY_BEFORE * intervalMs)]
  const next = planned.find((one) => one > at)
  if (next !== undefined) return Math.max(every, next - at)
  return isSubscribed || at > OVERDUE * intervalMs ? slowly : every
}

/** Waits, but ends early at a hint of a new block, or at shutdown. */
async function pause(ms: number, follower: Follower): Promise<void> {
  const { stopping } = follower
  const { after } = follower.app.clock
  if (stopping.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const wake = () => resolve()
  const timer = after(ms, wake)
  stopping.addEventListener('abort', wake, { once: true })
  let hint: Timer | undefined
  follower.wake = () => (hint ??= after(MIN_PAUSE_MS, wake))
  await promise
  follower.wake = () => {}
  hint?.cancel()
  timer.cancel()
  stopping.removeEventListener('abort', wake)
}

/**
 * Queries immediately when a new block is announced, or seen by a read.
 * @returns a function that unsubscribes
 */
function listen(follower: Follower): () => void {
  const { chain } = follower
  const wake = () => {
    follower.lookedAt = Number.NEGATIVE_INFINITY
    follower.wake()
  }
  const unsubscribe = chain.newHeads?.onHint(() => {
    follower.wasHinted = true
    wake()
  })
  const unsee = chain.head.onChange(({ number }) => {
    if (follower.held !== null && number > follower.held.number) wake()
  })
  return () => {
    unsubscribe?.()
    unsee()
  }
}
