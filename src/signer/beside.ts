import { setImmediate } from 'node:timers/promises'
import { Refusal } from './refusal.ts'
import { systemClock } from '../clock.ts'

/** Runs work that is not signing, on the thread that signs. @throws overloaded  when too much waits already */
export type RunBeside = <T>(piece: () => T) => Promise<T>

/** Pieces that wait, of all connections together: the last of them is done before its caller stops waiting. */
const MAX_WAITING = 64
/** Of the thread's time one part is for these pieces and so many for everything else, whenever there is anything else. */
const REST = 3

/**
 * One piece at a time, and after each a pause of three times as long as it took: however many are asked for, a signature waits
 * for one piece at most, and three quarters of the time are left to signatures.
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
      // What signs runs in turns of its own.
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
