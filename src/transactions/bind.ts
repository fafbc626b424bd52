import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { mapChainError } from '../chain/rpc.ts'
import { AppError } from '../errors.ts'
import { newTransactionId, type Hex } from '../ids.ts'
import { fromHex, toWord } from '../store/bytes.ts'
import { retrying, type Db } from '../store/db.ts'
import { countAt } from './counts.ts'
import { writeFees, type Bound } from './intent.ts'
import { inFlight } from './key.ts'
import { reach } from './steps.ts'
import { takeNonce, type Binding, type Lane } from './take-nonce.ts'

/** An account that always loses its race is one that somebody else is hammering. */
const MOST_RACES = 64

/**
 * Commit 1: the intent, its nonce and its idempotency key, in one database transaction that many writes share. The
 * nonce is one more than the highest row of the account on this network, or one that was vacated; who loses a race to
 * another replica takes the next. The chain is asked for its count only for an account without a row.
 * @throws idempotency_in_flight, too_many_pending, account_stopped, chain_unavailable, chain_timeout, database_unavailable
 */
export async function bind(app: App, chain: Chain, binding: Binding): Promise<Bound> {
  const id = newTransactionId()
  let first: number | null = null
  for (let race = 0; race < MOST_RACES; race++) {
    const taken = await takeNonce(app, chain, binding, { id, first })
    if (taken === 'key is taken') throw inFlight()
    if ('nonce' in taken) return toBound(chain, binding, { id, nonce: taken.nonce })
    const { lane } = taken
    refuseWhileFull(app, lane)
    if (lane.vacant !== null) {
      const isMine = await takeOver(app, chain, binding, { id, nonce: lane.vacant })
      if (isMine) return toBound(chain, binding, { id, nonce: lane.vacant })
    } else if (lane.isNew) first = await countOnChain(chain, binding.from)
  }
  throw new AppError('overloaded', 'Too many writes of this account at once.', { retryAfter: 1 })
}

function toBound({ chainId }: Chain, { intent, terms, from, accountId, key }: Binding, owned: Owned): Bound {
  const { to, value, data } = intent
  return { ...owned, accountId, chainId, from, to, value, data, ...terms, hasKey: key !== null }
}

type Owned = { id: string; nonce: number }

/** @throws account_stopped, too_many_pending */
function refuseWhileFull({ config }: App, { isStopped, pending, turn }: Lane): void {
  if (isStopped) {
    throw new AppError('account_stopped', 'The account is stopped: the operator has to look at it.', { retryAfter: 60 })
  }
  const before = pending + turn - 1
  if (before >= config.MAX_PENDING_WRITES) {
    throw new AppError(
      'too_many_pending',
      `The account has ${before} unconfirmed writes; at most ${config.MAX_PENDING_WRITES} are allowed.`,
      { retryAfter: 2 },
    )
  }
}

/** The count of mined transactions of an account: where an account that we have no row of starts. */
async function countOnChain(chain: Chain, from: Hex): Promise<number> {
  try {
    return await countAt(chain, from, 'latest')
  } catch (error) {
    throw mapChainError(error)
  }
}

/** Takes over a nonce that was refused before anything was signed for it. @returns false when another write has it */
function takeOver(app: App, chain: Chain, binding: Binding, owned: Owned): Promise<boolean> {
  return retrying(() =>
    app.db.transaction().execute(async (db) => {
      if (binding.key !== null) await takeKey(db, binding.key, owned.id)
      const isMine = await takeVacant(db, chain, binding, owned)
      await reach(app, 'in-bind')
      if (!isMine) await db.deleteFrom('idempotency_keys').where('transaction_id', '=', owned.id).execute()
      return isMine
    }),
  )
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

/** The row lock decides between two. */
async function takeVacant(db: Db, { chainId }: Chain, binding: Binding, { id, nonce }: Owned): Promise<boolean> {
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
