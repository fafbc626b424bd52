import type { Static } from 'typebox'
import { checksumAddress } from '../abi/address.ts'
import { bigNumber } from '../abi/bignumber.ts'
import { formatUnits } from '../abi/units.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import type { TokenFacts } from '../tokens/ask.ts'
import type { NativeEntry, TokenEntry } from './wire.ts'

/** The Balance entry of native currency (2.2): decimals are a number. @param balance  smallest unit */
export function nativeEntry(
  { symbol, coin: name, decimals, name: network, chainId }: Chain,
  balance: bigint,
): Static<typeof NativeEntry> {
  return { ...amountOf(balance, decimals), decimals, symbol, name, tokenAddress: null, network, chainId }
}

/** The Balance entry of a token (2.2): decimals are text. @param token  20 bytes, any case @param balance  smallest unit */
export function tokenEntry(
  { name: network, chainId }: Chain,
  { token, balance, facts }: { token: Hex; balance: bigint; facts: TokenFacts },
): Static<typeof TokenEntry> {
  const { symbol, name, decimals } = facts
  const tokenAddress = checksumAddress(token.toLowerCase())
  return {
    ...amountOf(balance, decimals),
    decimals: String(decimals),
    symbol,
    name,
    tokenAddress,
    network,
    chainId,
  }
}

const amountOf = (balance: bigint, decimals: number) => ({
  balance: balance.toString(),
  balanceBn: bigNumber(balance),
  formatted: formatUnits(balance, decimals),
})
