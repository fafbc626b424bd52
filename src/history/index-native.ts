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

/** blocks that are asked about side by side */
const SIDE_BY_SIDE = 4
/** How often the traces of a block are asked for before it is stored without: transfers of tokens wait for it. */
const MAX_TRACE_TRIES = 3
/** The same of traces that take too long: a node works at each of them, and answers nobody else meanwhile. */
const MAX_SLOW_TRACES = 2
/** The same where a node does not have the block yet: one of several behind an address is a block late. Five seconds. */
const MAX_LATE_TRACES = 8
/** The same where a node refuses for a while, and of all that a block says of native currency: half a minute. */
const MAX_TRIES = 20
/** blocks of which it is remembered how often that failed */
const MAX_FAILING = 256
/** How often what was abandoned for the block before is asked for: a network may have a way of its own with all of its blocks. */
const TRIES_AFTER_ABANDONED = 1
/** Blocks that are looked back at, once in a process, for whether the network logs native currency. */
const MAX_BEFORE = 8
/** Networks on which withdrawals of the consensus layer are of another coin: Gnosis and its test network pay a token. */
const PAID_IN_TOKENS: readonly number[] = [100, 10_200]
/** gas of a transaction that runs no code */
const PLAIN_GAS = 21_000

/**
 * Ways to ask for traces, the first that the nodes have: the same to a provider, but anvil, which the embedded chain is, traces a block of n transactions
 * n times for the second.
 */
const WAYS = [fetchInternalFlat, fetchInternal]

/** What was learned of the nodes of a network: how they give traces, whether its blocks log native currency, and whose traces failed. */
const learned = slot('how native currency is read', (chain: Chain) => ({
  source: sourceOf(chain),
  ways: WAYS,
  /** null: no block has said it since the start */
  hasLogs: null as boolean | null,
  untraced: failing(),
  unread: failing(),
}))

/** How often something failed for a block, and whether it was abandoned for the last one. */
type Failing = { tries: BoundedMap<Hex, number>; wasAbandoned: boolean }

const failing = (): Failing => ({ tries: new BoundedMap(MAX_FAILING), wasAbandoned: false })

/** Counts one more failure. @returns whether the block is stored without */
function isAbandoned(of: Failing, hash: Hex, { most, isHopeless }: { most: number; isHopeless: boolean }): boolean {
  // That says nothing of the next block.
  if (isHopeless) return true
  const tries = (of.tries.get(hash) ?? 0) + 1
  of.tries.set(hash, tries)
  of.wasAbandoned ||= tries >= most
  return tries >= (of.wasAbandoned ? TRIES_AFTER_ABANDONED : most)
}

type NativeOfBlock = {
  block: KeptBlock
  native: WholeNative
  /** the whole block as the node sent it, where it was asked for */
  answer: unknown
  internal: InternalTransfer[][] | null
  hasInternal: boolean
  found: FoundNative[]
}
type WholeNative = BlockNative & { sent: SentNative[] }

/**
 * Asks a node for what blocks moved of native currency, as far as NATIVE_HISTORY says. A node that fails now and then would hold up
 * many blocks permanently if all of them had to come right at once.
 * @returns what stores it, in the transaction of the blocks' transfers
 * @throws RpcError | RpcUnavailable | InvalidResponse  then the blocks are tried again
 */
export async function gatherNative(app: App, chain: Chain, blocks: readonly KeptBlock[]): Promise<Gathered> {
  if (app.config.NATIVE_HISTORY === 'off') return { count: blocks.length, store: async () => {} }
  const read = await goodStart(blocks, (block) => orNot(app, chain, block, readNative(app, chain, block)))
  const accounts = await findAccounts(app.db, read.flatMap(partiesOf))
  const kept = await goodStart(read, async (one) => one && orNot(app, chain, one.block, keepOurs(chain, one, accounts)))
  const rows = kept.flatMap((of) => of ?? [])
  // What is told begins behind the last block of which nothing is known.
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

/** What comes right before the first that does not. @throws what went wrong with the first of all */
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
 * Null instead of an answer that does not come right however often it is asked for: transfers of tokens wait for it. A node that is away
 * is waited for.
 * @throws whatever went wrong, until then
 */
async function orNot<T>(app: App, chain: Chain, block: KeptBlock, asked: Promise<T>): Promise<T | null> {
  const { unread } = learned.of(chain)
  try {
    const answer = await asked
    unread.wasAbandoned = false
    return answer
  } catch (error) {
    // One that is too long will be too long again.
    const isTooLong = error instanceof RpcTooLarge
    const isSaid = isTooLong || error instanceof InvalidResponse || (error instanceof RpcError && !isHurried(error))
    if (!isSaid) throw error
    if (!isAbandoned(unread, block.hash, { most: MAX_TRIES, isHopeless: isTooLong })) throw error
    app.telemetry.log.warn('native_transfers_missing', { chainId: chain.chainId, block: block.number }, error)
    return null
  }
}

/** Also of transactions of which it is not known yet how they ended, and who made the block, whatever its receipts say of tips. */
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

/** Whether the network logs native currency, by the blocks before one that says nothing of it; false where they do not say it either. */
async function loggedBefore(chain: Chain, { parentHash, number }: KeptBlock): Promise<boolean> {
  try {
    for (let hash = parentHash, left = Math.min(number, MAX_BEFORE); left > 0; left--) {
      const block = await fetchBlock(chain.rpc, hash, learned.of(chain).source)
      const said = logsNative(block, (await wholeOf(chain, block)).native.sent)
      if (said !== null) return said
      hash = block.parentHash
    }
  } catch (error) {
    // A node may not have them any more; one that is away is waited for.
    if (!(error instanceof InvalidResponse || error instanceof RpcTooLarge || (error instanceof RpcError && !isHurried(error)))) throw error // prettier-ignore
  }
  return false
}

/** What a block says of native currency; asked for only where it came with the hashes of its transactions. */
async function wholeOf(chain: Chain, block: KeptBlock): Promise<{ native: WholeNative; answer: unknown }> {
  const known = block.native
  const sent = known === undefined ? null : block.receipts.length === 0 ? [] : known.sent
  const { native, answer } =
    known !== undefined && sent !== null
      ? { native: { ...known, sent }, answer: null }
      : await fetchWholeNative(chain, block)
  return { native: PAID_IN_TOKENS.includes(chain.chainId) ? { ...native, withdrawals: [] } : native, answer }
}

/** Where no transaction ran code, none moved anything inside. */
const runsCode = ({ receipts }: KeptBlock): boolean =>
  receipts.some((receipt) => receipt.status === null || receipt.gasUsed !== PLAIN_GAS)

async function fetchWholeNative(chain: Chain, block: KeptBlock): Promise<{ native: WholeNative; answer: unknown }> {
  const answer = await chain.rpc.call('eth_getBlockByHash', [block.hash, true])
  if (answer === null) throw new InvalidResponse('the node does not know the block')
  const native = readNativeOf(answer)
  checkSent(block, (answer as { hash?: unknown }).hash, native.sent)
  return { native: { ...native, sent: native.sent ?? [] }, answer }
}

/** @throws InvalidResponse  where it is another block than the one whose receipts are here */
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
 * Internal transfers by traces; null where the nodes have none, or none of this block however often they are asked. Asked when the node has just told of
 * the block: one that is away is not one whose traces fail.
 * @param answer  what the node has just told; null where the block came whole before
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
        // Blocks are asked about side by side.
        const isLast = memory.ways.length === 1 && memory.ways[0] === way
        memory.ways = memory.ways.filter((one) => one !== way)
        if (isLast) app.telemetry.log.warn('internal_transfers_unknown', { chainId: chain.chainId, reason: thrown.message }) // prettier-ignore
        continue
      }
      error = thrown
    }
    // What contradicts the block, or is too long, is asked for in another way, which repeats less.
    if (!(error instanceof InvalidResponse || error instanceof RpcTooLarge)) break
  }
  if (error === null) return null
  if (!isAbandoned(memory.untraced, block.hash, patienceWith(error))) throw error
  app.telemetry.log.warn('internal_transfers_missing', { chainId: chain.chainId, block: block.number }, error)
  return null
}

/** How often traces are asked for that fail like this. */
function patienceWith(error: RpcError | RpcUnavailable | InvalidResponse): { most: number; isHopeless: boolean } {
  // One that is too long will be too long again.
  if (error instanceof RpcTooLarge) return { most: 1, isHopeless: true }
  if (error instanceof RpcUnavailable && error.timedOut) return { most: MAX_SLOW_TRACES, isHopeless: false }
  if (error instanceof RpcError && isHurried(error)) return { most: MAX_TRIES, isHopeless: false }
  const isLate = error instanceof NotTracedYet || (error instanceof RpcError && NO_BLOCK.test(error.message))
  return { most: isLate ? MAX_LATE_TRACES : MAX_TRACE_TRIES, isHopeless: false }
}

/** go-ethereum "block 0x… not found", Nethermind "Cannot find block", Erigon "could not find block" */
const NO_BLOCK = /(header|block)\b.*not found|(cannot|not) find.*(header|block)|unknown block/i

/**
 * The rows of our accounts in a block. Values, senders and withdrawals are checked against its hash, and how transactions of ours ended
 * and what they paid, as far as BLOCK_VERIFICATION checks what is ours; in `hash` all of it was checked when the block was
 * read. Traces are believed.
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
