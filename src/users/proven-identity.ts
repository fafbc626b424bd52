import { sign, verify } from 'node:crypto'
import type { App, IdentityKeys } from '../app.ts'
import { AppError } from '../errors.ts'
import { accountIdOf, parseUserId, userIdOf, type UserId } from '../ids.ts'

/** What it takes to follow an identity to its account. */
export type IdentityReader = Pick<App, 'db' | 'identityKeys' | 'telemetry'>

/** An identity as the database has it, with the account that it leads to. */
export type StoredIdentity = {
  provider: string
  subject: string
  account_id: string
  user_id: UserId
  proof: string | null
}

/**
 * Lets nobody through an identity that someone else than the authorization server led to an account. The account's user id is the
 * identity that it was made for, and its own id is made of that: such a row proves itself, and the address the signer attests. One that
 * was linked needs the signature over identity and user, which one who can write to the database cannot make. Costs 0.1 ms for those.
 * @throws identity_not_proven
 */
export function assertIdentity({ identityKeys, telemetry }: Omit<IdentityReader, 'db'>, row: StoredIdentity): void {
  if (isIdentityProven(identityKeys, row)) return
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
export function isIdentityProven({ known }: IdentityKeys, row: StoredIdentity): boolean {
  const first = parseUserId(row.user_id)
  if (first === null || accountIdOf(first.provider, first.subject) !== row.account_id) return false
  if (userIdOf(row.provider, row.subject) === row.user_id) return true
  const [kid = '', signature = ''] = (row.proof ?? '').split(' ')
  const key = known.get(kid)
  return key !== undefined && verify(null, textOf(row), key, Buffer.from(signature, 'base64url'))
}

/** The proof of an identity that is linked to a user; null where this program can make none, or none is needed. */
export function proofOf(
  { signing }: IdentityKeys,
  linked: Omit<StoredIdentity, 'proof' | 'account_id'>,
): string | null {
  if (signing === null || userIdOf(linked.provider, linked.subject) === linked.user_id) return null
  return `${signing.kid} ${sign(null, textOf(linked), signing.key).toString('base64url')}`
}

/** The id of the key that a proof is by. */
export const keyOfProof = (proof: string): string => proof.split(' ')[0]!

const textOf = ({ provider, subject, user_id: userId }: Omit<StoredIdentity, 'proof' | 'account_id'>): Buffer =>
  Buffer.from(`chatelaine identity\n${JSON.stringify([provider, subject, userId])}`, 'utf8')
