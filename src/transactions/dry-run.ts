import { bigNumber, type BigNumber } from '../abi/bignumber.ts'
import { decodeResult, type Output } from '../abi/results.ts'
import type { App } from '../app.ts'
import { highestPrice } from '../chain/fees.ts'
import type { Chain } from '../chain/network.ts'
import { mapChainError } from '../chain/rpc.ts'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../store/bytes.ts'
import { retrying } from '../store/db.ts'
import { wireTransaction, type WireTransaction } from './answer.ts'
import { gasStrategy } from './gas.ts'
import type { Intent } from './intent.ts'
import { callOf, revertOf } from './prepare.ts'
import { countAt } from './recover.ts'

/** A write up to, but not including, its nonce: nothing is stored, signed or sent. */
export type DryRunAnswer = {
  status: 'SUCCESS'
  explorerUrl: string
  tx: WireTransaction
  /** what the function would return now; null when that does not decode as the ABI says */
  response: unknown
  outputs: Output[]
  gas: BigNumber
  /** wei: the most it can cost beside the value */
  fee: BigNumber
  /** the signer's rule that decided; null as long as the signer is asked only to sign */
  rule: string | null
}

/** @throws no_contract, execution_reverted, insufficient_funds, fee_cap_reached, chain_unavailable, chain_timeout */
export async function dryRun(app: App, caller: Caller, intent: Intent): Promise<DryRunAnswer> {
  const chain = chainOf(app, caller)
  const from = caller.address
  const terms = await gasStrategy(chain).prepare(chain, from, intent)
  const [returned, nonce] = await Promise.all([call(chain, from, intent), nextNonce(app, chain, from)])
  const { to, value, data } = intent
  return {
    status: 'SUCCESS',
    explorerUrl: chain.explorer.address(to),
    tx: wireTransaction({ chainId: chain.chainId, from, nonce, to, value, data, ...terms }),
    ...readReturned(intent, returned),
    gas: bigNumber(terms.gas),
    fee: bigNumber(terms.gas * highestPrice(terms.fees)),
    rule: null,
  }
}

async function call({ rpc }: Chain, from: Hex, intent: Intent): Promise<Hex> {
  try {
    return await rpc.call<Hex>('eth_call', [callOf(from, intent), 'latest'])
  } catch (error) {
    throw revertOf(error, intent.errors) ?? mapChainError(error)
  }
}

function readReturned({ fn }: Intent, data: Hex): { response: unknown; outputs: Output[] } {
  if (fn === null) return { response: null, outputs: [] }
  try {
    return decodeResult(fn, data)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return { response: null, outputs: [] }
  }
}

/** What the nonce would be if nobody else wrote. */
async function nextNonce({ db }: App, chain: Chain, from: Hex): Promise<number> {
  const last = await retrying(() =>
    db
      .selectFrom('transactions')
      .select('nonce')
      .where('chain_id', '=', chain.chainId)
      .where('sender', '=', fromHex(from))
      .orderBy('nonce', 'desc')
      .limit(1)
      .executeTakeFirst(),
  )
  if (last !== undefined) return last.nonce + 1
  try {
    return await countAt(chain, from, 'latest')
  } catch (error) {
    throw mapChainError(error)
  }
}
