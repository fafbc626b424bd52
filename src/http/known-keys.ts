import type { IncomingHttpHeaders } from 'node:http'
import { BoundedMap } from '../bounded-map.ts'

/** How many answers of this process are remembered as such. */
const MAX = 10_000
/** milliseconds for which a key stands for what it answered at the least: the database counts as many from when that is final */
const KEPT_MS = 24 * 3_600_000
/** characters: longer ones are no keys */
const MAX_CHARACTERS = 255

type KeyedRequest = { application: string; person: string; headers: IncomingHttpHeaders; path: string }

/**
 * The idempotency keys under which this process has given an answer: asked once more, it looks up what it gave and begins
 * nothing, so the gate takes it for what asks after a write. Of what is forgotten, or was given elsewhere, it knows nothing.
 * To be added with its first answer: of a repeated one nobody here knows how long the key still stands for it.
 * @param now  monotonic clock, milliseconds
 */
export function openKnownKeys(now: () => number): { has(of: KeyedRequest): boolean; add(of: KeyedRequest): void } {
  /** by when each was answered */
  const known = new BoundedMap<string, number>(MAX)
  return {
    has: (of) => known.size > 0 && now() - (known.get(nameOf(of) ?? '') ?? Number.NEGATIVE_INFINITY) < KEPT_MS,
    add: (of) => {
      const name = nameOf(of)
      if (name !== null) known.set(name, now())
    },
  }
}

/** The key as it was sent, unchecked. */
export function keyOf(headers: IncomingHttpHeaders): string | null {
  const key = headers['idempotency-key'] ?? headers['x-idempotency-key']
  return typeof key !== 'string' || key.length > MAX_CHARACTERS ? null : key
}

function nameOf({ application, person, headers, path }: KeyedRequest): string | null {
  const key = keyOf(headers)
  return key === null ? null : JSON.stringify([application, person, path, key])
}
