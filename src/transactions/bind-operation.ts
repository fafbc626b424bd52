import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { packCalls } from '../gas/operation.ts'
import { newTransactionId } from '../ids.ts'
import { isUniqueViolation } from '../store/away.ts'
import { fromHex } from '../store/bytes.ts'
import { retrying, type Db } from '../store/db.ts'
import type { SponsorBudget } from '../store/sponsor-budget.ts'
import { reach } from './crash-points.ts'
import { countSpent, findExhausted, lockBudgets, type Exhausted } from './gas-budget.ts'
import { oncePer, together } from './group-commit.ts'
import type { Operation } from './operation.ts'
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
export const bindOperation = (app: App, chain: Chain, binding: OperationBinding): Promise<BindResult> =>
  groupOf(app, chain)(binding)

const groupOf = oncePer('commits of operations', (app, chain) =>
  together(
    LIMITS,
    (one: OperationBinding) => 1_024 + bytesOf(one) + one.abi.length,
    (members: OperationBinding[]) => retrying(() => commit(app, chain, members)),
  ),
)

function commit(app: App, chain: Chain, members: OperationBinding[]): Promise<BindResult[]> {
  return app.db.transaction().execute(async (db) => {
    const perNetwork = await lockBudgets(db, chain.chainId)
    const known = await findKnown(db, members)
    const results: BindResult[] = []
    for (const member of members) results.push(await bindOne(db, chain, member, { known, perNetwork }))
    await reach(app, 'in-bind-operation')
    return results
  })
}

/** Ids that are a transaction's or an operation's. */
async function findKnown(db: Db, members: OperationBinding[]): Promise<Set<string>> {
  const ids = members.map(({ id }) => id)
  const rows = await db
    .selectFrom('operations')
    .select('id')
    .where('id', 'in', ids)
    .union(db.selectFrom('transactions').select('id').where('id', 'in', ids))
    .execute()
  return new Set(rows.map(({ id }) => id))
}

async function bindOne(
  db: Db,
  chain: Chain,
  member: OperationBinding,
  { known, perNetwork }: { known: Set<string>; perNetwork: bigint | null },
): Promise<BindResult> {
  const { id, accountId, clientId, charged, budget } = member
  if (known.has(id)) return 'key is taken'
  const exhausted = await findExhausted(
    db,
    { chainId: chain.chainId, clientId, accountId, charged },
    { ...budget, perNetwork },
  )
  if (exhausted !== null) return exhausted
  const row = await db
    .insertInto('operations')
    .values({ ...rowOf(chain, member), state: 'BOUND' })
    .onConflict((on) => on.doNothing())
    .returning('id')
    .executeTakeFirst()
  // Of an id that nobody had a moment ago it may be another replica, too.
  if (row === undefined) return (await isThere(db, id)) ? 'key is taken' : 'sequence is taken'
  known.add(id)
  await countSpent(db, { chainId: chain.chainId, clientId, accountId, wei: charged })
  return 'bound'
}

const isThere = async (db: Db, id: string): Promise<boolean> =>
  (await db.selectFrom('operations').select('id').where('id', '=', id).executeTakeFirst()) !== undefined

/** The columns of an operation, as they are before anything became of it. */
export const rowOf = (
  { chainId }: Pick<Chain, 'chainId'>,
  { id, accountId, clientId, from, space, sequence, calls, gas, deadline, authorizationNonce, requestHash, abi, charged }: Omit<OperationBinding, 'budget'>, // prettier-ignore
) => ({
  ...{
    id,
    account_id: accountId,
    client_id: clientId,
    chain_id: chainId,
    sender: fromHex(from),
    space: fromHex(space),
  },
  ...{ sequence, calls: packCalls(calls), gas_limit: Number(gas), deadline, authorization_nonce: authorizationNonce },
  ...{ abi, request_hash: requestHash === null ? null : Buffer.from(requestHash), transitions: '[]' },
  ...{ charged: String(charged), hour: sql<Date>`date_trunc('hour', now())` },
  created_at: sql<Date>`date_trunc('milliseconds', now())`,
})

/** Takes up a bound operation once more, with what its account delegates by now. @returns false when it is carried by now, or gone */
export async function claimOperation(
  db: Db,
  { id, authorizationNonce }: Pick<Operation, 'id' | 'authorizationNonce'>,
): Promise<boolean> {
  const mine = await retrying(() =>
    db
      .updateTable('operations')
      .set({ claims: sql`claims + 1`, authorization_nonce: authorizationNonce, updated_at: sql`now()` })
      .where('id', '=', id)
      .where('state', '=', 'BOUND')
      .returning('id')
      .executeTakeFirst(),
  )
  return mine !== undefined
}

/**
 * Removes an operation that the signer refused, with what it reserved: only by the one who bound it, and only while nobody else asked. Then
 * nothing was signed for it, and its key may be used again.
 */
export async function unbind({ db }: App, { id, accountId, clientId, chainId }: Operation): Promise<void> {
  await retrying(() =>
    db.transaction().execute(async (work) => {
      await lockBudgets(work, chainId)
      const gone = await work
        .deleteFrom('operations')
        .where('id', '=', id)
        .where('state', '=', 'BOUND')
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
    const moved = await retrying(() =>
      db
        .updateTable('operations')
        .set({ sequence: next, updated_at: sql`now()` })
        .where('id', '=', id)
        .where('sequence', '=', sequence)
        .where('state', '=', 'BOUND')
        .returning('id')
        .executeTakeFirst(),
    )
    return moved === undefined ? 'gone' : 'moved'
  } catch (error) {
    if (isUniqueViolation(error)) return 'sequence is taken'
    throw error
  }
}

/** What an operation is called that was bound and never carried, and never will be: its id is free for another. */
export const nobodys = () => ({ id: newTransactionId(), request_hash: null })
