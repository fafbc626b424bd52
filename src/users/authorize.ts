import { sql, type RawBuilder } from 'kysely'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import type { Caller, Reader } from '../http/bearer.ts'
import { provenAddress, storedAddressOf } from '../http/proven-address.ts'
import { parseUserId, type Hex } from '../ids.ts'
import { ownerOf } from './find.ts'
import { assertIdentity } from './proven-identity.ts'

export type Account = { accountId: string; userId: string; address: Hex }

/**
 * Returns the account that a path names, if this reader may see it. A user sees their own account, by its stable id or
 * any linked identity. An application sees accounts of users who signed in to it and allowed that. Each error has one
 * fixed body, whether or not the user exists.
 * @throws invalid_user_id | forbidden_user | identity_not_proven | address_not_proven
 */
export async function ownAccount(app: App, reader: Reader, userId: string): Promise<Account> {
  return reader.kind === 'machine' ? memberAccount(app, reader, userId) : callersAccount(app, reader, userId)
}

async function callersAccount(app: App, caller: Caller, userId: string): Promise<Account> {
  const own = { accountId: caller.accountId, userId: caller.userId, address: caller.address }
  if (userId === caller.userId) return own
  const identity = identityOf(userId)
  const linked = await ownerOf(app.db, identity).where('identity.account_id', '=', caller.accountId).executeTakeFirst()
  if (linked === undefined)
    throw new AppError(
      'forbidden_user',
      'This access token does not give access to this user. Nothing was done. Use an access token of that user.',
    )
  assertIdentity(app, linked)
  return own
}

/**
 * Returns the account of a user who signed in to the application and allowed it to read accounts by itself. An
 * application also reads users of its own identity provider, who see no consent page (decision 10). Uses one statement,
 * by primary keys.
 */
async function memberAccount(app: App, { clientId }: Pick<Reader, 'clientId'>, userId: string): Promise<Account> {
  const row = await ownerOf(app.db, identityOf(userId))
    .innerJoin('application_users as member', 'member.account_id', 'identity.account_id')
    .where('member.client_id', '=', clientId)
    .where(isReadable(clientId))
    .executeTakeFirst()
  if (row === undefined)
    throw new AppError(
      'forbidden_user',
      'No user with this id has allowed this application to read data. Nothing was done. Ask the user to sign in and allow it.',
    )
  assertIdentity(app, row)
  return { accountId: row.account_id, userId: row.user_id, address: await provenAddress(app, storedAddressOf(row)) }
}

/** Builds the SQL condition that an application with `users:read` may read the user of `identity`. */
export const isReadable = (clientId: string | RawBuilder<unknown>) => sql<boolean>`(
  exists (select 1 from consents c where c.account_id = identity.account_id and c.client_id = ${clientId}
    and c.permissions @> '["users:read"]'::jsonb)
  or exists (select 1 from applications a where a.client_id = ${clientId}
    and a.issuers @> jsonb_build_array(jsonb_build_object('provider', identity.provider))))`

function identityOf(userId: string): { provider: string; subject: string } {
  const identity = parseUserId(userId)
  if (identity !== null) return identity
  throw new AppError(
    'invalid_user_id',
    'A user id has the form `<PROVIDER>-<provider_user_id>`. Nothing was done. Correct the user id.',
    {
      errors: [
        {
          parameter: 'userId',
          code: 'invalid',
          detail: 'A user id is the provider’s upper-case name, a hyphen, and the id at that provider.',
        },
      ],
    },
  )
}
