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
 * Simulates an intent at the newest block and determines what it costs its sender. Requests one estimate, the balance
 * once per block, and the code of an address seen for the first time, all at once.
 * Before a write is rejected for insufficient funds, reads the balance again. If it is still too low, a sponsor or
 * faucet may fund the account, once.
 * @throws no_contract, execution_reverted, invalid_gas, insufficient_funds, fee_cap_reached, chain_unavailable,
 *   chain_timeout
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

/**
 * Limits a top-up to the estimated gas. If the caller sets a higher limit, the account pays the difference: a sponsor
 * would not get the unused part back.
 */
function fundOf(fund: Fund | null, { gas }: ChainFacts): Fund | null {
  if (fund === null || gas instanceof Error) return fund
  const paid = paidGas(gas)
  return ({ value, terms }) => fund(terms === null ? { value, terms } : paidOf({ value, terms }, paid))
}

/**
 * Returns the maximum gas units that a sponsor pays for: 25 % above the limit computed from the estimate, because
 * estimates vary.
 */
const paidGas = (estimate: bigint): bigint => (limitOf(estimate, {}) * 5n) / 4n

/**
 * Moves the cost of gas above `paid` to `value`, which the account pays itself.
 * @param paid  maximum gas units that a sponsor pays for
 */
function paidOf(
  { value, terms: { gas, fees } }: { value: bigint; terms: Terms },
  paid: bigint,
): { value: bigint; terms: Terms } {
  if (gas <= paid) return { value, terms: { gas, fees } }
  return { value: value + (gas - paid) * highestPrice(fees), terms: { gas: paid, fees } }
}

/**
 * Returns the maximum gas units that sponsors pay for of a transaction that was sent, from a new estimate, whatever its
 * limit. Returns 0 if it would revert, even after the account's pending writes.
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
 * Result of `prepare`. `budget`: the account's funds, as far as known; null if the account does not pay, so nothing is
 * reserved. `fund`: tops up the account if its open writes leave too little; null: nobody does.
 */
export type PreparedWrite = { terms: Terms; budget: Budget | null; fund: Fund | null }

/**
 * Reads the balance again, before a write is rejected because of open writes. Reads the count after the balance, from
 * the same node. Transactions below the count may be deducted from the balance and still open in the database, and must
 * not count twice.
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
  // Estimate at the newest block, not at the node's pending state: anvil would execute the whole pool for each
  // estimate.
  const [gas, balance, fees, code] = await Promise.allSettled([
    estimate(chain, from, intent, 'latest'),
    held,
    currentFees(chain),
    // A plain transfer may go to any address. Data for an address without code is a mistake.
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
 * Estimates a reverted call again at the pending state. The call may depend on a write of the same account that is not
 * mined yet, such as an approval; nonces preserve the order. Only writes that would be rejected pay for this.
 */
async function seeOwnPending(chain: Chain, from: Hex, intent: Intent, asked: ChainFacts): Promise<ChainFacts> {
  if (!(asked.gas instanceof Error) || revertDataOf(asked.gas) === undefined) return asked
  try {
    return { ...asked, gas: await estimate(chain, from, intent, 'pending') }
  } catch {
    // The call reverts at the pending state as well, or the node has none: the first result counts.
    return asked
  }
}

/**
 * Returns the gas that the intent needs at a block tag, gas units. A limit of the caller applies to the estimate, as it
 * will when the transaction is mined.
 * @throws invalid_gas  if the intent needs more than its limit
 */
async function estimate(chain: Chain, from: Hex, intent: Intent, at: 'latest' | 'pending'): Promise<bigint> {
  const { gas: limit, ...unlimited } = intent
  if (limit === undefined) return askGas(chain, from, intent, at)
  let needed: bigint
  try {
    needed = await askGas(chain, from, intent, at)
  } catch (error) {
    // A call that runs out of gas reverts without data. An estimate without the limit shows whether more gas would
    // help.
    if (revertDataOf(error) !== null) throw error
    needed = await askGas(chain, from, unlimited, at)
    throw gasTooLow(needed > limit ? needed : limit + 1n)
  }
  // Some nodes return estimates above the given limit.
  if (needed > limit) throw gasTooLow(needed)
  return needed
}

async function askGas(chain: Chain, from: Hex, intent: Intent, at: 'latest' | 'pending'): Promise<bigint> {
  const call = callOf(from, intent)
  const estimate = readGas(await chain.rpc.call('eth_estimateGas', [call, at]))
  // A simulation at the newest block proves nothing about a call that depends on a pending write.
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

/** Returns the fields that `eth_call` and `eth_estimateGas` take. */
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
        // The fee is unknown, because the node refused to estimate.
        funds: fundsOf(from, { needed: intent.value + 1n, available: balance }),
      },
    )
  }
  return revertOf(error, intent) ?? mapChainError(error)
}

/** Returns the error for a simulation that reverted; null for any other failure. */
export function revertOf(error: unknown, intent: Intent): AppError | null {
  const data = revertDataOf(error)
  if (data === undefined) return null
  const revert = decodeRevert(data, intent.errors, intent)
  return new AppError('execution_reverted', revert.reason, { revert, cause: error })
}

/**
 * Returns the caller's gas limit, or 25 % and 10,000 gas more than the estimate, because the state may change before it
 * is mined. Unused gas is not paid for.
 */
export function limitOf(estimate: bigint, { gas }: Pick<Intent, 'gas'>): bigint {
  if (gas !== undefined) return gas
  const wanted = (estimate * 5n) / 4n + 10_000n
  if (wanted <= MAX_GAS) return wanted
  return estimate > MAX_GAS ? estimate : MAX_GAS
}
