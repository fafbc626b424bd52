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

/** Dispatcher and delegate by what accounts delegate to, the same on every network; addresses are lower-case. */
export const gasContracts = (name: DelegateName): GasContracts => known[name]

/** Those of a network as it is now. What was signed before it had these is of the others. */
export const contractsOf = ({ delegate = 'chatelaine' }: Pick<Chain, 'delegate'>): GasContracts => known[delegate]

/** Whose dispatcher an address is; null: no dispatcher of ours. @param address  lower-case */
export const delegateOf = (address: Hex | null): DelegateName | null =>
  DELEGATES.find((name) => known[name].dispatcher === address) ?? null

/** The code of an account that delegated. Source: EIP-7702 */
export const delegatedCode = (name: DelegateName): Hex => `0xef0100${known[name].delegate.slice(2)}`

const MAX_REMEMBERED = 100_000

/**
 * milliseconds for which that is believed: the holder of an exported key may delegate elsewhere, and only the process that follows the block in
 * which an operation failed by it forgets at once. In any other every write until then is told and fails. An account that writes more
 * often than this is read once for many writes.
 */
const BELIEVED_MS = 15_000

/** Accounts that were seen to have delegated, and when. Begins anew where blocks may have been reorganised. */
const delegated = slot('accounts that delegated', (chain: Chain) => {
  const seen = { accounts: new BoundedMap<string, number>(MAX_REMEMBERED) }
  onReorganised(chain.head, () => void (seen.accounts = new BoundedMap(MAX_REMEMBERED)))
  return seen
})

/**
 * The nonce by which an account has to delegate first, read with its code at one block by its hash; null where it did. An authorization
 * with another nonce is passed over in silence.
 * @param name  to what it is to have delegated; unless given, what accounts of the network do now
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
      // It has one code, or is about to have another.
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

/** The chain said otherwise: it is read again before the account's next operation. */
export function forgetDelegated({ chains }: Pick<App, 'chains'>, chainId: number, account: Hex): void {
  const chain = chains.get(chainId)
  if (chain !== undefined) for (const name of DELEGATES) delegated.of(chain).accounts.delete(`${name}${account}`)
}
