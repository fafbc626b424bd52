import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { newTransactionId } from '../ids.ts'
import { SignerRefused } from '../signer/client.ts'
import type { Signed } from '../signer/wire.ts'
import { answerOf, type WriteAnswer } from './answer.ts'
import { bind, claim, notSigned, part, refuseStopped, vacate } from './bind.ts'
import { broadcast, giveToNode } from './broadcast.ts'
import { gasStrategy } from './gas.ts'
import { toBound, type Bound, type Intent, type TransactionRow } from './intent.ts'
import { findKey, inFlight, type IdempotencyKey, type KeyLookup } from './key.ts'
import type { PreparedWrite } from './prepare.ts'
import { adopt } from './recall.ts'
import { isTaken } from './recover.ts'
import { untilReplayed } from './replay.ts'
import { reach } from './crash-points.ts'
import { storeFirst } from './store.ts'
import { restoreSlot } from './restore-from-ledger.ts'
import type { Binding } from './take-nonce.ts'
import { tellSigned } from './unsigned.ts'

export type SendOptions = {
  /** the caller's key, its route and the hash of what was asked; a key without a request hash makes no sense */
  idempotency: { key: string; route: string; requestHash: Uint8Array } | null
}

/**
 * A write, in this order: simulate and estimate, bind (commit 1), sign, store (commit 2), broadcast, answer. Nothing is
 * broadcast and no hash is told before the bytes are stored. When it throws before `bind`, nothing was stored; when it
 * throws after, the intent is finished by a repeat with its key, or its nonce is filled by a cancel after 30 s.
 *
 * The signer's ledger is the judge of what was sent, not the database, which may have lost its newest commits: where the
 * ledger has another word for an id or a nonce, the database is told, and asked anew.
 * @returns the answer, and whether it is the one of an earlier request with the same key
 * @throws no_contract, execution_reverted, insufficient_funds, fee_cap_reached, too_many_pending, account_stopped,
 *         idempotency_key_reused, idempotency_in_flight, policy_denied, chain_unavailable, chain_timeout,
 *         signer_unavailable, database_unavailable, overloaded
 */
export async function sendTransaction(
  app: App,
  caller: Caller,
  intent: Intent,
  { idempotency }: SendOptions,
): Promise<{ answer: WriteAnswer; isReplay: boolean }> {
  const chain = chainOf(app, caller)
  const { accountId, clientId, address: from } = caller
  const key = idempotency === null ? null : toKey(caller, idempotency)
  await untilReplayed(app)
  for (let lost = 0; lost < MAX_LOST; lost++) {
    const known: KeyLookup = key === null ? { free: newTransactionId() } : await findKey(app.db, key)
    if ('told' in known) return { answer: answerOf(chain, toBound(known.told), known.hash), isReplay: true }
    const answer =
      'unsigned' in known
        ? await resume(app, chain, caller, known.unsigned)
        : await prepareAndSend(app, chain, caller, {
            ...{ id: known.free, requestHash: key?.requestHash ?? null, accountId, clientId, from, intent },
          })
    if (answer === null) continue
    await reach(app, 'before-answer')
    return { answer, isReplay: false }
  }
  throw new AppError('overloaded', 'The database is behind the signer’s ledger for this account. Retry.', {
    retryAfter: 5,
  })
}

/** Of one account, what the ledger has signed and the database has lost, each at the cost of one attempt. */
const MAX_LOST = 64

const toKey = (
  { accountId, clientId }: Caller,
  { key, route, requestHash }: NonNullable<SendOptions['idempotency']>,
): IdempotencyKey => ({ scope: { accountId, clientId, route, key }, requestHash: Buffer.from(requestHash) })

/** @returns null when the database had lost what the ledger knows, and has it again */
async function prepareAndSend(
  app: App,
  chain: Chain,
  caller: Caller,
  asked: Omit<Binding, 'terms' | 'budget'>,
): Promise<WriteAnswer | null> {
  const { id, from, intent, requestHash } = asked
  let prepared: PreparedWrite
  try {
    prepared = await gasStrategy(chain).prepare(chain, from, intent)
  } catch (error) {
    // What was sent before may be why it cannot be done again.
    if (requestHash !== null && (await takeInIntent(app, id))) return null
    throw error
  }
  await reach(app, 'before-bind')
  const bound = await bind(app, chain, { ...asked, ...prepared })
  await reach(app, 'after-bind')
  return finish(app, chain, caller, bound, { mayVacate: true })
}

/** A repeat finishes what a request before it left bound: by bytes that the signer holds, or by signing now. */
async function resume(app: App, chain: Chain, caller: Caller, row: TransactionRow): Promise<WriteAnswer | null> {
  const bound = toBound(row)
  const found = await adopt(app, chain, bound)
  if (found === null) {
    await refuseStopped(app.db, bound)
    if (!(await claim(app.db, bound.id))) throw inFlight()
    return finish(app, chain, caller, bound, { mayVacate: false })
  }
  // Its nonce was filled: the key is at its next use.
  if (found.first.isCancel) return null
  await broadcast(app, chain, { id: bound.id, from: bound.from, ...found.newest })
  return answerOf(chain, bound, found.first.hash)
}

/** Sign, store, broadcast. What is queued is left to the keeper. @returns null when the ledger gave nonce or id to something our tables did not know */
async function finish(
  app: App,
  chain: Chain,
  caller: Caller,
  bound: Bound,
  { mayVacate }: { mayVacate: boolean },
): Promise<WriteAnswer | null> {
  const signed = await sign(app, chain, caller, bound, { mayVacate })
  if (signed === null) return null
  // Bound anew, and signed before: by a request that the database has lost. A random id was never asked for before.
  if (signed.stored && mayVacate && bound.requestHash !== null && (await restoreSlot(app, bound))) return null
  await reach(app, 'after-sign')
  const { raw, hash } = signed
  const isDue = await storeFirst(app, chain, bound, { raw, hash, gas: bound.gas, fees: bound.fees, isCancel: false })
  await reach(app, 'after-store')
  txSent(app, bound)
  if (isDue) await giveToNode(app, chain, { id: bound.id, from: bound.from, raw, hash })
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
    if (isTaken(error)) return makeRoom(app, bound)
    if (!isRefused(error)) throw error
    if (mayVacate && (await isUnsigned(app, bound)) && (await vacate(app, bound.id))) tellSigned(app, chain, bound.from)
    throw error instanceof SignerRefused && error.code === 'nonce_gap' ? notSigned(error) : error
  }
}

/** Certainly not signed. Else it may have been. */
const isRefused = (error: unknown): boolean =>
  error instanceof SignerRefused
    ? error.code !== 'ledger_damaged'
    : error instanceof AppError && error.code !== 'signer_unavailable'

/** The ledger's own word that it holds nothing for this intent. A ledger that cannot be asked proves nothing. */
async function isUnsigned({ signer, telemetry }: App, { id }: Bound): Promise<boolean> {
  try {
    return (await signer.recall({ intentId: id })).attempts.length === 0
  } catch (error) {
    telemetry.log.warn('recall_failed', { id }, error)
    return false
  }
}

/**
 * The ledger has another signature for this intent, or for this nonce another intent: what the database lost. It is
 * taken in; the nonce is that one's then, and the intent is to be bound to another, or has its answer.
 */
async function makeRoom(app: App, bound: Bound): Promise<null> {
  if (await takeInIntent(app, bound.id)) return null
  if (!(await restoreSlot(app, bound))) await part(app, bound.id)
  return null
}

/** @returns whether the ledger holds anything for the intent */
async function takeInIntent(app: App, id: string): Promise<boolean> {
  const [newest] = (await app.signer.recall({ intentId: id })).attempts
  return newest !== undefined && restoreSlot(app, newest)
}

/** Business event: an intent has bytes and is on its way. */
function txSent({ telemetry }: App, { chainId, id, nonce }: Bound): void {
  telemetry.log.info('transaction_sent', { chainId, id, nonce })
  telemetry.writes.inc({ state: 'SUBMITTED' })
}
