import { readQuantity } from '../chain/rpc/answers.ts'
import type { Reads } from '../chain/reads.ts'
import type { Hex } from '../ids.ts'
import { DECIMALS, METADATA_GAS, readDecimals } from '../tokens/ask.ts'

/**
 * Gas of a call of `balanceOf`. Proxies and rebasing tokens need up to a fifth of it; a contract that needs more is not
 * a token. It also bounds the response of a hostile token to 0.7 MB, so that a batch of 50 such responses can still be
 * read.
 */
const BALANCE_GAS = 1_000_000

/** Addresses of precompiled contracts. Some answer any call with a word, as SHA-256 at 2 does. */
const PRECOMPILED = /^0x0{34}/

/**
 * Asks for the balance of an account by `balanceOf(address)`, for ERC-20 and ERC-721.
 * @returns smallest unit; null if the token returns no number: no code, a revert, out of gas, too few bytes
 * @throws RpcUnavailable | RpcError  if the node, not the token, failed
 */
export async function askBalance(reads: Reads, { token, owner }: { token: Hex; owner: Hex }): Promise<bigint | null> {
  const data: Hex = `0x70a08231${owner.slice(2).toLowerCase().padStart(64, '0')}`
  const result = await reads.call({ to: token.toLowerCase() as Hex, data, gas: BALANCE_GAS })
  // A balance has one word; old proxies return more. A shorter response is no balance.
  if ('reverted' in result || result.data.length < 66) return null
  if (PRECOMPILED.test(token) && !(await reads.hasCode(token.toLowerCase() as Hex))) return null
  return readQuantity(result.data.slice(0, 66), 'balance of a token')
}

/**
 * Asks for the decimals at the block of the balance that they scale, because a contract may change them.
 * @returns null if the token returns no number
 * @throws RpcUnavailable | RpcError  if the node, not the token, failed
 */
export async function askDecimals(reads: Reads, token: Hex): Promise<number | null> {
  const result = await reads.call({ to: token.toLowerCase() as Hex, data: DECIMALS, gas: METADATA_GAS })
  return 'reverted' in result ? null : readDecimals(result.data)
}
