import { isAbsent, readAddress, readHash, readObject, readQuantity } from '../chain/rpc/answers.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Rpc } from '../chain/rpc/rpc.ts'
import type { KeptBlock } from '../follower/block.ts'
import type { InternalTransfer } from './native-logs.ts'

/** Thrown if the node does not have the block, or its traces, yet. */
export class NotTracedYet extends InvalidResponse {
  constructor() {
    super('the node has no traces of the block yet')
    this.name = 'NotTracedYet'
  }
}

/** maximum frames of one transaction; the EVM's limit, by gas, is about a million */
const MAX_FRAMES = 2_000_000

/**
 * Fetches the internal transfers of each transaction of a block, in order, by `debug_traceBlockByHash`. Excludes failed
 * frames and the calls they made.
 * Source: go-ethereum, eth/tracers/native/call.go
 * @throws RpcError | RpcUnavailable | InvalidResponse  also if the traces do not match the block's transactions
 */
export async function fetchInternal(rpc: Rpc, { hash, receipts }: KeptBlock): Promise<InternalTransfer[][]> {
  const answer = await rpc.call('debug_traceBlockByHash', [hash, { tracer: 'callTracer' }])
  if (answer === null) throw new NotTracedYet()
  if (!Array.isArray(answer) || answer.length !== receipts.length)
    throw new InvalidResponse('traces of transactions are missing')
  return answer.map((one: unknown, index) => {
    const { txHash, result } = readObject(one, 'a trace of a transaction')
    const { transactionHash, status } = receipts[index]!
    // Older nodes omit the hash.
    if (!isAbsent(txHash) && readHash(txHash, 'hash of a trace') !== transactionHash)
      throw new InvalidResponse('a trace is of another transaction')
    const top = readObject(result, 'a trace')
    if (status !== null && status === hasFailed(top))
      throw new InvalidResponse('a trace ends otherwise than its receipt')
    return hasFailed(top) ? [] : readFrames(top)
  })
}

/** Returns whether a frame of a trace failed. */
export const hasFailed = ({ error }: Record<string, unknown>): boolean => typeof error === 'string' && error !== ''

/**
 * Reads frames depth first, in execution order. Uses an explicit stack, because contracts call each other a thousand
 * levels deep.
 */
function readFrames(top: Record<string, unknown>): InternalTransfer[] {
  const moved: InternalTransfer[] = []
  const waiting = childrenOf(top)
  for (let count = 0; waiting.length > 0; count++) {
    if (count > MAX_FRAMES) throw new InvalidResponse('a trace has no end')
    const frame = waiting.pop()!
    if (hasFailed(frame)) continue
    const transfer = readFrame(frame)
    if (transfer !== null) moved.push(transfer)
    waiting.push(...childrenOf(frame))
  }
  return moved
}

/** Returns the calls in reverse order, because the next one is taken from the end. */
function childrenOf({ calls }: Record<string, unknown>): Record<string, unknown>[] {
  if (isAbsent(calls)) return []
  if (!Array.isArray(calls)) throw new InvalidResponse('a trace has no list of calls')
  return calls.map((call) => readObject(call, 'a call of a trace')).toReversed()
}

/** Frames that move currency. A DELEGATECALL shows its caller's value, and a CALLCODE pays its own account. */
const MOVING = new Set(['CALL', 'CREATE', 'CREATE2', 'SELFDESTRUCT'])

function readFrame({ type, from, to, value }: Record<string, unknown>): InternalTransfer | null {
  if (typeof type !== 'string' || !MOVING.has(type.toUpperCase()) || isAbsent(value) || isAbsent(to)) return null
  const amount = readQuantity(value, 'value of a call')
  if (amount === 0n) return null
  return { from: readAddress(from, 'caller'), to: readAddress(to, 'called address'), value: amount }
}
