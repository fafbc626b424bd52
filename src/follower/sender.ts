import { createRequire } from 'node:module'
import { BadAnswer } from '../chain/failures.ts'
import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { encodeRlp } from './rlp.ts'

type Native = {
  ecdsaRecover(signature: Uint8Array, recovery: number, digest: Uint8Array, compressed: false): Uint8Array
}

/** Loaded when it is first needed: only who checks transactions needs it, and the signer, which says so at its start. */
let native: Native | null = null
const loadNative = (): Native => (native ??= createRequire(import.meta.url)('secp256k1/bindings') as Native)

/**
 * The account whose signature a digest carries, by the signer's library: 30 to 60 µs, a tenth of what JavaScript takes.
 * @param r, s  as many bytes as they need
 * @throws BadAnswer
 */
export function recoverSender(digest: Buffer, { r, s, parity }: { r: Buffer; s: Buffer; parity: 0 | 1 }): Hex {
  const { ecdsaRecover } = loadNative()
  const signature = Buffer.alloc(64)
  if (r.length > 32 || s.length > 32) throw new BadAnswer('a transaction has a signature that is none')
  r.copy(signature, 32 - r.length)
  s.copy(signature, 64 - s.length)
  let key: Uint8Array
  try {
    key = ecdsaRecover(signature, parity, digest, false)
  } catch {
    throw new BadAnswer('a transaction has a signature that is none')
  }
  return addressIn(keccak(key.subarray(1)))
}

/** The address of a contract that a transaction without recipient creates. Source: Ethereum yellow paper, section 7 */
export const createdBy = (sender: Hex, nonce: Buffer): Hex =>
  addressIn(keccak(encodeRlp([Buffer.from(sender.slice(2), 'hex'), nonce])))

const addressIn = (hash: Buffer): Hex => `0x${hash.toString('hex', 12)}`
