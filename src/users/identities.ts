import { sql } from 'kysely'
import { accountIdOf, parseUserId, userIdOf, type UserId } from '../ids.ts'
import type { Db } from '../store/db.ts'
import { hasOwnAccount } from './find.ts'
import { cleanProfile, type Profile } from './profile.ts'
import { identitySealOf, type IdentityReader, type StoredIdentity } from './proven-identity.ts'

/** One way of signing in to an account. */
export type Identity = {
  userId: UserId
  provider: string
  subject: string
  username: string
  /** whether the account was created for this identity: its id is the account's id, so it cannot be removed */
  isFirst: boolean
}

type IdentityOwner = { accountId: string; userId: UserId }

/** Lists the identities of an account, the first one first. */
export async function listIdentities(db: Db, { accountId, userId }: IdentityOwner): Promise<Identity[]> {
  const rows = await db
    .selectFrom('identities')
    .select(['provider', 'subject', 'username'])
    .where('account_id', '=', accountId)
    .orderBy('created_at')
    .execute()
  const all = rows.map(({ provider, subject, username }) => {
    const id = userIdOf(provider, subject)
    return { userId: id, provider, subject, username, isFirst: id === userId }
  })
  return all.toSorted((a, b) => Number(b.isFirst) - Number(a.isFirst))
}

/**
 * Links one more identity to an account. The caller must have verified that the user owns the identity. An identity
 * belongs to one account. If it has an account already, even one created before its first sign-in, it is not moved,
 * because that account may hold funds.
 */
export async function linkIdentity(
  { db, sealKeys }: Pick<IdentityReader, 'db' | 'sealKeys'>,
  { accountId, userId }: IdentityOwner,
  said: Profile,
): Promise<'linked' | 'already_linked' | 'has_own_account'> {
  const { provider, subject, username, imageSrc, email, emailVerified } = cleanProfile(said)
  const seal = identitySealOf(sealKeys, { provider, subject, user_id: userId })
  const insert = () =>
    db
      .insertInto('identities')
      .values({
        provider,
        subject,
        account_id: accountId,
        username,
        image_src: imageSrc,
        email,
        email_verified: emailVerified,
        signed_in_at: sql<Date>`now()`,
        seal,
      })
      .onConflict((on) => on.doNothing())
      .returning('account_id')
      .executeTakeFirst()
  const made = (await hasOwnAccount(db, { provider, subject })) ? undefined : await insert()
  if (made !== undefined) return 'linked'
  // The user has just signed in with this identity, so restore its seal if it is missing.
  const { numUpdatedRows } = await db
    .updateTable('identities')
    .set({ seal })
    .where('provider', '=', provider)
    .where('subject', '=', subject)
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  return numUpdatedRows > 0n ? 'already_linked' : 'has_own_account'
}

/**
 * Moves an identity from another account back to the account that was created for it.
 * @param moved  the account that the identity now belongs to; if that has changed, nothing is done
 * @returns whether the identity was moved back
 */
export async function leadToOwnAccount(
  db: Db,
  { provider, subject, account_id: moved }: Pick<StoredIdentity, 'provider' | 'subject' | 'account_id'>,
): Promise<boolean> {
  if (!(await hasOwnAccount(db, { provider, subject }))) return false
  const { numUpdatedRows } = await db
    .updateTable('identities')
    .set({ account_id: accountIdOf(provider, subject), seal: null })
    .where('provider', '=', provider)
    .where('subject', '=', subject)
    .where('account_id', '=', moved)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/**
 * Removes an identity from its account, but never the first one. The next sign-in with the identity creates an account
 * of its own.
 * @returns whether the identity existed and could be removed
 */
export async function unlinkIdentity(db: Db, { accountId, userId }: IdentityOwner, identity: UserId): Promise<boolean> {
  const parts = parseUserId(identity)
  if (parts === null || identity === userId) return false
  const gone = await db
    .deleteFrom('identities')
    .where('account_id', '=', accountId)
    .where('provider', '=', parts.provider)
    .where('subject', '=', parts.subject)
    .returning('account_id')
    .executeTakeFirst()
  return gone !== undefined
}

/**
 * Deletes the personal data of a user: name, picture, e-mail address, and every identity but the first. The account's
 * id and address remain, because the chain has them permanently. So the user finds the same account with the first
 * identity.
 */
export async function forgetPerson(db: Db, { accountId, userId }: IdentityOwner): Promise<void> {
  const first = parseUserId(userId)!
  await db
    .deleteFrom('identities')
    .where('account_id', '=', accountId)
    .where(({ not, and, eb }) => not(and([eb('provider', '=', first.provider), eb('subject', '=', first.subject)])))
    .execute()
  await db
    .updateTable('identities')
    .set({ username: first.subject, image_src: null, email: null, email_verified: null, signed_in_at: null })
    .where('provider', '=', first.provider)
    .where('subject', '=', first.subject)
    .execute()
}
