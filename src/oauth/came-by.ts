import { userIdOf, type UserId } from '../ids.ts'
import { leadsTo, type User } from '../users/find.ts'
import { ifProven, type IdentityReader } from '../users/proven-identity.ts'
import { type Clock } from '../clock.ts'

/**
 * The identity that a user signed in with, and when, in seconds since 1970. The session and its tokens end when the
 * identity is removed, and when the user is signed out everywhere.
 */
export type CameBy = { identity: UserId; at: number }

/**
 * Encodes this as the library's `amr`, which passes from the session into codes and refresh tokens, and nowhere else.
 */
export const amrOf = ({ identity, at }: CameBy): string[] => [identity, String(at)]

/** Returns the identity that a user signs in with now. */
export const cameByNow = ({ wall }: Clock, { provider, subject }: { provider: string; subject: string }): CameBy => ({
  identity: userIdOf(provider, subject),
  at: Math.floor(wall() / 1_000),
})

/** Decodes what `amrOf` encoded; null if nobody has signed in yet. */
export function cameByOf(source: { amr?: unknown } | undefined): CameBy | null {
  const amr: unknown[] = Array.isArray(source?.amr) ? source.amr : []
  const [identity, at] = amr
  return typeof identity === 'string' && typeof at === 'string' ? { identity, at: Number(at) } : null
}

/**
 * Returns whether a sign-in still holds: its identity leads to the account, and nobody has ended it since. An identity
 * without a valid seal does not hold: the browser is signed out, and can sign in with another identity.
 */
export async function stillHolds(app: IdentityReader, user: User, cameBy: CameBy | null): Promise<boolean> {
  const { accountId, userId, signedOutAt } = user
  if (cameBy === null) return false
  if (signedOutAt !== null && cameBy.at < Math.floor(signedOutAt.getTime() / 1_000)) return false
  return cameBy.identity === userId || (await ifProven(leadsTo(app, cameBy.identity, accountId))) === true
}
