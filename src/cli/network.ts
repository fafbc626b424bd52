import { text } from 'node:stream/consumers'
import { Command } from 'commander'
import { connect } from '../chain/rpc/connect.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/failures.ts'
import type { OnNode } from '../chain/rpc/pool.ts'
import { explainNetwork, unsaid, type NetworkFacts } from '../applications/network-facts.ts'
import { bindNetwork, describeNetworks, removeNetwork, templatesAt } from '../applications/networks.ts'
import { areNodeUrls, readNodes, writeNodes } from '../applications/nodes-file.ts'
import { AppError, type FieldError } from '../errors.ts'
import { FolderInUse } from '../folder-lock.ts'
import type { StoredFacts } from '../applications/wire.ts'
import type { Hex } from '../ids.ts'
import { recorded } from '../operator/actions.ts'
import { networkFacts } from '../operator/acts.ts'
import type { RootDb } from '../store/db.ts'
import { readInstallationSettings, withDatabase, withRegistry, type InstallationSettings } from './database.ts'
import { explainSponsoring } from '../transactions/sponsors/probe-sponsor.ts'
import { addDeployGas } from './deploy-gas.ts'
import { factWays, readCount, saidFacts } from './network-options.ts'
import { addSet, refuseOfSettings } from './network-set.ts'
import { describe, nodesOf, servedOf, type DescribedNetwork } from './network-text.ts'
import { addWays, collect, said, type Ways } from './options.ts'
import { findPreset, readPresets, type NetworkPreset } from './presets.ts'
import { print, table, type JsonOption } from './print.ts'
import { addRewind } from './rewind.ts'
import { commandActor, type KnownNetwork } from './registry.ts'
import { inShell, type Shell } from './shell.ts'
import { systemClock } from '../clock.ts'

type NetworkOptions = JsonOption & { rpcUrl?: string[]; chainId?: string; acceptUnaudited?: boolean }

/** Options of `network add` in addition to those of `network set`. */
const waysOfAdd: Ways<Pick<StoredFacts, 'gasSpace' | 'delegate'>> = {
  gasSpace: [
    '--gas-space <address>',
    'with `--gas sponsor`: space address that `network deploy-gas` printed',
    (text) => text as Hex,
  ],
  delegate: [
    '--delegate <name>',
    'with `--gas sponsor`: code that accounts delegate to, `chatelaine` (not audited) or `calibur` (audited); default chatelaine',
  ],
}

/** Builds `chatelaine network …`: the networks of this installation. */
export function network(shell: Shell): Command {
  const command = new Command('network').description('manage networks')
  const json = ['--json', 'print JSON'] as const
  const adding = command
    .command('add <name>')
    .description('add a network from a preset or manually, or change one; the chain id is read from its nodes')
    .option(
      '--rpc-url <url>',
      'node; repeat for several of the same network; - reads them from standard input',
      collect,
    )
    .option('--chain-id <id>', 'manual: chain id the nodes must report')
  addWays(adding, waysOfAdd).option(
    '--accept-unaudited',
    'accept that the sponsored-gas contracts are not audited: docs/reference/gas-contracts.md',
  )
  addWays(adding, factWays)
    .option(...json)
    .action(inShell(shell, add))
  addSet(command, shell, describeStored)
  command
    .command('presets')
    .description('list networks that can be added by name')
    .option(...json)
    .action(inShell(shell, listPresets))
  command
    .command('list')
    .description('list networks')
    .option(...json)
    .action(inShell(shell, list))
  command
    .command('show <name>')
    .description('show a network')
    .option(...json)
    .action(inShell(shell, show))
  command
    .command('remove <name>')
    .description('remove a network that no application is bound to')
    .option(...json)
    .action(inShell(shell, remove))
  addRewind(command, shell)
  addDeployGas(command, shell)
  return command
}

async function add(shell: Shell, name: string, given: NetworkOptions): Promise<void> {
  const settings = readInstallationSettings(shell.env)
  refuseOfSettings(shell.env, name)
  const preset = await findPreset(name)
  const added = await alone(settings, async (db) => {
    const before = await networkFacts(name)(db)
    const nodes = await readNodes(settings.networksFile)
    const rpcUrls = given.rpcUrl === undefined ? (nodes[name] ?? []) : await expand(shell, given.rpcUrl)
    const wanted = choose(name, given, before ?? (preset && presetFacts(preset)))
    const problems = explainNetwork(wanted)
    if (before === null && preset === null && !hasPages(wanted))
      problems.unshift(
        invalid('Give its explorer: --explorer, or --explorer-tx, --explorer-address and --explorer-block.'),
      )
    if (rpcUrls.length === 0) problems.push(invalid('Give a node: --rpc-url.'))
    else if (!areNodeUrls(rpcUrls))
      problems.push(invalid('Give an http or https URL of a node; ws or wss URLs may be added.'))
    if (problems.length > 0) throw refusal(problems)
    if (wanted.gas === 'sponsor' && given.acceptUnaudited !== true && before?.gas !== 'sponsor')
      throw new Error(
        'The sponsored-gas contracts are not audited (docs/reference/gas-contracts.md). To accept that, add --accept-unaudited.',
      )
    const genesisHash = await askNodes(shell, rpcUrls, wanted)
    await recorded(db, commandActor(shell.env), { action: 'add-network', target: name, look: networkFacts }, (db) =>
      bindNetwork(db, { ...wanted, genesisHash }, { mayBegin: false }),
    )
    await writeNodes(settings.networksFile, { ...nodes, [name]: rpcUrls })
    const added = (await describeNetworks(db)).find((one) => one.name === name)!
    return { ...added, nodes: rpcUrls.length }
  })
  print(shell, given, added, `Stored. A running server serves the network after its next start.\n\n${describe(added)}`)
}

async function listPresets(shell: Shell, given: JsonOption): Promise<void> {
  const presets = await readPresets()
  const rows = presets.map(({ name, title, chainId, symbol, blockMs, finality, blockVerification, explorer }) => [
    ...[name, title, String(chainId), symbol, `${blockMs / 1_000} s`],
    ...[finality === 'finalized' ? finality : `${finality} blocks`, blockVerification ?? '', explorer],
  ])
  print(
    shell,
    given,
    presets,
    table(['name', 'network', 'chain id', 'currency', 'blocks', 'final', 'checks', 'explorer'], rows),
  )
}

async function list(shell: Shell, given: JsonOption): Promise<void> {
  const networks = await readAll(shell)
  const rows = networks.map((one) => [
    one.name,
    String(one.chainId),
    one.symbol,
    one.gas,
    nodesOf(one),
    String(one.applications),
    servedOf(one),
  ])
  print(
    shell,
    given,
    networks,
    rows.length === 0
      ? 'No networks yet.'
      : table(['name', 'chain id', 'currency', 'gas', 'nodes', 'applications', 'served'], rows),
  )
}

async function show(shell: Shell, name: string, given: JsonOption): Promise<void> {
  const found = (await readAll(shell)).find((one) => one.name === name)
  if (found === undefined) throw new AppError('not_found', `No network has the name ${name}.`)
  print(shell, given, found, describe(found))
}

async function describeStored(shell: Shell, name: string): Promise<{ network: KnownNetwork; text: string }> {
  const network = (await readAll(shell)).find((one) => one.name === name)
  if (network === undefined) throw new AppError('not_found', `No network has the name ${name}.`)
  return { network, text: describe(network) }
}

async function remove(shell: Shell, name: string, given: JsonOption): Promise<void> {
  const settings = readInstallationSettings(shell.env)
  await alone(settings, async (db) => {
    await recorded(db, commandActor(shell.env), { action: 'remove-network', target: name, look: networkFacts }, (db) =>
      removeNetwork(db, name),
    )
    const { [name]: _, ...others } = await readNodes(settings.networksFile)
    if (_ !== undefined) await writeNodes(settings.networksFile, others)
  })
  print(shell, given, { name, removed: true }, `Removed ${name}. A running server serves the network until it stops.`)
}

/**
 * Works on the database. If a running server holds it, asks the operator to stop the server. That costs nothing,
 * because networks are opened only at the start.
 */
async function alone<T>(settings: InstallationSettings, work: (db: RootDb) => Promise<T>): Promise<T> {
  try {
    return await withDatabase(settings, work)
  } catch (error) {
    if (!(error instanceof FolderInUse)) throw error
    throw new Error(
      `Process ${error.holder} is using DATA_DIR ${settings.dataDir}. Stop it, run this command again, and start the process again.`,
    )
  }
}

async function readAll(shell: Shell): Promise<DescribedNetwork[]> {
  const nodes = await readNodes(readInstallationSettings(shell.env).networksFile)
  const networks = await withRegistry(shell.env, (registry) => registry.networks())
  return networks.map((one) => ({ ...one, nodes: nodes[one.name]?.length ?? 0 }))
}

type UnnamedFacts = Omit<Required<NetworkFacts>, 'name'>

const NOTHING: UnnamedFacts = { ...unsaid, chainId: Number.NaN, symbol: '', coin: '', backfillFrom: null }

/** Returns the facts of a preset. */
const presetFacts = ({
  chainId,
  symbol,
  coin,
  explorer,
  finality,
  blockVerification,
}: NetworkPreset): UnnamedFacts => ({
  ...NOTHING,
  chainId,
  symbol,
  coin,
  explorer: templatesAt(explorer),
  finality,
  blockVerification,
})

/** Combines the given facts, the known ones, and defaults that suit most networks. */
function choose(name: string, given: NetworkOptions, known: UnnamedFacts | null): Required<NetworkFacts> {
  const changes = { ...saidFacts(given, known?.explorer ?? null), ...said(waysOfAdd, given) }
  const chosen = { ...NOTHING, ...known, ...changes, name }
  return {
    ...chosen,
    coin: changes.coin ?? known?.coin ?? chosen.symbol,
    chainId: given.chainId === undefined ? chosen.chainId : readCount(given.chainId),
  }
}

const hasPages = ({ explorer }: NetworkFacts): boolean =>
  explorer !== null && Object.values(explorer).every((page) => page !== '')

async function askNodes(
  { console }: Shell,
  rpcUrls: string[],
  { chainId, gas, gasSpace, delegate }: NetworkFacts,
): Promise<Hex> {
  const onNode: OnNode = (position, event) => {
    if (event === 'down') console.error(`Node ${position} is not responding. It is stored and retried.`)
    if (event === 'reads_by_number')
      console.error(
        `Node ${position} does not support reads by block hash (EIP-1898). It is read by block number: docs/operate/nodes.md.`,
      )
  }
  try {
    const { rpc, identity } = await connect(rpcUrls, {
      clock: systemClock,
      wantedChainId: chainId,
      onCall: () => {},
      onNode: onNode,
    })
    const why = await (
      gas === 'sponsor' ? explainSponsoring({ chainId, gasSpace, delegate, rpc }) : Promise.resolve(null)
    ).finally(() => rpc.close())
    if (why !== null) throw new Error(`Sponsors cannot submit operations on this network: ${why}.`)
    return identity.genesisHash
  } catch (error) {
    if (error instanceof RpcUnavailable || error instanceof RpcError)
      throw new Error('No node responds. Check the URL and the API key in it.')
    throw error
  }
}

/** Reads URLs from standard input for `-`, because URLs with keys should not be in a shell history. */
async function expand(shell: Shell, rpcUrls: string[]): Promise<string[]> {
  const read = async (url: string) => (url === '-' ? (await text(shell.stdin)).split(/\s+/) : [url])
  return [...new Set((await Promise.all(rpcUrls.map(read))).flat().filter((url) => url !== ''))]
}

const invalid = (detail: string): FieldError => ({ code: 'invalid', detail })
const refusal = (errors: FieldError[]): AppError =>
  new AppError('invalid_request', errors.map(({ detail }) => detail).join(' '), { errors })
