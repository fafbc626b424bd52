import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { slot } from '../../state.ts'

/** by chain id */
const pokes = slot('how keepers are poked', (_app: App) => new Map<number, () => void>())

/** Asks the keeper of a network for a round now; nothing happens in a process without one. */
export function pokeKeeper(app: App, { chainId }: Chain): void {
  pokes.of(app).get(chainId)?.()
}

/** @returns ends it */
export function onPoke(app: App, { chainId }: Chain, poke: () => void): () => void {
  const byChain = pokes.of(app)
  byChain.set(chainId, poke)
  return () => byChain.delete(chainId)
}
