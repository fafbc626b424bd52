import { setImmediate } from 'node:timers/promises'
import type { Clock } from '../src/index.ts'

/** A clock whose sleeps take no time, but pass on it. */
export function instantClock(): Clock & { slept(): number[] } {
  let now = 0
  const slept: number[] = []
  return {
    now: () => now,
    slept: () => slept,
    sleep: async (ms, signal) => {
      if (signal?.aborted) return
      now += ms
      slept.push(ms)
      await setImmediate()
    },
  }
}
