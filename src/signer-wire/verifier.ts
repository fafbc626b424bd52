import { createPublicKey, hash, verify } from 'node:crypto'
import type { SignedHead } from './wire-heads.ts'

/** Who a signer is. By this anyone tells what it signed: heads of its log, addresses, keys that are elsewhere, too. */
export type Verifier = {
  /** the name of its log, which is made of the key */
  origin: string
  /** 32 bytes */
  publicKey: Buffer
  isSigned: (text: string, signature: Uint8Array) => boolean
}

/** DER of an Ed25519 public key (RFC 8410) before its 32 bytes. */
const SPKI = Buffer.from('302a300506032b6570032100', 'hex')

/** @param bytes  32 of an Ed25519 key; whose they are, only someone who keeps them elsewhere knows */
export function verifierOf(bytes: Uint8Array): Verifier {
  const publicKey = Buffer.from(bytes)
  const key = createPublicKey({ key: Buffer.concat([SPKI, publicKey]), format: 'der', type: 'spki' })
  return {
    origin: originOf(publicKey),
    publicKey,
    isSigned: (text, signature) => verify(null, Buffer.from(text, 'utf8'), key, signature),
  }
}

/** Whether a head is of its log, by its own word. */
export const isHeadOf = (
  { origin, isSigned }: Verifier,
  head: Pick<SignedHead, 'origin' | 'text' | 'signature'>,
): boolean => head.origin === origin && isSigned(head.text, head.signature)

export const originOf = (publicKey: Uint8Array): string =>
  `chatelaine-signing-log/${hash('sha256', publicKey, 'hex').slice(0, 16)}`

/** A verifier key of a signed note: name, id, and the byte 1 with 32 of the key in base64. @returns null for what is none of a signer */
export function readVerifierKey(text: string): Verifier | null {
  const [, origin, key] = /^(chatelaine-signing-log\/[0-9a-f]{16})\+[0-9a-f]{8}\+([A-Za-z0-9+/]{44})$/.exec(text) ?? []
  const bytes = Buffer.from(key ?? '', 'base64')
  if (bytes.length !== 33 || bytes[0] !== 1) return null
  const verifier = verifierOf(bytes.subarray(1))
  return verifier.origin === origin ? verifier : null
}
