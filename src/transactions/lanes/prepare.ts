import { decodeRevert } from '../../abi/reverts.ts'
import { readNumber, readQuantity } from '../../chain/rpc/answers.ts'
import { hasCode } from '../../chain/code.ts'
import { isInsufficientFunds, revertDataOf } from '../../chain/rpc/errors.ts'
import { currentFees } from '../../chain/current-fees.ts'
import { highestPrice, type Fees } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import { mapChainError } from '../../chain/rpc/rpc.ts'
import { AppError } from '../../errors.ts'
import { quantityOf, type Hex } from '../../ids.ts'
import { balanceNow, balanceThisBlock } from './balances.ts'
import { costOf, fundsOf, insufficientFunds, type Budget, type Fund } from './funds.ts'
import { unstarved } from './inner-gas.ts'
import type { Bound, Intent, Terms } from '../intent.ts'
import { invalidGas, MAX_GAS, readGas } from './limits.ts'

/**
 * Simulates an intent at the newest block and finds what it costs its sender: one estimate; the balance, once a block;
 * the code, for an address not seen before. They leave together. Before anyone is refused for want of funds the
 * balance is asked again, and an account that is short is given some, once, where someone gives it.
 * @throws no_contract, execution_reverted, invalid_gas, insufficient_funds, fee_cap_reached, chain_unavailable,
 *         chain_timeout
 */
export async function prepareFromAccount(
  chain: Chain,
  from: Hex,
  intent: Intent,
  fund: Fund | null = null,
): Promise<PreparedWrite> {
  const first = await seeOwnPending(
    chain,
    from,
    intent,
    await readChainFacts(chain, from, intent, balanceThisBlock(chain, from)),
  )
  if (!isShort(first, intent)) return { ...conclude(first, intent), fund: fundOf(fund, first) }
  const second = await readChainFacts(chain, from, intent, balanceNow(chain, from))
  const own = fundOf(fund, second)
  const given =
    isShort(second, intent) && own !== null ? await own({ value: intent.value, terms: termsOf(second, intent) }) : null
  if (given === null) return { ...conclude(second, intent), fund: own }
  const third = await readChainFacts(chain, from, intent, Promise.resolve(given.available))
  return { ...conclude(third, intent), fund: fundOf(fund, third) }
}

/** For a write that takes so much gas as it was estimated. A limit of its caller's own above that is theirs to hold: nobody would see it again. */
function fundOf(fund: Fund | null, { gas }: ChainFacts): Fund | null {
  if (fund === null || gas instanceof Error) return fund
  const paid = paidGas(gas)
  return ({ value, terms }) => fund(terms === null ? { value, terms } : paidOf({ value, terms }, paid))
}

/** Gas units that others pay at most of what is estimated so: a quarter above what it would be given, since estimates go up and down. */
const paidGas = (estimate: bigint): bigint => (limitOf(estimate, {}) * 5n) / 4n

/** What others pay of gas, at most so much, and what is left beside the value. @param paid  gas units */
function paidOf(
  { value, terms: { gas, fees } }: { value: bigint; terms: Terms },
  paid: bigint,
): { value: bigint; terms: Terms } {
  if (gas <= paid) return { value, terms: { gas, fees } }
  return { value: value + (gas - paid) * highestPrice(fees), terms: { gas: paid, fees } }
}

/**
 * Gas units that others pay at most for what an account has sent, whatever its limit is: as it would be estimated now. 0 where it would revert, also
 * after what is under way.
 * @throws chain_unavailable, chain_timeout
 */
export async function paidGasNow(
  chain: Chain,
  { from, to, data, value }: Pick<Bound, 'from' | 'to' | 'data' | 'value'>,
): Promise<bigint> {
  const intent: Intent = { to, data, value, abi: '', fn: null, errors: [] }
  for (const at of ['latest', 'pending'] as const)
    try {
      return paidGas(await askGas(chain, from, intent, at))
    } catch (error) {
      if (revertDataOf(error) === undefined && !isInsufficientFunds(error)) throw mapChainError(error)
    }
  return 0n
}

/**
 * `budget`: what pays for it, as far as that is known; null where that is not the account, and nothing is reserved. `fund`:
 * who gives more where writes that are under way leave too little; null: nobody.
 */
export type PreparedWrite = { terms: Terms; budget: Budget | null; fund: Fund | null }

/**
 * The balance once more, before anyone is refused because of writes under way. The count is asked after it, of the same
 * node: what it counts may be off the balance already and open in our tables still, and must not be counted twice.
 * @throws chain_unavailable, chain_timeout
 */
export async function budgetNow({ rpc }: Chain, from: Hex): Promise<Budget> {
  try {
    const [balance, count] = await rpc.batch([
      { method: 'eth_getBalance', params: [from, 'latest'] },
      { method: 'eth_getTransactionCount', params: [from, 'latest'] },
    ])
    for (const answer of [balance, count]) if (answer instanceof Error) throw answer
    return {
      available: readQuantity(balance, 'balance of an account'),
      paidBelow: readNumber(count, 'count of transactions'),
    }
  } catch (error) {
    throw mapChainError(error)
  }
}

type ChainFacts = { from: Hex; gas: bigint | Error; balance: bigint; fees: Fees; hasCode: boolean }

async function readChainFacts(chain: Chain, from: Hex, intent: Intent, held: Promise<bigint>): Promise<ChainFacts> {
  // Always at the newest block, never the node's pending state: anvil would execute the whole pool for each estimate.
  const [gas, balance, fees, code] = await Promise.allSettled([
    estimate(chain, from, intent, 'latest'),
    held,
    currentFees(chain),
    // A plain transfer of native currency goes to anyone; data that nobody is there to read is a mistake.
    intent.data === '0x' ? true : hasCode(chain, intent.to),
  ])
  for (const other of [balance, fees, code]) if (other.status === 'rejected') throw mapChainError(other.reason)
  return {
    from,
    gas: gas.status === 'fulfilled' ? gas.value : (gas.reason as Error),
    balance: valueOf(balance),
    fees: valueOf(fees),
    hasCode: valueOf(code),
  }
}

/**
 * A call that reverts at the newest block may rest on a write of the same account that is not mined yet: an approval
 * and then its use. Before it is refused it is tried once more on the pending state, where that write has happened;
 * the nonces keep the order. Only refusals pay for this.
 */
async function seeOwnPending(chain: Chain, from: Hex, intent: Intent, asked: ChainFacts): Promise<ChainFacts> {
  if (!(asked.gas instanceof Error) || revertDataOf(asked.gas) === undefined) return asked
  try {
    return { ...asked, gas: await estimate(chain, from, intent, 'pending') }
  } catch {
    // It reverts there too, or the node has no pending state: the first answer counts.
    return asked
  }
}

/**
 * gas, at a tag. With a limit of the caller's own: run within that limit, as it will be when it is mined.
 * @throws invalid_gas  when it needs more
 */
async function estimate(chain: Chain, from: Hex, intent: Intent, at: 'latest' | 'pending'): Promise<bigint> {
  const { gas: limit, ...unlimited } = intent
  if (limit === undefined) return askGas(chain, from, intent, at)
  let needed: bigint
  try {
    needed = await askGas(chain, from, intent, at)
  } catch (error) {
    // Out of gas is a revert without a word. That more would help, only the call without the limit can say.
    if (revertDataOf(error) !== null) throw error
    needed = await askGas(chain, from, unlimited, at)
    throw gasTooLow(needed > limit ? needed : limit + 1n)
  }
  // Some nodes estimate past the limit that they are given.
  if (needed > limit) throw gasTooLow(needed)
  return needed
}

async function askGas(chain: Chain, from: Hex, intent: Intent, at: 'latest' | 'pending'): Promise<bigint> {
  const call = callOf(from, intent)
  const estimate = readGas(await chain.rpc.call('eth_estimateGas', [call, at]))
  // Of what rests on a write that is not mined a simulation at the newest block says nothing.
  if (intent.gas !== undefined || intent.data === '0x' || at === 'pending') return estimate
  const functions = `${intent.to}${intent.data.slice(2, 10)}`
  return unstarved(chain, call, { estimate, limit: limitOf(estimate, {}), functions })
}

const gasTooLow = (needed: bigint): AppError =>
  invalidGas('too_low', `The gas limit is too low: at least ${needed} is needed.`)

function valueOf<T>(settled: PromiseSettledResult<T>): T {
  if (settled.status === 'rejected') throw settled.reason
  return settled.value
}

/** The fields that `eth_call` and `eth_estimateGas` want. */
export const callOf = (from: Hex, { to, data, value, gas }: Pick<Intent, 'to' | 'data' | 'value' | 'gas'>) => ({
  from,
  to,
  data,
  value: quantityOf(value),
  ...(gas === undefined ? {} : { gas: quantityOf(gas) }),
})

const termsOf = ({ gas, fees }: ChainFacts, intent: Intent): Terms | null =>
  gas instanceof Error ? null : { gas: limitOf(gas, intent), fees }

const isShort = ({ gas, balance, fees }: ChainFacts, intent: Intent): boolean =>
  gas instanceof Error ? isInsufficientFunds(gas) : balance < costOf(intent, { gas: limitOf(gas, intent), fees })

function conclude({ from, gas, balance, fees, hasCode }: ChainFacts, intent: Intent): Omit<PreparedWrite, 'fund'> {
  if (!hasCode) {
    throw new AppError(
      'no_contract',
      'This address has no code on the network. Nothing was sent. Check the address and the network.',
      {
        errors: [{ pointer: '/address', code: 'no_code', detail: 'The address has no code.' }],
      },
    )
  }
  if (gas instanceof Error) throw explainFailure(gas, { from, balance, intent })
  const terms = { gas: limitOf(gas, intent), fees }
  const cost = costOf(intent, terms)
  if (balance < cost) throw insufficientFunds(from, { cost, reserved: 0n, available: balance })
  return { terms, budget: { available: balance, paidBelow: 0 } }
}

function explainFailure(
  error: Error,
  { from, balance, intent }: { from: Hex; balance: bigint; intent: Intent },
): unknown {
  if (isInsufficientFunds(error)) {
    return new AppError(
      'insufficient_funds',
      `The account needs more than ${intent.value} wei and has ${balance}. Nothing was sent. Fund the account, then retry.`,
      {
        cause: error,
        // What the fee would be is not known: the node refused to estimate.
        funds: fundsOf(from, { needed: intent.value + 1n, available: balance }),
      },
    )
  }
  return revertOf(error, intent) ?? mapChainError(error)
}

/** The refusal for a simulation that reverted; null when the error is something else. */
export function revertOf(error: unknown, intent: Intent): AppError | null {
  const data = revertDataOf(error)
  if (data === undefined) return null
  const revert = decodeRevert(data, intent.errors, intent)
  return new AppError('execution_reverted', revert.reason, { revert, cause: error })
}

/**
 * The caller's own, or a quarter more than the estimate: the state may be another one when it is mined. Unused gas is not
 * paid for.
 */
export function limitOf(estimate: bigint, { gas }: Pick<Intent, 'gas'>): bigint {
  if (gas !== undefined) return gas
  const wanted = (estimate * 5n) / 4n + 10_000n
  if (wanted <= MAX_GAS) return wanted
  return estimate > MAX_GAS ? estimate : MAX_GAS
}
