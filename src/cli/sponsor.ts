import { Command } from 'commander'
import { closeChain } from '../chain/open.ts'
import { operatorActs } from '../operator/acts.ts'
import type { Signer } from '../signer/client.ts'
import { listSponsors } from '../sponsors/list.ts'
import type { ListedSponsor, MadeSponsor } from '../sponsors/wire.ts'
import { openState } from '../state.ts'
import type { RootDb } from '../store/db.ts'
import { openTelemetry } from '../telemetry.ts'
import { publishedIdentityKeys } from './identities.ts'
import { openReachable } from './installation.ts'
import { facts, print, table, type JsonOption } from './print.ts'
import { commandActor } from './registry.ts'
import { withSignerOrServer } from './signer-or-server.ts'
import { readRowKeys } from './row-keys.ts'

/** `chatelaine sponsor …`: accounts of the operator that send people what a write of theirs costs. */
export function sponsor(): Command {
  const command = new Command('sponsor').description(
    'accounts that send people what a write costs, on networks whose gas is `topup`: docs/guides/gas.md',
  )
  command
    .command('create')
    .description('create a sponsor and print the address to fund; on another network the same name is the same account')
    .argument('<name>', 'upper-case letters, digits and underscores, at most 32')
    .requiredOption('--network <name>', 'network where it pays')
    .option('--json', 'print JSON')
    .action(create)
  command
    .command('list')
    .description('list sponsors, with the address and the balance of each')
    .option('--json', 'print JSON')
    .action(list)
  return command
}

async function create(name: string, given: JsonOption & { network: string }): Promise<void> {
  const request = { name, network: given.network }
  const made = await withSignerOrServer(
    async (signer, db) =>
      operatorActs({ db, readRowKeys }, commandActor()).createSponsor(await prover(signer, db), request),
    (ask) => ask<MadeSponsor>('POST', '/sponsors', request),
  )
  const text = facts([
    ['Name', made.name],
    ['Network', `${made.network} (chain id ${made.chainId})`],
    ['Address', made.address],
  ])
  print(given, made, `${text}\n\nFund this address: until it holds something it pays for no one.`)
}

async function list(given: JsonOption): Promise<void> {
  const sponsors = await withSignerOrServer(
    async (signer, db) => {
      const chains = await openReachable(process.env, db)
      try {
        return await listSponsors({ ...(await prover(signer, db)), chains })
      } finally {
        chains.forEach(closeChain)
      }
    },
    (ask) => ask<ListedSponsor[]>('GET', '/sponsors'),
  )
  const rows = sponsors.map(({ name, network, chainId, address, balance }) => [
    ...[name, network ?? `chain ${chainId}`, address],
    balance === null ? 'unknown: no node responds here' : `${balance} wei`,
  ])
  print(
    given,
    sponsors,
    rows.length === 0 ? 'No sponsors yet.' : table(['name', 'network', 'address', 'balance'], rows),
  )
}

/** What it takes to know that an address is the signer's: it is printed to be funded. */
const prover = async (signer: Signer, db: RootDb) => ({
  db,
  signer,
  identityKeys: await publishedIdentityKeys(),
  telemetry: openTelemetry('cli', 'error'),
  state: openState(),
})
