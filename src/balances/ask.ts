import { readQuantity } from '../chain/rpc/answers.ts'
import type { Reads } from '../chain/reads.ts'
import type { Hex } from '../ids.ts'
import { DECIMALS, METADATA_GAS, readDecimals } from '../tokens/ask.ts'

/**
 * gas: proxies and rebasing tokens need up to a fifth of it; a token that burns more to tell a balance is none. It also
 * bounds what a hostile token can answer: 0.7 MB, so that a batch of 50 such answers is still read.
 */
const BALANCE_GAS = 1_000_000

/** Where networks keep contracts that are no code: some answer any question with a word, as SHA-256 at 2 does. */
const PRECOMPILED = /^0x0{34}/

/**
 * What an account holds of a token, by `balanceOf(address)`: ERC-20 and ERC-721 alike.
 * @returns smallest unit; null when the token does not answer with a number: no code, a revert, no gas left, too few bytes
 * @throws RpcUnavailable | RpcError  when the node, not the token, failed
 */
export async function askBalance(reads: Reads, { token, owner }: { token: Hex; owner: Hex }): Promise<bigint | null> {
  const data: Hex = `0x70a08231${owner.slice(2).toLowerCase().padStart(64, '0')}`
  const result = await reads.call({ to: token.toLowerCase() as Hex, data, gas: BALANCE_GAS })
  // Exactly one word, or more behind it as old proxies answer; less is no balance.
  if ('reverted' in result || result.data.length < 66) return null
  if (PRECOMPILED.test(token) && !(await reads.hasCode(token.toLowerCase() as Hex))) return null
  return readQuantity(result.data.slice(0, 66), 'balance of a token')
}

/**
 * The decimals that a token has at the block of the balance which they scale: a contract may change them.
 * @returns null if the token does not answer with a number
 * @throws RpcUnavailable | RpcError  when the node, not the token, failed
 */
export async function askDecimals(reads: Reads, token: Hex): Promise<number | null> {
  const result = await reads.call({ to: token.toLowerCase() as Hex, data: DECIMALS, gas: METADATA_GAS })
  return 'reverted' in result ? null : readDecimals(result.data)
}
