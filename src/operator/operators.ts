import { sql } from 'kysely'
import { AppError } from '../errors.ts'
import { isAuthentic, type RowReader } from '../http/authentic-row.ts'
import { parseUserId, type UserId } from '../ids.ts'
import type { Db } from '../store/db.ts'
import { isSealed, sealOf, type SealKeys } from '../store/seal.ts'

/** Roles of the console, from the most to the least. */
export const CONSOLE_ROLES = ['owner', 'operator', 'support', 'viewer'] as const
export type ConsoleRole = (typeof CONSOLE_ROLES)[number]

/** An identity that may open the console. `isAuthentic`: the authorization server wrote its row; otherwise it has no role. */
export type ConsoleOperator = { userId: UserId; role: ConsoleRole; createdAt: string; isAuthentic: boolean }

/** Maximum number of operators: the console lists them on one page. */
const MAX_OPERATORS = 200

/** Returns whether a role includes another one. */
export const includesRole = (role: ConsoleRole, least: ConsoleRole): boolean =>
  CONSOLE_ROLES.indexOf(role) <= CONSOLE_ROLES.indexOf(least)

export const isConsoleRole = (role: unknown): role is ConsoleRole => CONSOLE_ROLES.includes(role as ConsoleRole)

/**
 * Reads the role of an identity. It is read for each request, and never from the session.
 * @param identity  the identity that signed in, not another one of the same account
 */
export async function readRole(app: RowReader & { db: Db }, identity: UserId): Promise<ConsoleRole | null> {
  const row = await app.db.selectFrom('operators').selectAll().where('user_id', '=', identity).executeTakeFirst()
  return row !== undefined && isAuthentic(app, 'operators', row, { userId: identity }) ? row.role : null
}

/** Lists the operators of the console by user id. */
export async function listOperators(app: RowReader & { db: Db }): Promise<ConsoleOperator[]> {
  const rows = await app.db.selectFrom('operators').selectAll().orderBy('user_id').limit(MAX_OPERATORS).execute()
  return rows.map((row) => ({
    userId: row.user_id,
    role: row.role,
    createdAt: row.created_at.toISOString(),
    isAuthentic: isAuthentic(app, 'operators', row, { userId: row.user_id }),
  }))
}

/**
 * Gives an identity a role in the console, or another role. The user need not have signed in yet.
 * @throws invalid_user_id, conflict if there are too many operators
 */
export async function putOperator(
  { db, sealKeys }: { db: Db; sealKeys: SealKeys },
  { userId, role }: { userId: UserId; role: ConsoleRole },
): Promise<{ userId: UserId; role: ConsoleRole }> {
  if (parseUserId(userId) === null)
    throw new AppError('invalid_user_id', 'This is not a user id. Nothing was changed. Use `<PROVIDER>-<id>`.')
  const seal = sealOf(sealKeys, 'operators', { user_id: userId, role })
  await db
    .insertInto('operators')
    .values({ user_id: userId, role, seal })
    .onConflict((on) => on.column('user_id').doUpdateSet({ role, seal }))
    .execute()
  const { count } = await db
    .selectFrom('operators')
    .select(({ fn }) => fn.countAll<string | number>().as('count'))
    .executeTakeFirstOrThrow()
  if (Number(count) > MAX_OPERATORS)
    throw new AppError('conflict', `The console has ${MAX_OPERATORS} operators, the maximum. Nothing was changed. Remove one first.`) // prettier-ignore
  return { userId, role }
}

/**
 * Locks the row of the owner who changes a role, until the end of the transaction. Two owners that remove each other wait here, and
 * the second one is no longer an owner. Nobody changes their own role in the console, so the console always keeps an owner.
 * @throws insufficient_scope if the role has ended since the request began
 */
export async function holdOwner(db: Db, { owner, target }: { owner: string; target: UserId }): Promise<void> {
  // Both rows in one order, or two owners would wait for each other.
  const rows = await db
    .selectFrom('operators')
    .select(['user_id', 'role'])
    .where('user_id', 'in', [owner, target])
    .orderBy('user_id')
    .forUpdate()
    .execute()
  if (owner === target)
    throw new AppError('conflict', 'You cannot change your own role. Nothing was changed. Ask another owner.')
  if (!rows.some(({ user_id: userId, role }) => userId === owner && role === 'owner'))
    throw new AppError('insufficient_scope', 'Your role has ended in the meantime. Nothing was changed.')
}

/** Returns the highest role of any identity of an account; null: none. A row that its seal does not match gives none. */
export async function highestRole(db: Db, sealKeys: SealKeys, accountId: string): Promise<ConsoleRole | null> {
  const rows = await db
    .selectFrom('identities as identity')
    .innerJoin('operators as operator', (on) =>
      on.on(sql<boolean>`operator.user_id = identity.provider || '-' || identity.subject`),
    )
    .selectAll('operator')
    .where('identity.account_id', '=', accountId)
    .execute()
  const roles = rows.flatMap((row) => (isSealed(sealKeys, 'operators', row) ? [row.role] : []))
  return CONSOLE_ROLES.find((role) => roles.includes(role)) ?? null
}

/** Removes an operator: the next request of their browsers is rejected. @throws not_found */
export async function dropOperator(db: Db, userId: UserId): Promise<{ userId: UserId }> {
  const gone = await db.deleteFrom('operators').where('user_id', '=', userId).returning('user_id').executeTakeFirst()
  if (gone === undefined)
    throw new AppError('not_found', 'This user id is not an operator of the console. Nothing was changed.')
  return { userId }
}

/** Reads the role of a row for the record of actions, whether or not its seal is valid. */
export const operatorState = (userId: string) => async (db: Db) =>
  (await db.selectFrom('operators').select('role').where('user_id', '=', userId).executeTakeFirst()) ?? null
