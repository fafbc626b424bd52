import { setImmediate } from 'node:timers/promises'
import { Refusal } from './refusal.ts'
import { systemClock } from '../clock.ts'

/** Runs work other than signing on the thread that signs. @throws overloaded  if too much work is waiting */
export type RunBeside = <T>(piece: () => T) => Promise<T>

/** Maximum pieces that wait, over all connections. The last of them is done before its caller times out. */
const MAX_WAITING = 64
/** Pause after a piece, as a multiple of its duration: while there is other work, pieces use a quarter of the thread's time. */
const REST = 3

/**
 * Opens a queue that runs one piece at a time and then pauses for three times its duration. However many pieces are requested, a
 * signature waits for at most one, and three quarters of the time remain for signatures.
 */
export function openBeside(maxWaiting = MAX_WAITING, clock = systemClock): RunBeside {
  let waiting = 0
  let last: Promise<unknown> = Promise.resolve()

  return async (piece) => {
    if (waiting >= maxWaiting)
      throw new Refusal(
        'overloaded',
        'The signer has too many requests of this kind in progress. Nothing was done. Retry.',
      )
    waiting += 1
    let tookMs = 0
    const done = last.then(async () => {
      // Let signing run first; it has turns of its own.
      await setImmediate()
      const began = clock.ticks()
      try {
        return piece()
      } finally {
        tookMs = clock.ticks() - began
      }
    })
    const rest = () => clock.sleep(Math.ceil(tookMs * REST))
    last = done.then(rest, rest)
    try {
      return await done
    } finally {
      waiting -= 1
    }
  }
}
