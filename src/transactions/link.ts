import { sql } from 'kysely'
import type { App } from '../app.ts'
import { readDispatch } from '../gas/dispatch.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import type { Transition } from '../store/column-values.ts'
import type { Bound } from './intent.ts'
import { append } from './attempts.ts'

/**
 * Notes which operations a transaction of a sponsor carries, by its calldata: from now on they are submitted, and their keys answer. What
 * was settled stays as it is. Inside a transaction. Safe to repeat.
 * @returns numbers that no operation has: the database has lost them
 */
export async function linkOperations(
  db: Db,
  app: App,
  { id: outerId, chainId, data }: Pick<Bound, 'id' | 'chainId' | 'data'>,
  hash: Hex,
): Promise<number[]> {
  const carried = readDispatch(fromHex(data))
  if (carried === null) return []
  const sequences = carried.operations.map(({ sequence }) => Number(sequence))
  // In one order, or two that carry the same would wait for each other.
  const rows = await db
    .selectFrom('operations')
    .select(['id', 'sequence', 'state', 'outer_id'])
    .where('chain_id', '=', chainId)
    .where('space', '=', carried.space)
    .where('sequence', 'in', sequences)
    .orderBy('sequence')
    .forUpdate()
    .execute()
  const open = rows.filter((row) => (row.state === 'BOUND' || row.state === 'SUBMITTED') && row.outer_id !== outerId)
  if (open.length > 0) {
    const transition: Transition = { state: 'SUBMITTED', at: new Date(app.now()).toISOString(), hash }
    await db
      .updateTable('operations')
      .set({ state: 'SUBMITTED', outer_id: outerId, transitions: append([transition]), updated_at: sql`now()` })
      .where(
        'id',
        'in',
        open.map(({ id }) => id),
      )
      .execute()
  }
  if (rows.length > 0)
    await db
      .insertInto('carried')
      .values(rows.map(({ id }) => ({ operation_id: id, transaction_id: outerId })))
      .onConflict((on) => on.doNothing())
      .execute()
  const known = new Set(rows.map(({ sequence }) => sequence))
  return sequences.filter((sequence) => !known.has(sequence))
}
