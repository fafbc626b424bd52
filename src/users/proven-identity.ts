import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { accountIdOf, parseUserId, userIdOf, type UserId } from '../ids.ts'
import { isSealed, sealOf, type SealedRows, type SealKeys } from '../store/seal.ts'

/** What it takes to follow an identity to its account. */
export type IdentityReader = Pick<App, 'db' | 'sealKeys' | 'telemetry'>

/** An identity as the database has it, with the account that it leads to. */
export type StoredIdentity = {
  provider: string
  subject: string
  account_id: string
  user_id: UserId
  seal: string | null
}

/**
 * Lets nobody through an identity that someone else than the authorization server led to an account. The account's user id is the
 * identity that it was made for, and its own id is made of that: such a row proves itself, and the address the signer attests. One that
 * was linked needs the seal over identity and user, which one who can write to the database cannot make. Costs 0.1 ms for those.
 * @throws identity_not_proven
 */
export function assertIdentity({ sealKeys, telemetry }: Omit<IdentityReader, 'db'>, row: StoredIdentity): void {
  if (isIdentityProven(sealKeys, row)) return
  const identity = userIdOf(row.provider, row.subject)
  telemetry.identitiesNotProven.inc()
  telemetry.log.error('identity_not_proven', { identity, userId: row.user_id })
  throw new AppError(
    'identity_not_proven',
    'What is stored of this identity is not proven to be theirs. Nobody was signed in, and nothing was shown or sent.',
  )
}

/** What was read, or null where an identity on the way is not proven: for what is then as if it were not there. The alarm has been raised. */
export async function ifProven<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading
  } catch (error) {
    if (error instanceof AppError && error.code === 'identity_not_proven') return null
    throw error
  }
}

/** Whether an identity leads to its account by right. */
export function isIdentityProven(keys: Omit<SealKeys, 'signing'>, row: StoredIdentity): boolean {
  const first = parseUserId(row.user_id)
  if (first === null || accountIdOf(first.provider, first.subject) !== row.account_id) return false
  return isFirst(row) || isSealed(keys, 'identities', row)
}

/** The seal of an identity that leads to a user; null where this program can make none, or none is needed. */
export const identitySealOf = (keys: SealKeys, row: SealedRows['identities']): string | null =>
  isFirst(row) ? null : sealOf(keys, 'identities', row)

const isFirst = ({ provider, subject, user_id: userId }: SealedRows['identities']): boolean =>
  userIdOf(provider, subject) === userId
