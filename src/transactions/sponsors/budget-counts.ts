import { sql } from 'kysely'
import type { Db } from '../../store/db.ts'
import { prepared } from '../../store/prepared.ts'
import { DAY_HOURS, EVERYONE } from '../../store/sponsor-budget.ts'
import { exhaustedBy, type Amounts, type Exhausted } from './gas-budget.ts'

type CountedHour = { hour: Date; wei: bigint }

/** Spending that counts in budgets, oldest hour first, including what was reserved since it was read. */
export type BudgetCounts = {
  /** by application and user, or everyone */
  spent: Map<string, CountedHour[]>
  onNetwork: CountedHour[]
  /** null: no limit in addition to the applications' budgets */
  perNetwork: bigint | null
  /** the current hour by the database's clock */
  hour: Date
}

type Reserving = { id: string; clientId: string; accountId: string }
type StandingRow = { id: string | null; client_id: string | null; account_id: string | null; hour: Date | null; wei: string | null } // prettier-ignore

/**
 * Reads in one statement the rows that operations to be bound may conflict with: ids of existing transactions or
 * operations, and the spending of the budgets that pay. Uses the primary keys of all five tables.
 */
export async function readStanding(
  db: Db,
  { chainId, perNetwork }: { chainId: number; perNetwork: bigint | null },
  members: readonly Reserving[],
): Promise<{ known: Set<string>; counted: BudgetCounts }> {
  const asked = JSON.stringify(members.map(({ id, clientId, accountId }) => ({ id, client_id: clientId, account_id: accountId }))) // prettier-ignore
  const { rows } = await sql<StandingRow>`${prepared}
    with asked as (
      select id, client_id, account_id from json_to_recordset(${asked}::json) as members (id text, client_id text, account_id uuid)
    ), payers as (
      select client_id, account_id from asked union select client_id, ${EVERYONE}::uuid from asked
    ), counted as (
      select gas_spent.client_id, gas_spent.account_id, gas_spent.hour, gas_spent.wei
      from payers join gas_spent on gas_spent.client_id = payers.client_id and gas_spent.account_id = payers.account_id
      where gas_spent.chain_id = ${chainId}::int8 and gas_spent.hour > now() - ${`${DAY_HOURS + 1} hours`}::interval
      union all
      select null, null, hour, wei from gas_spent_on_network
      where chain_id = ${chainId}::int8 and hour > now() - ${`${DAY_HOURS + 1} hours`}::interval
    )
    select null as id, client_id, account_id, hour, wei::text as wei from counted
    union all select null, null, null, date_trunc('hour', now()), null
    union all select operations.id, null, null, null, null from asked join operations on operations.id = asked.id
    union all select transactions.id, null, null, null, null from asked join transactions on transactions.id = asked.id`.execute(
    db,
  )
  const spent = new Map<string, CountedHour[]>()
  const onNetwork: CountedHour[] = []
  let now = new Date(0)
  for (const { client_id: clientId, account_id: accountId, hour, wei } of rows) {
    if (hour === null) continue
    if (wei === null) now = hour
    else if (clientId === null) onNetwork.push({ hour, wei: BigInt(wei) })
    else countsOf(spent, { clientId, accountId: accountId! }).push({ hour, wei: BigInt(wei) })
  }
  for (const hours of [onNetwork, ...spent.values()]) hours.sort((a, b) => a.hour.getTime() - b.hour.getTime())
  const known = new Set(rows.flatMap(({ id }) => (id === null ? [] : [id])))
  return { known, counted: { spent, onNetwork, perNetwork, hour: now } }
}

/** Reserves the cost of an operation in its budgets. If a budget is exhausted, reserves nothing and returns which. */
export function reserve(
  { spent, onNetwork, perNetwork, hour }: BudgetCounts,
  { clientId, accountId, charged }: Omit<Reserving, 'id'> & { charged: bigint },
  { perUser, perApplication }: Amounts,
): Exhausted | null {
  const [person, all] = [accountId, EVERYONE].map((whose) => countsOf(spent, { clientId, accountId: whose }))
  const exhausted =
    exhaustedBy('person', { hours: person!, limit: perUser, charged }) ??
    exhaustedBy('application', { hours: all!, limit: perApplication, charged }) ??
    (perNetwork === null ? null : exhaustedBy('network', { hours: onNetwork, limit: perNetwork, charged }))
  if (exhausted !== null) return exhausted
  for (const hours of [person!, all!, onNetwork]) count(hours, { hour, wei: charged })
  return null
}

function count(hours: CountedHour[], { hour, wei }: CountedHour): void {
  const last = hours.at(-1)
  if (last?.hour.getTime() === hour.getTime()) last.wei += wei
  else hours.push({ hour, wei })
}

function countsOf(spent: Map<string, CountedHour[]>, { clientId, accountId }: Omit<Reserving, 'id'>): CountedHour[] {
  const key = `${accountId}${clientId}`
  const known = spent.get(key)
  if (known !== undefined) return known
  const hours: CountedHour[] = []
  spent.set(key, hours)
  return hours
}
