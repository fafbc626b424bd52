import { BoundedMap } from '../bounded-map.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { slot } from '../state.ts'

/** maximum responses per network */
const MAX_ANSWERS = 2_000
const MAX_KEY_CHARACTERS = 1_024
const MAX_TEXT_CHARACTERS = 4_096

type CachedResponses = { hash: Hex | null; texts: BoundedMap<string, string> }
const finished = slot('answers to contract reads', (_chain: Chain): CachedResponses => ({
  hash: null,
  texts: new BoundedMap(MAX_ANSWERS),
}))

/**
 * Returns the serialized response to an equal read at a block. So a frequent read is encoded, decoded and serialized
 * once per block. Uses at most 10 MB per network, whatever callers request.
 */
export function findFinished(chain: Chain, hash: Hex, key: string): string | undefined {
  const known = finished.of(chain)
  return known.hash === hash ? known.texts.get(key) : undefined
}

/** Remembers a response while its block is the newest. */
export function keepFinished(chain: Chain, hash: Hex, key: string, text: string): void {
  if (key.length > MAX_KEY_CHARACTERS || text.length > MAX_TEXT_CHARACTERS) return
  if (chain.head.current()?.hash !== hash) return
  const known = finished.of(chain)
  if (known.hash !== hash) Object.assign(known, { hash, texts: new BoundedMap(MAX_ANSWERS) })
  known.texts.set(key, text)
}
