import { createPublicKey, verify } from 'node:crypto'
import { readSignedHead } from './wire.ts'

/** DER of an Ed25519 public key (RFC 8410) before its 32 bytes. */
const SPKI = Buffer.from('302a300506032b6570032100', 'hex')

/**
 * Whether a head is signed by the signer that an operator has named.
 * @param verifierKey  `name+id+key` of a signed note, as SIGNER_KEY has it
 */
export function isSignedByPinned(verifierKey: string): (note: string) => boolean {
  const [origin, , ...rest] = verifierKey.split('+')
  // The key itself may hold the sign that separates.
  const bytes = Buffer.from(rest.join('+'), 'base64').subarray(1)
  const key = createPublicKey({ key: Buffer.concat([SPKI, bytes]), format: 'der', type: 'spki' })
  return (note) => {
    const head = readSignedHead(note)
    return head !== null && head.origin === origin && verify(null, Buffer.from(head.text, 'utf8'), key, head.signature)
  }
}
