import { isAbsent, readAddress, readHash, readObject, readQuantity } from '../chain/rpc/answers.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Rpc } from '../chain/rpc/rpc.ts'
import type { KeptBlock } from '../follower/block.ts'
import type { InternalTransfer } from './native-logs.ts'
import { hasFailed, NotTracedYet } from './native-traces.ts'

type Trace = { own: Record<string, unknown>; path: readonly number[] }

/**
 * Fetches the internal transfers of each transaction of a block, in order, by `trace_block`: a list of all calls in
 * execution order. The block is requested by number, and each trace names its block.
 * Source: OpenEthereum's module trace, implemented by Erigon, Nethermind, Reth and anvil
 * @throws RpcError | RpcUnavailable | InvalidResponse  also if the traces do not match the block's transactions
 */
export async function fetchInternalFlat(
  rpc: Rpc,
  { hash, number, receipts }: KeptBlock,
): Promise<InternalTransfer[][]> {
  const answer = await rpc.call('trace_block', [`0x${number.toString(16)}`])
  if (answer === null) throw new NotTracedYet()
  if (!Array.isArray(answer)) throw new InvalidResponse('traces of a block are missing')
  const traces = receipts.map((): Trace[] => [])
  for (const one of answer) {
    const own = readObject(one, 'a trace of a transaction')
    // This is a block reward, on networks that pay one.
    if (isAbsent(own.transactionHash) && own.type === 'reward') continue
    const { transactionPosition: position } = own
    const of = typeof position === 'number' ? receipts[position] : undefined
    const isIts =
      readHash(own.blockHash, 'block of a trace') === hash &&
      readHash(own.transactionHash, 'hash of a trace') === of?.transactionHash
    if (!isIts) throw new InvalidResponse('a trace is of another block or transaction')
    traces[position as number]!.push({ own, path: readPath(own) })
  }
  return receipts.map(({ status }, index) => {
    const [top, ...rest] = traces[index]!
    if (top?.path.length !== 0) throw new InvalidResponse('traces of transactions are missing')
    if (status !== null && status === hasFailed(top.own))
      throw new InvalidResponse('a trace ends otherwise than its receipt')
    return readCalls(top, rest)
  })
}

/** Returns the transfers of a transaction, without failed calls and the calls they made. */
function readCalls(top: Trace, calls: readonly Trace[]): InternalTransfer[] {
  const moved: InternalTransfer[] = []
  let failed = hasFailed(top.own) ? top.path : null
  let before = top.path
  for (const { own, path } of calls) {
    // Calls must be listed depth first; otherwise the sub-calls of a failed call could count.
    if (!isBehind(path, before)) throw new InvalidResponse('traces are in no order')
    before = path
    if (failed !== null && startsWith(path, failed)) continue
    failed = hasFailed(own) ? path : null
    const transfer = failed === null ? readTransfer(own) : null
    if (transfer !== null) moved.push(transfer)
  }
  return moved
}

/** Reads the position of a call below its transaction: index of the call, index of its sub-call, and so on. */
function readPath({ traceAddress }: Record<string, unknown>): readonly number[] {
  const isPath = Array.isArray(traceAddress) && traceAddress.every((step) => Number.isSafeInteger(step) && step >= 0)
  if (!isPath) throw new InvalidResponse('a trace has no place')
  return traceAddress as number[]
}

const startsWith = (path: readonly number[], start: readonly number[]): boolean =>
  path.length >= start.length && start.every((step, index) => path[index] === step)

function isBehind(path: readonly number[], other: readonly number[]): boolean {
  const index = other.findIndex((step, at) => path[at] !== step)
  return index === -1 ? path.length > other.length : (path[index] ?? -1) > other[index]!
}

function readTransfer({ type, action, result }: Record<string, unknown>): InternalTransfer | null {
  const { callType, from, to, value, address, refundAddress, balance } = readObject(action, 'what a trace is of')
  const moves = (sender: unknown, recipient: unknown, sent: unknown): InternalTransfer | null => {
    const amount = readQuantity(sent, 'value of a call')
    if (amount === 0n) return null
    return { from: readAddress(sender, 'caller'), to: readAddress(recipient, 'called address'), value: amount }
  }
  // A delegate call repeats its caller's value, and a CALLCODE pays its own account.
  if (type === 'call') return callType === 'call' ? moves(from, to, value) : null
  if (type === 'create') return moves(from, readObject(result, 'what was created').address, value)
  if (type === 'suicide' || type === 'selfdestruct') return moves(address, refundAddress, balance)
  throw new InvalidResponse('a trace is of no known kind')
}
