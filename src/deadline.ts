import { AsyncLocalStorage } from 'node:async_hooks'

const deadlines = new AsyncLocalStorage<number>()

/**
 * Runs what nobody waits for after `at`: what it queues is dropped then, as long as nothing was done about it.
 * @param at  performance.now(), milliseconds
 */
export const underDeadline = <T>(at: number, work: () => Promise<T>): Promise<T> => deadlines.run(at, work)

/** Until when someone waits for what is begun here, performance.now(), milliseconds; forever in the background. */
export const deadline = (): number => deadlines.getStore() ?? Infinity
