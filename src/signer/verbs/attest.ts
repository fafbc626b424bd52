import { toHex } from '../../hex.ts'
import type { SignerIdentity } from '../keys/identity.ts'
import type { Keys } from '../keys/keys.ts'
import { Refusal } from '../refusal.ts'
import { readAttestRequest } from '../request.ts'
import type { Inside } from './pipeline.ts'
import { attestedText, type AttestedAddress, type Hex, type Verbs } from '../../signer-wire/wire.ts'
import type { KeptAccount } from '../keys/wrapping.ts'

/**
 * Verb `attest`: what the signer says of addresses, signed, for a database to keep beside them. Needs no token: who asks must know
 * the user already. A user whose key does not open is left out as one without an account is. Errors: bad_request.
 */
export function attest(
  { identity, keys }: Pick<Inside, 'identity' | 'keys'>,
  request: unknown,
): Verbs['attest']['answer'] {
  const attested: AttestedAddress[] = []
  for (const userId of readAttestRequest(request).userIds) {
    const account = keys.ofUser(userId)
    if (account === null) continue
    try {
      attested.push({ userId, address: toHex(account.address), attestation: attestationOf(identity, keys, account) })
    } catch (error) {
      // One row that was altered does not keep the others of a batch from being attested.
      if (!(error instanceof Refusal) || error.code !== 'key_damaged') throw error
    }
  }
  return { attested }
}

/**
 * The signature over one address. The key is opened for it: an address that was written into the store is not attested.
 * @throws key_damaged
 */
export function attestationOf(
  identity: Pick<SignerIdentity, 'origin' | 'sign'>,
  keys: Pick<Keys, 'use'>,
  account: KeptAccount,
): Hex {
  const { userId, address } = account
  return keys.use(account, () =>
    toHex(identity.sign(attestedText(identity.origin, { userId, address: toHex(address) }))),
  )
}
