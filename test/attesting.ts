import { generateKeyPairSync, sign } from 'node:crypto'
import type { Hex } from '../src/ids.ts'
import type { Signer } from '../src/signer-wire/client.ts'
import { verifierKeyOf } from '../src/signer/ledger/heads.ts'
import { originOf } from '../src/signer-wire/verifier.ts'
import { attestedText, type WrappedAccount } from '../src/signer-wire/wire.ts'

/** What a signer does with addresses, for tests that have none: its identity, accounts, and its word for them. */
export type AttestingSigner = Pick<Signer, 'createAccount' | 'attest' | 'identity'> & {
  attestation: (userId: string, address: Hex) => Hex
}

/** @param addressOf  null: there is no account of this user */
export function attestingSigner(addressOf: (userId: string) => Hex | null | Promise<Hex | null>): AttestingSigner {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const bytes = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32)
  const origin = originOf(bytes)
  const key = verifierKeyOf({ origin, publicKey: bytes })
  const attestation = (userId: string, address: Hex): Hex =>
    `0x${sign(null, Buffer.from(attestedText(origin, { userId, address })), privateKey).toString('hex')}`
  return {
    attestation,
    identity: async () => key,
    attest: async ({ userIds }) => {
      const all = await Promise.all(userIds.map(async (userId) => ({ userId, address: await addressOf(userId) })))
      const known = all.filter((one): one is { userId: string; address: Hex } => one.address !== null)
      return { attested: known.map((one) => ({ ...one, attestation: attestation(one.userId, one.address) })) }
    },
    createAccount: async ({ userId }) => {
      const address = await addressOf(userId)
      if (address === null) throw new Error('this signer makes no account of that user')
      return { address, wrapped: wrappedOf(userId, address), attestation: attestation(userId, address), isNew: false }
    },
  }
}

/** Of the right form, and no key. */
const wrappedOf = (userId: string, address: Hex): WrappedAccount => ({
  key: { userId, address, version: 1, dataKeyId: zeros(16), wrapped: zeros(32), iv: zeros(12), tag: zeros(16) },
  dataKey: { id: zeros(16), epoch: 1, provider: 'file', wrapped: zeros(60), createdAt: 0 },
})

const zeros = (length: number): Hex => `0x${'00'.repeat(length)}`
