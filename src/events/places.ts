import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { slot } from '../state.ts'
import type { Feed } from './read.ts'

/** readers of a user at one application: streams, and requests that wait */
const MAX_PER_USER = 5
/** readers of an application's server, and of all its users together */
const MAX_PER_APPLICATION = 100

/** Readers of this process that wait for events. */
const readers = slot('places of readers that wait for events', (_app: App) => new Set<Feed>())

/**
 * Takes a place for a reader that waits, so that one user or application cannot take those of all.
 * @returns a function that leaves the place
 * @throws rate_limited
 */
export function takePlace(app: App, feed: Feed): () => void {
  const all = readers.of(app)
  const others = [...all].filter((one) => one.clientId === feed.clientId && (one.accountId === null) === (feed.accountId === null)) // prettier-ignore
  if (
    others.length >= MAX_PER_APPLICATION ||
    (feed.accountId !== null && others.filter(({ accountId }) => accountId === feed.accountId).length >= MAX_PER_USER)
  )
    throw new AppError(
      'rate_limited',
      `A user may have ${MAX_PER_USER} open streams and waiting requests, and an application ${MAX_PER_APPLICATION}. Nothing was done. Close one, then retry.`,
      { retryAfter: 5 },
    )
  const reader = { ...feed }
  all.add(reader)
  return () => void all.delete(reader)
}
