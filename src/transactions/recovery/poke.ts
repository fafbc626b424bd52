import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { slot } from '../../state.ts'

/** callbacks by chain id */
const pokes = slot('how keepers are poked', (_app: App) => new Map<number, () => void>())

/** Requests a round of the network's keeper now. In a process without a keeper it does nothing. */
export function pokeKeeper(app: App, { chainId }: Chain): void {
  pokes.of(app).get(chainId)?.()
}

/**
 * Registers the callback that starts a round.
 * @returns a function that removes it
 */
export function onPoke(app: App, { chainId }: Chain, poke: () => void): () => void {
  const byChain = pokes.of(app)
  byChain.set(chainId, poke)
  return () => byChain.delete(chainId)
}
