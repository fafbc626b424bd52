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
  /** the caller's ABI, to explain a failure later */
  abi: string
  /** highest possible cost, wei */
  charged: bigint
  budget: SponsorBudget
}

/** Result of `bindOperation`. `sequence is taken`: by a row that survived in a restored database. */
type BindResult = 'bound' | 'key is taken' | 'sequence is taken' | Exhausted

/**
 * Each member writes one operation row and two budget rows: far below the portable transaction limits of 2,000 rows and
 * 4 MiB.
 */
const LIMITS = { most: 128, mostBytes: 1_048_576, lanes: 1, dropsLate: true }

/**
 * Binds an operation (commit 1), together with other operations: inserts its row, and reserves its highest cost in the
 * budgets. Nothing is signed before this commit.
 * @throws database_unavailable  if the outcome is unknown: the operation may be bound
 */
export async function bindOperation(app: App, chain: Chain, binding: OperationBinding): Promise<BindResult> {
  const result = await groupOf(app, chain)(binding)
  if (typeof result === 'string' || result.resetsAt === null) return result
  // The read is outside the lock and includes operations that are being bound. Open writes that end within minutes may
  // hold most of a day's budget.
  const perNetwork = await readNetworkBudget(app.db, chain.chainId)
  return (await findExhausted(app.db, binding, { ...binding.budget, perNetwork })) ?? result
}

const groupOf = oncePer('commits of operations', (app, chain) =>
  together(
    app.clock,
    LIMITS,
    (one: OperationBinding) => 1_024 + bytesOf(one) + one.abi.length + (one.reference?.length ?? 0),
    (members: OperationBinding[]) => retrying(() => commit(app, chain, members)),
  ),
)

/**
 * Binds a group with one lock, one statement that reads conflicts, one that writes all rows, and one commit, whatever
 * the group's size. All reads come after the lock, so no other replica can reserve budget at the same time.
 */
async function commit(app: App, chain: Chain, members: OperationBinding[]): Promise<BindResult[]> {
  return app.db.transaction().execute(async (db) => {
    const perNetwork = await lockBudgets(db, chain.chainId)
    const { known, counted } = await readStanding(db, { chainId: chain.chainId, perNetwork }, members)
    const results = members.map((member) => judge(member, known, counted))
    const bound = members.filter((_, index) => results[index] === 'bound')
    const written = await insert(db, chain, bound)
    const missing = bound.filter(({ id }) => !written.has(id))
    // A member may have failed only because of another member, so each is tried alone.
    if (missing.length > 0 && members.length > 1) throw new NotAllWritten()
    await reach(app, 'in-bind-operation')
    if (missing.length === 0) return results
    // Another replica may have used an id that was free a moment ago.
    return [(await isThere(db, missing[0]!.id)) ? 'key is taken' : 'sequence is taken']
  })
}

class NotAllWritten extends Error {}

/** Decides about members in the order of arrival: reservations of earlier members count. */
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

/**
 * Inserts the rows and counts their budget reservations.
 * @returns ids of the inserted rows; the other members conflicted with an existing row
 */
async function insert(db: Db, { chainId }: Chain, members: OperationBinding[]): Promise<Set<string>> {
  if (members.length === 0) return new Set()
  const { rows } = await sql<{ id: string }>`${prepared}
    with asked as (
      select place, id, account_id, client_id, decode(sender, 'hex') as sender, delegate, decode(space, 'hex') as space, sequence, decode(calls, 'hex') as calls,
        gas_limit, deadline, authorization_nonce, abi, decode(request_hash, 'hex') as request_hash, reference, charged
      from json_to_recordset(${JSON.stringify(members.map(toAsked))}::json)
        as members (place int, id text, account_id uuid, client_id text, sender text, delegate text, space text, sequence int8, calls text, gas_limit int8,
          deadline int8, authorization_nonce int8, abi text, request_hash text, reference text, charged numeric)
    ), bound as (
      ${operationRows.inserting(
        'bind',
        `id, account_id, client_id, chain_id, sender, delegate, space, sequence, calls, gas_limit, deadline, authorization_nonce,
          abi, request_hash, reference, transitions, charged, hour, created_at`,
        sql`id, account_id, client_id, ${chainId}::int8, sender, delegate, space, sequence, calls, gas_limit, deadline, authorization_nonce,
          abi, request_hash, reference, '[]'::jsonb, charged, date_trunc('hour', now()), date_trunc('milliseconds', now())
        from asked order by place`,
      )}
      on conflict do nothing
      returning id, account_id, client_id, charged as wei, hour
    ), ${countedIn(chainId, sql.ref('bound'))}
    select id from bound`.execute(db)
  return new Set(rows.map(({ id }) => id))
}

/**
 * Encodes bytes as hexadecimal digits: both databases read one JSON parameter, and faster than one parameter per field.
 */
const toAsked = (
  { id, accountId, clientId, from, delegate, space, sequence, calls, gas, deadline, authorizationNonce, abi, requestHash, reference, charged }: OperationBinding, // prettier-ignore
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
  ...(reference === null ? {} : { reference }),
})

const isThere = async (db: Db, id: string): Promise<boolean> =>
  (await db.selectFrom('operations').select('id').where('id', '=', id).executeTakeFirst()) !== undefined

/** Returns the columns of an operation that was just bound. */
export const rowOf = (
  { chainId }: Pick<Chain, 'chainId'>,
  { id, accountId, clientId, from, delegate, space, sequence, calls, gas, deadline, authorizationNonce, requestHash, reference, abi, charged }: Omit<OperationBinding, 'budget'>, // prettier-ignore
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
  reference,
  transitions: '[]',
  charged: String(charged),
  hour: sql<Date>`date_trunc('hour', now())`,
  created_at: sql<Date>`date_trunc('milliseconds', now())`,
})

/**
 * A request's claim on a bound operation: its position among the requests that claimed the operation, and whether this
 * request reserved the cost.
 */
export type Claim = { claims: number; hasReserved: boolean }
/** The claim of the request that bound the operation. */
export const BINDER: Claim = { claims: 1, hasReserved: true }

/**
 * Claims a bound operation again, with the requested calls and the nonce of the account's authorization. If an earlier
 * request released the reservation, reserves the cost again.
 * @param charged  highest possible cost now, wei
 * @param budget  null: no sponsor pays for it
 * @returns `gone`: a transaction includes the operation, or it has no row; `unpaid`: nothing is reserved and no
 *   sponsor pays; `Exhausted`: the budgets do not cover the cost. In these cases nothing is changed.
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
 * Releases the reservation of an operation that is certainly in no transaction. Its row and key remain, and a retry
 * reserves again. Only the request that reserved may release, and only while no other request has claimed the
 * operation.
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
 * Removes an operation that the signer refused, with its reservation, if only the request that bound it has claimed it.
 * Then nothing was signed for it, and its key may be used again.
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
 * Gives a bound operation another number, because the signer refuses its current one.
 * @returns `gone`: another request has renumbered it, or a transaction includes it; `sequence is taken`: by a row
 *   that survived in a restored database
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
