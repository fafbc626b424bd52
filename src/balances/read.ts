import { getAddress } from 'viem'
import type { Static } from 'typebox'
import { readAddress } from '../abi/args.ts'
import { bigNumber } from '../abi/bignumber.ts'
import { formatUnits } from '../abi/units.ts'
import type { App } from '../app.ts'
import { readAt } from '../chain/reads.ts'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import type { Hex } from '../ids.ts'
import { readTokenFacts } from '../tokens/read.ts'
import { ownAccount } from '../users/own.ts'
import type { NativeEntry, TokenEntry } from './wire.ts'

/** gas; a token that burns more than this to tell a balance is none */
const BALANCE_GAS = 5_000_000

/**
 * The user's balance of the network's coin, at one block.
 * @throws forbidden_user | invalid_user_id
 */
export async function readNativeBalance(app: App, caller: Caller, { userId }: { userId: string }): Promise<{ blockNumber: number; entries: Record<string, Static<typeof NativeEntry>> }> {
  const { address } = await ownAccount(app, caller, userId)
  const chain = chainOf(app, caller)
  const { balance, blockNumber } = await readAt(chain, 'latest', async (reads) => ({ balance: await reads.balance(address), blockNumber: reads.block.number }))
  const { symbol, coin: name, decimals, name: network, chainId } = chain
  return {
    blockNumber,
    entries: { [symbol]: { balance: balance.toString(), balanceBn: bigNumber(balance), formatted: formatUnits(balance, decimals), decimals, symbol, name, tokenAddress: null, network, chainId } },
  }
}

/**
 * The user's balance of one token. Bad metadata never hides a balance.
 * @throws forbidden_user | invalid_user_id | invalid_address | not_a_token
 */
export async function readTokenBalance(app: App, caller: Caller, { userId, tokenAddress }: { userId: string; tokenAddress: string }): Promise<{ blockNumber: number; entries: Record<string, Static<typeof TokenEntry>> }> {
  const { address } = await ownAccount(app, caller, userId)
  const token = readTokenAddress(tokenAddress)
  const chain = chainOf(app, caller)
  const { result, blockNumber } = await readAt(chain, 'latest', async (reads) => ({
    result: await reads.call({ to: token, data: balanceOfData(address), gas: BALANCE_GAS }),
    blockNumber: reads.block.number,
  }))
  // Exactly one word, or more behind it as old proxies answer; less is no balance.
  if ('reverted' in result || result.data.length < 66) throw new AppError('not_a_token', 'The address does not answer balanceOf: it is not a token contract.', { errors: [{ parameter: 'tokenAddress', code: 'not_a_token', detail: 'No code, or no answer to balanceOf.' }] })
  const balance = BigInt(result.data.slice(0, 66))
  const { symbol, name, decimals } = await readTokenFacts(app, chain, token)
  return {
    blockNumber,
    entries: {
      [token.toLowerCase()]: {
        balance: balance.toString(),
        balanceBn: bigNumber(balance),
        formatted: formatUnits(balance, decimals),
        decimals: String(decimals),
        symbol,
        name,
        tokenAddress: getAddress(token),
        network: chain.name,
        chainId: chain.chainId,
      },
    },
  }
}

/** ERC-20 and ERC-721 alike: balanceOf(address). */
const balanceOfData = (address: Hex): Hex => `0x70a08231${address.slice(2).toLowerCase().padStart(64, '0')}`

function readTokenAddress(text: string): Hex {
  try {
    return readAddress(text)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    throw new AppError('invalid_address', error.message, { errors: [{ parameter: 'tokenAddress', code: 'invalid_address', detail: error.message }] })
  }
}
