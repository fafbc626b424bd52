import { createRequire } from 'node:module'
import { keccak } from '../keccak.ts'
import { StartError } from './refusal.ts'

/**
 * secp256k1 by the native library, and nothing else. `secp256k1/bindings` throws where no binding fits; the package's
 * own index would fall back to a JavaScript library, which leaves copies of keys in memory (59 to 125 after 200
 * signatures, against 0) and is 7 to 11 times slower.
 */
type Native = {
  contextRandomize(seed: Uint8Array): void
  privateKeyVerify(key: Uint8Array): boolean
  publicKeyCreate(key: Uint8Array, compressed: false): Uint8Array
  ecdsaSign(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number }
  ecdsaRecover(signature: Uint8Array, recovery: number, digest: Uint8Array, compressed: false): Uint8Array
}

export type Signature = { r: Uint8Array; s: Uint8Array; recovery: 0 | 1 }

const native = loadNative()

function loadNative(): Native {
  try {
    return createRequire(import.meta.url)('secp256k1/bindings') as Native
  } catch (cause) {
    throw new StartError(
      `There is no native secp256k1 for ${process.platform}-${process.arch}, and the signer does not run on the ` +
        'JavaScript one, which leaves copies of keys in memory. Prebuilt ones exist for linux-x64, darwin-arm64 and ' +
        'win32-x64. Elsewhere compile it once: install Python 3, make and a C++ compiler, then run ' +
        '`npm rebuild secp256k1 --ignore-scripts=false` in the project’s folder.',
      cause,
    )
  }
}

/** Blinds the library's multiplications against side channels. */
export const blind = (seed: Uint8Array): void => native.contextRandomize(seed)

/** True for 1 to n-1, the numbers that are keys. */
export const isScalar = (key: Uint8Array): boolean => native.privateKeyVerify(key)

/** Uncompressed, 65 bytes. */
export const publicKeyOf = (key: Uint8Array): Uint8Array => native.publicKeyCreate(key, false)

/** The last 20 bytes of the hash of the point. */
export const addressOf = (publicKey: Uint8Array): Buffer => keccak(publicKey.subarray(1)).subarray(12)

/**
 * Signs a digest with the nonce of RFC 6979 (the same input gives the same bytes) and low s (EIP-2), then recovers
 * the public key from the signature: a fault in the computation must not leave, it could give the key away.
 */
export function signDigest(digest: Uint8Array, key: Uint8Array, publicKey: Uint8Array): Signature {
  const { signature, recid } = native.ecdsaSign(digest, key)
  const recovered = native.ecdsaRecover(signature, recid, digest, false)
  if (Buffer.compare(recovered, publicKey) !== 0) throw new Error('a signature does not recover to its account')
  // 2 and 3 stand for an x coordinate above the group's order, which nobody has ever met; Ethereum has no way to say it.
  if (recid !== 0 && recid !== 1) throw new Error('a signature with an unusable recovery id')
  return { r: signature.subarray(0, 32), s: signature.subarray(32), recovery: recid }
}

/** The account that signed a digest; for checks of what the ledger holds. */
export const signerOf = (digest: Uint8Array, { r, s, recovery }: Signature): Buffer =>
  addressOf(native.ecdsaRecover(Buffer.concat([r, s]), recovery, digest, false))
