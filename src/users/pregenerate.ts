import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { provenAddress, type AddressProver } from '../http/proven-address.ts'
import { isProviderName, isSubject, SPONSOR_PROVIDER, userIdOf, type Hex, type UserId } from '../ids.ts'
import type { Db } from '../store/db.ts'
import { findNamed, findOwner } from './find.ts'
import { insertAccount } from './sign-in.ts'
import type { Pregenerated } from './wire.ts'
import { storeWrappedKey } from './wrapped-keys.ts'

/**
 * The account of someone who has not signed in yet: its owner gets exactly it at the first sign-in. By the provider's
 * immutable id of them, never by a name: names change hands, and what was sent would go to someone else.
 * Twice is the same as once; where the identity was added to an account, that account is the answer.
 * @returns the address in lower case; `isNew`: this call made it
 * @throws invalid_request, identity_not_proven, address_not_proven, signer_unavailable, auth_unavailable, database_unavailable
 */
export async function pregenerate(
  app: AddressProver & Partial<Pick<App, 'auth'>>,
  { provider, providerUserId: subject }: { provider: string; providerUserId: string },
): Promise<Pregenerated> {
  const refuse = (pointer: string, detail: string): AppError =>
    new AppError('invalid_request', detail, { errors: [{ pointer, code: 'invalid', detail }] })
  if (!isProviderName(provider))
    throw refuse('/provider', 'The provider must be upper-case letters, digits and underscores, at most 32 characters.')
  if (provider === SPONSOR_PROVIDER)
    throw refuse(
      '/provider',
      'SPONSOR is not an identity provider. Create sponsor accounts with `chatelaine sponsor create`.',
    )
  if (!isSubject(subject))
    throw refuse('/providerUserId', 'The id must be 1 to 255 characters without control characters.')
  const { db, signer, auth } = app
  const userId = userIdOf(provider, subject)
  const known = await findOwner(app, userId)
  if (known !== null) return { userId: known.userId, address: await provenAddress(app, known.stored), isNew: false }
  if (auth !== null && auth !== undefined) return auth.makeAccount({ provider, providerUserId: subject })
  const { address, wrapped, attestation, isNew: isKeyNew } = await signer.createAccount({ userId })
  // In a second place before anyone can be told the address.
  await storeWrappedKey(db, wrapped)
  const isNew = await restoreAccount(db, { userId, address, attestation, isKeyNew })
  const made = (await findOwner(app, userId))!
  return { userId: made.userId, address: await provenAddress(app, made.stored), isNew }
}

/**
 * The account of a sponsor: no person's, so that it has no identity. Twice is the same as once.
 * @param name  as `isSponsorName` has it
 * @returns the address in lower case; `isNew`: this call made the account
 * @throws address_not_proven, signer_unavailable, database_unavailable
 */
export async function makeSponsorAccount(app: AddressProver, name: string): Promise<Pregenerated> {
  const { db, signer } = app
  const userId = userIdOf(SPONSOR_PROVIDER, name)
  const { address, wrapped, attestation, isNew: isKeyNew } = await signer.createAccount({ userId })
  await storeWrappedKey(db, wrapped)
  const isNew = await insertAccount(db, { userId, address, attestation, isKeyNew })
  const { stored } = (await findNamed(db, userId))!
  return { userId, address: await provenAddress(app, stored), isNew }
}

/**
 * The rows of an account that the signer has: made for its first identity, and nothing where they are there.
 * @param userId  whose account it is, by the signer's word
 * @param attestation  its signature for that; without it the row is served once it was asked for
 * @returns whether this call made it
 */
export const restoreAccount = (
  db: Db,
  account: { userId: UserId; address: Hex; attestation?: Hex | undefined; isKeyNew?: boolean | undefined },
): Promise<boolean> => insertAccount(db, account)
