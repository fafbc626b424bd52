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

/** From a state to the one that follows, or to one of several. `NONE`: there is no row. */
type Moves = { readonly [From in TransactionState | 'NONE']?: TransactionState | 'NONE' | readonly TransactionState[] }

const IN_BLOCK = ['MINED', 'REVERTED', 'CANCELLED'] as const
const OPENED = ['SUBMITTED', 'BOUND'] as const
const SETTLED = ['MINED', 'REVERTED', 'CANCELLED', 'FAILED'] as const

/** What may become of a row of `transactions`, by its cause. Rows are written here and nowhere else; docs/states.md explains each change. */
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
  // The newest block that is proven corrects what a row says of another one.
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

/** The same of `operations`. */
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

/** Rows whose state nothing but this file writes. */
type Guarded = Omit<Database, WriteTable> & {
  [T in WriteTable]: Omit<Database[T], 'state'> & { state: ColumnType<TransactionState, never, never> }
}

/** An update as a text: a part of a larger statement, or more than the query builder can say. */
type UpdateParts = {
  /** columns other than the state */
  set: RawBuilder<unknown>
  from?: RawBuilder<unknown>
  where: RawBuilder<unknown>
  /** what has the state before, if not the row itself */
  of?: string
  /** which state follows, where the cause leads to several */
  state?: RawBuilder<unknown>
}

/** Every statement changes only rows in a state that allows it, and leaves the others as they are. */
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
    /** The state that an insert gives a row that is there already. */
    changed,
    /** @param step  what is added to the row's transitions, with the new state */
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
    /** @param rows  what follows `select`, in the order of the columns */
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

/** Null where rows keep their state. */
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

/** Transitions are only ever added to. */
export const append = (transitions: Transition[]) => sql<string>`transitions || ${JSON.stringify(transitions)}::jsonb`

/**
 * When a row is changed in a transaction that may be older than the row: a follower's lasts while a block is proven, and `now()` is when
 * it began.
 */
export const CHANGED_NOW = sql<Date>`greatest(now(), created_at)`

/** What a row is called that holds a nonce and no intent. The intent reserves where it is bound next. */
export const nobodysNonce = () => ({ id: newTransactionId(), request_hash: null, reserved: null })

/** What a row is called from now on that has ended without bytes: it holds a nonce, and its intent may be bound again. */
export const nobodysWithoutBytes = () => ({
  id: sql<string>`case when hash is null then ${newTransactionId()} else id end`,
  request_hash: sql<Buffer | null>`case when hash is null then null else request_hash end`,
  reserved: sql<string | null>`case when hash is null then null else reserved end`,
})

/** What an operation is called that was bound and never carried, and never will be: its id is free for another. */
export const nobodysOperation = () => ({ id: newTransactionId(), request_hash: null, authorization_nonce: null })
