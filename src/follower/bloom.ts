import { BoundedMap } from '../bounded-map.ts'
import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'

/** number of remembered items: each costs 1.5 µs to hash, and the same addresses and topics occur again and again */
const MAX_REMEMBERED = 65_536
/** the three bit positions of an item, 11 bits each, in one number */
const remembered = new BoundedMap<Hex, number>(MAX_REMEMBERED)

/**
 * Returns the Bloom filter of logs as in a block or receipt: 2,048 bits, three per address and topic.
 * Source: Ethereum yellow paper 4.4.3
 */
export function bloomOf(logs: Iterable<{ address: Hex; topics: readonly Hex[] }>): Buffer {
  const bloom = Buffer.alloc(256)
  for (const { address, topics } of logs) {
    add(bloom, address)
    for (const topic of topics) add(bloom, topic)
  }
  return bloom
}

function add(bloom: Buffer, item: Hex): void {
  let bits = remembered.get(item)
  if (bits === undefined) {
    bits = bitsOf(item)
    remembered.set(item, bits)
  }
  set(bloom, bits & 2047)
  set(bloom, (bits >>> 11) & 2047)
  set(bloom, Math.floor(bits / 4_194_304))
}

function set(bloom: Buffer, bit: number): void {
  const at = 255 - (bit >> 3)
  bloom[at] = bloom[at]! | (1 << (bit & 7))
}

function bitsOf(item: Hex): number {
  const hash = keccak(Buffer.from(item.slice(2), 'hex'))
  const bit = (at: number) => ((hash[at]! << 8) | hash[at + 1]!) & 2047
  return bit(0) + bit(2) * 2_048 + bit(4) * 4_194_304
}
