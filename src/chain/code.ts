import type { Hex } from '../ids.ts'
import type { Chain } from './network.ts'

const MAX_REMEMBERED = 10_000
const seen = new WeakMap<Chain, Set<Hex>>()

/**
 * True when there is code at an address, at the newest block. Only presence is remembered: code may come at any time,
 * and after Cancun it no longer goes in a later transaction than it came in (EIP-6780).
 * @throws RpcError | RpcUnavailable
 */
export async function hasCode(chain: Chain, address: Hex): Promise<boolean> {
  const known = seen.get(chain) ?? new Set()
  seen.set(chain, known)
  const key = address.toLowerCase() as Hex
  if (known.has(key)) return true
  const code = await chain.rpc.call<string>('eth_getCode', [key, 'latest'])
  if (code === '0x') return false
  if (known.size >= MAX_REMEMBERED) known.delete(known.values().next().value!)
  known.add(key)
  return true
}
