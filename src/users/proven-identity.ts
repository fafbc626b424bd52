import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { accountIdOf, parseUserId, userIdOf, type UserId } from '../ids.ts'
import { isSealed, sealOf, type SealedRows, type SealKeys } from '../store/seal.ts'

/** Parts of an App that are needed to find the account of an identity. */
export type IdentityReader = Pick<App, 'db' | 'sealKeys' | 'telemetry'>

/** An identity in the database, with the account that it belongs to there: not verified. */
export type StoredIdentity = {
  provider: string
  subject: string
  account_id: string
  user_id: UserId
  seal: string | null
}

/**
 * Rejects an identity that was not linked to its account by the authorization server. The first identity of an account
 * verifies itself: it is the user id, the account id is derived from it, and the signer attests the address. A linked
 * identity needs a seal over identity and user, which an attacker with write access to the database cannot make. The
 * check of a seal costs 0.1 ms.
 * @throws identity_not_proven
 */
export function assertIdentity({ sealKeys, telemetry }: Omit<IdentityReader, 'db'>, row: StoredIdentity): void {
  if (isIdentityProven(sealKeys, row)) return
  const identity = userIdOf(row.provider, row.subject)
  telemetry.identitiesNotProven.inc()
  telemetry.log.error('identity_not_proven', { identity, userId: row.user_id })
  throw new AppError(
    'identity_not_proven',
    'The database links an identity to an account without a valid signature. Nobody was signed in, and nothing was returned or sent. An operator must inspect the database.',
  )
}

/**
 * Returns the result, or null if an identity is not verified, which then counts as absent. `assertIdentity` has logged
 * it.
 */
export async function ifProven<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading
  } catch (error) {
    if (error instanceof AppError && error.code === 'identity_not_proven') return null
    throw error
  }
}

/** Returns whether an identity verifiably belongs to its account. */
export function isIdentityProven(keys: Omit<SealKeys, 'signing'>, row: StoredIdentity): boolean {
  const first = parseUserId(row.user_id)
  if (first === null || accountIdOf(first.provider, first.subject) !== row.account_id) return false
  return isFirst(row) || isSealed(keys, 'identities', row)
}

/** Returns the seal of a linked identity; null if none is needed, or if this program cannot make one. */
export const identitySealOf = (keys: SealKeys, row: SealedRows['identities']): string | null =>
  isFirst(row) ? null : sealOf(keys, 'identities', row)

const isFirst = ({ provider, subject, user_id: userId }: SealedRows['identities']): boolean =>
  userIdOf(provider, subject) === userId
