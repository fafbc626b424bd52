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

/** What a person lacks for a write, by the chain and by what is under way: nothing here sends. */
type WriteToFund = { app: App; chain: Chain; caller: Caller; to: Hex }

export const feeOf = ({ gas, fees }: Terms): bigint => gas * highestPrice(fees)
/** Fees may rise while the funds are mined. */
export const marginOf = (terms: Terms): bigint => feeOf(terms) / 4n

/**
 * For a write of a contract that the application's budget does not pay for: what the person has, where it suffices.
 * @throws insufficient_funds  saying why no sponsor pays
 */
export async function ownFunds(tools: WriteToFund, shortage: Shortage, budget: SponsorBudget): Promise<Budget> {
  const { funds, needed } = await missing(tools, shortage, budget)
  const { available } = funds
  if (needed <= available) return funds
  const detail = `The account needs ${needed} wei and has ${available}. No sponsor pays, because the gas budget of the application is for other contracts. Nothing was sent. Fund the account, then retry.`
  throw new AppError('insufficient_funds', detail, { funds: fundsOf(tools.caller.address, { needed, available }) })
}

/**
 * What the person has at the newest block, what their write needs beside their open ones, and what lacks of that, wei: gas, of this and of
 * those that became dearer. Nothing, too, where they do not have the values, or the gas of open writes that the budget does not pay for:
 * then it is their own funds that do not suffice, and the caller finds that.
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
  /** `own`: of what is needed, what nobody else pays */
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

/** Wei that an open write reserves beside its value and the gas that is paid for it: for a limit of its caller's own. */
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

/** Both at one block by its hash: a node that lags says so, instead of naming less than is there. */
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
 * Whether a block that a top-up was mined in is in the chain that funds are read of. A reorganisation that nobody has followed yet, or a node
 * that lags, leaves the top-up out of what the person has: it comes, and is not sent a second time meanwhile.
 * @throws chain_unavailable, chain_timeout
 */
export async function isInChain({ rpc }: Chain, { number, hash }: { number: number; hash: Hex }): Promise<boolean> {
  try {
    return (await fetchHeader(rpc, number))?.hash === hash
  } catch (error) {
    throw mapChainError(error)
  }
}
