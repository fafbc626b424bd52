import { setTimeout as pause } from 'node:timers/promises'

/**
 * The only clock of a program. It is passed as an argument, so that tests can set the time instead of waiting. Its
 * functions need no `this`. The database has its own clock: `now()` in SQL.
 */
export type Clock = {
  /** milliseconds since 1970, for timestamps that are stored, shown or compared with other machines; may be set back */
  wall(): number
  /** milliseconds since an arbitrary moment, for durations and deadlines within this process; never decreases */
  ticks(): number
  /** Resolves after `ms` milliseconds. Rejects with the signal's reason if the signal is aborted earlier. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
  /** Calls `call` once after `ms` milliseconds. */
  after(ms: number, call: () => void): Timer
}

export type Timer = {
  cancel(): void
  /** Lets the process exit without waiting for this timer. */
  unref(): Timer
}

export const systemClock: Clock = {
  wall: () => Date.now(),
  ticks: () => performance.now(),
  sleep: (ms, signal) => pause(ms, undefined, { signal }),
  after: (ms, call) => timerOf(setTimeout(call, ms)),
}

const timerOf = (timeout: NodeJS.Timeout): Timer => {
  const timer = {
    cancel: () => clearTimeout(timeout),
    unref: () => {
      timeout.unref()
      return timer
    },
  }
  return timer
}

/** Work that a process repeats. */
export type Rounds = {
  /** Starts a round now, or joins the current one. Rejects with the error that `work` throws. */
  round(): Promise<void>
  /** the current round; null between rounds */
  current(): Promise<void> | null
  /** Stops repeating. Resolves when the current round has ended. */
  stop(): Promise<void>
}

/**
 * Repeats `work`, one round at a time, with a pause of `ms` milliseconds between two rounds. The timer does not keep
 * the process alive.
 * @param work    may return another pause before the next round, milliseconds
 * @param failed  receives errors of the rounds that the timer started; without it `work` must report its errors itself
 */
export function every(
  { after }: Pick<Clock, 'after'>,
  ms: number,
  work: () => Promise<number | void>,
  failed: (error: unknown) => void = () => {},
): Rounds {
  let running: Promise<void> | null = null
  let isStopped = false
  let timer = begin(ms)

  function begin(waitMs: number): Timer {
    return after(waitMs, () => void round().catch(failed)).unref()
  }

  function round(): Promise<void> {
    if (running !== null) return running
    timer.cancel()
    let waitMs: number | void
    running = work()
      .then((wantedMs) => void (waitMs = wantedMs))
      .finally(() => {
        running = null
        if (!isStopped) timer = begin(waitMs ?? ms)
      })
    return running
  }

  return {
    round,
    current: () => running,
    stop: async () => {
      isStopped = true
      timer.cancel()
      await running?.catch(() => {})
    },
  }
}
