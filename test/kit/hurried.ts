import { underDeadline } from '../../src/deadline.ts'
import { until } from './until.ts'
import type { TestClock } from './clock.ts'

const PATIENCE_MS = 60_000

/** A request whose client waits until nothing but a block brings it further, and no longer: its deadline passes when it begins to wait for one. */
export const hurried = <T>(clock: TestClock, work: () => Promise<T>): Promise<T> =>
  underDeadline(clock.ticks() + PATIENCE_MS, work, () => {
    setImmediate(() => void clock.advance(PATIENCE_MS))
    return true
  })

/** The same where it may stand aside before: its deadline passes once something has happened. */
export async function hurriedUntil<T>(
  clock: TestClock,
  work: () => Promise<T>,
  what: string,
  hasHappened: () => Promise<boolean>,
): Promise<T> {
  const answer = underDeadline(clock.ticks() + PATIENCE_MS, work)
  // Whoever awaits it hears of a failure; meanwhile nobody does.
  answer.catch(() => {})
  await until(what, hasHappened, PATIENCE_MS / 2)
  await clock.advance(PATIENCE_MS)
  return answer
}
