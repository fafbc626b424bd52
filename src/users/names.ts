import { sql } from 'kysely'
import { isKnownAddress, storedAddressOf, type AddressProver } from '../http/proven-address.ts'
import { toHex } from '../hex.ts'
import type { Hex } from '../ids.ts'

/**
 * Returns the names of users by address, at the identity that their account is known by. Only verified addresses are
 * included.
 */
export async function namesOf(app: AddressProver, addresses: Uint8Array[]): Promise<Map<Hex, string>> {
  if (addresses.length === 0) return new Map()
  const rows = await app.db
    .selectFrom('accounts as account')
    .innerJoin('identities as identity', 'identity.account_id', 'account.account_id')
    .select(['account.address', 'account.user_id', 'account.attestation', 'identity.username'])
    .where('account.address', 'in', addresses)
    .where('identity.signed_in_at', 'is not', null)
    .where(sql<boolean>`identity.provider || '-' || identity.subject = account.user_id`)
    .execute()
  const names = new Map<Hex, string>()
  for (const row of rows)
    if (await isKnownAddress(app, storedAddressOf(row))) names.set(toHex(row.address), row.username)
  return names
}
