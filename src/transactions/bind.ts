import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { mapChainError } from '../chain/rpc.ts'
import { AppError } from '../errors.ts'
import { newTransactionId } from '../ids.ts'
import { fromHex, toWord } from '../store/bytes.ts'
import { retrying, type Db } from '../store/db.ts'
import { writeFees, type Bound, type Intent, type Terms } from './intent.ts'
import { inFlight, type KeyScope } from './key.ts'
import { inLane } from './lane.ts'
import { reach } from './steps.ts'

/** Who wants it, with the key and the hash of the request if there is a key. */
export type Binding = {
  accountId: string
  clientId: string
  from: `0x${string}`
  intent: Intent
  terms: Terms
  key: { scope: KeyScope; requestHash: Uint8Array } | null
}

/**
 * Commit 1: the intent, its nonce and its idempotency key, in one database transaction. The nonce is one more than the
 * highest row of the account on this network, or one that was vacated; the unique key decides races between replicas,
 * and the loser takes the next. The chain is asked for its count only for an account without a row.
 * @throws idempotency_in_flight, too_many_pending, account_stopped, chain_unavailable, chain_timeout, database_unavailable
 */
export function bind(app: App, chain: Chain, binding: Binding): Promise<Bound> {
  const id = newTransactionId()
  // Writes of one account in one process take their turn: in the database they would only collide.
  return inLane(app, chain.chainId, binding.from, async () => {
    for (let first: number | null = null; ;) {
      const nonce = await retrying(() => commit(app, chain, binding, { id, first }))
      if (nonce !== null) {
        const { intent, terms, from, accountId } = binding
        return {
          id,
          accountId,
          chainId: chain.chainId,
          from,
          nonce,
          to: intent.to,
          value: intent.value,
          data: intent.data,
          ...terms,
        }
      }
      first = await countOnChain(chain, binding.from)
    }
  })
}

/** The count of mined transactions of an account: where an account that we have no row of starts. */
async function countOnChain({ rpc }: Chain, from: `0x${string}`): Promise<number> {
  try {
    return Number(await rpc.call<string>('eth_getTransactionCount', [from, 'latest']))
  } catch (error) {
    throw mapChainError(error)
  }
}

type Place = { id: string; first: number | null }

/** @returns the nonce, or null when the chain has to be asked first */
async function commit(app: App, chain: Chain, binding: Binding, place: Place): Promise<number | null> {
  // Without a key it is a single statement, which needs no transaction around it.
  if (binding.key === null) return takeNonce(app, app.db, chain, binding, place)
  return app.db.transaction().execute(async (db) => {
    await takeKey(db, binding.key!, place.id)
    const nonce = await takeNonce(app, db, chain, binding, place)
    if (nonce === null) await db.deleteFrom('idempotency_keys').where('transaction_id', '=', place.id).execute()
    await reach(app, 'in-bind')
    return nonce
  })
}

async function takeKey(db: Db, { scope, requestHash }: NonNullable<Binding['key']>, id: string): Promise<void> {
  const mine = await db
    .insertInto('idempotency_keys')
    .values({
      account_id: scope.accountId,
      client_id: scope.clientId,
      route: scope.route,
      key: scope.key,
      request_hash: requestHash,
      transaction_id: id,
      response: null,
    })
    .onConflict((on) => on.columns(['account_id', 'client_id', 'route', 'key']).doNothing())
    .returning('key')
    .executeTakeFirst()
  if (mine === undefined) throw inFlight()
}

/** An account that always loses its race is one that somebody else is hammering. */
const MOST_RACES = 64

async function takeNonce(app: App, db: Db, chain: Chain, binding: Binding, place: Place): Promise<number | null> {
  for (let race = 0; race < MOST_RACES; race++) {
    const next = await takeNext(app, db, chain, binding, place)
    if (next !== null) return next
    const lane = await look(db, chain, binding.from)
    if (lane.isStopped)
      throw new AppError('account_stopped', 'The account is stopped: the operator has to look at it.', {
        retryAfter: 60,
      })
    if (lane.pending >= app.config.MAX_PENDING_WRITES) {
      throw new AppError(
        'too_many_pending',
        `The account has ${lane.pending} unconfirmed writes; at most ${app.config.MAX_PENDING_WRITES} are allowed.`,
        { retryAfter: 2 },
      )
    }
    if (lane.vacant !== null) {
      const taken = await takeVacant(db, chain, binding, { id: place.id, nonce: lane.vacant })
      if (taken) return lane.vacant
    } else if (lane.isNew && place.first === null) return null
  }
  throw new AppError('overloaded', 'Too many writes of this account at once.', { retryAfter: 1 })
}

/**
 * The next nonce, if the account may have one: nothing vacant below, not stopped, fewer than the limit pending. One
 * statement, so that its reads and its insert see one state; whoever was faster makes it insert nothing.
 */
async function takeNext(
  app: App,
  db: Db,
  { chainId }: Chain,
  binding: Binding,
  { id, first }: Place,
): Promise<number | null> {
  const { intent, terms, accountId, clientId } = binding
  const fees = writeFees(terms.fees)
  const sender = fromHex(binding.from)
  const { rows } = await sql<{ nonce: number }>`
    insert into transactions (id, account_id, client_id, chain_id, sender, nonce, target, value, data, gas_limit, max_fee, max_priority_fee, abi, state, transitions, created_at)
    select ${id}, ${accountId}::uuid, ${clientId}, ${chainId}::bigint, ${sender}::bytea, lane.next,
      ${fromHex(intent.to)}::bytea, ${toWord(intent.value)}::bytea, ${fromHex(intent.data)}::bytea, ${terms.gas.toString()}::bigint,
      ${fees.max_fee}::bytea, ${fees.max_priority_fee}::bytea, ${intent.abi}, 'BOUND', '[]'::jsonb, date_trunc('milliseconds', now())
    from (select coalesce(
      (select nonce + 1 from transactions where chain_id = ${chainId}::bigint and sender = ${sender}::bytea order by nonce desc limit 1),
      ${first}::bigint) as next) as lane
    where lane.next is not null
      and not exists (select 1 from stopped_lanes where chain_id = ${chainId}::bigint and sender = ${sender}::bytea)
      and not exists (select 1 from transactions where chain_id = ${chainId}::bigint and state = 'VACANT' and sender = ${sender}::bytea)
      and (select count(*) from transactions where chain_id = ${chainId}::bigint and state in ('BOUND', 'SUBMITTED') and sender = ${sender}::bytea) < ${app.config.MAX_PENDING_WRITES}::int
    on conflict (chain_id, sender, nonce) do nothing
    returning nonce`.execute(db)
  return rows[0]?.nonce ?? null
}

/** Why `takeNext` gave nothing. Never more than one of them is the reason for long. */
async function look(db: Db, { chainId }: Chain, from: `0x${string}`) {
  const sender = fromHex(from)
  const { rows } = await sql<{ stopped: boolean; pending: number; vacant: number | null; known: boolean }>`
    select
      exists (select 1 from stopped_lanes where chain_id = ${chainId}::bigint and sender = ${sender}::bytea) as stopped,
      (select count(*) from transactions where chain_id = ${chainId}::bigint and state in ('BOUND', 'SUBMITTED') and sender = ${sender}::bytea) as pending,
      (select min(nonce) from transactions where chain_id = ${chainId}::bigint and state = 'VACANT' and sender = ${sender}::bytea) as vacant,
      exists (select 1 from transactions where chain_id = ${chainId}::bigint and sender = ${sender}::bytea) as known`.execute(
    db,
  )
  const { stopped, pending, vacant, known } = rows[0]!
  return { isStopped: stopped, pending, vacant, isNew: !known }
}

/** Takes over a nonce that was refused before anything was signed for it. The row lock decides between two. */
async function takeVacant(
  db: Db,
  { chainId }: Chain,
  binding: Binding,
  { id, nonce }: { id: string; nonce: number },
): Promise<boolean> {
  const { intent, terms, accountId, clientId, from } = binding
  const taken = await db
    .updateTable('transactions')
    .set({
      id,
      account_id: accountId,
      client_id: clientId,
      target: fromHex(intent.to),
      value: toWord(intent.value),
      data: fromHex(intent.data),
      gas_limit: Number(terms.gas),
      ...writeFees(terms.fees),
      claims: 1,
      abi: intent.abi,
      state: 'BOUND',
      transitions: '[]',
      created_at: sql`date_trunc('milliseconds', now())`,
      updated_at: sql`now()`,
    })
    .where('chain_id', '=', chainId)
    .where('sender', '=', fromHex(from))
    .where('nonce', '=', nonce)
    .where('state', '=', 'VACANT')
    .returning('id')
    .executeTakeFirst()
  return taken !== undefined
}

/**
 * Takes up a bound intent once more, for whoever is about to ask the signer for its bytes. From then on nobody may
 * vacate its nonce: two asked.
 * @returns false when it has bytes by now
 */
export async function claim(db: Db, id: string): Promise<boolean> {
  const mine = await retrying(() =>
    db
      .updateTable('transactions')
      .set({ claims: sql`case when claims = 0 then 0 else claims + 1 end`, updated_at: sql`now()` })
      .where('id', '=', id)
      .where('state', '=', 'BOUND')
      .returning('id')
      .executeTakeFirst(),
  )
  return mine !== undefined
}

/**
 * Gives a nonce free that the signer refused to sign for, and the idempotency key with it. Only for the one who bound
 * it, and only while nobody else asked: then the refusal was the answer to the only question ever asked, and nothing
 * can have been signed. The row stays, so the nonce cannot be skipped; the next write of the account takes it over,
 * and if none comes while a later nonce waits, a cancel fills it.
 * @returns false when somebody else took the intent up meanwhile: it then stays bound, and is finished or cancelled
 */
export async function vacate({ db: root }: App, id: string): Promise<boolean> {
  return retrying(() =>
    root.transaction().execute(async (db) => {
      const mine = await db
        .updateTable('transactions')
        .set({ state: 'VACANT', updated_at: sql`now()` })
        .where('id', '=', id)
        .where('state', '=', 'BOUND')
        .where('claims', '=', 1)
        .returning('id')
        .executeTakeFirst()
      if (mine === undefined) return false
      await db.deleteFrom('idempotency_keys').where('transaction_id', '=', id).execute()
      return true
    }),
  )
}

/**
 * Parts an intent from a nonce that the signer's ledger gave to something the database has lost: its key is free for
 * another try, and the row stays to be settled or filled. `claims` 0 says that whatever is mined there is our own.
 */
export async function markLost({ db: root }: App, id: string): Promise<void> {
  await retrying(() =>
    root.transaction().execute(async (db) => {
      await db
        .updateTable('transactions')
        .set({ claims: 0 })
        .where('id', '=', id)
        .where('state', '=', 'BOUND')
        .execute()
      await db.deleteFrom('idempotency_keys').where('transaction_id', '=', id).execute()
    }),
  )
}
