import { setImmediate } from 'node:timers/promises'
import { systemClock, type Clock, type Timer } from '../../src/clock.ts'

/** A clock that a test moves. */
export type TestClock = Clock & {
  /**
   * Puts wall and ticks forward together. Whoever sleeps is woken in the order in which their times come, at that very time,
   * and what each does at once, down to questions it asks of the network or the database, is begun before the next one wakes.
   * What those answer later is a state to wait for (`until`).
   */
  advance(ms: number): Promise<void>
  /** how many sleep, or wait to be called */
  sleepers(): number
  /** What is done while wall and ticks stand still, however long it takes; who sleeps is woken all the same. */
  still<T>(work: () => Promise<T>): Promise<T>
}

/** A clock that stands still but for `advance`. */
export const stoppedClock = (wall = Date.UTC(2026, 0, 1)): TestClock =>
  openTestClock({ wall: () => wall, ticks: () => 0 })

/** A clock that goes as the system's does, and can be put forward: for worlds with other programs in them. */
export function runningClock(): TestClock {
  // Not those of the moment: tests put forward what the system says.
  return openTestClock(systemClock)
}

/** A clock whose calendar a test reads off something else; everything else is the given clock's. */
export const withWall = (wall: () => number, clock: Clock = systemClock): Clock => ({ ...clock, wall })

type Waiting = { at: number; call: () => void; real: Timer | null }

function openTestClock(base: Pick<Clock, 'wall' | 'ticks'>): TestClock {
  let ahead = 0
  const waiting = new Set<Waiting>()
  const isRunning = base === systemClock
  let stillAt: number | null = null
  const passed = () => stillAt ?? base.ticks()
  const ticks = () => passed() + ahead

  /** The system's timer for one that waits, where time passes by itself. */
  function arm(one: Waiting): void {
    if (isRunning) one.real = systemClock.after(Math.max(0, one.at - ticks()), () => waiting.delete(one) && one.call())
  }

  function after(ms: number, call: () => void): Timer {
    const one: Waiting = { at: ticks() + Math.max(0, ms), call, real: null }
    waiting.add(one)
    arm(one)
    const timer: Timer = {
      cancel: () => {
        one.real?.cancel()
        waiting.delete(one)
      },
      unref: () => {
        one.real?.unref()
        return timer
      },
    }
    return timer
  }

  function sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    if (signal?.aborted) return Promise.reject(signal.reason as Error)
    const abort = () => {
      timer.cancel()
      reject(signal!.reason as Error)
    }
    const timer = after(ms, () => {
      signal?.removeEventListener('abort', abort)
      resolve()
    })
    signal?.addEventListener('abort', abort, { once: true })
    return promise
  }

  async function advance(ms: number): Promise<void> {
    // What is under way may be about to sleep.
    await settled()
    const until = ticks() + ms
    for (;;) {
      const next = [...waiting].filter(({ at }) => at <= until).toSorted((a, b) => a.at - b.at)[0]
      if (next === undefined) break
      ahead += Math.max(0, next.at - ticks())
      next.real?.cancel()
      waiting.delete(next)
      next.call()
      await settled()
    }
    ahead += Math.max(0, until - ticks())
    for (const one of waiting) {
      if (one.real === null) continue
      one.real.cancel()
      arm(one)
    }
    await settled()
  }

  async function still<T>(work: () => Promise<T>): Promise<T> {
    stillAt = base.ticks()
    try {
      return await work()
    } finally {
      ahead -= base.ticks() - stillAt
      stillAt = null
    }
  }

  const wall = () => base.wall() + ahead - (base.ticks() - passed())
  return { wall, ticks, sleep, after, advance, still, sleepers: () => waiting.size }
}

/** What was begun has gone as far as it goes without an answer from elsewhere. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 3; turns++) await setImmediate()
}
