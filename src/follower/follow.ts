import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { App } from '../app.ts'
import type { Block } from '../chain/head.ts'
import type { Chain } from '../chain/network.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc.ts'
import { toHex } from '../store/bytes.ts'
import { findAncestor } from './ancestor.ts'
import { BadAnswer } from './answers.ts'
import { applyBlocks, isDevelopment, retractBlocks, takeGroup, type Finality } from './apply.ts'
import type { BlockListener, FollowedBlock } from './block.ts'
import {
  BEFORE_GENESIS,
  Fenced,
  openCursor,
  readCursor,
  releaseLease,
  renewLease,
  setHalted,
  takeLease,
  type Position,
} from './cursor.ts'
import { fetchBlock, fetchHeader, fetchHeaders, type ReceiptSource } from './fetch.ts'

/** A process that is further behind than this shows the node's newest block as head instead of its own. */
const FAR_BEHIND = 3
/** blocks fetched at once while catching up, and how many of them side by side */
const WINDOW = 32
const SIDE_BY_SIDE = 8
/** a node without the `finalized` tag: two epochs of the beacon chain */
const FALLBACK_FINALITY = 64
const RENEW_EVERY_MS = 1_000
const ASK_NODE_EVERY_MS = 2_000
const MOST_BACKOFF_MS = 2_000

type Follower = {
  app: App
  chain: Chain
  listeners: BlockListener[]
  stopping: AbortSignal
  owner: string
  /** the cursor, while this process holds its lease; null when another does or the truth must be read again */
  held: Position | null
  /** the epoch under which this process last held the lease */
  epoch: number | null
  renewedAt: number
  /** the node's newest block, as a process that does not follow last heard of it */
  heard: { block: Block | null; at: number } | null
  receipts: ReceiptSource
  hasWarnedOfFinality: boolean
}

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
    heard: null,
    receipts: { hasBlockReceipts: true },
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
      if (failures > 0) app.telemetry.log.info('follower goes on', { chainId: chain.chainId, failures })
      failures = 0
      waitMs = isBehind ? 0 : app.config.FOLLOW_INTERVAL_MS
    } catch (error) {
      if (stopping.aborted) break
      waitMs = Math.min(MOST_BACKOFF_MS, 50 * 2 ** Math.min(failures, 10))
      recover(follower, error, failures++)
    }
    if (waitMs > 0) await pause(waitMs, stopping)
  }
  if (follower.epoch === null) return
  await releaseLease(app.db, chain.chainId, follower.epoch).catch((error: unknown) => {
    app.telemetry.log.warn('lease not given back', { chainId: chain.chainId }, error)
  })
}

/** After a failure nothing in memory is trusted but the epoch; a silent node leaves the cursor as it was. */
function recover(follower: Follower, error: unknown, failures: number): void {
  const { telemetry } = follower.app
  const { chainId } = follower.chain
  if (error instanceof Fenced) {
    follower.held = null
    telemetry.log.info('follower was replaced', { chainId })
    return
  }
  const isNodes = error instanceof RpcError || error instanceof RpcUnavailable || error instanceof BadAnswer
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
  if (follower.held === null && follower.epoch !== null) {
    follower.held = await renewLease(app.db, chain.chainId, follower.epoch)
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
    follower.held = await renewLease(app.db, chain.chainId, follower.held.epoch)
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

/** Where a network that was never followed starts: a development chain at its beginning, others at finality. */
async function findStart(follower: Follower, latest: Block): Promise<{ number: number; hash: Block['hash'] }> {
  if (isDevelopment(follower.chain)) return BEFORE_GENESIS
  const finality = await untilStopped(follower, findFinality(follower, latest))
  const first = await untilStopped(follower, fetchHeader(follower.chain.rpc, Math.max(0, finality.number)))
  if (first === null) throw new BadAnswer('the node lacks its own finalized block')
  return first.number === 0 ? BEFORE_GENESIS : { number: first.number - 1, hash: first.parentHash }
}

/** Moves the cursor towards the node's newest block, or back from a chain that is no longer the node's. */
async function advance(follower: Follower, held: Position, latest: Block): Promise<boolean> {
  const { chain } = follower
  if (held.halted !== null) return stayHalted(follower, held)
  if (latest.hash === held.hash) {
    showHead(follower, latest)
    return false
  }
  // A head below ours is a node behind its fellows: our own blocks came from one of them. A development chain has
  // one node only, which restarted and lost blocks.
  if (latest.number < held.number && !isDevelopment(chain)) return false
  if (latest.number <= held.number) return reorganise(follower, held, latest)
  if (latest.number - held.number > FAR_BEHIND) showHead(follower, latest)

  const headers = await untilStopped(follower, findHeaders(follower, held, latest))
  if (headers.length === 0) return reorganise(follower, held, latest)
  const [finality, fetched] = await untilStopped(
    follower,
    Promise.all([
      findFinality(follower, latest).catch((error: unknown) =>
        error instanceof RpcUnavailable || error instanceof BadAnswer ? null : Promise.reject(error),
      ),
      fetchBlocks(follower, headers),
    ]),
  )
  await applyAll(follower, fetched.blocks, finality)
  if (fetched.error !== null) throw fetched.error
  return headers.at(-1)!.hash !== latest.hash
}

/** The next headers, as far as they link to the cursor and to each other; [] when not even the first does. */
async function findHeaders({ chain }: Follower, held: Position, latest: Block): Promise<Block[]> {
  const count = Math.min(WINDOW, latest.number - held.number)
  const numbers = Array.from({ length: count }, (_, index) => held.number + 1 + index)
  const headers =
    numbers.at(-1) === latest.number
      ? [...(await fetchHeaders(chain.rpc, numbers.slice(0, -1))), latest]
      : await fetchHeaders(chain.rpc, numbers)
  const linked: Block[] = []
  for (const header of headers) {
    // Below its own newest block a node has every number, or it is several nodes: asked again.
    if (header === null) throw new BadAnswer('the node lacks a block below its newest')
    const parent = linked.at(-1)?.hash ?? held.hash
    const isFirstOfAll = header.number === 0
    if (header.parentHash !== parent && !isFirstOfAll) break
    linked.push(header)
  }
  return linked
}

/** Whole blocks for linked headers, side by side; the good start of them, and what went wrong after it. */
async function fetchBlocks(
  { chain, receipts }: Follower,
  headers: Block[],
): Promise<{ blocks: FollowedBlock[]; error: unknown }> {
  const blocks: FollowedBlock[] = []
  for (let start = 0; start < headers.length; start += SIDE_BY_SIDE) {
    const some = headers.slice(start, start + SIDE_BY_SIDE)
    const results = await Promise.allSettled(some.map(({ hash }) => fetchBlock(chain.rpc, hash, receipts)))
    for (const [index, result] of results.entries()) {
      if (result.status === 'rejected') return { blocks, error: result.reason }
      if (result.value.number !== some[index]!.number || result.value.parentHash !== some[index]!.parentHash) {
        return { blocks, error: new BadAnswer('a block differs from its header') }
      }
      blocks.push(result.value)
    }
  }
  return { blocks, error: null }
}

async function applyAll(follower: Follower, blocks: FollowedBlock[], finality: Finality | null): Promise<void> {
  const { app, chain, listeners } = follower
  for (let rest = blocks; rest.length > 0 && !follower.stopping.aborted;) {
    const group = takeGroup(rest)
    rest = rest.slice(group.length)
    follower.held = await applyBlocks(app, chain, listeners, { held: follower.held!, blocks: group, finality })
    follower.renewedAt = performance.now()
    const last = group.at(-1)!
    app.telemetry.indexedBlock.set({ chain_id: String(chain.chainId) }, last.number)
    // While far behind, the head runs ahead of what is stored; it does not go back to it.
    if (last.number >= (chain.head.current()?.number ?? -1)) showHead(follower, last)
    tellListeners(follower)
  }
}

/** Our newest block is not the node's any more: back to the last one that both have. */
async function reorganise(follower: Follower, held: Position, latest: Block): Promise<boolean> {
  const { app, chain, listeners } = follower
  const found = await untilStopped(follower, findAncestor(app, chain, Math.min(held.number, latest.number)))
  if (found?.number === held.number) throw new BadAnswer('the node contradicts itself about its chain')
  if (!isDevelopment(chain) && (found === null || found.number < held.finalized)) {
    await halt(follower, held, `The node's chain leaves ours below the finalized block ${held.finalized}.`)
    return false
  }
  if (found === null && !(await untilStopped(follower, isSameGenesis(follower)))) {
    await halt(follower, held, 'The node serves another chain: its genesis block is not the one stored.')
    return false
  }
  const ancestor = found ?? BEFORE_GENESIS
  app.telemetry.log.warn('chain reorganised', { chainId: chain.chainId, from: held.number, to: ancestor.number })
  follower.held = await retractBlocks(app, chain, listeners, { held, ancestor })
  follower.renewedAt = performance.now()
  app.telemetry.indexedBlock.set({ chain_id: String(chain.chainId) }, ancestor.number)
  if (found !== null) showHead(follower, found)
  tellListeners(follower)
  return true
}

async function isSameGenesis({ app, chain }: Follower): Promise<boolean> {
  const genesis = await fetchHeader(chain.rpc, 0)
  const known = await app.db
    .selectFrom('networks')
    .select('genesis_hash')
    .where('chain_id', '=', chain.chainId)
    .executeTakeFirst()
  return genesis !== null && (known === undefined || toHex(known.genesis_hash) === genesis.hash)
}

/** Below finality nothing is guessed: the follower stops for everybody and says so until the chains agree again. */
async function halt(follower: Follower, held: Position, reason: string): Promise<void> {
  const { app, chain } = follower
  await setHalted(app.db, chain.chainId, held.epoch, reason)
  follower.held = { ...held, halted: reason }
  app.telemetry.log.error('follower halted', {
    chainId: chain.chainId,
    block: held.number,
    finalized: held.finalized,
    reason,
  })
}

/** A halted follower goes on when the node has our block again: it was a wrong node, not a wrong history. */
async function stayHalted(follower: Follower, held: Position): Promise<boolean> {
  const { app, chain } = follower
  const canonical = await untilStopped(follower, fetchHeader(chain.rpc, held.number))
  if (canonical?.hash !== held.hash) return false
  await setHalted(app.db, chain.chainId, held.epoch, null)
  follower.held = { ...held, halted: null }
  app.telemetry.log.warn('follower goes on: the node has our chain again', {
    chainId: chain.chainId,
    block: held.number,
  })
  return true
}

/** What the network calls final now. @throws RpcUnavailable | BadAnswer */
async function findFinality(follower: Follower, latest: Block): Promise<Finality> {
  const { chain, app } = follower
  if (typeof chain.finality === 'number') return { number: latest.number - chain.finality, hash: null }
  try {
    const header = await fetchHeader(chain.rpc, 'finalized')
    if (header !== null) return header
  } catch (error) {
    if (!(error instanceof RpcError)) throw error
  }
  if (!follower.hasWarnedOfFinality)
    app.telemetry.log.warn('node names no finalized block', {
      chainId: chain.chainId,
      blocksInstead: FALLBACK_FINALITY,
    })
  follower.hasWarnedOfFinality = true
  return { number: latest.number - FALLBACK_FINALITY, hash: null }
}

/** Keeps this process's head in step with a follower elsewhere, or with the node when that one is far behind. */
async function watch(follower: Follower, cursor: { halted: string | null; block: Block | null }): Promise<void> {
  const { app, chain } = follower
  const askedMs = performance.now() - (follower.heard?.at ?? Number.NEGATIVE_INFINITY)
  if (askedMs > ASK_NODE_EVERY_MS) {
    // The node of the process that follows may be better than ours: its word is enough.
    const block = await askLatest(follower).catch((error: unknown) =>
      follower.stopping.aborted ? Promise.reject(error) : null,
    )
    follower.heard = { block, at: performance.now() }
  }
  const heard = follower.heard?.block ?? null
  if (cursor.block !== null) app.telemetry.indexedBlock.set({ chain_id: String(chain.chainId) }, cursor.block.number)
  if (heard !== null && heard.number - (cursor.block?.number ?? -1) > FAR_BEHIND) showHead(follower, heard)
  // The one who holds the lease renews it only while its node answers; a halted one shows no life.
  else if (cursor.block !== null && cursor.halted === null) showHead(follower, cursor.block)
}

async function askLatest(follower: Follower): Promise<Block> {
  const latest = await untilStopped(follower, fetchHeader(follower.chain.rpc, 'latest'))
  if (latest === null) throw new BadAnswer('the node has no newest block')
  return latest
}

/** Those who listen to the head are other slices: their errors are not ours. */
function showHead({ app, chain }: Follower, block: Block): void {
  app.telemetry.headBlock.set({ chain_id: String(chain.chainId) }, block.number)
  try {
    if (chain.head.current()?.hash === block.hash) chain.head.confirm()
    else chain.head.set(block)
  } catch (error) {
    app.telemetry.log.error('a listener of the head failed', { chainId: chain.chainId }, error)
  }
}

function tellListeners({ app, chain, listeners }: Follower): void {
  for (const listener of listeners) {
    try {
      listener.afterCommit?.(app, chain)
    } catch (error) {
      app.telemetry.log.error('a listener of blocks failed', { chainId: chain.chainId }, error)
    }
  }
}

/** A question to the node need not be waited for when the program ends; its answer is then dropped. */
async function untilStopped<T>({ stopping }: Follower, asked: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const stop = () => reject(new BadAnswer('stopped'))
  if (stopping.aborted) stop()
  stopping.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([asked, promise])
  } finally {
    stopping.removeEventListener('abort', stop)
    asked.catch(() => {})
  }
}

async function pause(ms: number, stopping: AbortSignal): Promise<void> {
  if (stopping.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const wake = () => resolve()
  const timer = setTimeout(wake, ms)
  stopping.addEventListener('abort', wake, { once: true })
  await promise
  clearTimeout(timer)
  stopping.removeEventListener('abort', wake)
}
