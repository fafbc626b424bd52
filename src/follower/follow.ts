import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { App } from '../app.ts'
import { BadAnswer } from '../chain/failures.ts'
import type { Block } from '../chain/head.ts'
import type { Chain } from '../chain/network.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc.ts'
import { advance } from './advance.ts'
import type { BlockListener } from './block.ts'
import {
  BEFORE_GENESIS,
  endLease,
  Fenced,
  openCursor,
  readCursor,
  releaseLease,
  renewLease,
  takeLease,
} from './cursor.ts'
import { asksOneByOne, fetchHeader, sourceOf } from './fetch.ts'
import { findFinality } from './finality.ts'
import { askLatest, confirmHead, FAR_BEHIND, showHead, untilStopped, type Follower } from './follower.ts'

const RENEW_EVERY_MS = 1_000
const ASK_NODE_EVERY_MS = 2_000
const MOST_BACKOFF_MS = 2_000
/** A node may announce what it likes: it sets no faster pace than this. */
const LEAST_PAUSE_MS = 20

/**
 * Follows one network until stopped: every block of its canonical chain is given to the listeners exactly once and
 * in order, and taken back when the chain takes it back. One process follows, the others keep their head in step.
 * Failures of node and database are waited out.
 * @returns the way to stop: resolves when what was in flight is finished and the lease is given back
 */
export function startFollower(app: App, chain: Chain, listeners: BlockListener[]): { stop(): Promise<void> } {
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
    heard: null,
    receipts: sourceOf(chain),
    ahead: null,
    hasWarnedOfFinality: false,
  }
  const done = run(follower)
  return {
    stop: async () => {
      stopping.abort()
      await done
    },
  }
}

async function run(follower: Follower): Promise<void> {
  const { app, chain, stopping } = follower
  let failures = 0
  while (!stopping.aborted) {
    let waitMs: number
    try {
      const isBehind = await step(follower)
      warnOfReceipts(follower)
      if (failures > 0) app.telemetry.log.info('follower goes on', { chainId: chain.chainId, failures })
      failures = 0
      waitMs = isBehind ? 0 : patience(follower)
    } catch (error) {
      if (stopping.aborted) break
      waitMs = Math.min(MOST_BACKOFF_MS, 50 * 2 ** Math.min(failures, 10))
      recover(follower, error, failures++)
    }
    if (waitMs > 0) await pause(waitMs, follower)
  }
  const { epoch, owner } = follower
  if (epoch === null) return
  await releaseLease(app.db, chain.chainId, { epoch, owner }).catch((error: unknown) => {
    app.telemetry.log.warn('lease not given back', { chainId: chain.chainId }, error)
  })
}

/** It costs a call for each transaction of every block, which a bill may tell too late. */
function warnOfReceipts(follower: Follower): void {
  const { app, chain, receipts } = follower
  if (follower.hasWarnedOfReceipts === true || !asksOneByOne(receipts)) return
  app.telemetry.log.warn('node gives no receipts of whole blocks', { chainId: chain.chainId })
  follower.hasWarnedOfReceipts = true
}

/** After a failure nothing in memory is trusted but the epoch; a silent node leaves the cursor as it was. */
function recover(follower: Follower, error: unknown, failures: number): void {
  const { telemetry } = follower.app
  const { chainId } = follower.chain
  follower.ahead = null
  if (error instanceof Fenced) {
    follower.held = null
    telemetry.log.info('follower was replaced', { chainId })
    return
  }
  const isNodes = error instanceof RpcError || error instanceof RpcUnavailable
  if (!isNodes) follower.held = null
  // A node that is a moment behind its own head is everyday; one that fails for long is told once in a while.
  const level = failures === 3 || failures % 60 === 59 ? 'warn' : 'debug'
  telemetry.log[isNodes ? level : failures % 60 === 0 ? 'error' : 'debug'](
    'follower waits',
    { chainId, failures },
    error,
  )
}

/** One look at the chain. @returns true when there is more to do at once */
async function step(follower: Follower): Promise<boolean> {
  const { app, chain } = follower
  if (!follower.hasStarted) {
    // The embedded database lets one process in: after a SIGKILL nobody waits for the end of a dead one's lease.
    if (app.config.DATABASE_URL === undefined) await endLease(app.db, chain.chainId)
    follower.hasStarted = true
  }
  if (follower.held === null && follower.epoch !== null) {
    const { epoch, owner } = follower
    follower.held = await renewLease(app.db, chain.chainId, { epoch, owner })
    follower.renewedAt = performance.now()
    if (follower.held === null) follower.epoch = null
  }
  if (follower.held === null) {
    const cursor = await readCursor(app.db, chain.chainId)
    if (cursor?.isLeased) {
      await watch(follower, cursor)
      return false
    }
    // The node is asked before the lease is taken: a process whose node is away leaves the lease to others.
    const latest = await askLatest(follower)
    if (cursor === null) await openCursor(app.db, chain.chainId, await findStart(follower, latest))
    await lead(follower)
    return true
  }
  const latest = await askLatest(follower)
  if (performance.now() - follower.renewedAt > RENEW_EVERY_MS) {
    follower.held = await renewLease(app.db, chain.chainId, follower.held)
    if (follower.held === null) throw new Fenced()
    follower.renewedAt = performance.now()
  }
  return advance(follower, follower.held, latest)
}

async function lead(follower: Follower): Promise<void> {
  const { app, chain, owner } = follower
  follower.held = await takeLease(app.db, chain.chainId, owner)
  if (follower.held === null) return
  follower.epoch = follower.held.epoch
  follower.renewedAt = performance.now()
  app.telemetry.log.info('follower leads', {
    chainId: chain.chainId,
    epoch: follower.held.epoch,
    block: follower.held.number,
  })
}

/** Where a network that was never followed starts: our own chain at its beginning, others at finality. */
async function findStart(follower: Follower, latest: Block): Promise<{ number: number; hash: Block['hash'] }> {
  if (follower.chain.faucet !== null) return BEFORE_GENESIS
  const finality = await untilStopped(follower, findFinality(follower, latest))
  const first = await untilStopped(follower, fetchHeader(follower.chain.rpc, Math.max(0, finality.number)))
  if (first === null) throw new BadAnswer('the node lacks its own finalized block')
  return first.number === 0 ? BEFORE_GENESIS : { number: first.number - 1, hash: first.parentHash }
}

/** Keeps this process's head in step with a follower elsewhere, or with the node when that one is far behind. */
async function watch(follower: Follower, cursor: { halted: string | null; block: Block | null }): Promise<void> {
  const { app, chain } = follower
  const askedMs = performance.now() - (follower.heard?.at ?? Number.NEGATIVE_INFINITY)
  if (askedMs > ASK_NODE_EVERY_MS) {
    // The node of the process that follows may be better than ours: its word is enough.
    const block = await hear(follower, cursor.block).catch((error: unknown) =>
      follower.stopping.aborted ? Promise.reject(error) : null,
    )
    follower.heard = { block, at: performance.now() }
  }
  const heard = follower.heard?.block ?? null
  if (cursor.block !== null) app.telemetry.indexedBlock.set({ chain_id: String(chain.chainId) }, cursor.block.number)
  if (heard !== null && isFarAbove(heard, cursor.block)) showHead(follower, heard)
  // The one who holds the lease renews it only while its node answers; a halted one shows no life.
  else if (cursor.block !== null && cursor.halted === null && !isParent(cursor.block, chain.head.current()))
    showHead(follower, cursor.block)
}

/** A read of this process may have seen the block above the cursor's already, and heads move forward. */
const isParent = (block: Block, ours: Block | null): boolean =>
  ours?.number === block.number + 1 && ours.parentHash === block.hash

const isFarAbove = (block: Block, ours: Block | null): boolean => block.number - (ours?.number ?? -1) > FAR_BEHIND

async function hear(follower: Follower, ours: Block | null): Promise<Block> {
  const latest = await askLatest(follower)
  if (isFarAbove(latest, ours)) await confirmHead(follower, latest)
  return latest
}

/**
 * How long until the next look. Where a subscription stands and announced nothing that is not followed yet, only the
 * lease sets the pace: a block will wake us, and one that is never announced is late, not lost.
 */
function patience({ app, chain, held }: Follower): number {
  const { FOLLOW_INTERVAL_MS } = app.config
  const isQuiet = chain.newHeads?.isLive() === true && !chain.newHeads.hasAbove(chain.head.current()?.number ?? -1)
  return held !== null && isQuiet ? Math.max(FOLLOW_INTERVAL_MS, RENEW_EVERY_MS) : FOLLOW_INTERVAL_MS
}

/** Ends early when a new block is announced, or with the program. */
async function pause(ms: number, { chain, stopping }: Follower): Promise<void> {
  if (stopping.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const wake = () => resolve()
  const timer = setTimeout(wake, ms)
  stopping.addEventListener('abort', wake, { once: true })
  let hint: NodeJS.Timeout | undefined
  const unhear = chain.newHeads?.onHint(() => (hint ??= setTimeout(wake, LEAST_PAUSE_MS)))
  await promise
  unhear?.()
  clearTimeout(hint)
  clearTimeout(timer)
  stopping.removeEventListener('abort', wake)
}
