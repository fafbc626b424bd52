import { InvalidResponse } from '../chain/rpc/failures.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'
import { storedBlockHash } from '../store/block-hash.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { takeTransfers } from './apply.ts'
import type { KeptBlock, Trailing } from './block.ts'
import { Fenced } from './cursor.ts'
import { fetchBlock, fetchHeaders } from './fetch.ts'
import { untilStopped, type Follower, type Trail } from './follower.ts'
import { moveHistory, readHistory, takeHistory, type HistoryCursor } from './history-cursor.ts'
import { showLag } from './lag.ts'
import { WaitingBlocks } from './waiting-blocks.ts'

/** blocks per step: taken from memory, or fetched */
const MAX_LOOK = 32
const SIDE_BY_SIDE = 8
/** Interval of checks without a wake-up: nobody announces blocks that the previous process left unindexed. */
const LOOK_EVERY_MS = 1_000
const MAX_BACKOFF_MS = 2_000
/** Longest wait for free memory while catching up, because the lease has to be renewed. */
const MAX_WAIT_MS = 1_000

type Run = {
  follower: Follower
  listener: Trailing
  waiting: WaitingBlocks
  held: HistoryCursor | null
  /** consecutive failures */
  failures: number
  wake: () => void
  /** whether something has arrived since the last step */
  isAwake: boolean
  /** callers that wait for free memory */
  queue: (() => void)[]
}

/** Passes each stored block to a listener, in order, at the history's cursor, until the follower stops. */
export function startTrail(follower: Follower, listener: Trailing): Trail {
  const run: Run = {
    follower,
    listener,
    waiting: new WaitingBlocks(),
    held: null,
    failures: 0,
    wake: () => {},
    isAwake: false,
    queue: [],
  }
  const wake = () => {
    run.isAwake = true
    run.wake()
  }
  return {
    follow: (blocks) => {
      for (const block of blocks) run.waiting.add(block)
      wake()
    },
    wake,
    untilRoom: async () => {
      if (hasRoom(run)) return
      const { promise, resolve } = Promise.withResolvers<void>()
      run.queue.push(resolve)
      const timer = run.follower.app.clock.after(MAX_WAIT_MS, resolve)
      await promise
      timer.cancel()
    },
    done: runTrail(run),
  }
}

/** Returns whether the follower may continue. It does not wait for a history that fails. */
const hasRoom = ({ waiting, failures, held, follower }: Run): boolean =>
  waiting.isHalfEmpty || failures > 0 || held === null || follower.stopping.aborted

async function runTrail(run: Run): Promise<void> {
  const { follower } = run
  const { stopping } = follower
  while (!stopping.aborted) {
    run.isAwake = false
    let waitMs: number
    try {
      waitMs = (await step(run)) ? 0 : LOOK_EVERY_MS
      recovered(run)
    } catch (error) {
      if (stopping.aborted) break
      waitMs = Math.min(MAX_BACKOFF_MS, 50 * 2 ** Math.min(run.failures, 10))
      recover(run, error)
    }
    if (hasRoom(run)) release(run)
    if (waitMs > 0 && !(run.isAwake && run.failures === 0)) await pause(waitMs, run)
  }
  release(run)
}

function release(run: Run): void {
  for (const resolve of run.queue.splice(0)) resolve()
}

function recovered(run: Run): void {
  const { app, chain } = run.follower
  if (run.failures > 0) app.telemetry.log.info('history_recovered', { chainId: chain.chainId, failures: run.failures })
  run.failures = 0
}

/** Discards the cursor in memory after a failure, unless the node failed: then the cursor is still right. */
function recover(run: Run, error: unknown): void {
  const { app, chain } = run.follower
  const failures = run.failures++
  const isNodes = error instanceof RpcError || error instanceof RpcUnavailable
  if (!isNodes) run.held = null
  // A reorganisation in between is common.
  const isExpected = isNodes || error instanceof Fenced || error instanceof NotFollowed
  const level = isExpected ? (failures === 3 || failures % 60 === 59 ? 'warn' : 'debug') : failures % 60 === 0 ? 'error' : 'debug' // prettier-ignore
  app.telemetry.log[level]('history_retrying', { chainId: chain.chainId, failures }, error)
}

/**
 * Indexes the next blocks.
 * @returns true if another step should follow immediately
 */
async function step(run: Run): Promise<boolean> {
  const { follower, waiting } = run
  const { app, chain } = follower
  if (follower.held === null) {
    run.held = null
    return false
  }
  const { chainId } = chain
  // Read the cursor again: a reorganisation may have moved it.
  run.held = run.held === null ? null : await readHistory(app.db, chainId, run.held)
  run.held ??= await takeHistory(app.db, chainId, follower.held)
  if (run.held === null) return false
  waiting.dropThrough(run.held.number)
  showLag(follower, { history: run.held.number })
  const blocks = await nextBlocks(run, run.held)
  for (let rest = blocks; rest.length > 0 && !follower.stopping.aborted;) {
    const stored = await store(run, run.held, takeTransfers(rest))
    rest = rest.slice(stored.number - run.held.number)
    run.held = stored
    recovered(run)
    waiting.dropThrough(run.held.number)
    if (hasRoom(run)) release(run)
    showLag(follower, { history: run.held.number })
    try {
      run.listener.afterCommit?.(app, chain)
    } catch (error) {
      app.telemetry.log.error('block_listener_failed', { chainId }, error)
    }
  }
  return blocks.length > 0
}

/** Returns the whole blocks after the history's cursor, from memory, or fetched again by their hashes. */
async function nextBlocks(run: Run, held: HistoryCursor): Promise<KeptBlock[]> {
  const { follower, waiting } = run
  const { app, chain } = follower
  const rows = await app.db
    .selectFrom('blocks')
    .select(['number', 'hash', 'parent_hash'])
    .where('chain_id', '=', chain.chainId)
    .where('number', '>', held.number)
    .orderBy('number')
    .limit(MAX_LOOK)
    .execute()
  const first = rows[0]
  if (first === undefined) return []
  const stored = rows.map(({ number, hash }) => ({ number, hash: toHex(hash) }))
  if (first.number > held.number + 1) return fetchAll(run, await pastHeaders(run, held, first.number))
  if (first.number > 0 && toHex(first.parent_hash) !== held.hash) throw new NotFollowed()
  const kept = stored.map(({ number, hash }) => waiting.get(number, hash))
  const missing = kept.indexOf(null)
  if (missing !== 0) return (missing < 0 ? kept : kept.slice(0, missing)) as KeptBlock[]
  // `fetchAll` takes blocks that are in memory from there.
  return fetchAll(run, stored.slice(0, SIDE_BY_SIDE))
}

/**
 * Fetches whole blocks at the same time, and returns those before the first failure.
 * @throws the error of the first block
 */
async function fetchAll({ follower, waiting }: Run, wanted: { number: number; hash: Hex }[]): Promise<KeptBlock[]> {
  const { chain, receipts } = follower
  const asked = wanted.map(
    async ({ number, hash }) => waiting.get(number, hash) ?? (await fetchBlock(chain.rpc, hash, receipts)),
  )
  const blocks: KeptBlock[] = []
  for (const [index, result] of (await untilStopped(follower, Promise.allSettled(asked))).entries()) {
    if (result.status === 'rejected') {
      if (index === 0) throw result.reason
      break
    }
    if (result.value.number !== wanted[index]!.number) throw new InvalidResponse('a block differs from its header')
    blocks.push(result.value)
  }
  return blocks
}

/**
 * Fetches headers of final blocks that are no longer stored, by number. Each has to be the parent of the next, up to
 * the stored ones.
 */
async function pastHeaders(
  { follower }: Run,
  held: HistoryCursor,
  lowest: number,
): Promise<{ number: number; hash: Hex }[]> {
  const count = Math.min(SIDE_BY_SIDE, lowest - held.number - 1)
  const numbers = Array.from({ length: count }, (_, index) => held.number + 1 + index)
  const headers = await untilStopped(follower, fetchHeaders(follower.chain.rpc, numbers))
  let parent = held.hash
  for (const header of headers) {
    const isLinked = header !== null && (header.number === 0 || header.parentHash === parent)
    if (!isLinked) throw new InvalidResponse('a final block does not follow the one before it')
    parent = header.hash
  }
  return headers as { number: number; hash: Hex }[]
}

/**
 * Stores rows and the cursor in one transaction, for all blocks or for the blocks before the first failure.
 * @throws Fenced | NotFollowed | an error of the listener
 */
async function store({ follower, listener }: Run, held: HistoryCursor, group: KeptBlock[]): Promise<HistoryCursor> {
  const { app, chain } = follower
  const gathered = await listener.gather?.(app, chain, group)
  const blocks = group.slice(0, gathered?.count)
  const { number, hash } = blocks.at(-1)!
  await app.db.transaction().execute(async (db) => {
    await moveHistory(db, chain.chainId, held, { number, hash })
    await assertFollowed(db, chain.chainId, { number, hash })
    await listener.onBlocks(db, app, chain, blocks)
    await gathered?.store(db)
    await listener.onStored?.(db, chain, held.number)
  })
  return { ...held, number, hash }
}

/** Thrown if the block belongs to another branch now. The stored blocks are then read again. */
class NotFollowed extends Error {
  constructor() {
    super('the block is not followed any more')
    this.name = 'NotFollowed'
  }
}

/**
 * Checks that a block is still followed. A reorganisation locks the history's row before it deletes blocks. So it also
 * retracts rows that this transaction stores.
 */
async function assertFollowed(db: Db, chainId: number, { number, hash }: { number: number; hash: Hex }): Promise<void> {
  const stored = await storedBlockHash(db, chainId, number)
  if (stored === hash) return
  if (stored !== null) throw new NotFollowed()
  // A block below all stored blocks is final, and linked to the history's last block.
  const lowest = await db
    .selectFrom('blocks')
    .select(({ fn }) => fn.min('number').as('number'))
    .where('chain_id', '=', chainId)
    .executeTakeFirst()
  if (lowest?.number === null || lowest?.number === undefined || lowest.number <= number) throw new NotFollowed()
}

async function pause(ms: number, run: Run): Promise<void> {
  const { stopping } = run.follower
  if (stopping.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const wake = () => resolve()
  const timer = run.follower.app.clock.after(ms, wake)
  stopping.addEventListener('abort', wake, { once: true })
  // After a failure, the next attempt does not follow the pace of blocks.
  if (run.failures === 0) run.wake = wake
  await promise
  run.wake = () => {}
  timer.cancel()
  stopping.removeEventListener('abort', wake)
}
