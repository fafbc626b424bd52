import type { Hex } from '../ids.ts'
import { onReorganised, type Head } from './head.ts'
import { readBytes } from './rpc/answers.ts'
import type { Rpc } from './rpc/rpc.ts'

const MAX_REMEMBERED = 10_000

/** Addresses known to have code. */
export type KnownCode = { addresses: Set<Hex> }

/**
 * Returns whether an address has code at the newest block. Only presence is remembered, because code may appear at any
 * time. After Cancun, code can only be removed in the transaction that created it (EIP-6780).
 * Exceptions are reorganisations, and the code of a delegated account (EIP-7702), which is not remembered.
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

/**
 * Returns whether a response to `eth_getCode` has code.
 * @throws InvalidResponse
 */
export const isCode = (answer: unknown): answer is Hex => readBytes(answer, 'code of an address').length > 2

/** Creates the memory of addresses with code, which is cleared when blocks may have been reorganised. */
export function openKnownCode(head: Head): KnownCode {
  const known: KnownCode = { addresses: new Set() }
  // Use a new set: pending requests belong to the old chain, and add to the old set.
  onReorganised(head, () => void (known.addresses = new Set()))
  return known
}
