import type { Static } from 'typebox'
import { checksumAddress } from '../digits.ts'
import { bigNumber } from '../abi/bignumber.ts'
import { formatUnits } from '../abi/units.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import type { TokenFacts } from '../tokens/ask.ts'
import type { NativeEntry, TokenEntry } from './wire.ts'

/**
 * Builds the Balance entry of native currency (specification 2.2): decimals are a number.
 * @param balance  smallest unit
 */
export function nativeEntry(
  { symbol, coin: name, decimals, name: network, chainId }: Chain,
  balance: bigint,
): Static<typeof NativeEntry> {
  const place = { tokenAddress: null, tokenType: 'NATIVE' as const, network, chainId }
  return { ...amountOf(balance, decimals), decimals, symbol, name, ...place }
}

/**
 * Builds the Balance entry of a token (specification 2.2): decimals are text.
 * @param token     20 bytes, any case
 * @param balance   smallest unit
 * @param decimals  of the contract at the block of the balance
 */
export function tokenEntry(
  { name: network, chainId }: Chain,
  {
    token,
    balance,
    decimals: told,
    facts,
  }: { token: Hex; balance: bigint; decimals: number | null; facts: TokenFacts },
): Static<typeof TokenEntry> {
  const { symbol, name } = facts
  const tokenType = tokenTypeOf(facts)
  const decimals = tokenType === 'ERC721' ? 0 : (told ?? 0)
  const tokenAddress = checksumAddress(token.toLowerCase())
  return {
    ...amountOf(balance, decimals),
    decimals: String(decimals),
    symbol,
    name,
    tokenAddress,
    tokenType,
    network,
    chainId,
  }
}

/** Returns the token type that a balance counts: ERC721 for a contract that is only a collection, otherwise ERC20. */
export const tokenTypeOf = ({ standards }: TokenFacts): 'ERC20' | 'ERC721' =>
  standards.isCollection && !standards.isFungible ? 'ERC721' : 'ERC20'

const amountOf = (balance: bigint, decimals: number) => ({
  balance: balance.toString(),
  balanceBn: bigNumber(balance),
  formatted: formatUnits(balance, decimals),
})
