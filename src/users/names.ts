import { sql } from 'kysely'
import { isKnownAddress, storedAddressOf, type AddressProver } from '../http/proven-address.ts'
import { toHex } from '../hex.ts'
import type { Hex } from '../ids.ts'

/**
 * Returns the names of users by address, at the identity that their account is known by. Only verified addresses are
 * included.
 */
export async function namesOf(app: AddressProver, addresses: Uint8Array[]): Promise<Map<Hex, string>> {
  return new Map([...(await peopleOf(app, addresses))].map(([address, { username }]) => [address, username]))
}

/** Returns the same as `namesOf`, with the picture of each user. */
export async function peopleOf(
  app: AddressProver,
  addresses: Uint8Array[],
): Promise<Map<Hex, { username: string; imageSrc: string | null }>> {
  if (addresses.length === 0) return new Map()
  const rows = await app.db
    .selectFrom('accounts as account')
    .innerJoin('identities as identity', 'identity.account_id', 'account.account_id')
    .select(['account.address', 'account.user_id', 'account.attestation', 'identity.username', 'identity.image_src'])
    .where('account.address', 'in', addresses)
    .where('identity.signed_in_at', 'is not', null)
    .where(sql<boolean>`identity.provider || '-' || identity.subject = account.user_id`)
    .execute()
  const people = new Map<Hex, { username: string; imageSrc: string | null }>()
  for (const row of rows)
    if (await isKnownAddress(app, storedAddressOf(row)))
      people.set(toHex(row.address), { username: row.username, imageSrc: row.image_src })
  return people
}
