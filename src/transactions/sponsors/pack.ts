/**
 * transactions/sponsors: sponsors’ payments for the gas of users.
 * Owns: transactions of sponsors that include operations, top-ups, withdrawals, delegations, gas budgets.
 * Does not own: which sponsors there are (`sponsors/sponsors.ts`), actual costs (`transactions/settle/count-operations.ts`).
 */

import { highestPrice } from '../../chain/fees.ts'
import { currentFees } from '../../chain/current-fees.ts'
import { onReorganised } from '../../chain/head.ts'
import type { Chain } from '../../chain/network.ts'
import { mapChainError } from '../../chain/rpc/rpc.ts'
import type { App } from '../../app.ts'
import { AppError } from '../../errors.ts'
import { dispatchData } from '../../gas/dispatch.ts'
import { BoundedMap } from '../../bounded-map.ts'
import { newTransactionId, type Hex } from '../../ids.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import type { Sponsor } from '../../sponsors/sponsors.ts'
import { byteaArray } from '../../store/bytea-array.ts'
import { fromHex, toHex } from '../../hex.ts'
import { slot } from '../../state.ts'
import type { OuterAuthorization } from '../../store/column-values.ts'
import { balanceFor, balanceThisBlock } from '../lanes/balances.ts'
import { carriersOf, inTurn, noCarrier } from './carriers.ts'
import { knownDataGas, mostPackedGas } from '../lanes/data-gas.ts'
import { gasContracts } from './delegation.ts'
import { oncePer, together } from '../lanes/group-commit.ts'
import type { Bound, Intent } from '../intent.ts'
import { networkSeconds } from '../lanes/network-clock.ts'
import type { Operation } from '../operation.ts'
import { addedGas, bytesOf, outerGas } from '../lanes/operation-gas.ts'
import { explainLeftOut } from '../lanes/refused-operation.ts'
import { sponsorStopped } from './refused-top-up.ts'
import { OuterReverts, outerGasOf, withAuthorizations } from '../lanes/outer-gas.ts'
import { outer } from '../lanes/steps.ts'

/**
 * A signed operation in the dispatcher's encoding. `isRepacked`: another transaction included it, and did not execute
 * it. `packLimit`: highest number of operations in its transaction, itself included.
 */
export type SignedOperation = { operation: Operation; packed: Buffer; isRepacked?: true; packLimit?: number | null }

/**
 * Result of `carry`. `failed`: no known transaction includes the operation. If the signer or the database was
 * unavailable, a transaction may have been signed or stored.
 */
export type CarryResult = { kind: 'carried'; bound: Bound; hash: Hex } | { kind: 'failed'; error: unknown }

/** Limits of one transaction: operations, and bytes (nodes accept 128 KiB). */
const MAX_PACKED = 150
const MAX_PACKED_BYTES = 98_304
/** transactions that are being sent at a time; operations that arrive in the meantime go into the next */
const LANES = 2
/** the size of a full transaction; shares are integers of it */
const WHOLE = 1_000_000
/** seconds that an operation must remain valid when it is sent */
export const MIN_LIFE_SECONDS = 30
/** client id of sponsors' transactions, which have no application */
const SPONSOR_CLIENT = 'sponsor'

/** Returns an operation's share of a transaction, by gas or by bytes, whichever is larger. */
const partOf = (chain: Chain, { operation, packLimit }: SignedOperation): number => {
  const gas = Number(addedGas(operation) + knownDataGas(chain, operation))
  const part = Math.ceil(WHOLE * Math.max(gas / Number(mostPackedGas(chain)), bytesOf(operation) / MAX_PACKED_BYTES))
  return packLimit ? Math.max(part, Math.floor(WHOLE / packLimit)) : part
}

/**
 * Sends an operation by a sponsor: at once if nothing else is being sent, otherwise with others, up to 150 of any
 * accounts in one transaction. Stores the transaction with its operations before a node gets it.
 */
export function carry(app: App, chain: Chain, signed: SignedOperation): Promise<CarryResult> {
  const underWay = underWayOf(app, chain)
  const { id } = signed.operation
  const known = underWay.get(id)
  if (known !== undefined) return known
  const carried = packerOf(app, chain)(signed).finally(() => underWay.delete(id))
  underWay.set(id, carried)
  return carried
}

/**
 * Operations being sent, by id. A second request for a waiting operation joins the first: the signer would refuse a
 * transaction that includes the same operation twice, with all other operations in it.
 */
const underWayOf = oncePer('operations that are being packed', () => new Map<string, Promise<CarryResult>>())

const packerOf = oncePer('transactions with operations', (app, chain) =>
  together(
    app.clock,
    { most: MAX_PACKED, mostBytes: WHOLE, lanes: LANES },
    (signed) => partOf(chain, signed),
    (members: SignedOperation[]) => carryGroup(app, chain, members),
  ),
)

/**
 * Groups operations by sponsor, dispatcher and space, one transaction per group: an operation's id belongs to its
 * dispatcher and space.
 */
async function carryGroup(app: App, chain: Chain, members: SignedOperation[]): Promise<CarryResult[]> {
  const results = new Map<SignedOperation, CarryResult>()
  const fail = (of: SignedOperation[], error: unknown) => {
    for (const one of of) results.set(one, { kind: 'failed', error })
  }
  const soon = networkSeconds(app, chain) + MIN_LIFE_SECONDS
  const [good, late] = partition(members, ({ operation }) => operation.deadline >= soon)
  fail(late, tooLate())
  try {
    const carriers = await carriersOf(app, chain)
    const groups = [
      ...Map.groupBy(good, ({ operation: { delegate, space } }) => `${delegate}${space}`).values(),
    ].flatMap((same) => [...Map.groupBy(same, ({ operation }) => inTurn(carriers, operation.from)[0]!)])
    await Promise.all(
      groups.map(async ([{ address }, group]) => {
        const at = carriers.findIndex((one) => one.address === address)
        const tried = [...carriers.slice(at), ...carriers.slice(0, at)]
        for (const [one, result] of await carryByAny(app, chain, tried, group)) results.set(one, result)
      }),
    )
  } catch (error) {
    fail(good, error)
  }
  return members.map((one) => results.get(one)!)
}

/**
 * Thrown if this sponsor cannot send a transaction but another sponsor might; nothing is bound. `isTooDear`: this sponsor
 * could send it with fewer operations.
 */
export class CannotCarry extends Error {
  readonly told: AppError | null
  readonly isTooDear: boolean
  constructor(told: AppError | null, { isTooDear = false }: { isTooDear?: boolean } = {}) {
    super()
    this.told = told
    this.isTooDear = isTooDear
  }
}

/**
 * Sends a group by the first sponsor that can. Halves the group if it is too expensive for all sponsors. So one
 * expensive operation does not block the others, and high fees only reduce the number of operations per transaction.
 */
async function carryByAny(
  app: App,
  chain: Chain,
  carriers: Sponsor[],
  group: SignedOperation[],
): Promise<Map<SignedOperation, CarryResult>> {
  const results = new Map<SignedOperation, CarryResult>()
  let told: AppError | null = null
  let isTooDear = false
  for (const sponsor of carriers) {
    try {
      return await carryBy(app, chain, sponsor, group)
    } catch (error) {
      if (!(error instanceof CannotCarry)) {
        for (const one of group) results.set(one, { kind: 'failed', error })
        return results
      }
      told ??= error.told
      isTooDear ||= error.isTooDear
    }
  }
  if (isTooDear && group.length > 1) {
    const middle = Math.ceil(group.length / 2)
    // Send one after the other, because the second half cannot use the funds that the first half takes.
    for (const half of [group.slice(0, middle), group.slice(middle)])
      for (const [one, result] of await carryByAny(app, chain, carriers, half)) results.set(one, result)
    return results
  }
  const error = told ?? noCarrier(app, chain)
  for (const one of group) results.set(one, { kind: 'failed', error })
  return results
}

/**
 * Sends one transaction without the operations that the signer refuses.
 * @throws CannotCarry, and the errors of the steps
 */
async function carryBy(app: App, chain: Chain, sponsor: Sponsor, group: SignedOperation[]) {
  const results = new Map<SignedOperation, CarryResult>()
  let rest = group
  while (rest.length > 0) {
    const { bound, cost } = await bindOuter(app, chain, sponsor, rest)
    try {
      const signed = await outer.sign(app, chain, bound, { token: '', approval: null, mayVacate: true })
      // The ledger has another transaction for this nonce. It has been restored to the database, so try the next nonce.
      if (signed.kind === 'nonce_taken') continue
      const { attempt } = signed
      const isDue = await outer.store(app, chain, bound, attempt)
      app.telemetry.log.info('operations_sent', { chainId: chain.chainId, id: bound.id, nonce: bound.nonce, operations: rest.length }) // prettier-ignore
      for (const one of rest) results.set(one, { kind: 'carried', bound, hash: attempt.hash })
      if (isDue) await outer.broadcast(app, chain, { id: bound.id, from: bound.from, raw: attempt.raw, hash: attempt.hash }) // prettier-ignore
      return results
    } catch (error) {
      const refused = refusedIn(error)
      const index = refused?.facts.operation ?? -1
      if (refused === null || rest[index] === undefined) throw remembered(app, chain, sponsor, cost, explain(error)) // prettier-ignore
      results.set(rest[index]!, { kind: 'failed', error: explainLeftOut(refused, app.clock) })
      rest = rest.filter((_, at) => at !== index)
    }
  }
  return results
}

const refusedIn = (error: unknown): SignerRefused | null =>
  error instanceof SignerRefused && error.code === 'operation_refused' ? error : null

/** milliseconds for which a sponsor is assumed to be still unable to pay a cost */
const TOO_DEAR_MS = 2_000

/**
 * By sponsor: the cost in wei that was too high, and its error. Without this, an exhausted daily limit would be checked
 * again for every half of every half.
 */
const tooDear = oncePer('what was too dear for sponsors', () => new Map<Hex, { cost: bigint; until: number; error: CannotCarry }>()) // prettier-ignore

function remembered(app: App, chain: Chain, { address }: Sponsor, cost: bigint, error: unknown): unknown {
  if (error instanceof CannotCarry && error.isTooDear)
    tooDear(app, chain).set(address, { cost, until: app.clock.ticks() + TOO_DEAR_MS, error })
  return error
}

/**
 * Binds a sponsor's transaction to a nonce.
 * @returns the transaction with its nonce, and its highest cost, wei
 * @throws CannotCarry, and errors of the database and the node
 */
async function bindOuter(
  app: App,
  chain: Chain,
  sponsor: Sponsor,
  group: SignedOperation[],
): Promise<{ bound: Bound; cost: bigint }> {
  const operations = group.map(({ operation }) => operation)
  // Use the operations' own contracts, even if the network no longer uses them: elsewhere the ids would differ.
  const { delegate, space } = operations[0]!
  const data = dispatchData(
    fromHex(space),
    group.map(({ packed }) => packed),
  )
  const { dispatcher } = gasContracts(delegate)
  const before = tooDear(app, chain).get(sponsor.address)
  const isBelieved = before !== undefined && app.clock.ticks() < before.until
  const fees = await currentFees(chain).catch(refuseOuter)
  // This lower bound of the cost is checked before any other request for the transaction.
  if (isBelieved && outerGas(operations) * highestPrice(fees) >= before.cost) throw before.error
  const intent: Intent = { to: dispatcher, data: toHex(data), value: 0n, abi: '', fn: null, errors: [] }
  const [authorizations, least] = await Promise.all([
    authorizationsOf(app, chain, sponsor, operations),
    outerGasOf(chain, {
      from: sponsor.address,
      to: intent.to,
      data: intent.data,
      operations,
      // In another space, this sponsor's permission has not been checked.
      isRepacked: space !== chain.gasSpace || group.some(({ isRepacked }) => isRepacked),
    }),
    // Request the balance together with the rest, so that it is known when it is needed.
    balanceThisBlock(chain, sponsor.address),
  ]).catch(refuseOuter)
  const gas = withAuthorizations(least, authorizations, operations)
  const asked = {
    id: newTransactionId(),
    requestHash: null,
    reference: null,
    accountId: sponsor.accountId,
    clientId: SPONSOR_CLIENT,
  }
  const cost = gas * highestPrice(fees)
  const available = await balanceFor(chain, sponsor.address, cost).catch(refuseOuter)
  if (available < cost) throw new CannotCarry(null, { isTooDear: true })
  if (isBelieved && cost >= before.cost) throw before.error
  try {
    const bound = await outer.bind(app, chain, {
      ...asked,
      from: sponsor.address,
      intent,
      terms: { gas, fees },
      authorizations,
      budget: { available, paidBelow: 0 },
    })
    return { bound, cost }
  } catch (error) {
    throw remembered(app, chain, sponsor, cost, explain(error))
  }
}

function refuseOuter(error: unknown): never {
  throw error instanceof OuterReverts ? new CannotCarry(null) : mapChainError(error)
}

/**
 * Returns the authorizations of a transaction. Each account occurs once. Excludes accounts with an authorization in an
 * earlier transaction of the same sponsor, because nodes accept one pending authorization per account.
 * Earlier transactions that are being cancelled do not count, because they delegate nothing. Those above a nonce that
 * is free or may become free do not count either, because they may be mined after this one.
 */
async function authorizationsOf(
  { db }: App,
  chain: Chain,
  { address }: Sponsor,
  operations: Operation[],
): Promise<OuterAuthorization[]> {
  const { chainId } = chain
  const wanted = new Map(
    operations.flatMap(({ from, authorizationNonce: nonce }) => (nonce === null ? [] : [[from, { from, nonce }]])),
  )
  const known = operations.map(({ from }) => from).filter((from) => !wanted.has(from))
  const again = await delegatedElsewhere(db, chain, address, known)
  if (wanted.size === 0) return again
  const rows = await db
    .selectFrom('operations as o')
    .innerJoin('transactions as t', 't.id', 'o.outer_id')
    .select('o.sender')
    .where('o.chain_id', '=', chainId)
    .where('o.authorization_nonce', 'is not', null)
    .where((eb) => eb('o.sender', '=', eb.fn.any(byteaArray([...wanted.keys()]))))
    .where('t.sender', '=', fromHex(address))
    .where('t.state', '=', 'SUBMITTED')
    .where('t.is_cancel', '=', false)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('transactions as below')
            .select('below.id')
            .whereRef('below.chain_id', '=', 't.chain_id')
            .whereRef('below.sender', '=', 't.sender')
            .whereRef('below.nonce', '<', 't.nonce')
            .where('below.state', 'in', ['BOUND', 'VACANT']),
        ),
      ),
    )
    .execute()
  for (const { sender } of rows) wanted.delete(toHex(sender))
  return [...wanted.values(), ...again]
}

/**
 * Returns the authorizations of accounts that delegated in a transaction of another sponsor that is not final. A
 * reorganisation may put that transaction behind this one, whatever their nonces, so this one includes the
 * authorization as well. If there is no reorganisation, the chain ignores the second authorization, which costs its
 * gas.
 */
async function delegatedElsewhere(db: App['db'], chain: Chain, sponsor: Hex, all: Hex[]) {
  const { accounts: here } = delegatedHere.of(chain)
  const accounts = all.filter((account) => !here.has(`${sponsor}${account}`))
  if (accounts.length === 0) return []
  const { chainId } = chain
  const rows = await db
    .selectFrom('operations as o')
    .innerJoin('transactions as t', 't.id', 'o.outer_id')
    .select(['o.sender', 'o.authorization_nonce'])
    .where('o.chain_id', '=', chainId)
    .where('o.authorization_nonce', 'is not', null)
    .where((eb) => eb('o.sender', '=', eb.fn.any(byteaArray(accounts))))
    .where('t.sender', '<>', fromHex(sponsor))
    .where('t.is_final', '=', false)
    .orderBy('o.authorization_nonce')
    .execute()
  const found = new Map(rows.map((row) => [toHex(row.sender), row.authorization_nonce!]))
  for (const account of accounts) if (!found.has(account)) here.set(`${sponsor}${account}`, true)
  return [...found].map(([from, nonce]) => ({ from, nonce }))
}

const MAX_REMEMBERED = 100_000

/**
 * Pairs of sponsor and delegated account without an open delegation in another sponsor's transaction. Such a delegation
 * can appear only by a reorganisation, which clears the pairs.
 */
const delegatedHere = slot('accounts whose delegation no other sponsor can lose', (chain: Chain) => {
  const known = { accounts: new BoundedMap<string, true>(MAX_REMEMBERED) }
  onReorganised(chain.head, () => void (known.accounts = new BoundedMap(MAX_REMEMBERED)))
  return known
})

/**
 * Maps an error of a sponsor's transaction, because a problem of the sponsor is not the user's fault.
 * @param error  error of binding or signing for a sponsor
 */
export function explain(error: unknown): unknown {
  if (error instanceof SignerRefused && error.code === 'unknown_account') return new CannotCarry(null)
  if (!(error instanceof AppError)) return error
  const { code } = error
  if (code === 'account_frozen') return new CannotCarry(null)
  if (code === 'insufficient_funds') return new CannotCarry(null, { isTooDear: true })
  if (code === 'policy_denied') {
    const detail = `The signer signs nothing for this sponsor at the moment: ${error.message}`
    return new CannotCarry(new AppError('sponsor_empty', detail, { retryAfter: 60, cause: error }), { isTooDear: true })
  }
  if (code === 'account_stopped') return new CannotCarry(sponsorStopped(error))
  if (code === 'too_many_pending')
    return new CannotCarry(
      new AppError('overloaded', 'The sponsors have too many pending transactions. Nothing was sent. Retry.', {
        retryAfter: 5,
        cause: error,
      }),
    )
  return error
}

const tooLate = (): AppError =>
  new AppError('overloaded', 'The write was not sent in time and has expired. Nothing was done. Retry.', {
    retryAfter: 5,
  })

function partition<T>(all: T[], isGood: (one: T) => boolean): [T[], T[]] {
  return [all.filter(isGood), all.filter((one) => !isGood(one))]
}
