import type { App } from '../../app.ts'
import { highestPrice } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import { readAt } from '../../chain/reads.ts'
import { readNumber } from '../../chain/rpc/answers.ts'
import { mapChainError } from '../../chain/rpc/rpc.ts'
import { AppError } from '../../errors.ts'
import { fetchHeader } from '../../follower/fetch.ts'
import type { Caller } from '../../http/bearer.ts'
import type { Hex } from '../../ids.ts'
import { fromHex, toHex } from '../../hex.ts'
import { fromWord } from '../../store/bytes.ts'
import { paysFor, type SponsorBudget } from '../../store/sponsor-budget.ts'
import { fundsOf, type Budget, type Shortage } from '../lanes/funds.ts'
import type { Terms } from '../intent.ts'
import { paidGasNow } from '../lanes/prepare.ts'

/** A write that may need a top-up. This file sends nothing. */
type WriteToFund = { app: App; chain: Chain; caller: Caller; to: Hex }

export const feeOf = ({ gas, fees }: Terms): bigint => gas * highestPrice(fees)
/** Returns 25 % of the fee: the margin of a top-up, because fees may rise before it is mined. */
export const marginOf = (terms: Terms): bigint => feeOf(terms) / 4n

/**
 * Returns the user's own funds, for a write to a contract that the application's budget does not pay for.
 * @throws insufficient_funds  with the reason why no sponsor pays
 */
export async function ownFunds(tools: WriteToFund, shortage: Shortage, budget: SponsorBudget): Promise<Budget> {
  const { funds, needed } = await missing(tools, shortage, budget)
  const { available } = funds
  if (needed <= available) return funds
  const detail = `The account needs ${needed} wei and has ${available}. No sponsor pays, because the gas budget of the application is for other contracts. Nothing was sent. Fund the account, then retry.`
  throw new AppError('insufficient_funds', detail, { funds: fundsOf(tools.caller.address, { needed, available }) })
}

/**
 * Returns, in wei, the account's balance at the newest block, the total that its writes need, and the gas shortfall
 * that a sponsor may cover.
 * The shortfall is 0 if the account cannot pay the values, or gas that the budget does not cover. Then the user's own
 * funds are insufficient, and the caller reports that.
 */
export async function missing(
  { app, chain, caller: { address } }: Omit<WriteToFund, 'to'>,
  { value, terms }: Shortage,
  budget: SponsorBudget,
): Promise<{ funds: Budget; needed: bigint; lacks: bigint }> {
  const funds = await fundsAtHead(chain, address)
  const open = await app.db
    .selectFrom('transactions')
    .select(['reserved', 'value', 'is_cancel', 'target', 'data', 'gas_limit'])
    .where('chain_id', '=', chain.chainId)
    .where('sender', '=', fromHex(address))
    .where('state', 'in', ['BOUND', 'SUBMITTED'])
    .where('nonce', '>=', funds.paidBelow)
    .execute()
  /** `own`: the part of `needed` that no sponsor pays */
  let [needed, own] = [value + feeOf(terms!), value]
  for (const row of open) {
    needed += BigInt(row.reserved ?? 0)
    if (!paysFor(budget, toHex(row.target))) own += BigInt(row.reserved ?? 0)
    else if (row.reserved !== null && !row.is_cancel) own += fromWord(row.value)
  }
  const lacks = needed - funds.available
  if (lacks <= 0n || own > funds.available) return { funds, needed, lacks: 0n }
  for (const row of open) if (row.reserved !== null && paysFor(budget, toHex(row.target))) own += await ownGas(chain, address, row) // prettier-ignore
  return { funds, needed, lacks: own > funds.available ? 0n : lacks }
}

/**
 * Returns the part of an open write's fee that no sponsor pays, wei: the share above the estimated gas, because the
 * caller set a higher gas limit.
 */
async function ownGas(
  chain: Chain,
  from: Hex,
  { reserved, value, is_cancel: isCancel, target, data, gas_limit: limit }: OpenRow,
): Promise<bigint> {
  if (isCancel) return 0n
  const [gas, fee] = [BigInt(limit), BigInt(reserved!) - fromWord(value)]
  const paid = await paidGasNow(chain, { from, to: toHex(target), data: toHex(data), value: fromWord(value) })
  return paid >= gas ? 0n : (fee * (gas - paid)) / gas
}

type OpenRow = { reserved: string | null; value: Uint8Array; is_cancel: boolean; target: Uint8Array; data: Uint8Array; gas_limit: number } // prettier-ignore

/** Reads balance and count at one block, by its hash: a node that lags returns an error instead of an old balance. */
async function fundsAtHead(chain: Chain, address: Hex): Promise<Budget> {
  try {
    return await readAt(chain, 'latest', async (reads) => {
      const [available, count] = await Promise.all([
        reads.balance(address),
        chain.rpc.call('eth_getTransactionCount', [address, { blockHash: reads.block.hash }]),
      ])
      return { available, paidBelow: readNumber(count, 'count of transactions') }
    })
  } catch (error) {
    throw mapChainError(error)
  }
}

/**
 * Returns whether the block that mined a top-up is in the chain that the funds are read from. After a reorganisation,
 * or on a node that lags, it may be missing. Then the balance lacks the top-up, which must not be sent twice.
 * @throws chain_unavailable, chain_timeout
 */
export async function isInChain({ rpc }: Chain, { number, hash }: { number: number; hash: Hex }): Promise<boolean> {
  try {
    return (await fetchHeader(rpc, number))?.hash === hash
  } catch (error) {
    throw mapChainError(error)
  }
}
