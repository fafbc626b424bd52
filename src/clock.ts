import { setTimeout as pause } from 'node:timers/promises'

/**
 * The only clock of a program: it is passed by hand, so that tests move the time instead of waiting for it. Its functions need no
 * `this`. The database has a clock of its own: `now()` in SQL.
 */
export type Clock = {
  /** milliseconds since 1970: for what is written, shown or compared with other machines; may be set back */
  wall(): number
  /** milliseconds since some moment: for durations and deadlines within this process; never goes back */
  ticks(): number
  /** Resolves after so many milliseconds. Rejects with the reason of the signal once that is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
  /** Calls once after so many milliseconds. */
  after(ms: number, call: () => void): Timer
}

export type Timer = {
  cancel(): void
  /** A process with nothing else to do ends without waiting for this. */
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

/** Work of a process that comes again and again. */
export type Rounds = {
  /** Runs a round at once; where one is under way it is that one. Rejects with what `work` throws. */
  round(): Promise<void>
  /** the round under way */
  current(): Promise<void> | null
  /** Resolves when the last round is over. */
  stop(): Promise<void>
}

/**
 * Runs `work` again and again, one round at a time, with `ms` milliseconds between the end of one and the start of the next. A
 * process with nothing else to do ends meanwhile.
 * @param work    may say after how many milliseconds the next round is due instead
 * @param failed  told what `work` throws in rounds that nobody asked for; without it `work` reports its failures itself
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
