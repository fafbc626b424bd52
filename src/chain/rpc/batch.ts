import type { Clock } from '../../clock.ts'
import { RpcError, RpcUnavailable } from './failures.ts'
import type { AskNode, Call } from './json-rpc.ts'

const MAX_BATCH = 50
/** maximum batches in flight; with more, batches would be smaller */
const LANES = 4

/** milliseconds after which a batch frees its slot: four batches that hang must not stop all reads */
const LATE_MS = 1_000

/** maximum calls that wait for a slot: a node that is so far behind answers no call in time */
export const MAX_WAITING = 20_000

type PendingCall = Call & { resolve: (value: never) => void; reject: (error: unknown) => void }

/**
 * Sends calls in batches: calls made in one turn of the event loop form a batch, and calls collect while all slots are
 * busy. A free slot sends a call at once.
 */
export function collected(
  ask: AskNode,
  { clock, timeoutMs, maxBatch = MAX_BATCH }: { clock: Clock; timeoutMs: number; maxBatch?: number },
): (method: string, params: unknown[]) => Promise<never> {
  let waiting: PendingCall[] = []
  let inFlight = 0
  let isScheduled = false

  function flush(): void {
    isScheduled = false
    while (waiting.length > 0 && inFlight < LANES) {
      const calls = waiting.length <= maxBatch ? waiting : waiting.slice(0, maxBatch)
      waiting = waiting.length <= maxBatch ? [] : waiting.slice(maxBatch)
      void send(calls)
    }
  }

  async function send(calls: PendingCall[]): Promise<void> {
    inFlight++
    let isLane = true
    const leave = () => {
      if (!isLane) return
      isLane = false
      inFlight--
      if (waiting.length > 0 && !isScheduled) flush()
    }
    const timer = clock.after(LATE_MS, leave)
    try {
      const answers = await ask(calls, { timeoutMs })
      for (const [index, answer] of answers.entries()) {
        const call = calls[index]!
        if (answer instanceof RpcError || answer instanceof RpcUnavailable) call.reject(answer)
        else call.resolve(answer as never)
      }
    } catch (error) {
      for (const call of calls) call.reject(error)
    } finally {
      timer.cancel()
      leave()
    }
  }

  return (method, params) => {
    const { promise, resolve, reject } = Promise.withResolvers<never>()
    if (waiting.length >= MAX_WAITING)
      return Promise.reject(new RpcUnavailable('too many requests are waiting for the node', { timedOut: false }))
    waiting.push({ method, params, resolve, reject })
    if (!isScheduled && inFlight < LANES) {
      isScheduled = true
      // Start after all readable sockets were read, so that their requests join the same batch.
      setImmediate(flush)
    }
    return promise
  }
}
