import type { App } from '../../app.ts'
import { readBytes, readNumber } from '../../chain/rpc/answers.ts'
import { mapChainError } from '../../chain/rpc/rpc.ts'
import { onReorganised } from '../../chain/head.ts'
import type { Chain } from '../../chain/network.ts'
import { readAt } from '../../chain/reads.ts'
import { readGasContracts, type GasContracts } from '../../gas/contracts.ts'
import { BoundedMap } from '../../bounded-map.ts'
import { DELEGATES, type DelegateName, type Hex } from '../../ids.ts'
import { slot } from '../../state.ts'

const known = Object.fromEntries(DELEGATES.map((name) => [name, readGasContracts(name)])) as Record<DelegateName, GasContracts> // prettier-ignore

/**
 * Returns the dispatcher and delegate contracts by the name of the delegate; they are the same on every network.
 * Addresses are lower-case.
 */
export const gasContracts = (name: DelegateName): GasContracts => known[name]

/** Returns the contracts that a network uses now. Operations signed earlier may use others. */
export const contractsOf = ({ delegate = 'chatelaine' }: Pick<Chain, 'delegate'>): GasContracts => known[delegate]

/**
 * Returns the delegate that belongs to the dispatcher at an address; null if none of our dispatchers is there.
 * @param address  lower-case
 */
export const delegateOf = (address: Hex | null): DelegateName | null =>
  DELEGATES.find((name) => known[name].dispatcher === address) ?? null

/** Returns the code of an account that has delegated. Source: EIP-7702 */
export const delegatedCode = (name: DelegateName): Hex => `0xef0100${known[name].delegate.slice(2)}`

const MAX_REMEMBERED = 100_000

/**
 * Milliseconds for which a delegation that was read is current, so that an account with frequent writes is not read for
 * each. The holder of an exported key may delegate elsewhere. Only the process that follows the block of an operation
 * that failed for this reason discards it at once. Until it expires, other processes accept writes, which fail.
 */
const BELIEVED_MS = 15_000

/** Accounts known to have delegated, and since when. Cleared when blocks may have been reorganised. */
const delegated = slot('accounts that delegated', (chain: Chain) => {
  const seen = { accounts: new BoundedMap<string, number>(MAX_REMEMBERED) }
  onReorganised(chain.head, () => void (seen.accounts = new BoundedMap(MAX_REMEMBERED)))
  return seen
})

/**
 * Returns the nonce of the authorization that an account has to sign first; null if it has delegated. Reads code and
 * nonce at one block, by its hash, because the chain silently ignores an authorization with another nonce.
 * @param name  delegate that the account should have; default: the network's
 * @throws chain_unavailable, chain_timeout
 */
export async function delegationNonce(
  chain: Chain,
  account: Hex,
  name: DelegateName = contractsOf(chain).name,
): Promise<number | null> {
  const { accounts } = delegated.of(chain)
  const place = `${name}${account}`
  const seen = accounts.get(place)
  if (seen !== undefined && chain.clock.ticks() - seen < BELIEVED_MS) return null
  try {
    return await readAt(chain, 'latest', async ({ block }) => {
      const at = { blockHash: block.hash }
      const [code, count] = await Promise.all([
        chain.rpc.call('eth_getCode', [account, at]),
        chain.rpc.call('eth_getTransactionCount', [account, at]),
      ])
      // An account has one code. If this one is wrong, the account is about to get another.
      for (const one of DELEGATES) accounts.delete(`${one}${account}`)
      if (readBytes(code, 'code of an address').toLowerCase() !== delegatedCode(name))
        return readNumber(count, 'count of transactions')
      accounts.set(place, chain.clock.ticks())
      return null
    })
  } catch (error) {
    throw mapChainError(error)
  }
}

/**
 * Discards that an account has delegated, because the chain shows otherwise. The account's code is read again before
 * its next operation.
 */
export function forgetDelegated({ chains }: Pick<App, 'chains'>, chainId: number, account: Hex): void {
  const chain = chains.get(chainId)
  if (chain !== undefined) for (const name of DELEGATES) delegated.of(chain).accounts.delete(`${name}${account}`)
}
