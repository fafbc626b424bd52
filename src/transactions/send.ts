import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { cheaper } from '../chain/fees.ts'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { newTransactionId } from '../ids.ts'
import { answerOf } from './answer.ts'
import { claim, refuseStopped } from './bind.ts'
import { broadcast } from './broadcast.ts'
import { between } from './crash-points.ts'
import { asBound, checkWrite } from './dry-run.ts'
import { bringDelegation } from './bring-delegation.ts'
import { strategyFor } from './gas.ts'
import { toBound, type Bound, type Intent, type Terms, type TransactionRow } from './intent.ts'
import { findKey, inFlight, isBound, toKey, type IdempotencyKey, type KeyLookup, type SendOptions } from './key.ts'
import { isCarried } from './own-nonces.ts'
import { sendOperation, toldOperation } from './send-operation.ts'
import { marketOf } from './market.ts'
import type { PreparedWrite } from './prepare.ts'
import { adopt } from './recall.ts'
import { untilReplayed } from './replay.ts'
import { restoreSent } from './sign.ts'
import { first } from './steps.ts'
import type { WriteAnswer } from './write-wire.ts'

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
 *         signer_unavailable, database_unavailable, conflict, overloaded
 */
export async function sendTransaction(
  app: App,
  caller: Caller,
  intent: Intent,
  { idempotency }: SendOptions,
): Promise<{ answer: WriteAnswer; isReplay: boolean }> {
  const chain = chainOf(app, caller)
  if (await isCarried(app, chain, caller.address, intent.to))
    return sendOperation(app, caller, [intent], { idempotency })
  // Nothing is paid for what was sent before, also where the database has lost that.
  const refuseIfSent = async (id: string) => {
    if (idempotency !== null && ((await isBound(app.db, id)) || (await restoreSent(app, chain, id)))) throw inFlight()
  }
  const prepare = async (id: string) => {
    await bringDelegation(app, chain, caller, intent.to)
    return strategyFor(chain, intent.to).prepare({
      ...{ app, chain, caller, intent },
      sending: {
        send: sendForSponsor,
        check: async (terms) => {
          await refuseIfSent(id)
          return checkWrite(app, chain, caller, { intent, terms: asBound(intent, terms) })
        },
        refuseIfSent: () => refuseIfSent(id),
      },
    })
  }
  return sendWrite(app, { chain, caller, intent, key: toKey(caller, idempotency), prepare })
}

/**
 * A write of an account that is not the caller's own, prepared in a way of its own, in which it is asked what the signer would refuse: a
 * nonce that is bound and given back keeps those waiting who are behind it, and of a sponsor these are other people.
 * @throws as `sendTransaction`
 */
export async function sendForSponsor(
  app: App,
  write: Omit<Write, 'prepare'> & { prepare: (check: (terms: Terms) => Promise<unknown>) => Promise<PreparedWrite> },
): Promise<{ id: string; isReplay: boolean }> {
  const { chain, caller, intent } = write
  const prepare = () => write.prepare((terms) => checkWrite(app, chain, caller, { intent, terms }))
  const { answer, isReplay } = await sendWrite(app, { ...write, prepare })
  return { id: answer.id, isReplay }
}

async function sendWrite(app: App, write: Write): Promise<{ answer: WriteAnswer; isReplay: boolean }> {
  await untilReplayed(app)
  for (let lost = 0; lost < MAX_LOST; lost++) {
    const outcome = await attempt(app, write)
    if (outcome.kind !== 'nonce_taken') return { answer: outcome.answer, isReplay: outcome.kind === 'told_before' }
  }
  throw new AppError('database_unavailable', 'The database is behind the signer’s ledger for this account. Retry.', {
    retryAfter: 5,
  })
}

/** Of one account, what the ledger has signed and the database has lost, each at the cost of one attempt. */
const MAX_LOST = 64

type Write = {
  chain: Chain
  caller: Caller
  intent: Intent
  key: IdempotencyKey | null
  prepare: (id: string) => Promise<PreparedWrite>
}

/** `nonce_taken`: by something that the database had lost and has again. The write begins anew. */
type Outcome = { kind: 'sent'; answer: WriteAnswer } | { kind: 'nonce_taken' }

/** A write as far as its key has not come yet: told, or bound by a request before, or new. */
async function attemptWrite(app: App, write: Write): Promise<Outcome | { kind: 'told_before'; answer: WriteAnswer }> {
  const { chain, key } = write
  const known: KeyLookup = key === null ? { free: newTransactionId() } : await findKey(app, key)
  if ('told' in known) return { kind: 'told_before', answer: answerOf(chain, toBound(known.told), known.hash) }
  // Of before the network’s gas was another.
  if ('carried' in known)
    return { kind: 'told_before', answer: await toldOperation(app, chain, known.carried, known.hash) }
  if ('uncarried' in known) throw inFlight()
  return 'unsigned' in known ? resume(app, write, known.unsigned) : prepareAndSend(app, write, known.free)
}

const attempt = between({ after: ({ kind }) => (kind === 'sent' ? 'before-answer' : null) }, attemptWrite)

async function prepareAndSend(app: App, write: Write, id: string): Promise<Outcome> {
  const { chain, intent, key } = write
  const { accountId, clientId, address: from } = write.caller
  let prepared: PreparedWrite
  try {
    prepared = await write.prepare(id)
  } catch (error) {
    // What was sent before may be why it cannot be done again.
    if (key !== null && (await restoreSent(app, chain, id))) return { kind: 'nonce_taken' }
    throw error
  }
  const asked = { id, requestHash: key?.requestHash ?? null, accountId, clientId, from, intent }
  const bound = await first.bind(app, chain, { ...asked, ...prepared })
  return finish(app, write, bound, { mayVacate: true })
}

/** A repeat finishes what a request before it left bound: by bytes that the signer holds, or by signing now. */
async function resume(app: App, write: Write, row: TransactionRow): Promise<Outcome> {
  const { chain } = write
  const bound = toBound(row)
  const found = await adopt(app, chain, bound)
  if (found === null) {
    await refuseStopped(app.db, bound)
    const asked = await askedFor(chain, bound, write.intent)
    if (!(await claim(app.db, asked.id, asked))) throw inFlight()
    return finish(app, write, asked, { mayVacate: false })
  }
  // Its nonce was filled: the key is at its next use.
  if (found.first.isCancel) return { kind: 'nonce_taken' }
  await broadcast(app, chain, { id: bound.id, from: bound.from, ...found.newest })
  return { kind: 'sent', answer: answerOf(chain, bound, found.first.hash) }
}

/**
 * What the token of a repeat signs: what this request asks for, at no more than the market's fees. Of the row that a request before it left
 * bound nothing counts but its nonce, since a row is what anyone makes of it who can write the database.
 * @throws fee_cap_reached, chain_unavailable, chain_timeout
 */
async function askedFor(chain: Chain, bound: Bound, { to, value, data, gas = bound.gas }: Intent): Promise<Bound> {
  const fees = cheaper(bound.fees, await marketOf(chain))
  return { ...bound, to, value, data, gas, fees, authorizations: null }
}

/** Sign, store, broadcast. What is queued is left to the keeper. */
async function finish(
  app: App,
  { chain, caller: { token } }: Write,
  bound: Bound,
  { mayVacate }: { mayVacate: boolean },
): Promise<Outcome> {
  const signed = await first.sign(app, chain, bound, { token, mayVacate })
  if (signed.kind === 'nonce_taken') return signed
  const { raw, hash } = signed.attempt
  const isDue = await first.store(app, chain, bound, signed.attempt)
  txSent(app, bound)
  if (isDue) await first.broadcast(app, chain, { id: bound.id, from: bound.from, raw, hash })
  return { kind: 'sent', answer: answerOf(chain, bound, hash) }
}

/** Business event: an intent has bytes and is on its way. */
function txSent({ telemetry }: App, { chainId, id, nonce }: Bound): void {
  telemetry.log.info('transaction_sent', { chainId, id, nonce })
  telemetry.writes.inc({ state: 'SUBMITTED' })
}
