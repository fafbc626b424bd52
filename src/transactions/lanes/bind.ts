import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { mapChainError } from '../../chain/rpc/rpc.ts'
import { AppError } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import { isUniqueViolation } from '../../store/away.ts'
import { fromHex } from '../../hex.ts'
import { toWord } from '../../store/bytes.ts'
import { retrying, type Db } from '../../store/db.ts'
import { insufficientFunds } from './funds.ts'
import { budgetNow } from './prepare.ts'
import { writeFees, type Bound } from '../intent.ts'
import { inFlight } from '../key.ts'
import { nobodysNonce, transactionRows } from '../rows.ts'
import { reach } from '../crash-points.ts'
import { mostPending, reserveOf, takeNonce, type Binding, type LaneState } from './take-nonce.ts'
import { untilSigned } from './unsigned.ts'
import { firstNonce } from '../settle/nonce-used.ts'
import { slot } from '../../state.ts'

/**
 * lost races to other writes of the account after which a write fails: another replica floods the account with writes
 */
const MAX_RACES = 64
/** top-ups for one write; concurrent writes of the account may spend each of them */
const MAX_FUNDED = 4
/** milliseconds that a write waits for earlier ones of its account to be signed */
const PATIENCE_MS = 3_000

/**
 * Binds the intent to a nonce (commit 1), in one database transaction that many writes share. The nonce is a vacated
 * one, or one above the account's highest row on this network. A write that loses a race to another replica takes the
 * next nonce.
 * The chain is asked for its count only if the account has no row. While too many nonces are unsigned, the write waits
 * for signatures, for 3 s at most.
 * @throws idempotency_in_flight, too_many_pending, insufficient_funds, account_stopped, conflict, overloaded,
 *   chain_unavailable, chain_timeout, database_unavailable
 */
export async function bind(app: App, chain: Chain, asked: Binding): Promise<Bound> {
  let binding = asked
  let times = 0
  let first: number | null = null
  const endsAt = app.clock.ticks() + PATIENCE_MS
  for (let race = 0; race < MAX_RACES;) {
    const taken = await takeNonce(app, chain, binding, first)
    if (taken === 'key is taken') throw inFlight()
    if ('nonce' in taken) return toBound(chain, binding, taken.nonce)
    const { lane } = taken
    refuseWhileFull(app, lane)
    if (isShort(chain, binding, lane)) {
      // The known balance may be outdated: funds may have arrived. Or a write was mined since, which is deducted from
      // the balance and still open in the database.
      const budget = await askAgain(chain, binding, times++)
      if (budget === null) throw short(chain, binding, lane)
      binding = { ...binding, budget }
      continue
    }
    if (lane.vacant !== null) {
      const isMine = await takeOver(app, chain, binding, lane.vacant)
      if (isMine) return toBound(chain, binding, lane.vacant)
    } else if (lane.isNew) first = await countOnChain(chain, binding.from)
    if (lane.vacant === null && lane.isAhead) {
      if (app.clock.ticks() > endsAt) throw notSigned()
      await untilSigned(app, chain, binding.from)
    } else race++
  }
  throw new AppError(
    'conflict',
    'Other writes of this account took each nonce first. This request had no effect. Retry.',
    { retryAfter: 1 },
  )
}

/**
 * Reads the budget again; from the second call on, asks `fund` to top up the account. Returns null if nothing is left
 * to try.
 */
async function askAgain(chain: Chain, { from, intent, terms, fund }: Binding, times: number) {
  if (times === 0) return budgetNow(chain, from)
  if (times > MAX_FUNDED || fund === undefined || fund === null) return null
  return fund({ value: intent.value, terms })
}

function toBound(
  { chainId }: Chain,
  { id, requestHash, reference, intent, terms, from, accountId, authorizations }: Binding,
  nonce: number,
): Bound {
  const { to, value, data } = intent
  return {
    id,
    requestHash,
    reference,
    accountId,
    chainId,
    from,
    nonce,
    to,
    value,
    data,
    ...(authorizations === undefined ? {} : { authorizations }),
    ...terms,
  }
}

/** @throws account_stopped, too_many_pending */
function refuseWhileFull(app: App, { isStopped, pending, turn }: LaneState): void {
  if (isStopped) throw stopped()
  const before = pending + turn - 1
  if (before >= mostPending(app)) {
    throw new AppError(
      'too_many_pending',
      `The account has ${before} unconfirmed writes, and the limit is ${mostPending(app)}. Nothing was sent. Retry when some of these writes are mined.`,
      { retryAfter: 2 },
    )
  }
}

/**
 * Returns whether the balance does not cover this write on top of all open writes. Writes bound in the same batch are
 * counted once they are rows.
 */
const isShort = (chain: Chain, binding: Binding, { reserved }: LaneState): boolean =>
  binding.budget !== null && reserved + reserveOf(chain, binding) > binding.budget.available

const short = (chain: Chain, binding: Binding, { reserved }: LaneState): AppError =>
  insufficientFunds(binding.from, {
    cost: reserveOf(chain, binding),
    reserved,
    available: binding.budget?.available ?? 0n,
  })

/** Returns the error for a nonce that the signer refuses because a much lower nonce is still unsigned. */
export const notSigned = (cause?: unknown): AppError =>
  new AppError('conflict', 'Earlier writes of this account are not signed yet. Nothing was signed. Retry.', {
    retryAfter: 5,
    ...(cause === undefined ? {} : { cause }),
  })

const stopped = (): AppError =>
  new AppError(
    'account_stopped',
    'The account is stopped. Nothing was sent. An operator must review and resume the account.',
  )

/**
 * Rejects an intent that was bound before its account was stopped.
 * @throws account_stopped
 */
export async function refuseStopped(db: Db, { chainId, from }: Pick<Bound, 'chainId' | 'from'>): Promise<void> {
  const lane = await db
    .selectFrom('stopped_lanes')
    .select('nonce')
    .where('chain_id', '=', chainId)
    .where('sender', '=', fromHex(from))
    .executeTakeFirst()
  if (lane !== undefined) throw stopped()
}

const counting = slot('counts of first writes that are being asked', (_chain: Chain) => new Map<Hex, Promise<number>>())

/**
 * Returns the first nonce of an account without rows: its count of mined transactions. Concurrent first writes of an
 * account share one request.
 */
async function countOnChain(chain: Chain, from: Hex): Promise<number> {
  const asked = counting.of(chain)
  const count = asked.get(from) ?? firstNonce(chain, from).finally(() => asked.delete(from))
  asked.set(from, count)
  try {
    return await count
  } catch (error) {
    throw mapChainError(error)
  }
}

/**
 * Assigns the write a nonce that was vacated before anything was signed for it.
 * @returns false if another write has taken the nonce
 * @throws idempotency_in_flight
 */
async function takeOver(app: App, chain: Chain, binding: Binding, nonce: number): Promise<boolean> {
  try {
    return await retrying(() =>
      app.db.transaction().execute(async (db) => {
        const isMine = await takeVacant(db, chain, binding, nonce)
        await reach(app, 'in-bind')
        return isMine
      }),
    )
  } catch (error) {
    // Another request with the same key has just bound the id.
    if (isUniqueViolation(error)) throw inFlight()
    throw error
  }
}

/** Assigns the vacated nonce in one statement. If two writes compete for it, the row lock decides. */
async function takeVacant(db: Db, chain: Chain, binding: Binding, nonce: number): Promise<boolean> {
  const { id, requestHash, reference, intent, terms, accountId, clientId, from, authorizations } = binding
  const taken = await transactionRows
    .update(db, 'takeOver')
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
      is_cancel: false,
      reserved: String(reserveOf(chain, binding)),
      abi: intent.abi,
      request_hash: requestHash,
      reference,
      authorizations: authorizations === undefined ? null : JSON.stringify(authorizations),
      transitions: '[]',
      created_at: sql`date_trunc('milliseconds', now())`,
      updated_at: sql`now()`,
    })
    .where('chain_id', '=', chain.chainId)
    .where('sender', '=', fromHex(from))
    .where('nonce', '=', nonce)
    .returning('id')
    .executeTakeFirst()
  return taken !== undefined
}

/**
 * Claims a bound intent again, before a request to the signer. From then on no request may vacate the nonce, because
 * two requests may have asked for a signature.
 * @param effect  transaction to be signed with a token; the row is changed to match
 * @returns false if the intent already has bytes
 */
export async function claim(db: Db, id: string, effect?: Omit<Bound, 'id'>): Promise<boolean> {
  const asked = effect && {
    target: fromHex(effect.to),
    value: toWord(effect.value),
    data: fromHex(effect.data),
    gas_limit: Number(effect.gas),
    ...writeFees(effect.fees),
    authorizations: null,
  }
  const mine = await transactionRows
    .update(db, 'claim')
    .set({ ...asked, claims: sql`claims + 1`, updated_at: sql`now()` })
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst()
  return mine !== undefined
}

/**
 * Frees a nonce that the signer refused to sign, and the intent's id: its key may be used again.
 * Succeeds only if the request that bound the intent is the only claimant. Then this request has the signer's only
 * answer, so nothing can have been signed.
 * The row remains, so that the nonce is not skipped: the account's next write takes it. If there is none while a later
 * nonce waits, a cancellation fills the nonce.
 * @returns false if another request has claimed the intent: it remains bound, and is finished or cancelled
 */
export async function vacate({ db }: App, id: string): Promise<boolean> {
  const mine = await transactionRows
    .update(db, 'vacate')
    .set({ ...nobodysNonce(), updated_at: sql`now()` })
    .where('id', '=', id)
    .where('claims', '=', 1)
    .returning('id')
    .executeTakeFirst()
  return mine !== undefined
}

/**
 * Separates an intent from a nonce that the signer refuses, because it was used before the signer's ledger was
 * restored. The intent's id is free for another nonce. The row remains, to be settled or filled.
 */
export async function part({ db }: App, id: string): Promise<void> {
  await transactionRows.update(db, 'part').set(nobodysNonce()).where('id', '=', id).execute()
}
