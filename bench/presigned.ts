import { randomBytes } from 'node:crypto'
import { publicKeyOf, addressOf, signDigest } from '../src/signer/keys/curve.ts'
import { assemble, digestOf } from '../src/signer/transaction.ts'
import type { Hex } from '../src/ids.ts'

export type Key = { key: Buffer; address: Buffer; nonce: number }

export function newKey(): Key {
  const key = randomBytes(32)
  return { key, address: addressOf(publicKeyOf(key)), nonce: 0 }
}

export const hexOf = (bytes: Uint8Array): Hex => `0x${Buffer.from(bytes).toString('hex')}`

/** A signed transaction of the next nonce of a key, ready to be sent. */
export function signNext(from: Key, { chainId, to, data }: { chainId: number; to: Hex; data: Hex }): Hex {
  const tx = {
    chainId,
    from: from.address,
    nonce: from.nonce++,
    to: Buffer.from(to.slice(2), 'hex'),
    value: 0n,
    data: Buffer.from(data.slice(2), 'hex'),
    gas: 100_000n,
    fees: { type: 'eip1559' as const, maxFeePerGas: 20_000_000_000n, maxPriorityFeePerGas: 1_000_000_000n },
  }
  return hexOf(assemble(tx, signDigest(digestOf(tx), from.key, from.address)).raw)
}
