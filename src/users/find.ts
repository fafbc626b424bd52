import { sql, type Selectable } from 'kysely'
import { checksumAddress } from '../digits.ts'
import { provenAddress, storedAddressOf, type AddressProver, type StoredAddress } from '../http/proven-address.ts'
import { accountIdOf, parseUserId, SPONSOR_PROVIDER, userIdOf, type Hex, type UserId } from '../ids.ts'
import type { Db } from '../store/db.ts'
import type { Database } from '../store/rows.ts'
import { assertIdentity, type IdentityReader, type StoredIdentity } from './proven-identity.ts'
import type { UserProfile } from './wire.ts'

export type User = {
  accountId: string
  /** the stable id: id of the identity that the account was created for; `sub` of every token */
  userId: UserId
  provider: string
  subject: string
  username: string
  /** the address in the database, which is not verified */
  stored: StoredAddress
  imageSrc: string | null
  email: string | null
  emailVerified: boolean | null
  /** sign-ins before this time do not count */
  signedOutAt: Date | null
}

/** A user whose address the signer attests: 20 bytes, lower case. */
export type ProvenUser = User & { address: Hex }

/** Columns to check before an identity is followed, and before an address is shown. */
const OWNER = [
  'account.account_id',
  'account.user_id',
  'account.address',
  'account.attestation',
  'identity.provider',
  'identity.subject',
  'identity.seal',
] as const
const PROFILE = [
  'account.signed_out_at',
  'identity.username',
  'identity.image_src',
  'identity.email',
  'identity.email_verified',
] as const

/** Selects identities with their accounts according to the database. Call `assertIdentity` before relying on a row. */
export const owners = (db: Db) =>
  db
    .selectFrom('identities as identity')
    .innerJoin('accounts as account', 'account.account_id', 'identity.account_id')
    .select(OWNER)

/** Selects one identity of `owners`, by the primary key. */
export const ownerOf = (db: Db, { provider, subject }: Pick<StoredIdentity, 'provider' | 'subject'>) =>
  owners(db).where('identity.provider', '=', provider).where('identity.subject', '=', subject)

/**
 * Finds a user by their stable id, or by the id of any identity linked to the account; the result is the same. Uses two
 * index searches, three for a linked identity. Null for an unknown user, and for a text that is not a user id.
 * @throws identity_not_proven
 */
export async function findUser(app: IdentityReader, userId: UserId): Promise<User | null> {
  const row = await readUserRow(app.db, userId)
  if (row === null) return null
  assertIdentity(app, row)
  if (row.user_id === userId) return userOf(row)
  const first = await readUserRow(app.db, row.user_id)
  if (first === null) return null
  assertIdentity(app, first)
  // If two rows were exchanged, neither identity finds a user.
  return first.user_id === row.user_id ? userOf(first) : null
}

/**
 * Finds the user that an operator names, without checking the seal, because the operator sees which account it is. Do
 * not use it to sign in or to send. Also finds sponsors, which have no identity but can be frozen and resumed.
 */
export async function findNamed(db: Db, userId: UserId): Promise<Pick<User, 'accountId' | 'userId' | 'stored'> | null> {
  if (parseUserId(userId)?.provider === SPONSOR_PROVIDER) return findSponsor(db, userId)
  const row = await readUserRow(db, userId)
  if (row === null || row.user_id === userId) return row === null ? null : userOf(row)
  const first = await readUserRow(db, row.user_id)
  return first?.user_id === row.user_id ? userOf(first) : null
}

async function findSponsor(db: Db, userId: UserId): Promise<Pick<User, 'accountId' | 'userId' | 'stored'> | null> {
  const row = await db
    .selectFrom('accounts')
    .select(['account_id', 'user_id', 'address', 'attestation'])
    .where('user_id', '=', userId)
    .executeTakeFirst()
  return row === undefined ? null : { accountId: row.account_id, userId: row.user_id, stored: storedAddressOf(row) }
}

async function readUserRow(db: Db, userId: UserId) {
  const identity = parseUserId(userId)
  if (identity === null) return null
  return (await ownerOf(db, identity).select(PROFILE).executeTakeFirst()) ?? null
}

/**
 * Returns the user with a verified address, which may be shown, and to which money may be sent.
 * @throws address_not_proven, signer_unavailable
 */
export async function provenUser(app: AddressProver, user: User): Promise<ProvenUser> {
  return { ...user, address: await provenAddress(app, user.stored) }
}

/**
 * Finds the account of an identity, without its profile. One index search.
 * @throws identity_not_proven
 */
export async function findOwner(
  app: IdentityReader,
  userId: UserId,
): Promise<Pick<User, 'accountId' | 'userId' | 'stored'> | null> {
  const identity = parseUserId(userId)
  if (identity === null) return null
  const row = await ownerOf(app.db, identity).executeTakeFirst()
  if (row === undefined) return null
  assertIdentity(app, row)
  return { accountId: row.account_id, userId: row.user_id, stored: storedAddressOf(row) }
}

/** Returns whether an identity belongs to an account. @throws identity_not_proven */
export const leadsTo = async (app: IdentityReader, userId: UserId, accountId: string): Promise<boolean> =>
  (await findOwner(app, userId))?.accountId === accountId

/**
 * Returns whether an account was created for an identity, which may then belong to no other account. One index search.
 */
export async function hasOwnAccount(
  db: Db,
  { provider, subject }: Pick<StoredIdentity, 'provider' | 'subject'>,
): Promise<boolean> {
  const own = await db
    .selectFrom('accounts')
    .select('account_id')
    .where('user_id', '=', userIdOf(provider, subject))
    .where('account_id', '=', accountIdOf(provider, subject))
    .executeTakeFirst()
  return own !== undefined
}

/** Columns of a user for other statements, with `identities as identity` and `accounts as account`. */
export const userColumns = sql.raw([...OWNER, ...PROFILE].join(', '))

export type UserRow = Pick<
  Selectable<Database['accounts']>,
  'account_id' | 'user_id' | 'address' | 'attestation' | 'signed_out_at'
> &
  Pick<
    Selectable<Database['identities']>,
    'provider' | 'subject' | 'username' | 'image_src' | 'email' | 'email_verified' | 'seal'
  >

export function userOf(row: UserRow): User {
  return {
    accountId: row.account_id,
    userId: row.user_id,
    provider: row.provider,
    subject: row.subject,
    username: row.username,
    stored: storedAddressOf(row),
    imageSrc: row.image_src,
    email: row.email,
    emailVerified: row.email_verified,
    signedOutAt: row.signed_out_at,
  }
}

/** Returns the User object of the API. */
export function userWire({
  userId,
  provider,
  username,
  address,
  imageSrc,
}: Pick<ProvenUser, 'userId' | 'provider' | 'username' | 'address' | 'imageSrc'>): UserProfile {
  return { id: userId, provider, username, address: checksumAddress(address), imageSrc }
}
