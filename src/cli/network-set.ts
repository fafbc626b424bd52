import type { Command } from 'commander'
import { readNetwork } from '../applications/change-network.ts'
import type { ListedNetwork, NetworkChanges } from '../applications/wire.ts'
import { AppError } from '../errors.ts'
import { readSome, type Environment } from '../config.ts'
import { withDatabaseOrServer } from './database.ts'
import { factWays, saidFacts } from './network-options.ts'
import { addWays } from './options.ts'
import { print, type JsonOption } from './print.ts'
import { actsOf, type KnownNetwork } from './registry.ts'
import type { Shell } from './shell.ts'

/** Fields that take effect at once in every process, or from the next group of accounts on. Others need a restart. */
const AT_ONCE = new Set<string>([
  'sponsorPerDay',
  'sponsorLow',
  'pagesPerUser',
  'pagesPerDay',
  'backfillFrom',
] satisfies (keyof NetworkChanges)[])

/**
 * Adds `chatelaine network set`: changes only the given fields of a network.
 * @param describe  reads a network and formats it as `network show` does
 */
export function addSet(
  command: Command,
  shell: Shell,
  describe: (shell: Shell, name: string) => Promise<{ network: KnownNetwork; text: string }>,
): void {
  addWays(
    command
      .command('set <name>')
      .description('change the given options of a network; change its nodes with `network add`'),
    factWays,
  )
    .option('--json', 'print JSON')
    .action((name: string, given: JsonOption) => set(shell, name, { given, describe }))
}

async function set(
  shell: Shell,
  name: string,
  { given, describe }: { given: JsonOption; describe: Parameters<typeof addSet>[2] },
): Promise<void> {
  refuseOfSettings(shell.env, name)
  const changed = await withDatabaseOrServer(
    shell.env,
    async (db) => {
      const changes = changesOf(given, await readNetwork(db, name))
      await actsOf(shell.env, db).updateNetwork(name, changes)
      return Object.keys(changes)
    },
    async (ask) => {
      const known = (await ask<ListedNetwork[]>('GET', '/networks')).find((one) => one.name === name)
      if (known === undefined) throw new AppError('not_found', `No network has the name ${name}.`)
      const changes = changesOf(given, known)
      await ask('PATCH', `/networks/${encodeURIComponent(name)}`, changes)
      return Object.keys(changes)
    },
  )
  const { network, text } = await describe(shell, name)
  const later = changed.filter((field) => !AT_ONCE.has(field))
  const when =
    later.length === 0
      ? 'Stored. All processes apply it immediately.'
      : `Stored. A running server applies this after its next start: ${later.join(', ')}.`
  print(shell, given, network, `${when}\n\n${text}`)
}

/**
 * Rejects the network that the settings describe, because every start applies them.
 * @throws Error naming the settings
 */
export function refuseOfSettings(env: Environment, name: string): void {
  const { NETWORK_NAME } = readSome(env, ['NETWORK_NAME'])
  if (name === NETWORK_NAME)
    throw new Error(`${name} is the network of the server’s settings (NETWORK_NAME). Change its NETWORK_… settings, or choose another name.`) // prettier-ignore
}

/** Returns the given changes. @throws Error  if there are none */
function changesOf(given: JsonOption, { explorer }: Pick<ListedNetwork, 'explorer'>): NetworkChanges {
  const changes = saidFacts(given, explorer)
  const named = Object.entries(changes)
  if (named.length === 0) throw new Error('Give at least one option to change, such as --gas topup.')
  const wrong = named.filter(([, value]) => Number.isNaN(value)).map(([field]) => field)
  if (wrong.length > 0) throw new Error(`Expected a whole number: ${wrong.join(', ')}.`)
  return changes
}
