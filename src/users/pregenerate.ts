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
 * Creates the account of a user who has not signed in yet; the user gets this account at the first sign-in. The user is
 * named by the provider's immutable id, never by a username: usernames change hands, and funds would go to someone
 * else. Idempotent. If the identity was linked to another account, that account is returned.
 * @returns the address in lower case; `isNew`: whether this call created it
 * @throws invalid_request, identity_not_proven, address_not_proven, signer_unavailable, auth_unavailable,
 *         database_unavailable
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
  // Store the wrapped key before the address is returned to anyone.
  await storeWrappedKey(db, wrapped)
  const isNew = await restoreAccount(db, { userId, address, attestation, isKeyNew })
  const made = (await findOwner(app, userId))!
  return { userId: made.userId, address: await provenAddress(app, made.stored), isNew }
}

/**
 * Creates the account of a sponsor. It has no identity, because it is not a user. Idempotent.
 * @param name  as `isSponsorName` accepts it
 * @returns the address in lower case; `isNew`: whether this call created the account
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
 * Inserts the rows of an account that the signer has: for its first identity, unless they exist.
 * @param userId  the user of the account, according to the signer
 * @param attestation  the signer's signature over user and address; without it, the signer must attest the address
 *   before the row is used
 * @returns whether this call created the account
 */
export const restoreAccount = (
  db: Db,
  account: { userId: UserId; address: Hex; attestation?: Hex | undefined; isKeyNew?: boolean | undefined },
): Promise<boolean> => insertAccount(db, account)
