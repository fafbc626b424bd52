import { checksumAddress } from '../digits.ts'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { readAt } from '../chain/reads.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import { AppError } from '../errors.ts'
import { provenAddress, storedAddressOf, type AddressProver } from '../http/proven-address.ts'
import { lowBelow, openTransactions } from './watch.ts'
import type { ListedSponsor } from './wire.ts'

/**
 * Returns the sponsors of all networks, with the address to fund and the present balance.
 * @throws address_not_proven, signer_unavailable, database_unavailable
 */
export async function listSponsors(app: AddressProver & Pick<App, 'chains'>): Promise<ListedSponsor[]> {
  const rows = await app.db
    .selectFrom('sponsors as sponsor')
    .innerJoin('accounts as account', 'account.account_id', 'sponsor.account_id')
    .leftJoin('networks as network', 'network.chain_id', 'sponsor.chain_id')
    .leftJoin('low_sponsors as low', (on) =>
      on.onRef('low.chain_id', '=', 'sponsor.chain_id').onRef('low.account_id', '=', 'sponsor.account_id'),
    ) // prettier-ignore
    .leftJoin('stopped_lanes as lane', (on) =>
      on.onRef('lane.chain_id', '=', 'sponsor.chain_id').onRef('lane.sender', '=', 'account.address'),
    )
    .select([
      'sponsor.name',
      'sponsor.chain_id',
      'low.since as low_since',
      'lane.created_at as stopped_since',
      'network.name as network',
      'network.sponsor_low',
    ])
    .select(['account.user_id', 'account.address', 'account.attestation'])
    .orderBy('sponsor.name')
    .orderBy('sponsor.chain_id')
    .execute()
  return Promise.all(
    rows.map(
      async ({
        name,
        chain_id: chainId,
        network,
        low_since: lowSince,
        stopped_since: stoppedSince,
        sponsor_low: given,
        ...row
      }) => {
        const address = await provenAddress(app, storedAddressOf(row))
        const chain = app.chains.get(chainId)
        return {
          name,
          network,
          chainId,
          address: checksumAddress(address),
          balance: await asked(chain, (of) => readAt(of, 'latest', ({ balance }) => balance(address))),
          openTransactions: await openTransactions(app.db, { address, chainId }),
          lowBelow: given ?? (await asked(chain, (of) => lowBelow(app.db, of))),
          lowSince: lowSince === null ? null : lowSince.toISOString(),
          stoppedSince: stoppedSince === null ? null : stoppedSince.toISOString(),
        }
      },
    ),
  )
}

/** Returns wei in decimal digits; null if no node of the network responds. */
async function asked(chain: Chain | undefined, read: (chain: Chain) => Promise<bigint>): Promise<string | null> {
  if (chain === undefined) return null
  try {
    return String(await read(chain))
  } catch (error) {
    if (error instanceof RpcUnavailable || error instanceof RpcError || error instanceof AppError) return null
    throw error
  }
}
