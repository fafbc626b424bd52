import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { SignerRefused } from '../signer/client.ts'
import type { Signed } from '../signer/wire.ts'
import { answerOf, type WriteAnswer } from './answer.ts'
import { bind, claim, markLost, vacate } from './bind.ts'
import { broadcast } from './broadcast.ts'
import { gasStrategy } from './gas.ts'
import { toBound, type Bound, type Intent, type TransactionRow } from './intent.ts'
import { findKey, inFlight } from './key.ts'
import { adopt } from './recall.ts'
import { reach } from './steps.ts'
import { storeFirst } from './store.ts'
import type { Binding } from './take-nonce.ts'

export type SendOptions = {
  /** the caller's key, its route and the hash of what was asked; a key without a request hash makes no sense */
  idempotency: { key: string; route: string; requestHash: Uint8Array } | null
}

/**
 * A write, in this order: simulate and estimate, bind (commit 1), sign, store (commit 2), broadcast, answer. Nothing is
 * broadcast and no hash is told before the bytes are stored. When it throws before `bind`, nothing was stored; when it
 * throws after, the intent is finished by a repeat with its key, or its nonce is filled by a cancel after 30 s.
 * @returns the answer, and whether it is the stored one of an earlier request with the same key
 * @throws no_contract, execution_reverted, insufficient_funds, fee_cap_reached, too_many_pending, account_stopped,
 *         idempotency_key_reused, idempotency_in_flight, policy_denied, chain_unavailable, chain_timeout,
 *         signer_unavailable, database_unavailable
 */
export async function sendTransaction(
  app: App,
  caller: Caller,
  intent: Intent,
  { idempotency }: SendOptions,
): Promise<{ answer: WriteAnswer; isReplay: boolean }> {
  const chain = chainOf(app, caller)
  const { accountId, clientId, address: from } = caller
  const key =
    idempotency === null
      ? null
      : {
          scope: { accountId, clientId, route: idempotency.route, key: idempotency.key },
          requestHash: idempotency.requestHash,
        }
  const known = key === null ? null : await findKey(app.db, key.scope, key.requestHash)
  if (known !== null && 'answer' in known) return { answer: known.answer, isReplay: true }
  const answer =
    known === null
      ? await prepareAndSend(app, chain, caller, { accountId, clientId, from, intent, key })
      : await resume(app, chain, caller, known.unsigned)
  await reach(app, 'before-answer')
  return { answer, isReplay: false }
}

async function prepareAndSend(
  app: App,
  chain: Chain,
  caller: Caller,
  asked: Omit<Binding, 'terms'>,
): Promise<WriteAnswer> {
  const terms = await gasStrategy(chain).prepare(chain, asked.from, asked.intent)
  return bindAndFinish(app, chain, caller, { ...asked, terms })
}

/**
 * Nonces that the signer's ledger has signed and our tables have lost, after a restore of the database, are passed by,
 * each at the cost of one attempt; the keeper fills or settles them.
 */
const MOST_LOST_NONCES = 64

async function bindAndFinish(app: App, chain: Chain, caller: Caller, binding: Binding): Promise<WriteAnswer> {
  for (let lost = 0; lost < MOST_LOST_NONCES; lost++) {
    await reach(app, 'before-bind')
    const bound = await bind(app, chain, binding)
    await reach(app, 'after-bind')
    const answer = await finish(app, chain, caller, bound, { mayVacate: true })
    if (answer !== null) return answer
    await markLost(app, bound.id)
  }
  throw new AppError('overloaded', 'The signer knows transactions of this account that the database does not.', {
    retryAfter: 30,
  })
}

/** A repeat finishes what a request before it left bound: by bytes that the signer holds, or by signing now. */
async function resume(app: App, chain: Chain, caller: Caller, row: TransactionRow): Promise<WriteAnswer> {
  const bound = toBound(row)
  const found = await adopt(app, chain, bound)
  if (found === null) {
    if (!(await claim(app.db, bound.id))) throw inFlight()
    const answer = await finish(app, chain, caller, bound, { mayVacate: false })
    if (answer === null) throw filled()
    return answer
  }
  if (found.first.isCancel) throw filled()
  await broadcast(app, chain, { id: bound.id, from: bound.from, ...found.newest })
  return answerOf(chain, bound, found.first.hash)
}

const filled = (): AppError =>
  new AppError('overloaded', 'The earlier request came to nothing and its nonce was given up. Repeat.', {
    retryAfter: 1,
  })

/** Sign, store, broadcast. @returns null when the ledger gave the nonce to something our tables do not know */
async function finish(
  app: App,
  chain: Chain,
  caller: Caller,
  bound: Bound,
  { mayVacate }: { mayVacate: boolean },
): Promise<WriteAnswer | null> {
  const signed = await sign(app, chain, caller, bound, { mayVacate })
  if (signed === null) return null
  await reach(app, 'after-sign')
  const { raw, hash } = signed
  await storeFirst(app, chain, bound, { raw, hash, gas: bound.gas, fees: bound.fees, isCancel: false })
  await reach(app, 'after-store')
  txSent(app, bound)
  await broadcast(app, chain, { id: bound.id, from: bound.from, raw, hash })
  await reach(app, 'after-broadcast')
  return answerOf(chain, bound, hash)
}

async function sign(
  app: App,
  chain: Chain,
  caller: Caller,
  bound: Bound,
  { mayVacate }: { mayVacate: boolean },
): Promise<Signed | null> {
  try {
    return await gasStrategy(chain).sign(app, bound, caller.token)
  } catch (error) {
    const meaning = readRefusal(error)
    if (meaning === 'unknown') throw error
    if (meaning === 'taken') return explainTaken(app, bound)
    if (mayVacate && (await isUnsigned(app, bound))) await vacate(app, bound.id)
    throw error instanceof SignerRefused && error.code === 'nonce_gap'
      ? new AppError('overloaded', 'Earlier writes of this account are not signed yet.', {
          cause: error,
          retryAfter: 5,
        })
      : error
  }
}

/** `refused`: certainly not signed. `taken`: the nonce has another owner. `unknown`: it may have been signed. */
function readRefusal(error: unknown): 'refused' | 'taken' | 'unknown' {
  if (error instanceof SignerRefused) {
    if (error.code === 'nonce_conflict' || error.code === 'replacement_underpriced') return 'taken'
    return error.code === 'ledger_damaged' ? 'unknown' : 'refused'
  }
  return error instanceof AppError && error.code !== 'signer_unavailable' ? 'refused' : 'unknown'
}

/** The ledger's own word that it holds nothing for this intent. A ledger that cannot be asked proves nothing. */
async function isUnsigned({ signer, telemetry }: App, { id }: Bound): Promise<boolean> {
  try {
    return (await signer.recall({ intentId: id })).attempts.length === 0
  } catch (error) {
    telemetry.log.warn('recall_failed', { id }, error)
    return false
  }
}

/** The nonce was signed for something else: our own cancel, because this came too late, or an intent the database lost. */
async function explainTaken({ signer }: App, { id }: Bound): Promise<null> {
  const { attempts } = await signer.recall({ intentId: id })
  if (attempts.length > 0) throw filled()
  return null
}

/** Business event: an intent has bytes and is on its way. */
function txSent({ telemetry }: App, { chainId, id, nonce }: Bound): void {
  telemetry.log.info('transaction_sent', { chainId, id, nonce })
  telemetry.writes.inc({ state: 'SUBMITTED' })
}
