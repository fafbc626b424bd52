import { AsyncLocalStorage } from 'node:async_hooks'

type Waiting = { at: number; standAside: () => boolean }
const deadlines = new AsyncLocalStorage<Waiting>()

/**
 * Runs what nobody waits for after `at`: what it queues is dropped then, as long as nothing was done about it.
 * @param at          ticks of the clock
 * @param standAside  gives its place among what is worked on to others; false when it may not wait any longer
 */
export const underDeadline = <T>(at: number, work: () => Promise<T>, standAside = () => true): Promise<T> =>
  deadlines.run({ at, standAside }, work)

/** Until when someone waits for what is begun here, by the ticks of the clock; forever in the background. */
export const deadline = (): number => deadlines.getStore()?.at ?? Infinity

/** To be called before a wait for a block: what is begun here takes no place from others from then on. False when it may not wait. */
export const standAside = (): boolean => deadlines.getStore()?.standAside() ?? true
