import { AppError } from '../errors.ts'
import type { AddressProver } from '../http/proven-address.ts'
import { accountIdOf, isSponsorName, SPONSOR_PROVIDER } from '../ids.ts'
import type { Db } from '../store/db.ts'
import { makeSponsorAccount } from '../users/pregenerate.ts'
import type { Sponsor } from './sponsors.ts'

/**
 * Creates a sponsor of a network: its account, which the signer has under the user id `SPONSOR-<name>`, and its entry
 * for the network. A name stands for one account, on any number of networks. A repeat changes nothing.
 * @returns the sponsor; its address is proven to be the signer's, so it is safe to fund
 * @throws invalid_request, already_exists, address_not_proven, signer_unavailable, database_unavailable
 */
export async function createSponsor(
  app: AddressProver,
  { name, chainId }: { name: string; chainId: number },
): Promise<Sponsor> {
  if (!isSponsorName(name))
    throw refusal('/name', 'The name must be upper-case letters, digits and underscores, at most 32 characters.')
  const accountId = accountIdOf(SPONSOR_PROVIDER, name)
  await assertNoPerson(app.db, accountId)
  const { address } = await makeSponsorAccount(app, name)
  await app.db
    .insertInto('sponsors')
    .values({ account_id: accountId, chain_id: chainId, name })
    .onConflict((on) => on.doNothing())
    .execute()
  return { accountId, chainId, name, address }
}

/**
 * Rejects a name whose account id is a user's, which an identity provider with the sponsors' prefix could have created.
 * @throws already_exists
 */
async function assertNoPerson(db: Db, accountId: string): Promise<void> {
  const identity = await db
    .selectFrom('identities')
    .select('provider')
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  if (identity !== undefined)
    throw new AppError(
      'already_exists',
      'The account of a user has this name. Nothing was created. Choose another name.',
    )
}

/**
 * Returns the chain id of a network of this installation.
 * @throws invalid_request
 */
export async function findSponsoredChain(db: Db, network: string): Promise<number> {
  const row = await db.selectFrom('networks').select('chain_id').where('name', '=', network).executeTakeFirst()
  if (row === undefined) throw refusal('/network', 'No network has this name.')
  return row.chain_id
}

const refusal = (pointer: string, detail: string): AppError =>
  new AppError('invalid_request', detail, { errors: [{ pointer, code: 'invalid', detail }] })
