import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { holds, scopesOf, type Caller, type Reader } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { parseUserId, userIdOf } from '../ids.ts'
import { findMember } from './directory.ts'
import { readExported } from './exported.ts'
import { ownAccount, type Account } from './authorize.ts'
import { userWire } from './find.ts'
import { isIdentityProven } from './proven-identity.ts'
import type { Me, UserProfile } from './wire.ts'

/**
 * Reads the profile that a path names: the caller's own, and with `users:directory` those of other users of the
 * application.
 * @throws forbidden_user | invalid_user_id
 */
export async function readUser(app: App, reader: Reader, { userId }: { userId: string }): Promise<UserProfile> {
  try {
    return (await readIdentities(app, await ownAccount(app, reader, userId))).user
  } catch (error) {
    // Show another user if the caller may search users and that user allowed it. Otherwise report the error for a user
    // that does not exist.
    const isOther = error instanceof AppError && error.code === 'forbidden_user' && reader.kind !== 'machine'
    const other = isOther && holds(app, reader, 'users:directory') ? await findMember(app, reader, userId) : null
    if (other === null) throw error
    return other
  }
}

/** Reads the caller's own profile, the network of the application, and the permissions of the token. */
export async function readMe(app: App, caller: Caller): Promise<Me> {
  const chain = chainOf(app, caller)
  const [{ user, linked }, exportedAt] = await Promise.all([
    readIdentities(app, caller),
    readExported(app.db, caller.accountId),
  ])
  return {
    ...user,
    network: chain.name,
    chainId: chain.chainId,
    scopes: scopesOf(app, caller).toSorted(),
    linked,
    exportedAt: exportedAt?.toISOString() ?? null,
  }
}

/**
 * Reads the identities of an account. The profile is that of the first identity, whose id remains when others are
 * linked.
 */
async function readIdentities(
  { db, sealKeys }: App,
  account: Account,
): Promise<{ user: UserProfile; linked: string[] }> {
  const first = parseUserId(account.userId)!
  const rows = await db
    .selectFrom('identities')
    .select(['provider', 'subject', 'username', 'image_src', 'account_id', 'seal'])
    .where('account_id', '=', account.accountId)
    .orderBy('created_at')
    .execute()
  const own = rows.find((row) => row.provider === first.provider && row.subject === first.subject)
  // An attacker may have inserted an unverified row, so omit it.
  const others = rows.filter((row) => row !== own && isIdentityProven(sealKeys, { ...row, user_id: account.userId }))
  return {
    user: userWire({
      userId: account.userId,
      provider: first.provider,
      username: own?.username ?? first.subject,
      address: account.address,
      imageSrc: own?.image_src ?? null,
    }),
    linked: [account.userId, ...others.map((row) => userIdOf(row.provider, row.subject))],
  }
}
