import { AsyncLocalStorage } from 'node:async_hooks'

type Waiting = { at: number; standAside: () => boolean }
const deadlines = new AsyncLocalStorage<Waiting>()

/**
 * Runs `work` with a deadline. Nobody waits for its result after `at`, so queued items that have not begun by then are
 * dropped.
 * @param at          clock ticks, milliseconds
 * @param standAside  releases the request's admission slot before a wait; returns false if it must not wait
 */
export const underDeadline = <T>(at: number, work: () => Promise<T>, standAside = () => true): Promise<T> =>
  deadlines.run({ at, standAside }, work)

/** Returns the deadline of the current work, in clock ticks (milliseconds). Background work has none: Infinity. */
export const deadline = (): number => deadlines.getStore()?.at ?? Infinity

/**
 * Releases the admission slot of the current request. Call it before a wait for a block. Returns false if too many
 * requests wait already; then the request must not wait.
 */
export const standAside = (): boolean => deadlines.getStore()?.standAside() ?? true
