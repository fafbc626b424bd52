import type { App } from '../../app.ts'
import { currentFees } from '../../chain/current-fees.ts'
import { highestPrice, type Fees } from '../../chain/fees.ts'
import { gasChoiceOf, type Chain } from '../../chain/network.ts'
import { mapChainError } from '../../chain/rpc/rpc.ts'
import { AppError } from '../../errors.ts'
import { notingDenial } from '../../events/denials.ts'
import { gasBudgetOf, type Caller } from '../../http/bearer.ts'
import { chainOf } from '../../http/caller.ts'
import { OWN_CLIENT, type Hex } from '../../ids.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import type { SignOperationRequest } from '../../signer-wire/wire.ts'
import { fromHex, toHex } from '../../hex.ts'
import { paysFor, type SponsorBudget } from '../../store/sponsor-budget.ts'
import { findApproval, isUnapproved, noteAsking } from './approve.ts'
import { balanceThisBlock } from './balances.ts'
import { BINDER, claimOperation, giveBack, moveOperation, unbind, type Claim } from './bind-operation.ts'
import { canAnyPay, carriersOf, inTurn, noCarrier } from '../sponsors/carriers.ts'
import { dataGas } from './data-gas.ts'
import { contractsOf, delegationNonce } from '../sponsors/delegation.ts'
import { findExhausted, readNetworkBudget } from '../sponsors/gas-budget.ts'
import { evidenceOf, type SigningEvidence } from './gas.ts'
import type { Intent } from '../intent.ts'
import { inFlight, toKey, type IdempotencyKey, type SendOptions, type WriteRow } from '../key.ts'
import { answerOfOperation } from '../read/answer.ts'
import { aloneGas } from './operation-gas.ts'
import { toOperation, type Operation } from '../operation.ts'
import { namingClocks, networkSeconds } from './network-clock.ts'
import { noteDelegating, refuseBehindOwn } from './own-nonces.ts'
import { carry, MIN_LIFE_SECONDS } from '../sponsors/pack.ts'
import { callsOf, prepareOperation, type PreparedOperation } from './prepare-operation.ts'
import { LOST, MAX_LOST, sendOnce, type Outcome } from '../pipeline.ts'
import { explainRefusal } from './refused-operation.ts'
import { reconcileIntent } from '../recovery/reconcile-operation.ts'
import { sequencesOf } from './sequences.ts'
import { operation as step } from './steps.ts'
import { exhaustedError } from '../sponsors/top-up.ts'
import type { WriteAnswer } from '../write-wire.ts'

/**
 * seconds from binding to an operation's deadline; an operation not executed by then has failed, without a cancellation
 */
export const LIFE_SECONDS = 600

/**
 * Sends a write that a sponsor pays for (`sendOnce`): an operation that the user's account signs and a sponsor's
 * transaction includes. Commit 1 reserves its highest cost. After its deadline, 10 minutes later, the operation can
 * never be executed.
 * @param intents  executed in this order, all or nothing
 * @param paidFor  contracts that the budget has to pay for; default: the called contracts
 * @returns the answer, and whether an earlier request with the same key already got it
 * @throws atomic_unsupported, no_contract, execution_reverted, insufficient_funds, invalid_gas, fee_cap_reached,
 *   gas_not_sponsored, gas_budget_exhausted, sponsor_empty, idempotency_key_reused, idempotency_in_flight,
 *   policy_denied, approval_required, approval_denied, account_frozen, application_suspended, chain_unavailable,
 *   chain_timeout, signer_unavailable, database_unavailable, conflict, overloaded
 */
export async function sendOperation(
  app: App,
  caller: Caller,
  intents: readonly Intent[],
  { idempotency, askedFrom, reference, paidFor }: SendOptions & { paidFor?: readonly Hex[] },
): Promise<{ answer: WriteAnswer; isReplay: boolean }> {
  const targets = paidFor ?? intents.map(({ to }) => to)
  const write = {
    chain: chainOf(app, caller),
    caller,
    intents,
    targets,
    key: toKey(caller, idempotency),
    askedFrom: askedFrom ?? null,
    reference: reference ?? null,
  }
  return notingDenial(app, caller, { request: 'write', reference: write.reference }, () =>
    sendOnce<BoundOperation>(app, {
      ...write,
      lane: {
        bind: (id) => prepareAndBind(app, write, id),
        finish: (bound) => finish(app, write, bound),
        resume: (row) => resume(app, write, row),
        answered: 'before-answer-operation',
      },
    }),
  )
}

type OperationWrite = {
  chain: Chain
  caller: Caller
  intents: readonly Intent[]
  /** contracts that the budget has to pay for */
  targets: readonly Hex[]
  key: IdempotencyKey | null
  /** IP address of the request; null: unknown */
  askedFrom: string | null
  /** the caller's own text */
  reference: string | null
}

/** An operation with a row. `claim`: this request's claim, with the reservation that it may release. */
type BoundOperation = { operation: Operation; approval: string | null; claim: Claim }

/**
 * Returns the gas budget of the application.
 * @throws gas_not_sponsored
 */
function budgetOf(app: App, caller: Caller, targets: readonly Hex[]): SponsorBudget {
  const budget = findBudget(app, caller, targets)
  if (budget instanceof AppError) throw budget
  return budget
}

/**
 * Returns the gas budget. If sponsors do not pay, returns the error with the reason: the application has no budget, or
 * one for other contracts.
 */
function findBudget(app: App, caller: Caller, targets: readonly Hex[]): SponsorBudget | AppError {
  const budget = gasBudgetOf(app, caller)
  if (budget === null && caller.clientId === OWN_CLIENT)
    return new AppError('gas_not_sponsored', 'The account pages have no gas budget on this network, so sponsors do not pay for transfers from there. Nothing was sent. The operator can set a budget: `chatelaine network set --pages-per-user --pages-per-day`.') // prettier-ignore
  if (budget === null)
    return new AppError('gas_not_sponsored', 'The application has no gas budget, so sponsors do not pay for its writes. Nothing was sent. The operator can set a budget: `chatelaine app update --sponsor-per-user --sponsor-per-application`.') // prettier-ignore
  if (!targets.every((to) => paysFor(budget, to)))
    return new AppError('gas_not_sponsored', 'The gas budget of the application is for other contracts. Nothing was sent. The operator can add this contract: `chatelaine app update --sponsor-contract`.') // prettier-ignore
  return budget
}

/**
 * Rejects several calls that cannot be one operation, because the account sends each as a separate transaction.
 * @throws atomic_unsupported
 */
export function refuseApart(chain: Chain, intents: readonly Intent[]): void {
  if (intents.length === 1) return
  if (chain.gas !== 'sponsor')
    throw new AppError(
      'atomic_unsupported',
      'On this network, accounts send their own transactions of one call each. Nothing was sent. Send the calls one by one.',
    )
  const index = intents.findIndex(({ to }) => gasChoiceOf(chain, to) !== 'sponsor')
  if (index < 0) return
  const detail =
    'The operator has set user-paid writes for this contract, one call each. Nothing was sent. Send the calls one by one.'
  throw new AppError('atomic_unsupported', `Call ${index}: ${detail}`, {
    errors: [{ pointer: `/calls/${index}/address`, code: 'sent_by_account', detail }],
  })
}

/**
 * Prepares and binds the operation.
 * @throws atomic_unsupported, gas_not_sponsored, gas_budget_exhausted, idempotency_in_flight, and the errors of
 *     `preparePaid` and `approve`
 */
async function prepareAndBind(app: App, write: OperationWrite, id: string): Promise<BoundOperation> {
  const { chain, caller, intents, targets, key, reference } = write
  const { accountId, clientId, address: from } = caller
  refuseApart(chain, intents)
  const budget = budgetOf(app, caller, targets)
  const { delegate, calls, gas, authorizationNonce, charged } = await preparePaid(app, chain, from, intents)
  const prepared: Omit<Operation, 'sequence' | 'deadline'> = {
    id,
    accountId,
    clientId,
    chainId: chain.chainId,
    from,
    delegate,
    space: chain.gasSpace!,
    calls,
    gas,
    authorizationNonce,
    requestHash: key?.requestHash ?? null,
    reference,
  }
  const deadline = () => networkSeconds(app, chain) + LIFE_SECONDS
  const approval = await approve(app, write, { ...prepared, sequence: 0, deadline: deadline() })
  for (let lost = 0; lost < MAX_LOST; lost++) {
    const operation = { ...prepared, sequence: await sequencesOf(app, chain).take(), deadline: deadline() }
    if (authorizationNonce !== null) noteDelegating(chain)
    const abi = intents.length === 1 ? intents[0]!.abi : intents.map((one) => one.abi).join('\n')
    const bound = await step.bind(app, chain, { ...operation, abi, charged, budget })
    if (bound === 'bound') return { operation, approval, claim: BINDER }
    if (bound === 'key is taken') throw inFlight()
    if (bound !== 'sequence is taken') throw exhaustedError(app, bound)
    sequencesOf(app, chain).skip(operation.sequence)
  }
  throw numbersTaken()
}

/**
 * Returns the user's approval of an operation.
 * @param operation  its sequence is not checked
 * @throws approval_required, approval_denied, and the errors of the signer
 */
function approve(app: App, { chain, caller, key, askedFrom, intents }: OperationWrite, operation: Operation) {
  const check = (approval: string | null) => {
    const { sequence: _, ...request } = requestOf(operation, { token: caller.token, approval })
    return app.signer.checkOperation(request).catch((error: unknown) => {
      // The ledger has an operation of this intent, and signs no other. Signing returns that operation, or restores
      // what the database has lost.
      if (error instanceof SignerRefused && error.code === 'intent_conflict') return { requires: null }
      throw explainRefusal(namingClocks(app, chain, error))
    })
  }
  return findApproval(app, { id: operation.id, caller, key, askedFrom, calls: intents, check })
}

/**
 * Simulates the calls, determines their highest cost, and checks that a sponsor can pay it.
 * @throws sponsor_empty, conflict, and the errors of `prepareOperation`
 */
export async function preparePaid(
  app: App,
  chain: Chain,
  from: Hex,
  intents: readonly Intent[],
): Promise<PreparedOperation & { charged: bigint }> {
  const carriers = inTurn(await carriersOf(app, chain), from)
  const [prepared] = await Promise.all([
    prepareOperation(chain, from, intents, carriers[0]!.address),
    // Request the balance together with the simulation, so that it is known when it is needed.
    balanceThisBlock(chain, carriers[0]!.address).catch(() => null),
    dataGas(chain, { calls: [] }).catch(() => null),
  ])
  if (prepared.authorizationNonce !== null) await refuseBehindOwn(app, chain, from, prepared.authorizationNonce)
  const charged = await costOf(chain, prepared, prepared.fees)
  if (!(await canAnyPay(chain, carriers, charged))) throw noCarrier(app, chain)
  return { ...prepared, charged }
}

/**
 * Returns the highest cost of an operation that is alone in a transaction, wei.
 * @throws fee_cap_reached, chain_unavailable, chain_timeout
 */
async function costOf(
  chain: Chain,
  operation: Pick<PreparedOperation, 'calls' | 'gas' | 'authorizationNonce' | 'delegate'>,
  fees?: Fees,
): Promise<bigint> {
  const [forData, price] = await Promise.all([dataGas(chain, operation), fees ?? currentFees(chain)]).catch(
    (error: unknown) => {
      throw mapChainError(error)
    },
  )
  return (aloneGas(operation) + forData) * highestPrice(price)
}

/** Finishes an operation that an earlier request with the same key has bound. */
async function resume(app: App, write: OperationWrite, row: WriteRow): Promise<Outcome> {
  // The network's gas mode was different when the row was bound.
  if (row.sequence === undefined) throw inFlight()
  let operation = toOperation(row)
  // An operation sent this late would not be executed. Once its deadline is over, the key is free for its next use.
  if (operation.deadline < networkSeconds(app, write.chain) + MIN_LIFE_SECONDS) throw inFlight()
  // The account may no longer delegate to the operation's code, or a restored row may lack the authorization. An
  // account is not moved back to code that the network no longer uses. So such a write is executed only if the account
  // still delegates to that code, or if the row includes its authorization.
  const isOfNow = operation.delegate === contractsOf(write.chain).name
  const authorizationNonce =
    operation.authorizationNonce ??
    (isOfNow ? await delegationNonce(write.chain, operation.from, operation.delegate) : null)
  // The token must sign the content of this request, as for a transaction (send.ts).
  operation = { ...operation, calls: callsOf(write.intents), authorizationNonce }
  const approval = await approve(app, write, operation)
  const charged = await costOf(write.chain, operation)
  const budget = findBudget(app, write.caller, write.targets)
  const claim = await claimOperation(app, { ...operation, charged }, budget instanceof AppError ? null : budget)
  if (claim === 'gone') throw inFlight()
  if (claim === 'unpaid') throw budget
  if ('of' in claim) throw exhaustedError(app, claim)
  // A negative number marks a lost number that belongs to another operation (reconcile-operation.ts).
  if (operation.sequence < 0) operation = await moved(app, write.chain, operation)
  return finish(app, write, { operation, approval, claim })
}

/**
 * Gives the operation an unused number.
 * @throws idempotency_in_flight, conflict, database_unavailable
 */
async function moved(app: App, chain: Chain, operation: Operation): Promise<Operation> {
  for (let lost = 0; lost < MAX_LOST; lost++) {
    const sequence = await sequencesOf(app, chain).take()
    const result = await moveOperation(app, operation, sequence)
    if (result === 'moved') return { ...operation, sequence }
    if (result === 'gone') throw inFlight()
    sequencesOf(app, chain).skip(sequence)
  }
  throw numbersTaken()
}

const numbersTaken = (): AppError =>
  new AppError('conflict', 'Other writes took each sequence number first. This request had no effect. Retry.', {
    retryAfter: 1,
  })

/** Signs the operation and lets a sponsor send it. Releases the reservation if certainly no transaction includes it. */
async function finish(
  app: App,
  { chain, caller: { token } }: OperationWrite,
  { operation: bound, approval, claim }: BoundOperation,
): Promise<Outcome> {
  let operation = bound
  for (let lost = 0; lost < MAX_LOST; lost++) {
    let packed: Hex
    try {
      packed = (await step.sign(app, requestOf(operation, { token, approval }))).packed
    } catch (error) {
      if (!(error instanceof SignerRefused || error instanceof AppError)) throw error
      if (error.code === 'sequence_conflict') {
        sequencesOf(app, chain).skip(operation.sequence)
        operation = await moved(app, chain, operation)
        continue
      }
      // The ledger has another record for this intent that the database has lost: another operation, or a transaction
      // of the account itself.
      const signed = error.code === 'intent_conflict' ? await reconcileIntent(app, chain, operation.id) : null
      if (signed === 'operation') return LOST
      if (claim === BINDER && isRefused(error)) await unbind(app, operation)
      if (signed === 'transaction') return LOST
      if (isUnapproved(error)) noteAsking(app)
      // The approval was not missing at binding. The write starts over, and asks the user.
      if (claim === BINDER && isUnapproved(error)) return LOST
      // The operation may be signed, but no transaction includes it: only this request would pass it to a sponsor.
      await giveBack(app, operation, claim)
      throw isUnapproved(error) ? inFlight() : explainRefusal(namingClocks(app, chain, error))
    }
    const carried = await carry(app, chain, { operation, packed: fromHex(packed) })
    if (carried.kind === 'failed') {
      if (!isInDoubt(carried.error)) await giveBack(app, operation, claim)
      throw explainRefusal(carried.error)
    }
    app.telemetry.writes.inc({ state: 'SUBMITTED' })
    return { kind: 'sent', answer: answerOfOperation(chain, operation, carried) }
  }
  throw numbersTaken()
}

/** Returns whether the operation is certainly unsigned. */
const isRefused = ({ code }: { code: string }): boolean => code !== 'signer_unavailable' && code !== 'ledger_damaged'

/** Returns whether a transaction with the operation may have been signed or stored before the error. */
const isInDoubt = (error: unknown): boolean =>
  !(error instanceof SignerRefused || error instanceof AppError) || !isRefused(error) || error.code === 'database_unavailable' // prettier-ignore

/** Returns an operation as a request to the signer. */
export const requestOf = (operation: Operation, shown: SigningEvidence): SignOperationRequest => ({
  intentId: operation.id,
  ...evidenceOf(shown),
  chainId: operation.chainId,
  from: operation.from,
  space: operation.space,
  sequence: String(operation.sequence),
  calls: operation.calls.map(({ to, value, data }) => ({ to: toHex(to), value: String(value), data: toHex(data) })),
  gasLimit: String(operation.gas),
  deadline: operation.deadline,
  ...(operation.requestHash === null ? {} : { requestHash: toHex(operation.requestHash) }),
  ...(operation.authorizationNonce === null ? {} : { authorizationNonce: operation.authorizationNonce }),
  ...(operation.delegate === 'chatelaine' ? {} : { delegate: operation.delegate }),
})

/**
 * Checks for a dry run that sponsors would pay.
 * @throws gas_not_sponsored, gas_budget_exhausted
 */
export async function rehearseBudget(
  app: App,
  caller: Caller,
  intents: readonly Intent[],
  charged: bigint,
): Promise<void> {
  const { clientId, accountId, chainId } = caller
  const budget = budgetOf(
    app,
    caller,
    intents.map(({ to }) => to),
  )
  const perNetwork = await readNetworkBudget(app.db, chainId)
  const exhausted = await findExhausted(app.db, { chainId, clientId, accountId, charged }, { ...budget, perNetwork })
  if (exhausted !== null) throw exhaustedError(app, exhausted)
}
