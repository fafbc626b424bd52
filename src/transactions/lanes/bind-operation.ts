import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { packCalls } from '../../gas/operation.ts'
import { isUniqueViolation } from '../../store/away.ts'
import { fromHex } from '../../hex.ts'
import { retrying, type Db } from '../../store/db.ts'
import { prepared } from '../../store/prepared.ts'
import type { SponsorBudget } from '../../store/sponsor-budget.ts'
import { readStanding, reserve, type BudgetCounts } from '../sponsors/budget-counts.ts'
import { reach } from '../crash-points.ts'
import {
  countedIn,
  countSpent,
  findExhausted,
  lockBudgets,
  readNetworkBudget,
  type Amounts,
  type Exhausted,
  type Spending,
} from '../sponsors/gas-budget.ts'
import { oncePer, together } from './group-commit.ts'
import type { Operation } from '../operation.ts'
import { operationRows } from '../rows.ts'
import { bytesOf } from './operation-gas.ts'

export type OperationBinding = Operation & {
  /** the caller's, to explain a failure later */
  abi: string
  /** wei that it costs at most */
  charged: bigint
  budget: SponsorBudget
}

/** `sequence is taken`: by a row that a database which went back has still. */
type BindResult = 'bound' | 'key is taken' | 'sequence is taken' | Exhausted

/** A row each and two of budgets, far below the 2,000 rows and 4 MiB of a portable transaction. */
const LIMITS = { most: 128, mostBytes: 1_048_576, lanes: 1, dropsLate: true }

/**
 * Commit 1 of an operation, which many share: its row, and what it may cost off the budgets of its application. Nothing is signed before.
 * @throws database_unavailable  unknown: it may have been bound
 */
export async function bindOperation(app: App, chain: Chain, binding: OperationBinding): Promise<BindResult> {
  const result = await groupOf(app, chain)(binding)
  if (typeof result === 'string' || result.resetsAt === null) return result
  // Outside of the lock, and with what was bound beside it: most of a day's budget may be held by writes that end within minutes.
  const perNetwork = await readNetworkBudget(app.db, chain.chainId)
  return (await findExhausted(app.db, binding, { ...binding.budget, perNetwork })) ?? result
}

const groupOf = oncePer('commits of operations', (app, chain) =>
  together(
    app.clock,
    LIMITS,
    (one: OperationBinding) => 1_024 + bytesOf(one) + one.abi.length,
    (members: OperationBinding[]) => retrying(() => commit(app, chain, members)),
  ),
)

/**
 * However many they are: a lock, one statement that reads what is in their way, one that writes them, and a commit. What is read is
 * of after the lock, so no replica reserves beside this.
 */
async function commit(app: App, chain: Chain, members: OperationBinding[]): Promise<BindResult[]> {
  return app.db.transaction().execute(async (db) => {
    const perNetwork = await lockBudgets(db, chain.chainId)
    const { known, counted } = await readStanding(db, { chainId: chain.chainId, perNetwork }, members)
    const results = members.map((member) => judge(member, known, counted))
    const bound = members.filter((_, index) => results[index] === 'bound')
    const written = await insert(db, chain, bound)
    const missing = bound.filter(({ id }) => !written.has(id))
    // Who is refused beside it may not have to be: each is tried alone.
    if (missing.length > 0 && members.length > 1) throw new NotAllWritten()
    await reach(app, 'in-bind-operation')
    if (missing.length === 0) return results
    // Of an id that nobody had a moment ago it may be another replica, too.
    return [(await isThere(db, missing[0]!.id)) ? 'key is taken' : 'sequence is taken']
  })
}

class NotAllWritten extends Error {}

/** In the order in which they came: what those before it reserve counts. */
function judge(
  { id, clientId, accountId, charged, budget }: OperationBinding,
  known: Set<string>,
  counted: BudgetCounts,
): BindResult {
  if (known.has(id)) return 'key is taken'
  const exhausted = reserve(counted, { clientId, accountId, charged }, budget)
  if (exhausted !== null) return exhausted
  known.add(id)
  return 'bound'
}

/** Rows, and what they reserve of budgets. @returns ids of those that have a row now; the others met a key that is taken */
async function insert(db: Db, { chainId }: Chain, members: OperationBinding[]): Promise<Set<string>> {
  if (members.length === 0) return new Set()
  const { rows } = await sql<{ id: string }>`${prepared}
    with asked as (
      select place, id, account_id, client_id, decode(sender, 'hex') as sender, delegate, decode(space, 'hex') as space, sequence, decode(calls, 'hex') as calls,
        gas_limit, deadline, authorization_nonce, abi, decode(request_hash, 'hex') as request_hash, charged
      from json_to_recordset(${JSON.stringify(members.map(toAsked))}::json)
        as members (place int, id text, account_id uuid, client_id text, sender text, delegate text, space text, sequence int8, calls text, gas_limit int8,
          deadline int8, authorization_nonce int8, abi text, request_hash text, charged numeric)
    ), bound as (
      ${operationRows.inserting(
        'bind',
        `id, account_id, client_id, chain_id, sender, delegate, space, sequence, calls, gas_limit, deadline, authorization_nonce,
          abi, request_hash, transitions, charged, hour, created_at`,
        sql`id, account_id, client_id, ${chainId}::int8, sender, delegate, space, sequence, calls, gas_limit, deadline, authorization_nonce,
          abi, request_hash, '[]'::jsonb, charged, date_trunc('hour', now()), date_trunc('milliseconds', now())
        from asked order by place`,
      )}
      on conflict do nothing
      returning id, account_id, client_id, charged as wei, hour
    ), ${countedIn(chainId, sql.ref('bound'))}
    select id from bound`.execute(db)
  return new Set(rows.map(({ id }) => id))
}

/** Bytes are hexadecimal digits: one JSON parameter is read by both databases, and faster than one parameter a field. */
const toAsked = (
  { id, accountId, clientId, from, delegate, space, sequence, calls, gas, deadline, authorizationNonce, abi, requestHash, charged }: OperationBinding, // prettier-ignore
  place: number,
) => ({
  place,
  id,
  account_id: accountId,
  client_id: clientId,
  sender: from.slice(2),
  delegate,
  space: space.slice(2),
  sequence,
  calls: packCalls(calls).toString('hex'),
  gas_limit: Number(gas),
  deadline,
  abi,
  charged: String(charged),
  ...(authorizationNonce === null ? {} : { authorization_nonce: authorizationNonce }),
  ...(requestHash === null ? {} : { request_hash: Buffer.from(requestHash).toString('hex') }),
})

const isThere = async (db: Db, id: string): Promise<boolean> =>
  (await db.selectFrom('operations').select('id').where('id', '=', id).executeTakeFirst()) !== undefined

/** The columns of an operation, as they are before anything became of it. */
export const rowOf = (
  { chainId }: Pick<Chain, 'chainId'>,
  { id, accountId, clientId, from, delegate, space, sequence, calls, gas, deadline, authorizationNonce, requestHash, abi, charged }: Omit<OperationBinding, 'budget'>, // prettier-ignore
) => ({
  id,
  account_id: accountId,
  client_id: clientId,
  chain_id: chainId,
  sender: fromHex(from),
  delegate,
  space: fromHex(space),
  sequence,
  calls: packCalls(calls),
  gas_limit: Number(gas),
  deadline,
  authorization_nonce: authorizationNonce,
  abi,
  request_hash: requestHash === null ? null : Buffer.from(requestHash),
  transitions: '[]',
  charged: String(charged),
  hour: sql<Date>`date_trunc('hour', now())`,
  created_at: sql<Date>`date_trunc('milliseconds', now())`,
})

/** Who works on a bound operation: the how manieth request, and whether what is reserved for it was reserved by that one. */
export type Claim = { claims: number; hasReserved: boolean }
/** Of the request that bound it. */
export const BINDER: Claim = { claims: 1, hasReserved: true }

/**
 * Takes up a bound operation once more, with the calls that are asked for and the nonce of its account’s authorization. Reserves what it may
 * cost where a request before gave that back.
 * @param charged  wei that it costs at most now
 * @param budget   null: nobody pays for it
 * @returns `gone`: it is carried, or has no row; `unpaid`: nothing is reserved for it, and nobody pays. Nothing is changed then, nor where budgets have no room
 */
export async function claimOperation(
  { db }: Pick<App, 'db'>,
  operation: Pick<Operation, 'id' | 'calls' | 'authorizationNonce'> & Spending,
  budget: Amounts | null,
): Promise<Claim | 'gone' | 'unpaid' | Exhausted> {
  const { id, calls, authorizationNonce, chainId, clientId, accountId, charged } = operation
  return retrying(() =>
    db.transaction().execute(async (work) => {
      const perNetwork = await lockBudgets(work, chainId)
      const row = await work
        .selectFrom('operations')
        .select(['charged', 'claims'])
        .where('id', '=', id)
        .where('state', '=', 'BOUND')
        .forUpdate()
        .executeTakeFirst()
      if (row === undefined) return 'gone'
      const hasReserved = row.charged === '0'
      if (hasReserved) {
        if (budget === null) return 'unpaid'
        const exhausted = await findExhausted(work, operation, { ...budget, perNetwork })
        if (exhausted !== null) return exhausted
        await countSpent(work, { chainId, clientId, accountId, wei: charged })
      }
      const claims = row.claims + 1
      await operationRows
        .update(work, 'claim')
        .set({ claims, calls: packCalls(calls), authorization_nonce: authorizationNonce, updated_at: sql`now()` })
        .set(hasReserved ? { charged: String(charged), hour: sql<Date>`date_trunc('hour', now())` } : {})
        .where('id', '=', id)
        .execute()
      return { claims, hasReserved }
    }),
  )
}

/**
 * Gives back what was reserved for an operation that certainly nothing carries: its row and its key stay, and a repeat reserves again. Only by the
 * request that reserved it, while no other has taken the operation up.
 */
export async function giveBack(
  { db }: Pick<App, 'db'>,
  { id, accountId, clientId, chainId }: Operation,
  { claims, hasReserved }: Claim,
): Promise<void> {
  if (!hasReserved) return
  await retrying(() =>
    db.transaction().execute(async (work) => {
      await lockBudgets(work, chainId)
      const row = await work
        .selectFrom('operations')
        .select(['charged', 'hour'])
        .where('id', '=', id)
        .where('state', '=', 'BOUND')
        .where('outer_id', 'is', null)
        .where('claims', '=', claims)
        .forUpdate()
        .executeTakeFirst()
      if (row === undefined || row.charged === '0') return
      await operationRows.update(work, 'giveBack').set({ charged: '0' }).where('id', '=', id).execute()
      await countSpent(work, { chainId, clientId, accountId, wei: -BigInt(row.charged), hour: row.hour })
    }),
  )
}

/**
 * Removes an operation that the signer refused, with what it reserved: only by the one who bound it, and only while nobody else asked. Then
 * nothing was signed for it, and its key may be used again.
 */
export async function unbind({ db }: App, { id, accountId, clientId, chainId }: Operation): Promise<void> {
  await retrying(() =>
    db.transaction().execute(async (work) => {
      await lockBudgets(work, chainId)
      const gone = await operationRows
        .delete(work, 'unbind')
        .where('id', '=', id)
        .where('claims', '=', 1)
        .returning(['charged', 'hour'])
        .executeTakeFirst()
      if (gone === undefined) return
      await countSpent(work, { chainId, clientId, accountId, wei: -BigInt(gone.charged), hour: gone.hour })
    }),
  )
}

/**
 * Gives a bound operation another number: the signer would not sign for the one it has.
 * @returns `gone`: another request has moved it, or it is carried; `sequence is taken`: by a row that a database which went back has still
 */
export async function moveOperation(
  { db }: App,
  { id, sequence }: Operation,
  next: number,
): Promise<'moved' | 'gone' | 'sequence is taken'> {
  try {
    const moved = await operationRows
      .update(db, 'renumber')
      .set({ sequence: next, updated_at: sql`now()` })
      .where('id', '=', id)
      .where('sequence', '=', sequence)
      .returning('id')
      .executeTakeFirst()
    return moved === undefined ? 'gone' : 'moved'
  } catch (error) {
    if (isUniqueViolation(error)) return 'sequence is taken'
    throw error
  }
}
