import type { IncomingHttpHeaders } from 'node:http'

/** How many answers of this process are remembered as such. */
const MAX = 10_000
/** characters: longer ones are no keys */
const MAX_CHARACTERS = 255

type KeyedRequest = { application: string; person: string; headers: IncomingHttpHeaders; path: string }

/**
 * The idempotency keys under which this process has given an answer: asked once more, it looks up what it gave and begins
 * nothing, so the gate takes it for what asks after a write. Of what is forgotten, or was given elsewhere, it knows nothing.
 */
export function openKnownKeys(): { has(of: KeyedRequest): boolean; add(of: KeyedRequest): void } {
  const known = new Set<string>()
  return {
    has: (of) => known.size > 0 && known.has(nameOf(of) ?? ''),
    add: (of) => {
      const name = nameOf(of)
      if (name === null) return
      if (known.size >= MAX) known.delete(known.values().next().value!)
      known.add(name)
    },
  }
}

function nameOf({ application, person, headers, path }: KeyedRequest): string | null {
  const key = headers['idempotency-key'] ?? headers['x-idempotency-key']
  return typeof key !== 'string' || key.length > MAX_CHARACTERS
    ? null
    : JSON.stringify([application, person, path, key])
}
