import { createPublicKey, hash, verify } from 'node:crypto'
import type { SignedHead } from './wire-heads.ts'

/**
 * The identity of a signer. It verifies what the signer signed: heads of its log, addresses, and statements that keys are held
 * elsewhere.
 */
export type Verifier = {
  /** the name of its log, which is derived from the key */
  origin: string
  /** 32 bytes */
  publicKey: Buffer
  isSigned: (text: string, signature: Uint8Array) => boolean
}

/** The DER prefix of an Ed25519 public key (RFC 8410) before its 32 bytes. */
const SPKI = Buffer.from('302a300506032b6570032100', 'hex')

/** Creates a verifier. @param bytes  an Ed25519 public key, 32 bytes; the caller must know from elsewhere whose it is */
export function verifierOf(bytes: Uint8Array): Verifier {
  const publicKey = Buffer.from(bytes)
  const key = createPublicKey({ key: Buffer.concat([SPKI, publicKey]), format: 'der', type: 'spki' })
  return {
    origin: originOf(publicKey),
    publicKey,
    isSigned: (text, signature) => verify(null, Buffer.from(text, 'utf8'), key, signature),
  }
}

/** Returns whether a head belongs to this signer's log: it has the log's name and a valid signature. */
export const isHeadOf = (
  { origin, isSigned }: Verifier,
  head: Pick<SignedHead, 'origin' | 'text' | 'signature'>,
): boolean => head.origin === origin && isSigned(head.text, head.signature)

/** Derives the name of a signer's log from its public key. */
export const originOf = (publicKey: Uint8Array): string =>
  `chatelaine-signing-log/${hash('sha256', publicKey, 'hex').slice(0, 16)}`

/**
 * Parses the verifier key of a signed note: name, id, and base64 of the byte 1 and the 32 bytes of the key.
 * @returns null if it is not a signer's
 */
export function readVerifierKey(text: string): Verifier | null {
  const [, origin, key] = /^(chatelaine-signing-log\/[0-9a-f]{16})\+[0-9a-f]{8}\+([A-Za-z0-9+/]{44})$/.exec(text) ?? []
  const bytes = Buffer.from(key ?? '', 'base64')
  if (bytes.length !== 33 || bytes[0] !== 1) return null
  const verifier = verifierOf(bytes.subarray(1))
  return verifier.origin === origin ? verifier : null
}
