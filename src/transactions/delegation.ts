import type { App } from '../app.ts'
import { readBytes, readNumber } from '../chain/rpc/answers.ts'
import { mapChainError } from '../chain/rpc/rpc.ts'
import { onReorganised } from '../chain/head.ts'
import type { Chain } from '../chain/network.ts'
import { readAt } from '../chain/reads.ts'
import { readGasContracts } from '../gas/contracts.ts'
import { BoundedMap } from '../bounded-map.ts'
import type { Hex } from '../ids.ts'
import { slot } from '../state.ts'

/** Addresses of the dispatcher and the delegate, the same on every network; lower-case. */
export const GAS_CONTRACTS = readGasContracts()
/** The code of an account that delegated. Source: EIP-7702 */
export const DELEGATED: Hex = `0xef0100${GAS_CONTRACTS.delegate.slice(2)}`

const MAX_REMEMBERED = 100_000

/** milliseconds for which that is believed: who has the key may delegate otherwise, and no block says so where nobody reads it */
const BELIEVED_MS = 300_000

/** Accounts that were seen to have delegated, and when. Begins anew where blocks may have been reorganised. */
const delegated = slot('accounts that delegated', (chain: Chain) => {
  const known = { accounts: new BoundedMap<Hex, number>(MAX_REMEMBERED) }
  onReorganised(chain.head, () => void (known.accounts = new BoundedMap(MAX_REMEMBERED)))
  return known
})

/**
 * The nonce by which an account has to delegate first, read with its code at one block by its hash; null where it did. An authorization
 * with another nonce is passed over in silence.
 * @throws chain_unavailable, chain_timeout
 */
export async function delegationNonce(chain: Chain, account: Hex): Promise<number | null> {
  const { accounts } = delegated.of(chain)
  const seen = accounts.get(account)
  if (seen !== undefined && performance.now() - seen < BELIEVED_MS) return null
  try {
    return await readAt(chain, 'latest', async ({ block }) => {
      const at = { blockHash: block.hash }
      const [code, count] = await Promise.all([
        chain.rpc.call('eth_getCode', [account, at]),
        chain.rpc.call('eth_getTransactionCount', [account, at]),
      ])
      if (readBytes(code, 'code of an address').toLowerCase() !== DELEGATED)
        return readNumber(count, 'count of transactions')
      accounts.set(account, performance.now())
      return null
    })
  } catch (error) {
    throw mapChainError(error)
  }
}

/** The chain said otherwise: it is read again before the account's next operation. */
export function forgetDelegated({ chains }: Pick<App, 'chains'>, chainId: number, account: Hex): void {
  const chain = chains.get(chainId)
  if (chain !== undefined) delegated.of(chain).accounts.delete(account)
}
