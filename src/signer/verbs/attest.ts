import { toHex } from '../../hex.ts'
import type { SignerIdentity } from '../keys/identity.ts'
import type { Keys } from '../keys/keys.ts'
import { Refusal } from '../refusal.ts'
import { readAttestRequest } from '../request.ts'
import type { Inside } from './pipeline.ts'
import { attestedText, type AttestedAddress, type Hex, type Verbs } from '../../signer-wire/wire.ts'
import type { KeptAccount } from '../keys/wrapping.ts'

/**
 * Handles the verb `attest`: returns signed statements of user addresses, for the database to store with each address.
 * Needs no token, because the server names users that it knows. Omits users without an account and users whose key does
 * not open. Errors: bad_request.
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
      // One altered row does not prevent the attestation of the rest of the batch.
      if (!(error instanceof Refusal) || error.code !== 'key_damaged') throw error
    }
  }
  return { attested }
}

/**
 * Signs one address. Opens the key to derive the address, so an address that was only written into the store is not
 * attested.
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
