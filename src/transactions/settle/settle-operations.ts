import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import type { Log, Receipt } from '../../follower/block.ts'
import { readEvents, readFailure, USED_ELSEWHERE, type OperationEvent } from '../../gas/events.ts'
import type { DelegateName, Hex } from '../../ids.ts'
import { byteaArray } from '../../store/bytea-array.ts'
import { fromHex, toHex } from '../../hex.ts'
import type { Db } from '../../store/db.ts'
import { prepared } from '../../store/prepared.ts'
import type { TransactionState, Transition } from '../../store/column-values.ts'
import { operationRows } from '../rows.ts'
import { delegateOf, forgetDelegated } from '../sponsors/delegation.ts'
import { within } from '../lanes/link.ts'
import { MAX_SEQUENCE } from '../lanes/operation-gas.ts'

type MinedBlock = { number: number; hash: Hex }
/** A mined transaction and its logs, as far as verified. */
export type MinedOuter = { hash: Hex } & Pick<Receipt, 'status'> & { logs: readonly Log[] }

/**
 * Settles operations by the dispatcher's events in a block. A transaction's success is no evidence, because it may not
 * have executed anything.
 * Does not settle an operation without a transaction: its number may belong to an operation that the database has lost,
 * which is then restored and settled.
 * If an operation was settled in another block, that block no longer includes it; otherwise a rewind would have undone
 * the settlement. Runs inside the transaction that marks the transactions of the block.
 */
export async function settleOperations(
  db: Db,
  app: App,
  { chainId }: Pick<Chain, 'chainId'>,
  block: MinedBlock,
  mined: readonly MinedOuter[],
): Promise<void> {
  const said = mined.flatMap(({ hash, status, logs }) =>
    // A skipped operation was already used up, and is settled by that earlier event.
    (status ? placedEvents(logs) : []).flatMap(({ event, ...logged }) =>
      event.kind === 'Skipped' || !isNumbered(event) ? [] : [{ hash, event, state: stateOf(event), ...logged }],
    ),
  )
  const at = new Date(app.clock.wall()).toISOString()
  for (let start = 0; start < said.length; start += CHUNK) {
    const rows = said.slice(start, start + CHUNK).map(({ hash, event, state, delegate, afterLog, eventLog }) => ({
      hash: hash.slice(2),
      state,
      delegate,
      space: event.space.slice(2),
      sequence: Number(event.sequence),
      reason: event.kind === 'Failed' ? event.reason.slice(2) : null,
      account: event.account?.slice(2) ?? null,
      after_log: afterLog,
      event_log: eventLog,
      transition: [{ state, at, hash, blockNumber: block.number } satisfies Transition],
      elsewhere: [{ state: 'FAILED', at, hash, blockNumber: block.number } satisfies Transition],
    }))
    const { rows: moved } = await sql<{ state: TransactionState; sender: Uint8Array }>`${prepared}
      with said as (
        select decode(hash, 'hex') as hash, state, delegate, decode(space, 'hex') as space, sequence, decode(account, 'hex') as account, decode(reason, 'hex') as reason,
          after_log, event_log, transition, elsewhere
        from json_to_recordset(${JSON.stringify(rows)}::json)
          as rows (hash text, state text, delegate text, space text, sequence bigint, account text, reason text, after_log int, event_log int, transition jsonb, elsewhere jsonb)
      )
      ${operationRows.updating('settle', {
        state: sql`case when ${IS_ELSEWHERE} then 'FAILED' else said.state end`,
        set: sql`reason = case when ${IS_ELSEWHERE} then ${fromHex(USED_ELSEWHERE)}::bytea else said.reason end,
        block_number = ${block.number}::bigint, block_hash = ${fromHex(block.hash)}::bytea,
        is_final = false, is_counted = false, revert = null,
        after_log = said.after_log, event_log = said.event_log,
        outer_id = coalesce((select transaction_id from attempts where attempts.chain_id = ${chainId}::bigint and attempts.hash = said.hash), outer_id),
        transitions = operations.transitions || case when ${IS_ELSEWHERE} then said.elsewhere else said.transition end, updated_at = greatest(now(), operations.created_at)`,
        from: sql`from said`,
        where: sql`operations.chain_id = ${chainId}::bigint and operations.space = said.space and operations.sequence = said.sequence
        and ${within(rows.map(({ sequence }) => sequence))}
        and operations.delegate = said.delegate
        and operations.outer_id is not null
        and operations.block_hash is distinct from ${fromHex(block.hash)}::bytea`,
      })}
      returning operations.state, operations.sender`.execute(db)
    for (const { state, sender } of moved) {
      app.telemetry.writes.inc({ state })
      // The account may no longer delegate to the expected code.
      if (state === 'FAILED') forgetDelegated(app, chainId, toHex(sender))
    }
  }
  await countAgain(
    db,
    chainId,
    mined.filter(({ status, logs }) => !status || logs.length === 0 || skippedIn(logs)).map(({ hash }) => hash),
  )
}

/**
 * SQL for: another account used up the id. Ids belong to a space, not an account, so another sender in the space can do
 * this.
 */
const IS_ELSEWHERE = sql`(said.account is not null and said.account <> operations.sender)`

/**
 * Returns transactions of any sender whose logs, according to the node, have dispatcher events in a space that we have
 * used.
 */
export async function findOuters(
  db: Db,
  chainId: number,
  sent: readonly { transactionHash: Hex; logs?: readonly Log[] }[],
): Promise<Hex[]> {
  const speaking = sent.flatMap(({ transactionHash, logs = [] }) => {
    const spaces = eventsIn(logs).map(({ event }) => event.space)
    return spaces.length === 0 ? [] : [{ transactionHash, spaces: new Set(spaces) }]
  })
  if (speaking.length === 0) return []
  const rows = await db.selectFrom('operation_sequences').select('space').where('chain_id', '=', chainId).execute()
  return speaking
    .filter(({ spaces }) => rows.some(({ space }) => spaces.has(toHex(space))))
    .map(({ transactionHash }) => transactionHash)
}

type SaidEvent = { event: OperationEvent; delegate: DelegateName; eventLog: number }
type PlacedEvent = SaidEvent & { afterLog: number }

/**
 * Returns the events of our dispatchers, each with its dispatcher: an id used at one dispatcher is unused at another.
 */
const eventsIn = (logs: readonly Log[]): SaidEvent[] =>
  logs.flatMap((log) => {
    const delegate = delegateOf(log.address)
    return delegate === null ? [] : readEvents(log.address, [log]).map((event) => ({ event, delegate, eventLog: log.logIndex })) // prettier-ignore
  })

/**
 * Returns the events in the logs of one transaction. Each has the range of the operation's own logs, because the
 * dispatcher emits an event after each operation, in order.
 * A called contract may dispatch operations in its own space, so only events of the same dispatcher and space delimit a
 * range.
 */
function placedEvents(logs: readonly Log[]): PlacedEvent[] {
  const last = new Map<string, number>()
  return eventsIn(logs).map((said) => {
    const place = `${said.delegate}${said.event.space}`
    const placed = { ...said, afterLog: last.get(place) ?? -1 }
    last.set(place, said.eventLog)
    return placed
  })
}

/**
 * Returns whether a number can be ours. Spaces are open to anyone, with numbers of 96 bits; ours are those that a
 * JavaScript number can represent.
 */
const isNumbered = ({ sequence }: OperationEvent): boolean => sequence <= MAX_SEQUENCE

const skippedIn = (logs: readonly Log[]): boolean => eventsIn(logs).some(({ event }) => event.kind === 'Skipped')

/**
 * Marks settled operations to be counted again if another transaction with them was mined later without executing them:
 * they also pay their share of that transaction.
 */
async function countAgain(db: Db, chainId: number, hashes: Hex[]): Promise<void> {
  if (hashes.length === 0) return
  await operationRows
    .update(db, 'count')
    .set({ is_counted: false })
    .where('id', 'in', ({ selectFrom }) =>
      selectFrom('attempts')
        .innerJoin('carried', 'carried.transaction_id', 'attempts.transaction_id')
        .select('carried.operation_id')
        .where('attempts.chain_id', '=', chainId)
        .where((eb) => eb('attempts.hash', '=', eb.fn.any(byteaArray(hashes)))),
    )
    .execute()
}

/** operations in one statement */
const CHUNK = 500

/** Returns the state for a dispatcher event. A call that was not even tried is FAILED: only its id is on the chain. */
function stateOf(event: OperationEvent): TransactionState {
  if (event.kind === 'Done') return 'MINED'
  if (event.kind !== 'Failed') return 'CANCELLED'
  const { error } = readFailure(event.reason)
  return error === 'CallFailed' || error === 'OutOfGas' || error === 'Unknown' ? 'REVERTED' : 'FAILED'
}
