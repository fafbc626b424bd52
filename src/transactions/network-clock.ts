import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'

/**
 * Seconds since 1970 on a network, by which the last second of an operation is meant: those of its newest block and what passed since, or this
 * machine's, whichever is later. A clock that is slow here would have what is answered be over before it can be mined; one that is fast makes
 * operations live longer by so much.
 */
export function networkSeconds({ clock }: Pick<App, 'clock'>, { head }: Pick<Chain, 'head'>): number {
  const here = Math.floor(clock.wall() / 1_000)
  const newest = head.current()
  return newest === null ? here : Math.max(here, newest.timestamp + Math.floor(head.sinceChangeMs() / 1_000))
}
