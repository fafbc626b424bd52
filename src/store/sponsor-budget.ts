import { sql } from 'kysely'
import { OWN_CLIENT, type Hex } from '../ids.ts'
import { textsIn } from './column-values.ts'
import type { Db } from './db.ts'

/**
 * Gas budget of an application: maximum wei that sponsors spend on its writes in a rolling day, per user and in total.
 * `contracts`: targets that it pays for, in lower case; null: all.
 */
export type SponsorBudget = { perUser: bigint; perApplication: bigint; contracts: readonly Hex[] | null }

/** The columns of `applications` that hold the budget. The first two are both set or both null. */
export const BUDGET_COLUMNS = ['sponsor_per_user', 'sponsor_per_application', 'sponsor_contracts'] as const

/** Returns whether a budget pays for a write. @param to  target, in lower case */
export const paysFor = ({ contracts }: Pick<SponsorBudget, 'contracts'>, to: Hex): boolean =>
  contracts === null || contracts.includes(to)

/** Reads the budget of an application's row; null: sponsors pay nothing. */
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

/** Reads the budget of the account pages on a network; null: sponsors pay nothing for them. It is for all contracts. */
export const pagesBudgetOf = ({ pages_per_user: perUser, pages_per_day: perDay }: PagesRow): SponsorBudget | null =>
  perUser === null || perDay === null
    ? null
    : { perUser: BigInt(perUser), perApplication: BigInt(perDay), contracts: null }

type PagesRow = { pages_per_user: string | null; pages_per_day: string | null }

type BudgetRow = {
  sponsor_per_user: string | null
  sponsor_per_application: string | null
  sponsor_contracts: Hex[] | null
}

/**
 * Hours in a rolling day. An hour's spending counts until its last minute is 24 hours old, so no 24 hours exceed the
 * budget.
 */
export const DAY_HOURS = 24
/** Account id of the rows of `gas_spent` that hold the sum over all users of an application. */
export const EVERYONE = '00000000-0000-0000-0000-000000000000'

/**
 * Returns the wei spent on an application's writes in the rolling day, for one account or (default) all. Transactions
 * in flight count with their maximum fee.
 */
export async function spentOfBudget(db: Db, clientId: string, accountId: string = EVERYONE): Promise<bigint> {
  return (await readSpent(db, { clientId }, [accountId])).reduce((sum, { wei }) => sum + wei, 0n)
}

/** Returns the wei spent in the rolling day on what users sent from the account pages on a network. */
export async function spentOfPages(db: Db, chainId: number): Promise<bigint> {
  return (await readSpent(db, { clientId: OWN_CLIENT, chainId }, [EVERYONE])).reduce((sum, { wei }) => sum + wei, 0n)
}

/** Returns the wei spent in the rolling day on writes of all applications of a network. */
export async function spentOnNetwork(db: Db, chainId: number): Promise<bigint> {
  return (await readSpentOnNetwork(db, chainId)).reduce((sum, { wei }) => sum + wei, 0n)
}

/**
 * Returns the spending per hour, oldest first, by the database's clock, which all replicas share.
 * @param chainId  default all: an application has only one
 */
export async function readSpent(
  db: Db,
  { clientId, chainId }: { clientId: string; chainId?: number },
  accountIds: string[],
): Promise<{ accountId: string; hour: Date; wei: bigint }[]> {
  const ofClient = db
    .selectFrom('gas_spent')
    .select(['account_id', 'hour', 'wei'])
    .where('client_id', '=', clientId)
    .where('account_id', 'in', accountIds)
    .where('hour', '>', sql<Date>`now() - ${`${DAY_HOURS + 1} hours`}::interval`)
    .orderBy('hour')
  const rows = await (chainId === undefined ? ofClient : ofClient.where('chain_id', '=', chainId)).execute()
  return rows.map(({ account_id: accountId, hour, wei }) => ({ accountId, hour, wei: BigInt(wei) }))
}

/** Returns the spending on a network per hour, for all applications, oldest first. */
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
