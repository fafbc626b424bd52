/**
 * chain/rpc: JSON-RPC to all nodes of one network, as if they were one.
 * Owns: HTTP and batches, the pool with its health checks, new heads by WebSocket, which chain a node serves, what
 *   errors of nodes mean (`errors.ts`).
 * Does not own: heads, reads at a block, fees, caches: those are in `chain/`, which nothing here imports.
 * Start with `connect.ts`, then `pool.ts`.
 */

import { systemClock, type Clock } from '../../clock.ts'
import { AppError } from '../../errors.ts'
import { collected } from './batch.ts'
import { openExpensiveCalls, type ExpensiveCalls } from './expensive-calls.ts'
import { RpcError, RpcUnavailable } from './failures.ts'
import type { AskNode, Call } from './json-rpc.ts'
import { openNode } from './node.ts'

export { RpcError, RpcUnavailable } from './failures.ts'

export type Rpc = {
  /**
   * Makes one JSON-RPC call. Calls made while others are in flight are sent together in one batch.
   * @param options.alone  sends a call that is known to be slow outside of shared batches
   * @param options.maxBytes  sends the call by itself, and rejects a longer response
   * @throws RpcError | RpcUnavailable
   */
  call<T = unknown>(
    method: string,
    params: unknown[],
    options?: { timeoutMs?: number; alone?: boolean; maxBytes?: number },
  ): Promise<T>
  /**
   * Sends several calls in one request to one node; each result is a value or an RpcError.
   * @throws RpcUnavailable  if no call has a result
   */
  batch(calls: Call[], options?: { timeoutMs?: number }): Promise<unknown[]>
  /** calls that are sent outside of shared batches */
  expensive: ExpensiveCalls
  close(): void
}

/** Called with the outcome of calls, for metrics. */
export type OnCall = (method: string, outcome: 'ok' | 'error' | 'unavailable', count: number) => void

/** Returns whether a method broadcasts. Broadcasts are not retried like reads, and never wait behind a slow call. */
export const isSend = (method: string): boolean => method.startsWith('eth_send')

const TIMEOUT_MS = 10_000

/** Opens JSON-RPC over keep-alive HTTP to one node. */
export function openRpc({
  url,
  clock = systemClock,
  timeoutMs = TIMEOUT_MS,
  onCall = () => {},
}: {
  url: string
  clock?: Clock
  timeoutMs?: number
  onCall?: OnCall
}): Rpc {
  const node = openNode(url, clock)
  return rpcOver({ ask: node.ask, askOneNode: node.ask, close: () => node.close() }, { clock, timeoutMs, onCall })
}

/**
 * Creates the calls of a network over one or several nodes.
 * @param source.ask  for collected calls: results may come from several nodes
 * @param source.askOneNode  for a batch whose results have to be consistent
 */
export function rpcOver(
  source: { ask: AskNode; askOneNode: AskNode; close(): void },
  { clock, timeoutMs = TIMEOUT_MS, onCall }: { clock: Clock; timeoutMs?: number; onCall: OnCall },
): Rpc {
  const ask = counted(source.ask, onCall)
  const askOneNode = counted(source.askOneNode, onCall)
  const read = collected(ask, { clock, timeoutMs })
  const send = collected(ask, { clock, timeoutMs })
  const alone = collected(ask, { clock, timeoutMs, maxBatch: 1 })

  async function batch(calls: Call[], options: { timeoutMs?: number } = {}): Promise<unknown[]> {
    const answers = await askOneNode(calls, { timeoutMs: options.timeoutMs ?? timeoutMs })
    const missing = answers.find((answer) => answer instanceof RpcUnavailable)
    if (missing !== undefined) throw missing
    return answers
  }

  async function callAlone(call: Call, limit: { timeoutMs: number }): Promise<never> {
    const [answer] = await ask([call], limit)
    if (answer instanceof RpcError || answer instanceof RpcUnavailable) throw answer
    return answer as never
  }

  return {
    batch,
    call: (method, params, options) => {
      const { maxBytes } = options ?? {}
      if (maxBytes !== undefined) return callAlone({ method, params, maxBytes }, { timeoutMs, ...options })
      if (options?.alone === true) return alone(method, params)
      if (options?.timeoutMs !== undefined) return callAlone({ method, params }, { timeoutMs: options.timeoutMs })
      return isSend(method) ? send(method, params) : read(method, params)
    },
    expensive: openExpensiveCalls(clock),
    close: () => source.close(),
  }
}

/** Counts by method and outcome, once per batch: a counter with labels costs 1 µs. */
function counted(ask: AskNode, onCall: OnCall): AskNode {
  return async (calls, options) => {
    let answers: unknown[] | null = null
    try {
      answers = await ask(calls, options)
      return answers
    } finally {
      const counts = new Map<string, number>()
      for (const [index, { method }] of calls.entries()) {
        const key = `${method} ${outcomeOf(answers === null ? undefined : answers[index], answers === null)}`
        counts.set(key, (counts.get(key) ?? 0) + 1)
      }
      for (const [key, count] of counts) {
        const [method, outcome] = key.split(' ') as [string, 'ok' | 'error' | 'unavailable']
        onCall(method, outcome, count)
      }
    }
  }
}

function outcomeOf(answer: unknown, failed: boolean): 'ok' | 'error' | 'unavailable' {
  if (failed || answer instanceof RpcUnavailable) return 'unavailable'
  return answer instanceof RpcError ? 'error' : 'ok'
}

/** Maps a node's failure to the error for callers of the API. */
export function mapChainError(error: unknown): unknown {
  if (error instanceof RpcUnavailable) {
    return error.timedOut
      ? new AppError('chain_timeout', 'The node of the network did not respond in time. Nothing new was sent. Retry.', {
          cause: error,
          retryAfter: 1,
        })
      : new AppError('chain_unavailable', 'No node of the network can be reached. Nothing new was sent. Retry.', {
          cause: error,
          retryAfter: 1,
        })
  }
  if (error instanceof RpcError)
    return new AppError(
      'chain_unavailable',
      'The node of the network rejected the request. Nothing new was sent. Retry.',
      { cause: error, retryAfter: 1 },
    )
  return error
}
