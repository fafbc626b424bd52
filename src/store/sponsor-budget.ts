import { sql } from 'kysely'
import type { Hex } from '../ids.ts'
import { textsIn } from './column-values.ts'
import type { Db } from './db.ts'

/**
 * Wei that sponsors may send in a rolling day for writes of one application: to one person, and to all of them. `contracts`: whose
 * writes it pays for, in lower case; null: those of any.
 */
export type SponsorBudget = { perUser: bigint; perApplication: bigint; contracts: readonly Hex[] | null }

/** The columns of `applications` that hold it: the first two, or neither. */
export const BUDGET_COLUMNS = ['sponsor_per_user', 'sponsor_per_application', 'sponsor_contracts'] as const

/** Whether a budget pays for a write. @param to  its target, in lower case */
export const paysFor = ({ contracts }: Pick<SponsorBudget, 'contracts'>, to: Hex): boolean =>
  contracts === null || contracts.includes(to)

/** What an application's row says of it; null: sponsors send nothing for it. */
export const sponsorBudgetOf = ({
  sponsor_per_user: perUser,
  sponsor_per_application: perApplication,
  sponsor_contracts: contracts,
}: BudgetRow): SponsorBudget | null =>
  perUser === null || perApplication === null
    ? null
    : {
        perUser: BigInt(perUser),
        perApplication: BigInt(perApplication),
        contracts: contracts && (textsIn(contracts) as Hex[]),
      }

type BudgetRow = {
  sponsor_per_user: string | null
  sponsor_per_application: string | null
  sponsor_contracts: Hex[] | null
}

/** hours that a rolling day is counted in. An hour counts whole until its last minute is a day old, so a day holds no more than the budget. */
export const DAY_HOURS = 24
/** Whose row of `gas_spent` holds what all people of an application were sent. */
export const EVERYONE = '00000000-0000-0000-0000-000000000000'

/** wei that were paid in the rolling day for writes of an application, to anyone; what is on its way with its highest fee. */
export async function spentOfBudget(db: Db, clientId: string, accountId: string = EVERYONE): Promise<bigint> {
  return (await readSpent(db, clientId, [accountId])).reduce((sum, { wei }) => sum + wei, 0n)
}

/** The same for all applications of a network. */
export async function spentOnNetwork(db: Db, chainId: number): Promise<bigint> {
  return (await readSpentOnNetwork(db, chainId)).reduce((sum, { wei }) => sum + wei, 0n)
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

export async function readSpentOnNetwork(db: Db, chainId: number): Promise<{ hour: Date; wei: bigint }[]> {
  const rows = await db
    .selectFrom('gas_spent_on_network')
    .select(['hour', 'wei'])
    .where('chain_id', '=', chainId)
    .where('hour', '>', sql<Date>`now() - ${`${DAY_HOURS + 1} hours`}::interval`)
    .orderBy('hour')
    .execute()
  return rows.map(({ hour, wei }) => ({ hour, wei: BigInt(wei) }))
}
