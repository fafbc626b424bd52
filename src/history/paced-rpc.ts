import { setTimeout as pause } from 'node:timers/promises'
import type { Rpc } from '../chain/rpc/rpc.ts'

/**
 * The same nodes, for work that can wait: no more than `callsPerSecond`, one request at a time, and a rest as long as the node took to answer,
 * so that a slow one is left to others half of the time.
 * @throws AbortError  once `stopping`
 */
export function pacedRpc(
  rpc: Rpc,
  { callsPerSecond, stopping }: { callsPerSecond: number; stopping: AbortSignal },
): Rpc {
  let last: Promise<unknown> = Promise.resolve()
  let freeAt = 0
  const inTurn = <T>(calls: number, ask: () => Promise<T>): Promise<T> => {
    const turn = last.then(async () => {
      const waitMs = freeAt - performance.now()
      if (waitMs > 0) await pause(waitMs, undefined, { signal: stopping })
      stopping.throwIfAborted()
      const since = performance.now()
      try {
        return await ask()
      } finally {
        const now = performance.now()
        freeAt = Math.max(since + (calls * 1_000) / callsPerSecond, now + (now - since))
      }
    })
    last = turn.catch(() => {})
    return turn
  }
  return {
    ...rpc,
    call: (method, params, options) => inTurn(1, () => rpc.call(method, params, options)),
    batch: (calls, options) => inTurn(calls.length, () => rpc.batch(calls, options)),
  }
}
