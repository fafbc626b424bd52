import type { Rpc } from '../chain/rpc/rpc.ts'
import { type Clock } from '../clock.ts'

/**
 * Wraps the nodes of a network for work that can wait: at most `callsPerSecond`, one request at a time. After each
 * request it pauses for as long as the node took, so that a slow node has half of the time for other requests.
 * @throws AbortError  once `stopping` is aborted
 */
export function pacedRpc(
  rpc: Rpc,
  { clock, callsPerSecond, stopping }: { clock: Clock; callsPerSecond: number; stopping: AbortSignal },
): Rpc {
  let last: Promise<unknown> = Promise.resolve()
  let freeAt = 0
  const inTurn = <T>(calls: number, ask: () => Promise<T>): Promise<T> => {
    const turn = last.then(async () => {
      const waitMs = freeAt - clock.ticks()
      if (waitMs > 0) await clock.sleep(waitMs, stopping)
      stopping.throwIfAborted()
      const since = clock.ticks()
      try {
        return await ask()
      } finally {
        const now = clock.ticks()
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
