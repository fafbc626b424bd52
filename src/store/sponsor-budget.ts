import { sql } from 'kysely'
import type { Db } from './db.ts'

/** Wei that sponsors may send in a rolling day for writes of one application: to one person, and to all of them. */
export type SponsorBudget = { perUser: bigint; perApplication: bigint }

/** The columns of `applications` that hold it: both or neither. */
export const BUDGET_COLUMNS = ['sponsor_per_user', 'sponsor_per_application'] as const

/** What an application's row says of it; null: sponsors send nothing for it. */
export const sponsorBudgetOf = ({
  sponsor_per_user: perUser,
  sponsor_per_application: perApplication,
}: Record<(typeof BUDGET_COLUMNS)[number], string | null>): SponsorBudget | null =>
  perUser === null || perApplication === null
    ? null
    : { perUser: BigInt(perUser), perApplication: BigInt(perApplication) }

/** hours that a rolling day is counted in. An hour counts whole until its last minute is a day old, so a day holds no more than the budget. */
export const DAY_HOURS = 24
/** Whose row of `gas_spent` holds what all people of an application were sent. */
export const EVERYONE = '00000000-0000-0000-0000-000000000000'

/** wei that were paid in the rolling day for writes of an application, to anyone; what is on its way with its highest fee. */
export async function spentOfBudget(db: Db, clientId: string, accountId: string = EVERYONE): Promise<bigint> {
  return (await readSpent(db, clientId, [accountId])).reduce((sum, { wei }) => sum + wei, 0n)
}

/** By the hour, oldest first. The database's clock is the one that all replicas have. */
export async function readSpent(
  db: Db,
  clientId: string,
  accountIds: string[],
): Promise<{ accountId: string; hour: Date; wei: bigint }[]> {
  const rows = await db
    .selectFrom('gas_spent')
    .select(['account_id', 'hour', 'wei'])
    .where('client_id', '=', clientId)
    .where('account_id', 'in', accountIds)
    .where('hour', '>', sql<Date>`now() - ${`${DAY_HOURS + 1} hours`}::interval`)
    .orderBy('hour')
    .execute()
  return rows.map(({ account_id: accountId, hour, wei }) => ({ accountId, hour, wei: BigInt(wei) }))
}
