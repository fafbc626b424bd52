import { checksumAddress } from '../abi/address.ts'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { readAt } from '../chain/reads.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import { provenAddress, storedAddressOf, type AddressProver } from '../http/proven-address.ts'
import type { Hex } from '../ids.ts'
import { retrying } from '../store/db.ts'
import type { ListedSponsor } from './wire.ts'

/**
 * Every sponsor of every network, with the address to fund and what it holds now.
 * @throws address_not_proven, signer_unavailable, database_unavailable
 */
export async function listSponsors(app: AddressProver & Pick<App, 'chains'>): Promise<ListedSponsor[]> {
  const rows = await retrying(() =>
    app.db
      .selectFrom('sponsors as sponsor')
      .innerJoin('accounts as account', 'account.account_id', 'sponsor.account_id')
      .leftJoin('networks as network', 'network.chain_id', 'sponsor.chain_id')
      .select(['sponsor.name', 'sponsor.chain_id', 'network.name as network'])
      .select(['account.user_id', 'account.address', 'account.attestation'])
      .orderBy('sponsor.name')
      .orderBy('sponsor.chain_id')
      .execute(),
  )
  return Promise.all(
    rows.map(async ({ name, chain_id: chainId, network, ...row }) => {
      const address = await provenAddress(app, storedAddressOf(row))
      const balance = await heldBy(address, app.chains.get(chainId))
      return { name, network, chainId, address: checksumAddress(address), balance }
    }),
  )
}

/** Wei in decimal digits; null where no node of the network says it. */
async function heldBy(address: Hex, chain: Chain | undefined): Promise<string | null> {
  if (chain === undefined) return null
  try {
    return String(await readAt(chain, 'latest', ({ balance }) => balance(address)))
  } catch (error) {
    if (error instanceof RpcUnavailable || error instanceof RpcError) return null
    throw error
  }
}
