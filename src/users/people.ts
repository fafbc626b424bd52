import { sql, type RawBuilder } from 'kysely'
import { explainAddress } from '../abi/address.ts'
import { checksumAddress } from '../digits.ts'
import type { App } from '../app.ts'
import { every, type Rounds } from '../clock.ts'
import { AppError } from '../errors.ts'
import { cutPage, foreignCursor, isMoment, readPageCursor } from '../http/cursor.ts'
import { isKnownAddress, storedAddressOf, type AddressProver } from '../http/proven-address.ts'
import { SPONSOR_PROVIDER, userIdOf, type Hex, type UserId } from '../ids.ts'
import { fromHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { momentText } from '../store/read-time.ts'
import { findNamed } from './find.ts'
import type { PeopleCounts, Person } from './wire.ts'

/**
 * Lists the users of the whole installation for its operator, newest account first. Uses the index (time, account).
 * @param search  a whole user id or address, or the beginning of a username or e-mail address, case-insensitive.
 *                Usernames and e-mail addresses only find rows to look at; nothing is decided by them. Of more than MAX_NAMED
 *                names it finds the first ones in alphabetical order: to sort millions by time takes seconds
 * @throws invalid_cursor
 */
export async function listPeople(
  app: AddressProver,
  { search = '', limit, cursor }: { search?: string | undefined; limit: number; cursor?: string | undefined },
): Promise<{ people: Person[]; nextCursor: string | null }> {
  const after = cursor === undefined ? null : readPageCursor(cursor, ['string', 'string', 'string'])
  if (after !== null && (after[0] !== search || !isPlace(after[1] as string, after[2] as string))) throw foreignCursor()
  // PostgreSQL rejects NUL and lone surrogates, and no name contains them.
  if (search.includes('\0') || !search.isWellFormed()) return { people: [], nextCursor: null }
  const rows = await accounts(app.db)
    .select(momentText('account.created_at').as('since'))
    .$if(search !== '', (query) => query.where(sql<boolean>`account.account_id = any(array(${found(search)}))`))
    .$if(after !== null, (query) =>
      query.where(
        sql<boolean>`(account.created_at, account.account_id) < (${after![1]}::timestamptz, ${after![2]}::uuid)`,
      ),
    )
    .orderBy('account.created_at', 'desc')
    .orderBy('account.account_id', 'desc')
    .limit(limit + 1)
    .execute()
  const { page, nextCursor } = cutPage(rows, limit, ({ since, account_id }) => [search, since, account_id])
  return { people: await toPeople(app, page), nextCursor }
}

/** Reads a user by any of their identities. @throws not_found */
export async function readPerson(app: AddressProver, userId: UserId): Promise<Person> {
  const named = await findNamed(app.db, userId)
  const row = named && (await accounts(app.db).where('account.account_id', '=', named.accountId).executeTakeFirst())
  if (!row) throw new AppError('not_found', 'No account has this user id. Check the user id.')
  return (await toPeople(app, [row]))[0]!
}

/** Counts the users. It reads all rows of two tables: 0.2 s of database time for a million users. */
export async function countPeople(db: Db): Promise<PeopleCounts> {
  const { rows } = await sql<{ accounts: number; frozen: number; signed_in: number }>`
      select count(*)::float8 as accounts, count(frozen_at)::float8 as frozen,
        (select count(distinct account_id) from identities where signed_in_at is not null)::float8 as signed_in
      from accounts as account where ${isPerson}`.execute(db)
  const byProvider = await db
    .selectFrom('identities')
    .select([
      'provider',
      sql<number>`count(*)::float8`.as('identities'),
      sql<number>`count(signed_in_at)::float8`.as('signed_in'),
    ]) // prettier-ignore
    .groupBy('provider')
    .orderBy('provider')
    .execute()
  const { accounts: all, frozen, signed_in: signedIn } = rows[0]!
  return {
    accounts: all,
    signedIn,
    frozen,
    providers: byProvider.map(({ provider, identities, signed_in }) => ({ provider, identities, signedIn: signed_in })),
  }
}

const COUNT_MS = 300_000

/** Sets the metric `people` at the start, and then every five minutes. */
export function startCountingPeople({ clock, db, telemetry }: Pick<App, 'clock' | 'db' | 'telemetry'>): Rounds {
  const { people, log } = telemetry
  const rounds = every(clock, COUNT_MS, async () => {
    try {
      const { accounts: all, signedIn, frozen } = await countPeople(db)
      people.set({ state: 'signed_in' }, signedIn)
      people.set({ state: 'expected' }, all - signedIn)
      people.set({ state: 'frozen' }, frozen)
    } catch (error) {
      log.warn('users_not_counted', {}, error)
    }
  })
  void rounds.round()
  return rounds
}

/** Excludes sponsors, which are not users. */
const isPerson = sql<boolean>`account.user_id not like ${`${SPONSOR_PROVIDER}-%`}`

const accounts = (db: Db) =>
  db
    .selectFrom('accounts as account')
    .select(['account.account_id', 'account.user_id', 'account.address', 'account.attestation'])
    .select(['account.created_at', 'account.frozen_at', 'account.exported_at'])
    .where(isPerson)

/** Maximum usernames, and e-mail addresses, that a search finds. */
const MAX_NAMED = 1_000

/** Selects the accounts that match a search; each part uses an index of its own. */
function found(search: string): RawBuilder<unknown> {
  const begins = `${search.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`
  const isAddress = explainAddress(search) === null
  return sql`
    (select account_id from identities where lower(username) like lower(${begins})
      order by lower(username) using ~<~ limit ${MAX_NAMED})
    union (select account_id from identities where lower(email) like lower(${begins})
      order by lower(email) using ~<~ limit ${MAX_NAMED})
    union select account_id from accounts where user_id = ${search}
    union select account_id from identities where provider = split_part(${search}, '-', 1) and subject = substr(${search}, strpos(${search}, '-') + 1)
    ${isAddress ? sql`union select account_id from accounts where address = ${fromHex(search.toLowerCase() as Hex)}` : sql``}`
}

type PersonRow = Awaited<ReturnType<ReturnType<typeof accounts>['execute']>>[number]

/**
 * Converts rows. Omits an address without a valid attestation, instead of failing: the operator may need just that row.
 */
async function toPeople(app: AddressProver, rows: PersonRow[]): Promise<Person[]> {
  if (rows.length === 0) return []
  const identities = await app.db
    .selectFrom('identities')
    .select(['account_id', 'provider', 'subject', 'username', 'email', 'signed_in_at'])
    .where(
      'account_id',
      'in',
      rows.map(({ account_id }) => account_id),
    ) // prettier-ignore
    .orderBy('created_at')
    .orderBy('provider')
    .orderBy('subject')
    .execute()
  const people = rows.map(async (row): Promise<Person> => {
    const stored = storedAddressOf(row)
    return {
      userId: row.user_id,
      address: (await isKnownAddress(app, stored)) ? checksumAddress(stored.address) : null,
      createdAt: row.created_at.toISOString(),
      frozenAt: row.frozen_at?.toISOString() ?? null,
      exportedAt: row.exported_at?.toISOString() ?? null,
      identities: identities
        .filter((one) => one.account_id === row.account_id)
        .map(({ provider, subject, username, email, signed_in_at }) => ({
          userId: userIdOf(provider, subject),
          username,
          email,
          signedInAt: signed_in_at?.toISOString() ?? null,
        })),
    }
  })
  return Promise.all(people)
}

/** Checks the parts of a cursor, because PostgreSQL would fail on those of a forged one. */
const isPlace = (since: string, accountId: string): boolean =>
  isMoment(since) && /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(accountId)
