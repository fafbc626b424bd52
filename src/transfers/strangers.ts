import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { userIdOf, type Hex, type UserId } from '../ids.ts'
import { retrying } from '../store/db.ts'
import { pregenerate } from '../users/pregenerate.ts'
import type { Stranger } from './recipient.ts'

/** Recipients for whom one sender can have accounts created in 24 hours. */
const MAX_A_DAY = 20
const DAY_SECONDS = 86_400

/**
 * Creates the account of a user who has not signed in yet, and returns its address: the user gets exactly this account
 * at the first sign-in. Repeated and simultaneous calls create one account.
 * @throws rate_limited, signer_unavailable, database_unavailable
 */
export async function welcome(app: App, { accountId }: { accountId: string }, stranger: Stranger): Promise<Hex> {
  const { provider, subject } = stranger
  await charge(app, accountId, userIdOf(provider, subject))
  const { address, isNew } = await pregenerate(app, { provider, providerUserId: subject })
  if (isNew) app.telemetry.log.info('account_precreated', { provider })
  return address
}

/**
 * Counts a created account toward the limit. The lock on the sender's row serializes the sender's requests, so that
 * simultaneous ones cannot exceed the limit.
 */
async function charge({ db: root }: Pick<App, 'db'>, senderId: string, userId: UserId): Promise<void> {
  await retrying(() =>
    root.transaction().execute(async (db) => {
      await db.selectFrom('accounts').select('account_id').where('account_id', '=', senderId).forUpdate().execute()
      const aDayAgo = sql<Date>`now() - ${`${DAY_SECONDS} seconds`}::interval`
      await db.deleteFrom('strangers').where('sender_id', '=', senderId).where('made_at', '<=', aDayAgo).execute()
      const made = await db
        .selectFrom('strangers')
        .select('user_id')
        .select(sql<number>`ceil(${DAY_SECONDS} - extract(epoch from now() - made_at))::int`.as('seconds'))
        .where('sender_id', '=', senderId)
        .orderBy('made_at')
        .execute()
      if (made.some((row) => row.user_id === userId)) return
      if (made.length >= MAX_A_DAY)
        throw new AppError(
          'rate_limited',
          `The limit is ${MAX_A_DAY} new recipients a day. Nothing was sent. Retry later, or send to users who have signed in.`,
          { retryAfter: Math.max(1, made[0]!.seconds) },
        )
      await db.insertInto('strangers').values({ sender_id: senderId, user_id: userId }).execute()
    }),
  )
}

/**
 * Returns the address that a transfer is simulated to before the account exists: nobody has its key, and it differs per
 * recipient.
 */
export const standInOf = ({ provider, subject }: Stranger): Hex =>
  `0x${createHash('sha256').update(`chatelaine stand-in\0${provider}\0${subject}`).digest('hex').slice(0, 40)}`
