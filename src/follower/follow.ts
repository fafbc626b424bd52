/**
 * follower: reads the blocks of a network in order, in one process at a time.
 * Owns: the lease and the cursors, of transactions and of the history, the last blocks for reorganisations, what of a block is checked against its hash,
 *   finality.
 * Does not own: what is made of a block. Its listeners do that in the transaction that moves the cursor: `transactions/settle/follow.ts`
 *   that of the blocks, `history/` that of the history, which may be behind.
 * Start here, then `advance.ts` and `apply.ts`; `trail.ts` for the history.
 * Tables: blocks, cursors, history_cursors.
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
/** of the four seconds of a lease, those for which it is sure to be ours after it was renewed */
const ALONE_MS = 3_000
const MAX_BACKOFF_MS = 2_000
/** Of the shortest time between two blocks: when the node is looked at in between, and when a next block is waited for. */
const HALF_WAY = 0.5
const SHORTLY_BEFORE = 0.04
/** times that interval: a network that has had no block for so long is looked at once a second */
const OVERDUE = 2
/** the same with an active subscription, which may have lost an announcement */
const UNANNOUNCED = 1.5
const MAX_UNANNOUNCED = 2
/** A node may announce what it likes: it sets no faster pace than this. */
const MIN_PAUSE_MS = 20

/** Failures in a row at one block, five seconds, after which it is what holds the follower up. */
const MIN_FAILURES = 7

/** Looks in a row without an answer, 1.5 s: such a node may have been started again, without the transactions it was given. */
const MIN_UNANSWERED = 5

/**
 * Follows one network until stopped: every block of its canonical chain is given to the listeners exactly once and
 * in order, and retracted when the chain reorganises; to one that is trailing later, in a transaction of its own. One process follows, the others keep their head in step.
 * Failures of node and database are waited out.
 * @param onNodeBack  called when the node answers again after it was away
 * @returns the way to stop: resolves when what was in flight is finished and the lease is given back
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

/** For how long no other process can follow, milliseconds: a database that hangs must not keep us believing that. */
function aloneMs({ app, held, renewedAt }: Follower): number {
  return held === null || held.halted !== null ? 0 : renewedAt + ALONE_MS - app.clock.ticks()
}

/** What a node without eth_getBlockReceipts costs a bill may tell too late: the log does, and `/readyz` and `network show`. */
async function tellReadFrom(follower: Follower): Promise<void> {
  const { app, chain, receipts, held } = follower
  const readFrom = readsFrom(receipts)
  if (held === null || readFrom === follower.toldReadFrom) return
  if (readFrom !== 'block receipts')
    app.telemetry.log.warn('block_receipts_missing', { chainId: chain.chainId, readFrom })
  await setReadFrom(app.db, chain.chainId, held, readFrom)
  follower.toldReadFrom = readFrom
}

/** Others have to know why a network is followed no further: who asks why a write waits is answered by any process. */
async function tellBlockedBy(follower: Follower, blockedBy: string | null): Promise<void> {
  const { app, chain, epoch, owner } = follower
  if (epoch === null || blockedBy === follower.blockedBy) return
  await setBlockedBy(app.db, chain.chainId, { epoch, owner }, blockedBy)
  follower.blockedBy = blockedBy
}

/** In our own words: what a node or a database says may name what nobody else should read. The log has it. */
function causeOf(error: unknown): string {
  if (error instanceof RpcUnavailable) return error.message
  if (error instanceof RpcError) return `the node answers with the error ${error.rpcCode}`
  return 'an internal error, which the log has as `follower_retrying`'
}

/** After a failure nothing in memory is trusted but the epoch; a silent node leaves the cursor as it was. */
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
  // A node that is a moment behind its own head is everyday; one that fails for long is logged once in a while.
  const level = failures === 3 || failures % 60 === 59 ? 'warn' : 'debug'
  telemetry.log[isNodes ? level : failures % 60 === 0 ? 'error' : 'debug'](
    'follower_retrying',
    { chainId, failures },
    error,
  )
}

/** One look at the chain. @returns true when there is more to do immediately */
async function step(follower: Follower): Promise<boolean> {
  const { app, chain } = follower
  follower.isAtBlock = false
  if (!follower.hasStarted) {
    // The embedded database lets one process in: after a SIGKILL nobody waits for the end of a dead one's lease.
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
    // The node is asked before the lease is taken: a process whose node is away leaves the lease to others.
    const latest = await askLatest(follower)
    if (cursor === null) await openCursors(app.db, chain.chainId, await findStart(follower, latest))
    await lead(follower)
    return true
  }
  // In this order: whose node does not answer does not keep the lease. And what is no number is no reason to wait.
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
  // Before: what is announced while the answer is in flight may not be in it, and is looked for once more.
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

/** Where a network that was never followed starts: our own chain at its beginning, others at finality. */
async function findStart(follower: Follower, latest: Block): Promise<{ number: number; hash: Block['hash'] }> {
  if (isEmbedded(follower.chain)) return BEFORE_GENESIS
  const finality = await untilStopped(follower, findFinality(follower, latest))
  const first = await untilStopped(follower, fetchHeader(follower.chain.rpc, Math.max(0, finality.number)))
  if (first === null) throw new InvalidResponse('the node lacks its own finalized block')
  return first.number === 0 ? BEFORE_GENESIS : { number: first.number - 1, hash: first.parentHash }
}

/** Keeps this process's head in step with a follower elsewhere, or with the node when that one is far behind. */
async function watch(
  follower: Follower,
  cursor: FollowerStop & { block: Block | null; indexedTo: number | null },
): Promise<void> {
  const { app, chain } = follower
  const askedMs = app.clock.ticks() - (follower.observed?.at ?? Number.NEGATIVE_INFINITY)
  if (askedMs > ASK_NODE_EVERY_MS) {
    // The node of the process that follows may be better than ours: its word is enough.
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
  // The one who holds the lease renews it only while its node answers; a halted one shows no life.
  else if (cursor.block !== null && cursor.halted === null && !isParent(cursor.block, chain.head.current()))
    showHead(follower, cursor.block)
}

/** A read of this process may have seen the block above the cursor's already, and heads move forward. */
const isParent = (block: Block, ours: Block | null): boolean =>
  ours?.number === block.number + 1 && ours.parentHash === block.hash

const isFarAbove = (block: Block, ours: Block | null): boolean => block.number - (ours?.number ?? -1) > FAR_BEHIND

async function observeLatest(follower: Follower, ours: Block | null): Promise<Block> {
  const latest = await askLatest(follower)
  if (isFarAbove(latest, ours)) await confirmHead(follower, latest)
  return latest
}

/** Milliseconds until the node is looked at next; not above 0 when that is now. */
function patience(follower: Follower): number {
  const { app, chain, held, lookedAt } = follower
  const every = app.config.FOLLOW_INTERVAL_MS
  const sinceLookMs = app.clock.ticks() - lookedAt
  const newest = chain.head.current()
  // A read may know of more than what is followed.
  const isBehind = held !== null && newest !== null && newest.number > held.number
  if (held === null) return every
  if (lookedAt === Number.NEGATIVE_INFINITY) return 0
  if (held.halted !== null || isBehind) return every - sinceLookMs
  const at = chain.head.sinceChangeMs() - sinceLookMs
  const isSubscribed = chain.newHeads?.isLive() === true && follower.unannounced < MAX_UNANNOUNCED
  return afterLook({ chain, every, at, isSubscribed }) - sinceLookMs
}

/**
 * How long after a look the next one is worth a call, as far as blocks come as they came lately: with an active subscription
 * and announced nothing, when a block is overdue; elsewhere once half-way, and from shortly before the next block on as often
 * as the settings say.
 * @param at  age of the head at that look, milliseconds
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

/** Ends early when someone knows of something new, or with the program. */
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

/** Looks immediately when a new block is announced, or seen by a read. @returns the way to hear no more */
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
