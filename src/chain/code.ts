import type { Hex } from '../ids.ts'
import { onReorganised, type Head } from './head.ts'
import { readBytes } from './rpc/answers.ts'
import type { Rpc } from './rpc/rpc.ts'

const MAX_REMEMBERED = 10_000

/** Addresses that were seen to have code. */
export type KnownCode = { addresses: Set<Hex> }

/**
 * True when there is code at an address, at the newest block. Only presence is remembered: code may come at any time,
 * and after Cancun it no longer goes in a later transaction than it came in (EIP-6780). What goes is what a
 * reorganisation reverts, and the code by which an account delegates (EIP-7702).
 * @throws RpcError | RpcUnavailable
 */
export async function hasCode(
  { rpc, memory }: { rpc: Rpc; memory: { code: KnownCode } },
  address: Hex,
): Promise<boolean> {
  const { addresses } = memory.code
  const key = address.toLowerCase() as Hex
  if (addresses.has(key)) return true
  const code = await rpc.call('eth_getCode', [key, 'latest'])
  if (!isCode(code)) return false
  if (/^0xef0100/i.test(code)) return true
  if (addresses.size >= MAX_REMEMBERED) addresses.delete(addresses.values().next().value!)
  addresses.add(key)
  return true
}

/** Whether `eth_getCode` showed code. @throws InvalidResponse */
export const isCode = (answer: unknown): answer is Hex => readBytes(answer, 'code of an address').length > 2

/** Begins anew where blocks may have been reorganised. */
export function openKnownCode(head: Head): KnownCode {
  const known: KnownCode = { addresses: new Set() }
  // Another set: what is under way is of the chain before.
  onReorganised(head, () => void (known.addresses = new Set()))
  return known
}
