import { exactQuantityIn } from '../../digits.ts'
import { quantityOf, type Hex } from '../../ids.ts'
import type { Clock } from '../../clock.ts'
import { isMissingMethod } from '../../chain/rpc/errors.ts'
import { RpcError } from '../../chain/rpc/failures.ts'
import { askIdentity } from '../../chain/rpc/identity.ts'
import { askNeeds, type Needs } from '../../chain/rpc/needs.ts'
import { openNode } from '../../chain/rpc/node.ts'

/** Abilities of a node, for the checks of its network. */
export type NodeReport = Needs & {
  chainId: number
  genesisHash: Hex
  /** time of its newest block, milliseconds since 1970 */
  newestAt: number
  /** mean time between two blocks, milliseconds; null if unknown */
  blockMs: number | null
  hasFinalized: boolean
  hasTraces: boolean
  hasFirstBlock: boolean
}

type NodeQuestions = {
  clock: Clock
  wantsFinalized: boolean
  wantsTraces: boolean
  /** first block of the backfill; null: there is no backfill */
  firstBlock: number | null
}

const TIMEOUT_MS = 8_000
/** Blocks over which the block time is measured. */
const SPAN = 100

/** Asks a node for its chain, as a start does, and for optional methods. @returns null if it does not respond */
export async function examineNode(
  url: string,
  { clock, wantsFinalized, wantsTraces, firstBlock }: NodeQuestions,
): Promise<NodeReport | null> {
  const node = openNode(url, clock)
  const ask = async (method: string, ...params: unknown[]): Promise<unknown> => {
    const [answer] = await node.ask([{ method, params }], { timeoutMs: TIMEOUT_MS })
    return answer
  }
  try {
    const [identity, needs] = [await askIdentity(node.ask, TIMEOUT_MS), await askNeeds(node.ask, TIMEOUT_MS)]
    const newest = readBlock(await ask('eth_getBlockByNumber', 'latest', false))
    if (newest === null) return null
    const { number } = newest
    const span = Math.min(SPAN, number - 1)
    const earlier = span < 1 ? null : readBlock(await ask('eth_getBlockByNumber', quantityOf(number - span), false))
    return {
      ...identity,
      ...needs,
      newestAt: newest.at,
      blockMs: earlier === null ? null : (newest.at - earlier.at) / span,
      hasFinalized: !wantsFinalized || readBlock(await ask('eth_getBlockByNumber', 'finalized', false)) !== null,
      hasTraces: !wantsTraces || number === 0 || (await traces(ask, newest)),
      hasFirstBlock: firstBlock === null || firstBlock > number || (await hasLogsOf(ask, firstBlock)),
    }
  } catch {
    return null
  } finally {
    node.close()
  }
}

type AskOne = (method: string, ...params: unknown[]) => Promise<unknown>

/** Only a clear refusal counts, as for the required methods. */
async function traces(ask: AskOne, { number, hash }: { number: number; hash: string }): Promise<boolean> {
  const isMissing = (answer: unknown): boolean =>
    answer instanceof RpcError && (isMissingMethod(answer) || answer.rpcCode === -32004)
  return (
    !isMissing(await ask('trace_block', quantityOf(number))) ||
    !isMissing(await ask('debug_traceBlockByHash', hash, { tracer: 'callTracer' }))
  )
}

/** Returns whether the node has a block and its logs: pruned nodes lack old receipts. */
async function hasLogsOf(ask: AskOne, number: number): Promise<boolean> {
  const at = quantityOf(number)
  if (readBlock(await ask('eth_getBlockByNumber', at, false)) === null) return false
  return Array.isArray(await ask('eth_getLogs', { fromBlock: at, toBlock: at }))
}

function readBlock(answer: unknown): { number: number; hash: string; at: number } | null {
  if (typeof answer !== 'object' || answer === null || answer instanceof Error) return null
  const { number, hash, timestamp } = answer as Record<string, unknown>
  const [height, seconds] = [exactQuantityIn(number), exactQuantityIn(timestamp)]
  return height === null || seconds === null || typeof hash !== 'string' ? null : { number: height, hash, at: seconds * 1_000 } // prettier-ignore
}
