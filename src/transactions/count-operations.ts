import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { fromWord } from '../store/bytes.ts'
import { retrying, type Db } from '../store/db.ts'
import { countSpent, lockBudgets } from './gas-budget.ts'
import { aloneGas } from './operation-gas.ts'
import { toOperation, type OperationRow } from './operation.ts'

/** operations in one commit */
const CHUNK = 200

/**
 * Counts what settled operations cost, in place of what was reserved for them: of each transaction that carried them and is in a block,
 * the part of its fee that they might have taken of its gas. What nothing carried cost nothing.
 * @returns whether there are more
 * @throws database_unavailable
 */
export async function countOperations({ db }: App, { chainId }: Chain): Promise<boolean> {
  return retrying(() =>
    db.transaction().execute(async (work) => {
      await lockBudgets(work, chainId)
      const rows = await uncounted(work, chainId).selectAll().orderBy('id').limit(CHUNK).forUpdate().execute()
      const costs = await costsOf(work, rows)
      for (const row of rows) await setCharged(work, row, costs.get(row.id) ?? 0n)
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

/** Wei by operation. Every part is rounded up: together they are no less than the fee. */
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

async function setCharged(db: Db, row: OperationRow, wei: bigint): Promise<void> {
  const { id, client_id: clientId, account_id: accountId, charged, hour } = row
  await db
    .updateTable('operations')
    .set({ charged: String(wei), is_counted: true })
    .where('id', '=', id)
    .execute()
  const more = wei - BigInt(charged)
  if (more !== 0n) await countSpent(db, { chainId: row.chain_id, clientId, accountId, wei: more, hour })
}
