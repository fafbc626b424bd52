import type { App } from '../app.ts'
import { BoundedMap } from '../bounded-map.ts'
import type { Chain } from '../chain/network.ts'
import { isHurried } from '../chain/rpc/errors.ts'
import { InvalidResponse, RpcTooLarge } from '../chain/rpc/failures.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import type { BlockNative, Gathered, KeptBlock, SentNative } from '../follower/block.ts'
import { checkNative, readNativeOf } from '../follower/native.ts'
import { fetchBlock } from '../follower/fetch.ts'
import { lacksMethod, sourceOf } from '../follower/receipt-source.ts'
import type { Hex } from '../ids.ts'
import { slot } from '../state.ts'
import { insertTransfers } from './columns.ts'
import { findNative, type FoundNative } from './native.ts'
import { noteNative, type NativeStretch } from './native-coverage.ts'
import { logsNative, type InternalTransfer } from './native-logs.ts'
import { nativeRows } from './native-rows.ts'
import { fetchInternalFlat } from './native-flat-traces.ts'
import { fetchInternal, NotTracedYet } from './native-traces.ts'
import { findAccounts, type TransferRow } from './rows.ts'

/** number of blocks processed at the same time */
const SIDE_BY_SIDE = 4
/** Maximum tries for the traces of a block. Then it is stored without them, because token transfers wait for it. */
const MAX_TRACE_TRIES = 3
/** Maximum tries if traces time out, because each try occupies the node. */
const MAX_SLOW_TRACES = 2
/** Maximum tries if a node lacks the block, as one of several behind an address may lag by a block. They take 5 s. */
const MAX_LATE_TRACES = 8
/**
 * Maximum tries if a node rejects requests temporarily; also for all native currency data of a block. They take 30 s.
 */
const MAX_TRIES = 20
/** number of blocks whose failures are remembered */
const MAX_FAILING = 256
/** Maximum tries after the previous block was abandoned, because the network may deviate in all of its blocks. */
const TRIES_AFTER_ABANDONED = 1
/** Maximum number of earlier blocks that are checked, once per process, for logs of native currency. */
const MAX_BEFORE = 8
/** Networks whose consensus-layer withdrawals are in another currency: Gnosis and its test network pay a token. */
const PAID_IN_TOKENS: readonly number[] = [100, 10_200]
/** gas of a transaction that runs no code */
const PLAIN_GAS = 21_000

/**
 * Methods to fetch traces, in order of preference. Providers charge the same for both. But anvil, the embedded chain,
 * traces a block of n transactions n times for the second method.
 */
const WAYS = [fetchInternalFlat, fetchInternal]

/**
 * Knowledge about a network's nodes: how they return traces, whether blocks log native currency, and which
 * blocks failed.
 */
const learned = slot('how native currency is read', (chain: Chain) => ({
  source: sourceOf(chain),
  ways: WAYS,
  /** null: no block since the start has shown whether the network logs native currency */
  hasLogs: null as boolean | null,
  untraced: failing(),
  unread: failing(),
}))

/** Failed tries per block, and whether the last block was abandoned. */
type Failing = { tries: BoundedMap<Hex, number>; wasAbandoned: boolean }

const failing = (): Failing => ({ tries: new BoundedMap(MAX_FAILING), wasAbandoned: false })

/** Counts a failure. @returns whether to store the block without the missing data */
function isAbandoned(of: Failing, hash: Hex, { most, isHopeless }: { most: number; isHopeless: boolean }): boolean {
  // A block whose traces can never be fetched is no evidence about the next block.
  if (isHopeless) return true
  const tries = (of.tries.get(hash) ?? 0) + 1
  of.tries.set(hash, tries)
  of.wasAbandoned ||= tries >= most
  return tries >= (of.wasAbandoned ? TRIES_AFTER_ABANDONED : most)
}

type NativeOfBlock = {
  block: KeptBlock
  native: WholeNative
  /** the whole block as the node sent it; null if it was not requested */
  answer: unknown
  internal: InternalTransfer[][] | null
  hasInternal: boolean
  found: FoundNative[]
}
type WholeNative = BlockNative & { sent: SentNative[] }

/**
 * Reads the native currency transfers of blocks, as far as NATIVE_HISTORY requires. Returns the leading blocks that
 * succeeded. If all had to succeed together, a node with occasional failures could block many blocks permanently.
 * @returns count: leading blocks; store: stores them, in the transaction of the blocks' transfers
 * @throws RpcError | RpcUnavailable | InvalidResponse  if the first block fails; the blocks are tried again
 */
export async function gatherNative(app: App, chain: Chain, blocks: readonly KeptBlock[]): Promise<Gathered> {
  if (app.config.NATIVE_HISTORY === 'off') return { count: blocks.length, store: async () => {} }
  const read = await goodStart(blocks, (block) => orNot(app, chain, block, readNative(app, chain, block)))
  const accounts = await findAccounts(app.db, read.flatMap(partiesOf))
  const kept = await goodStart(read, async (one) => one && orNot(app, chain, one.block, keepOurs(chain, one, accounts)))
  const rows = kept.flatMap((of) => of ?? [])
  // The recorded range begins after the last block that was abandoned.
  const start = kept.lastIndexOf(null) + 1
  const told = read.slice(start, kept.length) as NativeOfBlock[]
  const stretch = told.length === 0 ? null : stretchOf(app, chain, told)
  return {
    count: kept.length,
    store: async (db) => {
      if (rows.length > 0) await insertTransfers(db, chain, rows)
      if (stretch !== null) await noteNative(db, chain, stretch)
    },
  }
}

/** Returns the results up to the first failure. @throws the error of the first item */
async function goodStart<T, R>(all: readonly T[], ask: (one: T) => Promise<R>): Promise<R[]> {
  const good: R[] = []
  while (good.length < all.length) {
    const results = await Promise.allSettled(all.slice(good.length, good.length + SIDE_BY_SIDE).map(ask))
    for (const result of results) {
      if (result.status === 'fulfilled') good.push(result.value)
      else if (good.length === 0) throw result.reason
      else return good
    }
  }
  return good
}

function stretchOf(app: App, chain: Chain, read: NativeOfBlock[]): NativeStretch {
  const { ways, hasLogs } = learned.of(chain)
  const isTold = hasLogs === true || (ways.length > 0 && app.config.NATIVE_HISTORY === 'traces')
  const lastGap = read.findLast(({ hasInternal }) => !hasInternal)?.block.number
  const [first, last] = [read[0]!.block, read.at(-1)!.block]
  return { first, last, internalFrom: isTold ? (lastGap === undefined ? first.number : lastGap + 1) : null }
}

/**
 * Returns null for a block whose data remains unusable after all tries, because token transfers wait for it. Waits for
 * an unavailable node.
 * @throws the error, until the tries are used up
 */
async function orNot<T>(app: App, chain: Chain, block: KeptBlock, asked: Promise<T>): Promise<T | null> {
  const { unread } = learned.of(chain)
  try {
    const answer = await asked
    unread.wasAbandoned = false
    return answer
  } catch (error) {
    // A response that is too long will be too long at the next try.
    const isTooLong = error instanceof RpcTooLarge
    const isSaid = isTooLong || error instanceof InvalidResponse || (error instanceof RpcError && !isHurried(error))
    if (!isSaid) throw error
    if (!isAbandoned(unread, block.hash, { most: MAX_TRIES, isHopeless: isTooLong })) throw error
    app.telemetry.log.warn('native_transfers_missing', { chainId: chain.chainId, block: block.number }, error)
    return null
  }
}

/**
 * Returns all addresses that may take part. Includes senders of transactions whose outcome is unknown yet, and the
 * block maker, whatever the receipts show about tips.
 */
function partiesOf(one: NativeOfBlock | null): { from: Hex; to: Hex }[] {
  if (one === null) return []
  const { miner, sent } = one.native
  const makers = miner === null ? [] : [{ from: miner, to: miner }]
  return [...one.found, ...sent.map(({ from, to }) => ({ from, to: to ?? from })), ...makers]
}

async function readNative(app: App, chain: Chain, block: KeptBlock): Promise<NativeOfBlock> {
  const memory = learned.of(chain)
  const { native, answer } = await wholeOf(chain, block)
  memory.hasLogs = logsNative(block, native.sent) ?? memory.hasLogs
  const isQuiet = !runsCode(block)
  const isAsked =
    app.config.NATIVE_HISTORY === 'traces' && memory.ways.length > 0 && memory.hasLogs !== true && !isQuiet
  const internal = isAsked ? await tracesOf(app, chain, { block, answer }) : null
  if (internal === null && !isQuiet) memory.hasLogs ??= await loggedBefore(chain, block)
  const isTold = memory.hasLogs === true || isQuiet
  const found = findNative(block, native, { receipts: block.receipts, internal })
  return { block, native, answer, internal, hasInternal: isTold || internal !== null, found }
}

/** Returns whether the network logs native currency, judged by earlier blocks; false if these do not show it. */
async function loggedBefore(chain: Chain, { parentHash, number }: KeptBlock): Promise<boolean> {
  try {
    for (let hash = parentHash, left = Math.min(number, MAX_BEFORE); left > 0; left--) {
      const block = await fetchBlock(chain.rpc, hash, learned.of(chain).source)
      const said = logsNative(block, (await wholeOf(chain, block)).native.sent)
      if (said !== null) return said
      hash = block.parentHash
    }
  } catch (error) {
    // Stop if a node may have dropped the blocks. If it is unavailable, throw, so that the blocks are tried again.
    if (!(error instanceof InvalidResponse || error instanceof RpcTooLarge || (error instanceof RpcError && !isHurried(error)))) throw error // prettier-ignore
  }
  return false
}

/**
 * Returns the native currency data of a block. Requests it only if the block came with transaction hashes instead of
 * transactions.
 */
async function wholeOf(chain: Chain, block: KeptBlock): Promise<{ native: WholeNative; answer: unknown }> {
  const known = block.native
  const sent = known === undefined ? null : block.receipts.length === 0 ? [] : known.sent
  const { native, answer } =
    known !== undefined && sent !== null
      ? { native: { ...known, sent }, answer: null }
      : await fetchWholeNative(chain, block)
  return { native: PAID_IN_TOKENS.includes(chain.chainId) ? { ...native, withdrawals: [] } : native, answer }
}

/** Returns whether a transaction of the block ran code: without code there are no internal transfers. */
const runsCode = ({ receipts }: KeptBlock): boolean =>
  receipts.some((receipt) => receipt.status === null || receipt.gasUsed !== PLAIN_GAS)

async function fetchWholeNative(chain: Chain, block: KeptBlock): Promise<{ native: WholeNative; answer: unknown }> {
  const answer = await chain.rpc.call('eth_getBlockByHash', [block.hash, true])
  if (answer === null) throw new InvalidResponse('the node does not know the block')
  const native = readNativeOf(answer)
  checkSent(block, (answer as { hash?: unknown }).hash, native.sent)
  return { native: { ...native, sent: native.sent ?? [] }, answer }
}

/** Checks that a block is the block of the receipts. @throws InvalidResponse */
function checkSent({ hash, receipts }: KeptBlock, said: unknown, sent: SentNative[] | null): void {
  const isSame =
    String(said).toLowerCase() === hash &&
    sent?.length === receipts.length &&
    receipts.every(({ transactionHash, from }, index) => {
      const one = sent[index]!
      return one.hash === transactionHash && one.from === from
    })
  if (!isSame) throw new InvalidResponse('the node contradicts itself about a block')
}

/**
 * Returns the internal transfers by traces; null if the nodes do not trace, or not this block after all tries. Requests
 * traces right after the block itself, so that an unavailable node is not mistaken for one whose traces fail.
 * @param answer  the node's current response; null if the block was already received whole, so that it must be
 *   requested first
 */
async function tracesOf(
  app: App,
  chain: Chain,
  { block, answer }: { block: KeptBlock; answer: unknown },
): Promise<InternalTransfer[][] | null> {
  const memory = learned.of(chain)
  const told = answer ?? (await chain.rpc.call('eth_getBlockByHash', [block.hash, false]))
  if (told === null) throw new InvalidResponse('the node does not know the block')
  let error: RpcError | RpcUnavailable | InvalidResponse | null = null
  for (const way of memory.ways) {
    try {
      const internal = await way(chain.rpc, block)
      memory.untraced.wasAbandoned = false
      return internal
    } catch (thrown) {
      if (!(thrown instanceof RpcError || thrown instanceof RpcUnavailable || thrown instanceof InvalidResponse))
        throw thrown
      if (lacksMethod(thrown)) {
        // Blocks are processed concurrently, so another block may have removed the method already.
        const isLast = memory.ways.length === 1 && memory.ways[0] === way
        memory.ways = memory.ways.filter((one) => one !== way)
        if (isLast) app.telemetry.log.warn('internal_transfers_unknown', { chainId: chain.chainId, reason: thrown.message }) // prettier-ignore
        continue
      }
      error = thrown
    }
    // Try the next method if traces contradict the block or are too long: the other format has fewer repetitions.
    if (!(error instanceof InvalidResponse || error instanceof RpcTooLarge)) break
  }
  if (error === null) return null
  if (!isAbandoned(memory.untraced, block.hash, patienceWith(error))) throw error
  app.telemetry.log.warn('internal_transfers_missing', { chainId: chain.chainId, block: block.number }, error)
  return null
}

/** Returns the maximum number of tries for this kind of failure. */
function patienceWith(error: RpcError | RpcUnavailable | InvalidResponse): { most: number; isHopeless: boolean } {
  // Traces that are too long will be too long at the next try.
  if (error instanceof RpcTooLarge) return { most: 1, isHopeless: true }
  if (error instanceof RpcUnavailable && error.timedOut) return { most: MAX_SLOW_TRACES, isHopeless: false }
  if (error instanceof RpcError && isHurried(error)) return { most: MAX_TRIES, isHopeless: false }
  const isLate = error instanceof NotTracedYet || (error instanceof RpcError && NO_BLOCK.test(error.message))
  return { most: isLate ? MAX_LATE_TRACES : MAX_TRACE_TRIES, isHopeless: false }
}

/**
 * Messages of nodes: go-ethereum "block 0x… not found", Nethermind "Cannot find block", Erigon "could not find block".
 */
const NO_BLOCK = /(header|block)\b.*not found|(cannot|not) find.*(header|block)|unknown block/i

/**
 * Returns the rows of our accounts in a block. Values, senders and withdrawals are checked against the block hash.
 * Outcome and fees of our transactions are verified by the mode BLOCK_VERIFICATION; in mode `hash` everything was
 * verified when the block was received. Traces are not verified.
 * @throws RpcError | RpcUnavailable | InvalidResponse
 */
async function keepOurs(
  chain: Chain,
  { block, native, answer, internal, found }: NativeOfBlock,
  accounts: ReadonlyMap<Hex, string>,
): Promise<TransferRow[]> {
  const isOurs = (address: Hex | null) => address !== null && accounts.has(address)
  const ours = found.filter(({ from, to }) => isOurs(from) || isOurs(to))
  const touching = new Set(ours.map(({ hash }) => hash))
  const needsAll = isOurs(native.miner)
  for (const { hash, from, to } of native.sent) if (needsAll || isOurs(from) || isOurs(to)) touching.add(hash)
  if (touching.size === 0 || chain.verification !== 'bloom' || native.sent.length === 0)
    return nativeRows(block, ours, accounts)
  const whole = answer ?? (await chain.rpc.call('eth_getBlockByHash', [block.hash, true]))
  checkNative(whole, block.hash, { isOurs })
  const again = await fetchBlock(chain.rpc, block.hash, learned.of(chain).source)
  const { receipts } = await again.prove({ signed: new Map(), claimed: [...touching] })
  const known = block.receipts.map((receipt) => receipts.get(receipt.transactionHash) ?? receipt)
  return nativeRows(block, findNative(block, native, { receipts: known, internal }), accounts)
}
