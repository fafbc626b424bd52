import { sql } from 'kysely'
import type { App } from '../app.ts'
import { readDispatch } from '../gas/dispatch.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import { prepared } from '../store/prepared.ts'
import type { Transition } from '../store/column-values.ts'
import type { Bound } from './intent.ts'

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
  const transition: Transition[] = [{ state: 'SUBMITTED', at: new Date(app.now()).toISOString(), hash }]
  // Locked in one order, or two that carry the same would wait for each other; what another did meanwhile is seen by who waited.
  const { rows } = await sql<{ sequence: number }>`${prepared}
    with locked as materialized (
      select id, sequence, state, outer_id from operations
      where chain_id = ${chainId}::int8 and space = ${carried.space}::bytea
        and sequence in (select value::int8 from json_array_elements_text(${JSON.stringify(sequences)}::json))
      order by sequence for update
    ), moved as (
      update operations set state = 'SUBMITTED', outer_id = ${outerId}::text, transitions = operations.transitions || ${JSON.stringify(transition)}::jsonb,
        updated_at = now()
      from locked where operations.id = locked.id and locked.state in ('BOUND', 'SUBMITTED') and locked.outer_id is distinct from ${outerId}::text
    ), noted as (
      insert into carried (operation_id, transaction_id) select id, ${outerId}::text from locked on conflict do nothing
    )
    select sequence from locked`.execute(db)
  const known = new Set(rows.map(({ sequence }) => Number(sequence)))
  return sequences.filter((sequence) => !known.has(sequence))
}
