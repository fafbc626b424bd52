/**
 * transactions/lanes: turns an intent into bytes that a node accepts.
 * Owns: preparing, binding a number (commit 1), signing, storing (commit 2), broadcasts, fee bumps and cancellations, with nonces of
 *   an account (`send.ts`) or numbers of a space (`send-operation.ts`).
 * Does not own: the order of the steps (`transactions/pipeline.ts`), who pays (`transactions/sponsors/pack.ts`), outcomes in
 *   blocks (`transactions/settle/follow.ts`).
 */

import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { cheaper } from '../../chain/fees.ts'
import { notingDenial } from '../../events/denials.ts'
import { notingLowBalance } from '../../events/low-balances.ts'
import type { Caller } from '../../http/bearer.ts'
import { chainOf } from '../../http/caller.ts'
import { answerOf } from '../read/answer.ts'
import { checkApproval, findApproval, isUnapproved, noteAsking } from './approve.ts'
import { claim, refuseStopped } from './bind.ts'
import { broadcast } from './broadcast.ts'
import { asBound, checkWrite } from './dry-run.ts'
import { bringDelegation } from '../sponsors/bring-delegation.ts'
import { strategyFor } from './gas.ts'
import { toBound, type Bound, type Intent, type Terms } from '../intent.ts'
import { inFlight, isBound, toKey, type IdempotencyKey, type SendOptions, type WriteRow } from '../key.ts'
import { isCarried } from './own-nonces.ts'
import { LOST, sendOnce, type Outcome } from '../pipeline.ts'
import { sendOperation } from './send-operation.ts'
import { marketOf } from './market.ts'
import type { PreparedWrite } from './prepare.ts'
import { reconcileBound } from './store.ts'
import { reconcileIntent } from '../recovery/reconcile-operation.ts'
import { first } from './steps.ts'
import type { WriteAnswer } from '../write-wire.ts'

/**
 * Sends a write (`sendOnce`): as a transaction of the user's own account, or as an operation if a sponsor sends it. A
 * nonce that was bound and not signed gets a gap-filling cancellation after 30 s.
 * @returns the answer, and whether an earlier request with the same key already got it
 * @throws no_contract, execution_reverted, insufficient_funds, fee_cap_reached, too_many_pending, account_stopped,
 *   idempotency_key_reused, idempotency_in_flight, policy_denied, approval_required, approval_denied,
 *   chain_unavailable, chain_timeout, signer_unavailable, database_unavailable, conflict, overloaded
 */
export async function sendTransaction(
  app: App,
  caller: Caller,
  intent: Intent,
  options: SendOptions,
): Promise<{ answer: WriteAnswer; isReplay: boolean }> {
  const { idempotency, askedFrom = null, reference = null } = options
  const chain = chainOf(app, caller)
  if (await isCarried(app, chain, caller.address, intent.to)) return sendOperation(app, caller, [intent], options)
  const key = toKey(caller, idempotency)
  const toApprove = (id: string, terms: Terms) => ({
    ...{ id, caller, key, askedFrom, calls: [intent] },
    check: (approval: string | null) =>
      checkWrite(app, chain, caller, { intent, terms: asBound(intent, terms), own: { id, approval } }),
  })
  // A sponsor pays nothing for a write that was already sent, even if the database has lost that write.
  const refuseIfSent = async (id: string) => {
    if (idempotency !== null && ((await isBound(app.db, id)) || (await reconcileIntent(app, chain, id)) !== null))
      throw inFlight()
  }
  const prepare = async (id: string) => {
    await bringDelegation(app, chain, caller, intent.to)
    return strategyFor(chain, intent.to).prepare({
      app,
      chain,
      caller,
      intent,
      sending: {
        send: sendForSponsor,
        check: async (terms) => {
          await refuseIfSent(id)
          return checkApproval(app, toApprove(id, terms))
        },
        refuseIfSent: () => refuseIfSent(id),
      },
    })
  }
  const approve = (id: string, terms: Terms) => findApproval(app, toApprove(id, terms))
  // Not in `sendWrite`: a sponsor's account is no user of the application.
  return notingDenial(app, caller, { request: 'write', reference }, () =>
    notingLowBalance(app, caller, () => sendWrite(app, { chain, caller, intent, key, reference, prepare, approve })),
  )
}

/**
 * Sends a write of a sponsor's account. `prepare` receives a function that asks whether the signer would refuse the
 * write: a nonce that is bound and vacated delays all later ones, which for a sponsor are writes for other users.
 * @throws as `sendTransaction`
 */
export async function sendForSponsor(
  app: App,
  write: Omit<Write, 'prepare' | 'approve' | 'reference'> & {
    prepare: (check: (terms: Terms) => Promise<unknown>) => Promise<PreparedWrite>
  },
): Promise<{ id: string; isReplay: boolean }> {
  const { chain, caller, intent } = write
  const prepare = () => write.prepare((terms) => checkWrite(app, chain, caller, { intent, terms }))
  // Top-ups and withdrawals have separate limits and need no approval.
  const approve = async () => null
  const { answer, isReplay } = await sendWrite(app, { ...write, reference: null, prepare, approve })
  return { id: answer.id, isReplay }
}

type Write = {
  chain: Chain
  caller: Caller
  intent: Intent
  key: IdempotencyKey | null
  /** the caller's own text */
  reference: string | null
  prepare: (id: string) => Promise<PreparedWrite>
  /**
   * Returns the user's approval.
   * @throws approval_required, approval_denied
   */
  approve: (id: string, terms: Terms) => Promise<string | null>
}

/** A write with a nonce. `mayVacate`: this request bound the nonce, and may vacate it if nothing was signed for it. */
type BoundWrite = { bound: Bound; approval: string | null; mayVacate: boolean }

const sendWrite = (app: App, write: Write): Promise<{ answer: WriteAnswer; isReplay: boolean }> =>
  sendOnce<BoundWrite>(app, {
    ...write,
    lane: {
      bind: (id) => bindWrite(app, write, id),
      finish: (bound) => finish(app, write, bound),
      resume: (row) => resume(app, write, row),
      answered: 'before-answer',
    },
  })

async function bindWrite(app: App, write: Write, id: string): Promise<BoundWrite> {
  const { chain, intent, key, reference } = write
  const { accountId, clientId, address: from } = write.caller
  const asked = { id, requestHash: key?.requestHash ?? null, reference, accountId, clientId, from, intent }
  const prepared = await write.prepare(id)
  const approval = await write.approve(id, prepared.terms)
  return { bound: await first.bind(app, chain, { ...asked, ...prepared }), approval, mayVacate: true }
}

/** Finishes a write that an earlier request with the same key has bound: with the signer's bytes, or by signing now. */
async function resume(app: App, write: Write, row: WriteRow): Promise<Outcome> {
  const { chain } = write
  // The network's gas mode was different when the row was bound.
  if (row.sequence !== undefined) throw inFlight()
  const bound = toBound(row)
  const found = await reconcileBound(app, chain, bound)
  if (found === null) {
    await refuseStopped(app.db, bound)
    const asked = await askedFor(chain, bound, write.intent)
    const approval = await write.approve(asked.id, asked)
    if (!(await claim(app.db, asked.id, asked))) throw inFlight()
    return finish(app, write, { bound: asked, approval, mayVacate: false })
  }
  // The nonce was filled, so the key is free for its next use.
  if (found.first.isCancel) return LOST
  await broadcast(app, chain, { id: bound.id, from: bound.from, ...found.newest })
  return { kind: 'sent', answer: answerOf(chain, bound, found.first.hash) }
}

/**
 * Returns the transaction to be signed with the token of a retry: the content of this request, at no more than the
 * market's fees. Takes only the nonce from the bound row, because anyone with write access to the database could change
 * that row.
 * @throws fee_cap_reached, chain_unavailable, chain_timeout
 */
async function askedFor(chain: Chain, bound: Bound, { to, value, data, gas = bound.gas }: Intent): Promise<Bound> {
  const fees = cheaper(bound.fees, await marketOf(chain))
  return { ...bound, to, value, data, gas, fees, authorizations: null }
}

/** Signs, stores and broadcasts. The keeper sends queued bytes. */
async function finish(
  app: App,
  { chain, caller: { token } }: Write,
  { bound, approval, mayVacate }: BoundWrite,
): Promise<Outcome> {
  const signed = await first.sign(app, chain, bound, { token, approval, mayVacate }).catch((error: unknown) => {
    if (!isUnapproved(error)) throw error
    noteAsking(app)
    // The approval was not missing before the nonce was bound. The nonce is vacated, and the write starts over: it asks
    // the user. The keeper handles a nonce that another request bound.
    if (!mayVacate) throw inFlight()
    return LOST
  })
  if (signed.kind !== 'signed') return LOST
  const { raw, hash } = signed.attempt
  const isDue = await first.store(app, chain, bound, signed.attempt)
  txSent(app, bound)
  if (isDue) await first.broadcast(app, chain, { id: bound.id, from: bound.from, raw, hash })
  return { kind: 'sent', answer: answerOf(chain, bound, hash) }
}

/** Logs that an intent has signed bytes. */
function txSent({ telemetry }: App, { chainId, id, nonce }: Bound): void {
  telemetry.log.info('transaction_sent', { chainId, id, nonce })
  telemetry.writes.inc({ state: 'SUBMITTED' })
}
