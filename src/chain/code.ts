import type { Hex } from '../ids.ts'
import { readBytes } from './answers.ts'
import type { Block } from './head.ts'
import type { Chain } from './network.ts'

const MAX_REMEMBERED = 10_000
type Seen = { addresses: Set<Hex>; head: Block | null }
const memories = new WeakMap<Chain, Seen>()

/**
 * True when there is code at an address, at the newest block. Only presence is remembered: code may come at any time,
 * and after Cancun it no longer goes in a later transaction than it came in (EIP-6780). What goes is what a
 * reorganisation takes back, and the code by which an account delegates (EIP-7702).
 * @throws RpcError | RpcUnavailable
 */
export async function hasCode(chain: Chain, address: Hex): Promise<boolean> {
  const { addresses } = seenOf(chain)
  const key = address.toLowerCase() as Hex
  if (addresses.has(key)) return true
  const code = await chain.rpc.call('eth_getCode', [key, 'latest'])
  if (!isCode(code)) return false
  if (/^0xef0100/i.test(code)) return true
  if (addresses.size >= MAX_REMEMBERED) addresses.delete(addresses.values().next().value!)
  addresses.add(key)
  return true
}

/** Whether `eth_getCode` showed code. @throws BadAnswer */
export const isCode = (answer: unknown): answer is Hex => readBytes(answer, 'code of an address').length > 2

/** Begins anew where the head is not the one of before or the block after it: blocks may have been taken back. */
function seenOf(chain: Chain): Seen {
  const head = chain.head.current()
  const known = memories.get(chain)
  const follows =
    head === null ||
    known === undefined ||
    known.head === null ||
    [head.hash, head.parentHash].includes(known.head.hash)
  const seen = known !== undefined && follows ? known : { addresses: new Set<Hex>(), head }
  seen.head = head ?? seen.head
  memories.set(chain, seen)
  return seen
}
