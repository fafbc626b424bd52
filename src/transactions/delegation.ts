import { readBytes, readNumber } from '../chain/rpc/answers.ts'
import { mapChainError } from '../chain/rpc/rpc.ts'
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

/** Accounts that were seen to have delegated. Begins anew where blocks may have been reorganised, as `openKnownCode` does. */
const delegated = slot('accounts that delegated', (chain: Chain) => {
  const known = { accounts: new BoundedMap<Hex, true>(MAX_REMEMBERED) }
  let last = chain.head.current()
  chain.head.onChange((block) => {
    if (last !== null && block.parentHash !== last.hash) known.accounts = new BoundedMap(MAX_REMEMBERED)
    last = block
  })
  return known
})

/**
 * The nonce by which an account has to delegate first, read with its code at one block by its hash; null where it did. An authorization
 * with another nonce is passed over in silence.
 * @throws chain_unavailable, chain_timeout
 */
export async function delegationNonce(chain: Chain, account: Hex): Promise<number | null> {
  const { accounts } = delegated.of(chain)
  if (accounts.has(account)) return null
  try {
    return await readAt(chain, 'latest', async ({ block }) => {
      const at = { blockHash: block.hash }
      const [code, count] = await Promise.all([
        chain.rpc.call('eth_getCode', [account, at]),
        chain.rpc.call('eth_getTransactionCount', [account, at]),
      ])
      if (readBytes(code, 'code of an address').toLowerCase() !== DELEGATED)
        return readNumber(count, 'count of transactions')
      accounts.set(account, true)
      return null
    })
  } catch (error) {
    throw mapChainError(error)
  }
}
