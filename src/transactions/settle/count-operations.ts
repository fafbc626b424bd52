import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { fromWord } from '../../store/bytes.ts'
import { retrying, type Db } from '../../store/db.ts'
import { prepared } from '../../store/prepared.ts'
import { countedIn, lockBudgets } from '../sponsors/gas-budget.ts'
import { aloneGas } from '../lanes/operation-gas.ts'
import { toOperation, type OperationRow } from '../operation.ts'
import { operationRows } from '../rows.ts'

/** operations in one commit */
const CHUNK = 200

/**
 * Replaces the reservations of settled operations by their actual cost. An operation pays its share of the fee of every
 * mined transaction that included it, in proportion to its stand-alone gas. It costs nothing if no mined transaction
 * included it.
 * @returns whether there are more
 * @throws database_unavailable
 */
export async function countOperations({ db }: App, { chainId }: Chain): Promise<boolean> {
  return retrying(() =>
    db.transaction().execute(async (work) => {
      await lockBudgets(work, chainId)
      // Order by transaction, because each transaction is read with all its operations.
      const rows = await uncounted(work, chainId).selectAll().orderBy('outer_id').orderBy('id').limit(CHUNK).forUpdate().execute() // prettier-ignore
      await setCharged(work, chainId, rows, await costsOf(work, rows))
      return rows.length === CHUNK
    }),
  )
}

const uncounted = (db: Db, chainId: number) =>
  db
    .selectFrom('operations')
    .where('chain_id', '=', chainId)
    .where('is_counted', '=', false)
    .where('state', 'not in', ['BOUND', 'SUBMITTED'])

/** Returns the cost in wei by operation. Each share is rounded up, so their sum is not below the fee. */
async function costsOf(db: Db, rows: OperationRow[]): Promise<Map<string, bigint>> {
  const costs = new Map<string, bigint>()
  if (rows.length === 0) return costs
  const ids = rows.map(({ id }) => id)
  const outers = await db
    .selectFrom('transactions as t')
    .innerJoin('carried as c', 'c.transaction_id', 't.id')
    .select(['t.id', 't.gas_used', 't.effective_gas_price'])
    .distinct()
    .where('c.operation_id', 'in', ids)
    .where('t.gas_used', 'is not', null)
    .execute()
  if (outers.length === 0) return costs
  const carried = await db
    .selectFrom('operations as o')
    .innerJoin('carried as c', 'c.operation_id', 'o.id')
    .selectAll('o')
    .select('c.transaction_id')
    .where(
      'c.transaction_id',
      'in',
      outers.map(({ id }) => id),
    ) // prettier-ignore
    .execute()
  const byOuter = Map.groupBy(carried, ({ transaction_id: id }) => id)
  for (const { id, gas_used, effective_gas_price } of outers) {
    const all = (byOuter.get(id) ?? []).map((row) => ({ id: row.id, weight: aloneGas(toOperation(row)) }))
    const sum = all.reduce((before, { weight }) => before + weight, 0n)
    const fee = BigInt(gas_used!) * fromWord(effective_gas_price!)
    for (const { id: of, weight } of all) costs.set(of, (costs.get(of) ?? 0n) + (fee * weight + sum - 1n) / sum)
  }
  return costs
}

/** Updates the operations and the budget counters in one statement. */
async function setCharged(db: Db, chainId: number, rows: OperationRow[], costs: Map<string, bigint>): Promise<void> {
  if (rows.length === 0) return
  const costing = rows.map(({ id, charged }) => {
    const wei = costs.get(id) ?? 0n
    return { id, charged: String(wei), more: String(wei - BigInt(charged)) }
  })
  await sql`${prepared}
    with costing as (
      select id, charged, more from json_to_recordset(${JSON.stringify(costing)}::json) as rows (id text, charged numeric, more numeric)
    ), counted as (
      ${operationRows.updating('count', { set: sql`charged = costing.charged, is_counted = true`, from: sql`from costing`, where: sql`operations.id = costing.id` })}
      returning operations.client_id, operations.account_id, operations.hour, costing.more as wei
    ), ${countedIn(chainId, sql.ref('counted'))}
    select count(*) from counted`.execute(db)
}
