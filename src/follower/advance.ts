import { InvalidResponse, RpcUnavailable } from '../chain/rpc/failures.ts'
import type { Block } from '../chain/rpc/block.ts'
import { hasLost } from '../chain/lost.ts'
import { isDevelopment } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { toHex } from '../hex.ts'
import { findAncestor } from './ancestor.ts'
import { applyBlocks, retractBlocks, takeGroup, type Finality } from './apply.ts'
import type { FollowedBlock } from './block.ts'
import { BEFORE_GENESIS, setHalted, type Position } from './cursor.ts'
import { fetchBlock, fetchHeader, fetchHeaders } from './fetch.ts'
import { askFinality } from './finality.ts'
import { confirmHead, FAR_BEHIND, showHead, untilStopped, type Follower, type Window } from './follower.ts'
import { showLag } from './lag.ts'

/** blocks fetched ahead while catching up, and blocks fetched at a time */
const WINDOW = 32
const SIDE_BY_SIDE = 8

/** blocks of a development chain that are followed again from the first one; for more, starting over is faster */
const MAX_FROM_GENESIS = 100_000

/**
 * Moves the cursor towards the node's newest block, or back if the node's chain has changed.
 * @returns true if another step should follow immediately
 */
export async function advance(follower: Follower, held: Position, latest: Block): Promise<boolean> {
  const { chain } = follower
  if (held.halted !== null) return stayHalted(follower, held)
  if (latest.hash === held.hash) {
    showHead(follower, latest)
    return false
  }
  // A newest block below the followed one comes from a node that lags, unless the chain has lost our blocks.
  const isLost = await untilStopped(follower, hasLost(chain, held, latest))
  if (latest.number < held.number && !isLost) return false
  if (latest.number <= held.number) return reorganise(follower, held, latest)
  if (latest.number - held.number > FAR_BEHIND) {
    await confirmHead(follower, latest)
    showHead(follower, latest)
  }

  const window = await untilStopped(follower, takeWindow(follower, held, latest))
  const last = window.headers.at(-1)
  if (last === undefined && window.error !== null) throw window.error
  if (last === undefined) return reorganise(follower, held, latest)
  const isBehind = last.hash !== latest.hash
  // The next blocks are fetched while these are stored.
  if (isBehind && window.error === null)
    follower.ahead = { after: last.hash, window: fetchWindow(follower, last, latest) }
  await applyAll(follower, window.blocks, window.finality)
  if (isBehind) await follower.trail?.untilRoom()
  if (window.error !== null) throw window.error
  return isBehind
}

/** Returns the window of next blocks: the one fetched ahead, or one fetched now. */
async function takeWindow(follower: Follower, held: Position, latest: Block): Promise<Window> {
  const { ahead } = follower
  follower.ahead = null
  if (ahead?.after !== held.hash) return fetchWindow(follower, held, latest)
  const window = await ahead.window
  // A window fetched ahead may belong to a branch that the node has left; an empty one is fetched again.
  return window.headers.length > 0 ? window : fetchWindow(follower, held, latest)
}

/** Fetches the blocks after a block. Does not throw: a failure is in `error`. */
async function fetchWindow(follower: Follower, after: { number: number; hash: Hex }, latest: Block): Promise<Window> {
  const nothing = { headers: [], blocks: [], finality: null }
  try {
    const headers = await findHeaders(follower, after, latest)
    if (headers.length === 0) return { ...nothing, error: null }
    const [finality, fetched] = await Promise.all([
      askFinality(follower, latest).catch((error: unknown) =>
        error instanceof RpcUnavailable ? null : Promise.reject(error),
      ),
      fetchBlocks(follower, headers),
    ])
    return { headers, finality, ...fetched }
  } catch (error) {
    return { ...nothing, headers: [], error }
  }
}

/** Returns the next headers that link to the cursor and to each other; [] if the first header does not link. */
async function findHeaders({ chain }: Follower, held: { number: number; hash: Hex }, latest: Block): Promise<Block[]> {
  const count = Math.min(WINDOW, latest.number - held.number)
  const numbers = Array.from({ length: count }, (_, index) => held.number + 1 + index)
  const headers =
    numbers.at(-1) === latest.number
      ? [...(await fetchHeaders(chain.rpc, numbers.slice(0, -1))), latest]
      : await fetchHeaders(chain.rpc, numbers)
  const linked: Block[] = []
  for (const header of headers) {
    // A node has every block below its newest one. If not, several nodes are behind this address: try again.
    if (header === null) throw new InvalidResponse('the node lacks a block below its newest')
    const parent = linked.at(-1)?.hash ?? held.hash
    const isFirstOfAll = header.number === 0
    if (header.parentHash !== parent && !isFirstOfAll) break
    linked.push(header)
  }
  return linked
}

/**
 * Fetches whole blocks for linked headers, several at a time. Returns the blocks before the first failure, and that
 * failure.
 */
async function fetchBlocks(
  { chain, receipts, newest }: Follower,
  headers: Block[],
): Promise<{ blocks: FollowedBlock[]; error: unknown }> {
  const blocks: FollowedBlock[] = []
  for (let start = 0; start < headers.length; start += SIDE_BY_SIDE) {
    const some = headers.slice(start, start + SIDE_BY_SIDE)
    const results = await Promise.allSettled(
      some.map(({ hash }) => fetchBlock(chain.rpc, hash, receipts, newest?.hash === hash ? newest.answer : null)),
    )
    for (const [index, result] of results.entries()) {
      if (result.status === 'rejected') return { blocks, error: result.reason }
      if (result.value.number !== some[index]!.number || result.value.parentHash !== some[index]!.parentHash) {
        return { blocks, error: new InvalidResponse('a block differs from its header') }
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
    const from = app.clock.ticks()
    // Other replicas may already report these blocks between the commit and its response. `isFollowed` must be false
    // then.
    chain.head.setFollowed(0)
    follower.held = await applyBlocks(app, chain, listeners, { held: follower.held!, blocks: group, finality })
    follower.renewedAt = from
    const last = group.at(-1)!
    follower.trail?.follow(group)
    for (const block of group) chain.head.pace.note(block)
    showLag(follower, { transactions: last.number })
    // While the follower is far behind, the head is the node's newest block. Do not move it back to the stored blocks.
    if (last.number >= (chain.head.current()?.number ?? -1)) showHead(follower, last)
    tellListeners(follower)
  }
}

/**
 * Moves back to the newest block that the node also has, because the node's chain no longer includes our newest block.
 */
async function reorganise(follower: Follower, held: Position, latest: Block): Promise<boolean> {
  const { app, chain, listeners } = follower
  const found = await untilStopped(follower, findAncestor(app, chain, Math.min(held.number, latest.number)))
  if (found?.number === held.number) throw new InvalidResponse('the node contradicts itself about its chain')
  if (!isDevelopment(chain) && (found === null || found.number < held.finalized)) {
    await halt(follower, held, `The node's chain diverges from ours below the finalized block ${held.finalized}.`)
    return false
  }
  if (found === null && latest.number > MAX_FROM_GENESIS) {
    await halt(follower, held, 'The node’s chain diverges from ours below all stored blocks.')
    return false
  }
  if (found === null && !(await untilStopped(follower, isSameGenesis(follower)))) {
    await halt(follower, held, 'The node serves another chain: its genesis block is not the one stored.')
    return false
  }
  const ancestor = found ?? BEFORE_GENESIS
  app.telemetry.log.warn('chain_reorganized', { chainId: chain.chainId, from: held.number, to: ancestor.number })
  const from = app.clock.ticks()
  chain.head.setFollowed(0)
  follower.held = await retractBlocks(app, chain, listeners, { held, ancestor })
  follower.renewedAt = from
  follower.trail?.wake()
  showLag(follower, { transactions: ancestor.number })
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

/** Halts the follower in every process until the chains agree again, because it does not guess below finality. */
async function halt(follower: Follower, held: Position, reason: string): Promise<void> {
  const { app, chain } = follower
  await setHalted(app.db, chain.chainId, held, reason)
  follower.held = { ...held, halted: reason }
  app.telemetry.log.error('follower_halted', {
    chainId: chain.chainId,
    block: held.number,
    finalized: held.finalized,
    reason,
    wayOut: `chatelaine network rewind ${chain.name}`,
  })
}

/** Resumes a halted follower if the node has our block again: the node was wrong, and the stored chain is right. */
async function stayHalted(follower: Follower, held: Position): Promise<boolean> {
  const { app, chain } = follower
  const canonical = await untilStopped(follower, fetchHeader(chain.rpc, held.number))
  if (canonical?.hash !== held.hash) return false
  await setHalted(app.db, chain.chainId, held, null)
  follower.held = { ...held, halted: null }
  app.telemetry.log.warn('follower_resumed', {
    chainId: chain.chainId,
    block: held.number,
  })
  return true
}

function tellListeners({ app, chain, listeners }: Follower): void {
  for (const listener of listeners) {
    try {
      listener.afterCommit?.(app, chain)
    } catch (error) {
      app.telemetry.log.error('block_listener_failed', { chainId: chain.chainId }, error)
    }
  }
}
