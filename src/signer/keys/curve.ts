import { keccak } from '../../keccak.ts'
import { openCurve } from '../../secp256k1.ts'
import { StartError } from '../refusal.ts'

export type Signature = { r: Uint8Array; s: Uint8Array; recovery: 0 | 1 }

/**
 * Loads libsecp256k1 and blinds its multiplications against side channels.
 * @returns which implementation was loaded
 * @throws StartError  if there is none
 */
export function startCurve(seed: Uint8Array): 'native' | 'wasm' {
  try {
    const curve = openCurve()
    curve.randomize(seed)
    return curve.kind
  } catch (cause) {
    throw new StartError(
      `There is no libsecp256k1 for ${process.platform}-${process.arch}, neither a native one nor one in WebAssembly: ` +
        'the packages of this project are not all installed.',
      cause,
    )
  }
}

/** Returns whether the bytes are a valid private key: 1 to n-1. */
export const isScalar = (key: Uint8Array): boolean => openCurve().isScalar(key)

/** Computes the uncompressed public key, 65 bytes. */
export const publicKeyOf = (key: Uint8Array): Uint8Array => openCurve().publicKeyOf(key)

/** Computes the address: the last 20 bytes of the hash of the point. */
export const addressOf = (publicKey: Uint8Array): Buffer => keccak(publicKey.subarray(1)).subarray(12)

/**
 * Signs a digest with the nonce of RFC 6979 (the same input gives the same bytes) and low s (EIP-2). It then recovers the account
 * from the signature, because a faulty signature could reveal the key. That also rejects the key of another account.
 * @throws Error  if the signature does not recover to the address
 */
export function signDigest(digest: Uint8Array, key: Uint8Array, address: Buffer): Signature {
  const curve = openCurve()
  const { signature, recovery } = curve.sign(digest, key)
  const recovered = addressOf(curve.recover(signature, recovery, digest))
  if (!recovered.equals(address)) throw new Error('a signature does not recover to its account')
  // 2 and 3 mean an x coordinate above the group's order, which has never occurred in practice and which Ethereum cannot express.
  if (recovery !== 0 && recovery !== 1) throw new Error('a signature with an unusable recovery id')
  return { r: signature.subarray(0, 32), s: signature.subarray(32), recovery }
}

/** Recovers the account that signed a digest, to verify records of the ledger. */
export const signerOf = (digest: Uint8Array, { r, s, recovery }: Signature): Buffer =>
  addressOf(openCurve().recover(Buffer.concat([r, s]), recovery, digest))
