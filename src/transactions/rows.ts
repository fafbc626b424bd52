import { strict as assert } from 'node:assert'
import {
  sql,
  type ColumnType,
  type InsertObject,
  type InsertQueryBuilder,
  type InsertResult,
  type Kysely,
  type RawBuilder,
  type UpdateQueryBuilder,
  type UpdateResult,
} from 'kysely'
import { newTransactionId } from '../ids.ts'
import type { TransactionState, Transition } from '../store/column-values.ts'
import type { Db } from '../store/db.ts'
import type { Database } from '../store/rows.ts'

/** Maps a state to the next state, or to several possible ones. `NONE`: there is no row. */
type Moves = { readonly [From in TransactionState | 'NONE']?: TransactionState | 'NONE' | readonly TransactionState[] }

const IN_BLOCK = ['MINED', 'REVERTED', 'CANCELLED'] as const
const OPENED = ['SUBMITTED', 'BOUND'] as const
const SETTLED = ['MINED', 'REVERTED', 'CANCELLED', 'FAILED'] as const

/**
 * State changes of rows of `transactions`, by cause. Only this file writes the state; docs/reference/states.md explains each
 * change.
 */
export const TRANSACTION_MOVES = {
  bind: { NONE: 'BOUND' },
  takeOver: { VACANT: 'BOUND' },
  bindToFill: { VACANT: 'BOUND' },
  holdSkipped: { NONE: 'VACANT' },
  holdForeign: { NONE: 'REPLACED' },
  claim: { BOUND: 'BOUND' },
  part: { BOUND: 'BOUND' },
  putOff: { BOUND: 'BOUND' },
  vacate: { BOUND: 'VACANT' },
  freeId: { BOUND: 'VACANT' },
  useToDelegate: { BOUND: 'REPLACED' },
  storeFirst: { BOUND: 'SUBMITTED' },
  storeFill: { BOUND: 'SUBMITTED' },
  storeReplacement: { SUBMITTED: 'SUBMITTED' },
  resend: { SUBMITTED: 'SUBMITTED' },
  reconcile: {
    NONE: 'SUBMITTED',
    BOUND: 'SUBMITTED',
    VACANT: 'SUBMITTED',
    SUBMITTED: 'SUBMITTED',
    REPLACED: 'REPLACED',
    FAILED: 'FAILED',
  },
  // If an earlier block has settled the row, the newest verified block corrects it.
  mine: {
    SUBMITTED: IN_BLOCK,
    FAILED: IN_BLOCK,
    MINED: IN_BLOCK,
    REVERTED: IN_BLOCK,
    CANCELLED: IN_BLOCK,
    FINALIZED: IN_BLOCK,
    REPLACED: IN_BLOCK,
  },
  replace: { BOUND: 'REPLACED', VACANT: 'REPLACED', SUBMITTED: 'REPLACED', REPLACED: 'REPLACED' },
  fail: { BOUND: 'FAILED', SUBMITTED: 'FAILED' },
  retract: {
    MINED: 'SUBMITTED',
    REVERTED: 'SUBMITTED',
    CANCELLED: 'SUBMITTED',
    FINALIZED: 'SUBMITTED',
    REPLACED: OPENED,
    FAILED: OPENED,
  },
  finalize: { MINED: 'FINALIZED', REVERTED: 'REVERTED', CANCELLED: 'CANCELLED', REPLACED: 'REPLACED' },
  explain: { REVERTED: 'REVERTED' },
} as const satisfies Record<string, Moves>

/** State changes of rows of `operations`, by cause. */
export const OPERATION_MOVES = {
  bind: { NONE: 'BOUND' },
  claim: { BOUND: 'BOUND' },
  giveBack: { BOUND: 'BOUND' },
  renumber: { BOUND: 'BOUND' },
  unbind: { BOUND: 'NONE' },
  link: { BOUND: 'SUBMITTED', SUBMITTED: 'SUBMITTED' },
  limitPacking: { SUBMITTED: 'SUBMITTED' },
  askToCancel: { SUBMITTED: 'SUBMITTED' },
  reconcile: { NONE: 'BOUND', BOUND: 'BOUND' },
  makeWay: { BOUND: 'BOUND', FAILED: 'FAILED' },
  settle: {
    SUBMITTED: SETTLED,
    MINED: SETTLED,
    REVERTED: SETTLED,
    CANCELLED: SETTLED,
    FINALIZED: SETTLED,
    FAILED: SETTLED,
  },
  expire: { BOUND: 'FAILED', SUBMITTED: 'FAILED' },
  expireCancelled: { SUBMITTED: 'CANCELLED' },
  retract: {
    MINED: 'SUBMITTED',
    REVERTED: 'SUBMITTED',
    CANCELLED: 'SUBMITTED',
    FINALIZED: 'SUBMITTED',
    FAILED: OPENED,
  },
  finalize: { MINED: 'FINALIZED', REVERTED: 'REVERTED', CANCELLED: 'CANCELLED', FAILED: 'FAILED' },
  count: {
    MINED: 'MINED',
    FINALIZED: 'FINALIZED',
    REVERTED: 'REVERTED',
    CANCELLED: 'CANCELLED',
    FAILED: 'FAILED',
  },
} as const satisfies Record<string, Moves>

type WriteTable = 'transactions' | 'operations'

/** The schema with a `state` column that only this file can write. */
type Guarded = Omit<Database, WriteTable> & {
  [T in WriteTable]: Omit<Database[T], 'state'> & { state: ColumnType<TransactionState, never, never> }
}

/** An update as SQL text: for a part of a larger statement, or for updates that the query builder cannot express. */
type UpdateParts = {
  /** columns other than the state */
  set: RawBuilder<unknown>
  from?: RawBuilder<unknown>
  where: RawBuilder<unknown>
  /** table or alias that has the state before the change; default: the row itself */
  of?: string
  /** the next state, if the cause allows several */
  state?: RawBuilder<unknown>
}

/**
 * Builds the statements that write a table. Every statement changes only rows in a state that allows the change, and
 * leaves all other rows unchanged.
 */
function rowsOf<T extends WriteTable, Cause extends string>(table: T, all: Record<Cause, Moves>) {
  const name = sql.raw(table)
  const isFrom = (cause: Cause, of: string = table): RawBuilder<boolean> =>
    sql<boolean>`${sql.raw(of)}.state in (${sql.join(statesBefore(all[cause]).map((state) => sql.lit(state)))})`
  const changed = (cause: Cause): object => {
    const state = stateAfter(table, all[cause])
    return state === null ? {} : { state }
  }
  const handle = (db: Db) => db as unknown as Kysely<Guarded>
  return {
    isFrom,
    /** Columns that `on conflict do update` sets on a row that already exists. */
    changed,
    /** @param step  appended to the row's transitions, together with the new state */
    update(db: Db, cause: Cause, step?: Omit<Transition, 'state'>) {
      const transitions = step && append([{ state: onlyStateAfter(all[cause]), ...step }])
      return handle(db)
        .updateTable(table as 'transactions')
        .set({ ...changed(cause), ...(transitions && { transitions }) })
        .where(isFrom(cause)) as unknown as UpdateQueryBuilder<Guarded, T, T, UpdateResult>
    },
    updating(cause: Cause, { set, from = sql``, where, of, state }: UpdateParts): RawBuilder<unknown> {
      assert(state === undefined || Object.values(all[cause]).some((to) => typeof to !== 'string'))
      const after = state ?? stateAfter(table, all[cause])
      const moved = after === null ? set : sql`state = ${after}, ${set}`
      return sql`update ${name} set ${moved} ${from} where ${isFrom(cause, of)} and (${where})`
    },
    insert(db: Db, cause: Cause, values: InsertObject<Guarded, T>[]) {
      const rows = values.map((one) => ({ ...one, state: all[cause].NONE }))
      return handle(db)
        .insertInto(table)
        .values(rows as never) as InsertQueryBuilder<Guarded, T, InsertResult>
    },
    /** @param rows  SQL after `select <state>,`, in the order of `columns` */
    inserting: (cause: Cause, columns: string, rows: RawBuilder<unknown>): RawBuilder<unknown> =>
      sql`insert into ${name} (state, ${sql.raw(columns)}) select ${sql.lit(all[cause].NONE)}, ${rows}`,
    delete(db: Db, cause: Cause) {
      assert.deepEqual(new Set(Object.values(all[cause])), new Set(['NONE']))
      return handle(db)
        .deleteFrom(table as 'operations')
        .where(isFrom(cause))
    },
  }
}

const statesBefore = (moves: Moves): string[] => Object.keys(moves).filter((state) => state !== 'NONE')

const onlyStateAfter = (moves: Moves): TransactionState => {
  const [state, ...others] = new Set(Object.values(moves))
  assert(typeof state === 'string' && state !== 'NONE' && others.length === 0)
  return state
}

/** Returns null if the cause changes no state. */
function stateAfter(table: WriteTable, moves: Moves): RawBuilder<unknown> | null {
  const all = Object.entries(moves).filter(([from]) => from !== 'NONE')
  const changes = all.filter(([from, to]) => from !== to)
  if (changes.length === 0) return null
  if (new Set(all.map(([, to]) => to)).size === 1) return sql.lit(onlyStateAfter(Object.fromEntries(all)))
  const state = sql.raw(`${table}.state`)
  const cases = changes.map(([from, to]) => sql`when ${sql.lit(from)} then ${sql.lit(onlyStateAfter({ [from]: to }))}`)
  return sql`case ${state} ${sql.join(cases, sql` `)} else ${state} end`
}

export const transactionRows = rowsOf('transactions', TRANSACTION_MOVES)
export const operationRows = rowsOf('operations', OPERATION_MOVES)

/** Returns SQL that appends to `transitions`, which is append-only. */
export const append = (transitions: Transition[]) => sql<string>`transitions || ${JSON.stringify(transitions)}::jsonb`

/**
 * SQL for the time of a change. `now()` is the start of the database transaction, which may be before the row's
 * creation:
 * a follower's transaction lasts while a block is verified.
 */
export const CHANGED_NOW = sql<Date>`greatest(now(), created_at)`

/**
 * `client_id` of a transaction that no request returned, such as a gap-filling cancellation. Every application of the
 * account may read it, and none has events of it. If it is restored from the signer's ledger, it has the same value.
 */
export const NO_CLIENT = ''

/**
 * Returns the columns of a row that holds a nonce without an intent. The intent will reserve funds at its next nonce.
 */
export const nobodysNonce = () => ({
  id: newTransactionId(),
  client_id: NO_CLIENT,
  request_hash: null,
  reference: null,
  reserved: null,
})

/**
 * Returns the columns of a row that ended without signed bytes: the row holds the nonce, and its intent may be bound
 * again. A row with bytes is not changed.
 */
export const nobodysWithoutBytes = () => ({
  id: sql<string>`case when hash is null then ${newTransactionId()} else id end`,
  client_id: sql<string>`case when hash is null then ${NO_CLIENT} else client_id end`,
  request_hash: sql<Buffer | null>`case when hash is null then null else request_hash end`,
  reference: sql<string | null>`case when hash is null then null else reference end`,
  reserved: sql<string | null>`case when hash is null then null else reserved end`,
})

/**
 * Returns the columns of an operation that was bound, and that no transaction has included or will include. Its id is
 * free for another operation.
 */
export const nobodysOperation = () => ({
  id: newTransactionId(),
  request_hash: null,
  reference: null,
  authorization_nonce: null,
})
