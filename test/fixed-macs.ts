import { createSecretKey } from 'node:crypto'
import { openMacs, type Macs } from '../src/signer/ledger/macs.ts'

/** MACs of a ledger without a master key, by a key that is always the same. For tests. */
export function fixedMacs(key = Buffer.alloc(32, 7)): Macs {
  return openMacs({ current: () => 1, keyOf: (epoch) => (epoch === 1 ? createSecretKey(key) : undefined) })
}
