import { sql } from 'kysely'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import type { Caller, Machine } from '../http/bearer.ts'
import { cutPage, foreignCursor, isMoment, readPageCursor } from '../http/cursor.ts'
import { provenAddress, storedAddressOf, type AddressProver } from '../http/proven-address.ts'
import { isProviderName, parseUserId, type UserId } from '../ids.ts'
import { momentText } from '../store/read-time.ts'
import { isReadable } from './authorize.ts'
import { userWire } from './find.ts'
import type { UserProfile } from './wire.ts'

/** Maximum number of users with one name. */
const MAX_FOUND = 20

/**
 * Finds users of the caller's application who have exactly this name and allowed being found there (`users:directory`),
 * including the caller. The name is that of the identity that the account was created for. Uses the index of names.
 * @throws invalid_request
 */
export async function findByName(
  app: AddressProver,
  { clientId }: Pick<Caller, 'clientId'>,
  { username, provider }: { username: string; provider?: string | undefined },
): Promise<UserProfile[]> {
  if (provider !== undefined && !isProviderName(provider))
    throw refuse('provider', 'The provider must be the upper-case name of a provider.')
  // PostgreSQL rejects NUL, and no name contains one.
  if (username.includes('\0') || !username.isWellFormed()) return []
  const rows = await found(app.db, clientId)
    .where('identity.username', '=', username)
    .$if(provider !== undefined, (query) => query.where('identity.provider', '=', provider!))
    .orderBy('account.user_id')
    .limit(MAX_FOUND)
    .execute()
  return Promise.all(rows.map((row) => toProfile(app, row)))
}

/** Finds a user of the caller's application by their stable id; null unless they allowed being found there. */
export async function findMember(
  app: AddressProver,
  { clientId }: Pick<Caller, 'clientId'>,
  userId: UserId,
): Promise<UserProfile | null> {
  const identity = parseUserId(userId)
  if (identity === null) return null
  const row = await found(app.db, clientId)
    .where('identity.provider', '=', identity.provider)
    .where('identity.subject', '=', identity.subject)
    .executeTakeFirst()
  return row === undefined ? null : toProfile(app, row)
}

/**
 * Lists the users whom an application may read by itself (`users:read`), newest first. Uses the index (application,
 * time, account), and skips users who were never asked.
 * @throws invalid_cursor
 */
export async function listUsers(
  app: AddressProver,
  { clientId }: Pick<Machine, 'clientId'>,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): Promise<{ users: UserProfile[]; nextCursor: string | null }> {
  const after = cursor === undefined ? null : readPageCursor(cursor, ['string', 'string'])
  if (after !== null && !isPlace(after[0] as string, after[1] as string)) throw foreignCursor()
  const rows = await members(app.db, clientId)
    .select(['member.account_id', momentText('member.created_at').as('since')])
    .where(isReadable(clientId))
    .$if(after !== null, (query) =>
      query.where(
        sql<boolean>`(member.created_at, member.account_id) < (${after![0]}::timestamptz, ${after![1]}::uuid)`,
      ),
    )
    .orderBy('member.created_at', 'desc')
    .orderBy('member.account_id', 'desc')
    .limit(limit + 1)
    .execute()
  const { page, nextCursor } = cutPage(rows, limit, ({ since, account_id }) => [since, account_id])
  return { users: await Promise.all(page.map((row) => toProfile(app, row))), nextCursor }
}

/** Selects everyone who signed in to an application, with the identity that their account was created for. */
const members = (db: App['db'], clientId: string) =>
  db
    .selectFrom('application_users as member')
    .innerJoin('accounts as account', 'account.account_id', 'member.account_id')
    .innerJoin('identities as identity', 'identity.account_id', 'member.account_id')
    .select([
      'account.user_id',
      'account.address',
      'account.attestation',
      'identity.provider',
      'identity.username',
      'identity.image_src',
    ])
    .where('member.client_id', '=', clientId)
    .where(sql<boolean>`identity.provider || '-' || identity.subject = account.user_id`)

/** Selects the members who allowed being found. */
const found = (db: App['db'], clientId: string) =>
  members(db, clientId).where(sql<boolean>`exists (
    select 1 from consents c where c.account_id = member.account_id and c.client_id = ${clientId}
      and c.permissions @> '["users:directory"]'::jsonb)`)

type DirectoryRow = {
  user_id: string
  address: Uint8Array
  attestation: Uint8Array | null
  provider: string
  username: string
  image_src: string | null
}

/**
 * Converts a row. One invalid address fails the whole page, because other rows may have been changed as well.
 * @throws address_not_proven
 */
async function toProfile(app: AddressProver, row: DirectoryRow): Promise<UserProfile> {
  const { user_id: userId, provider, username, image_src: imageSrc } = row
  return userWire({ userId, provider, username, address: await provenAddress(app, storedAddressOf(row)), imageSrc })
}

/** Checks the parts of a cursor, because PostgreSQL would fail on those of a forged one. */
const isPlace = (since: string, accountId: string): boolean =>
  isMoment(since) && /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(accountId)

export const refuse = (parameter: string, detail: string): AppError =>
  new AppError(
    'invalid_request',
    `The parameter ${parameter} is missing or wrong. Nothing was done. Correct the parameter.`,
    {
      errors: [{ parameter, code: 'invalid', detail }],
    },
  )
