import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { parseUserId, type Hex } from '../ids.ts'

/**
 * The account a path names, when it is the caller's own: by the account's stable id or by any identity linked to it.
 * The refusal has one fixed body, whether or not the other user exists.
 * @throws invalid_user_id | forbidden_user
 */
export async function ownAccount(
  { db }: Pick<App, 'db'>,
  caller: Caller,
  userId: string,
): Promise<{ accountId: string; userId: string; address: Hex }> {
  const own = { accountId: caller.accountId, userId: caller.userId, address: caller.address }
  if (userId === caller.userId) return own
  const identity = parseUserId(userId)
  if (identity === null) {
    throw new AppError('invalid_user_id', 'A user id is <PROVIDER>-<provider_user_id>.', {
      errors: [
        {
          parameter: 'userId',
          code: 'invalid',
          detail: 'Upper-case provider name, a hyphen, the id at that provider.',
        },
      ],
    })
  }
  const linked = await db
    .selectFrom('identities')
    .select('account_id')
    .where('provider', '=', identity.provider)
    .where('subject', '=', identity.subject)
    .where('account_id', '=', caller.accountId)
    .executeTakeFirst()
  if (linked === undefined) throw new AppError('forbidden_user', 'This token is for another user.')
  return own
}
