import { underDeadline } from '../../src/deadline.ts'
import type { TestClock } from './clock.ts'

const PATIENCE_MS = 30_000

/** A request whose client waits until nothing but a block brings it further, and no longer: its deadline passes when it begins to wait for one. */
export const hurried = <T>(clock: TestClock, work: () => Promise<T>): Promise<T> =>
  underDeadline(clock.ticks() + PATIENCE_MS, work, () => {
    setImmediate(() => void clock.advance(PATIENCE_MS))
    return true
  })
