import type { Command } from 'commander'
import { readNetwork } from '../applications/change-network.ts'
import type { ListedNetwork, NetworkChanges } from '../applications/wire.ts'
import { AppError } from '../errors.ts'
import { operatorActs } from '../operator/acts.ts'
import { readSome } from '../config.ts'
import { withDatabaseOrServer } from './database.ts'
import { readFacts, withFactsOptions, type NetworkFactsOptions } from './network-options.ts'
import { print, type JsonOption } from './print.ts'
import { commandActor, type KnownNetwork } from './registry.ts'
import { readRowKeys } from './row-keys.ts'

type SetOptions = JsonOption & NetworkFactsOptions

/** What holds in every process at once, or from its next group of accounts on; all else of a network is as it was when it was opened. */
const AT_ONCE = new Set<string>(['sponsorPerDay', 'sponsorLow', 'backfillFrom'] satisfies (keyof NetworkChanges)[])

/**
 * `chatelaine network set`: changes what is named of a network, and nothing else.
 * @param describe  a network as `network show` prints it
 */
export function addSet(command: Command, describe: (name: string) => Promise<{ network: KnownNetwork; text: string }>) {
  withFactsOptions(
    command
      .command('set <name>')
      .description('change the given facts of a network and leave the rest; its nodes are changed by `network add`'),
  )
    .option('--json', 'print JSON')
    .action((name: string, given: SetOptions) => set(name, given, describe))
}

async function set(name: string, given: SetOptions, describe: Parameters<typeof addSet>[1]): Promise<void> {
  refuseOfSettings(name)
  const changed = await withDatabaseOrServer(
    async (db) => {
      const changes = changesOf(given, await readNetwork(db, name))
      await operatorActs({ db, readRowKeys }, commandActor()).updateNetwork(name, changes)
      return Object.keys(changes)
    },
    async (ask) => {
      const known = (await ask<ListedNetwork[]>('GET', '/networks')).find((one) => one.name === name)
      if (known === undefined) throw new AppError('not_found', `There is no network ${name}.`)
      const changes = changesOf(given, known)
      await ask('PATCH', `/networks/${encodeURIComponent(name)}`, changes)
      return Object.keys(changes)
    },
  )
  const { network, text } = await describe(name)
  const later = changed.filter((field) => !AT_ONCE.has(field))
  const when =
    later.length === 0
      ? 'Stored; it holds in every process from now on.'
      : `Stored; a running server goes by it after its next start: ${later.join(', ')}.`
  print(given, network, `${when}\n\n${text}`)
}

/** The network of the settings is what they say at each start. @throws Error naming the settings */
export function refuseOfSettings(name: string): void {
  const { NETWORK_NAME } = readSome(process.env, ['NETWORK_NAME'])
  if (name === NETWORK_NAME)
    throw new Error(`${name} is the network of the settings (NETWORK_NAME): change NETWORK_GAS and the other NETWORK_… of the server, or choose another name.`) // prettier-ignore
}

/** Only what is named. @throws Error  when that is nothing */
function changesOf(given: SetOptions, known: Parameters<typeof readFacts>[1]): NetworkChanges {
  const facts = readFacts(given, known)
  const isNamed = (field: string) =>
    field === 'explorer'
      ? [given.explorer, given.explorerTx, given.explorerAddress, given.explorerBlock].some(
          (page) => page !== undefined,
        )
      : given[field === 'topUpContracts' ? 'topupContract' : (field as keyof SetOptions)] !== undefined
  const named = Object.entries(facts).filter(([field]) => isNamed(field))
  if (named.length === 0) throw new Error('Name what is to change, such as --gas topup.')
  const wrong = named.filter(([, value]) => Number.isNaN(value)).map(([field]) => field)
  if (wrong.length > 0) throw new Error(`Expected a whole number: ${wrong.join(', ')}.`)
  return Object.fromEntries(named) as NetworkChanges
}
