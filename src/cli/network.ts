import { text } from 'node:stream/consumers'
import { Command } from 'commander'
import { connect } from '../chain/rpc/connect.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/failures.ts'
import type { OnNode } from '../chain/rpc/pool.ts'
import {
  bindNetwork,
  explainNetwork,
  describeNetworks,
  removeNetwork,
  templatesAt,
  type NetworkFacts,
} from '../applications/networks.ts'
import { areNodeUrls, readNodes, writeNodes } from '../applications/nodes-file.ts'
import { AppError } from '../errors.ts'
import { FolderInUse } from '../folder-lock.ts'
import type { DelegateName, Hex } from '../ids.ts'
import { recorded } from '../operator/actions.ts'
import { networkFacts } from '../operator/acts.ts'
import type { RootDb } from '../store/db.ts'
import { readInstallationSettings, withDatabase, withRegistry, type InstallationSettings } from './database.ts'
import { explainSponsoring } from '../transactions/sponsors/probe-sponsor.ts'
import { addDeployGas } from './deploy-gas.ts'
import { readCount, readFacts, withFactsOptions, type NetworkFactsOptions } from './network-options.ts'
import { addSet, refuseOfSettings } from './network-set.ts'
import { describe, nodesOf, servedOf, type DescribedNetwork } from './network-text.ts'
import { findPreset, readPresets } from './presets.ts'
import { print, table, type JsonOption } from './print.ts'
import { addRewind } from './rewind.ts'
import { commandActor, type KnownNetwork } from './registry.ts'
import { inShell, type Shell } from './shell.ts'
import { systemClock } from '../clock.ts'

type NetworkOptions = JsonOption &
  NetworkFactsOptions & {
    rpcUrl?: string[]
    chainId?: string
    gasSpace?: string
    delegate?: string
    acceptUnaudited?: boolean
  }

/** `chatelaine network …`: the networks of this installation. */
export function network(shell: Shell): Command {
  const command = new Command('network').description('manage networks: add from a preset or manually, list, remove')
  const json = ['--json', 'print JSON'] as const
  withFactsOptions(
    command
      .command('add <name>')
      .description(
        'add a network, by the name of a preset or manually, or change one; the chain id is read from its nodes',
      )
      .option(
        '--rpc-url <url>',
        'node; repeat for several of the same network; - reads them from standard input',
        collect,
      )
      .option('--chain-id <id>', 'manual: chain id the nodes must report')
      .option(
        '--gas-space <address>',
        'where gas is `sponsor`: the address of the key that `network deploy-gas` was given',
      )
      .option(
        '--delegate <name>',
        'where gas is `sponsor`: what code accounts delegate to, `chatelaine`, which is not audited, or `calibur`, which is; default chatelaine',
      )
      .option('--accept-unaudited', 'the contracts of sponsored gas are not audited: docs/gas-contracts.md'),
  )
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
    .description('remove a network; refused while applications are bound to it')
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
    const before = (await describeNetworks(db)).find((one) => one.name === name)
    const nodes = await readNodes(settings.networksFile)
    const rpcUrls = given.rpcUrl === undefined ? (nodes[name] ?? []) : await expand(shell, given.rpcUrl)
    const wanted = choose({
      name,
      given,
      known:
        before ??
        (preset === null
          ? null
          : {
              ...preset,
              ...{
                explorer: templatesAt(preset.explorer),
                feeCapGwei: null,
                gas: 'self',
              },
            }),
    })
    const problems = [
      ...explainMissing(given, { isNew: before === undefined && preset === null }),
      ...explainNetwork(wanted),
    ]
    if (rpcUrls.length === 0) problems.push('Give a node: --rpc-url.')
    else if (!areNodeUrls(rpcUrls))
      problems.push('A node must be an http or https URL; ws or wss ones may be added beside it.')
    if (problems.length > 0) throw refusal(problems)
    if (wanted.gas === 'sponsor' && given.acceptUnaudited !== true && before?.gas !== 'sponsor')
      throw new Error('The contracts of sponsored gas are not audited (docs/gas-contracts.md): add --accept-unaudited.')
    const genesisHash = await askNodes(shell, rpcUrls, wanted)
    await recorded(db, commandActor(shell.env), { action: 'add-network', target: name, look: networkFacts }, (db) =>
      bindNetwork(db, { ...wanted, genesisHash }, { mayBegin: false }),
    )
    await writeNodes(settings.networksFile, { ...nodes, [name]: rpcUrls })
    const {
      readFrom = null,
      native = null,
      backfill = null,
      backfillProgress = null,
      applications = 0,
      sponsors = 0,
      sponsorSpent = '0',
      owedDelegations = 0,
    } = before ?? {}
    const past = { backfill, backfillProgress }
    return {
      ...wanted,
      readFrom,
      native,
      ...past,
      applications,
      sponsors,
      sponsorSpent,
      owedDelegations,
      nodes: rpcUrls.length,
    }
  })
  print(shell, given, added, `Stored; a running server serves it after its next start.\n\n${describe(added)}`)
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
  if (found === undefined) throw new AppError('not_found', `There is no network ${name}.`)
  print(shell, given, found, describe(found))
}

async function describeStored(shell: Shell, name: string): Promise<{ network: KnownNetwork; text: string }> {
  const network = (await readAll(shell)).find((one) => one.name === name)
  if (network === undefined) throw new AppError('not_found', `There is no network ${name}.`)
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
  print(shell, given, { name, removed: true }, `Removed ${name}; a running server serves it until it is stopped.`)
}

/** Networks are opened when the server starts, so nothing is lost by asking it to be stopped. */
async function alone<T>(settings: InstallationSettings, work: (db: RootDb) => Promise<T>): Promise<T> {
  try {
    return await withDatabase(settings, work)
  } catch (error) {
    if (!(error instanceof FolderInUse)) throw error
    throw new Error(
      `Process ${error.holder} is using DATA_DIR ${settings.dataDir}. Stop it, run this again, and restart it: networks are opened at the start.`,
    )
  }
}

async function readAll(shell: Shell): Promise<DescribedNetwork[]> {
  const nodes = await readNodes(readInstallationSettings(shell.env).networksFile)
  const networks = await withRegistry(shell.env, (registry) => registry.networks())
  return networks.map((one) => ({ ...one, nodes: nodes[one.name]?.length ?? 0 }))
}

/** What is given, else what is known, else what most networks have. */
function choose({
  name,
  given,
  known,
}: {
  name: string
  given: NetworkOptions
  known: Omit<NetworkFacts, 'name'> | null
}): NetworkFacts & Required<Pick<NetworkFacts, 'sponsorPerDay' | 'sponsorLow' | 'topUpContracts' | 'backfillFrom'>> {
  const { sponsorPerDay = null, sponsorLow = null, topUpContracts = [], ...rest } = readFacts(given, known)
  const { backfillFrom = null, ...facts } = rest
  const chainId = given.chainId === undefined ? (known?.chainId ?? Number.NaN) : readCount(given.chainId)
  const gasSpace = (given.gasSpace as Hex | undefined) ?? known?.gasSpace ?? null
  const delegate = (given.delegate as DelegateName | undefined) ?? known?.delegate ?? 'chatelaine'
  return { name, chainId, ...facts, gasSpace, delegate, topUpContracts, sponsorPerDay, sponsorLow, backfillFrom }
}

function explainMissing(
  { explorer, explorerTx, explorerAddress, explorerBlock }: NetworkOptions,
  { isNew }: { isNew: boolean },
): string[] {
  const hasPages =
    explorer !== undefined || [explorerTx, explorerAddress, explorerBlock].every((page) => page !== undefined)
  return isNew && !hasPages
    ? ['Give its explorer: --explorer, or --explorer-tx, --explorer-address and --explorer-block.']
    : []
}

async function askNodes(
  { console }: Shell,
  rpcUrls: string[],
  { chainId, gas, gasSpace, delegate }: NetworkFacts,
): Promise<Hex> {
  const onNode: OnNode = (position, event) => {
    if (event === 'down') console.error(`Node ${position} is not responding; it is kept and retried.`)
    if (event === 'reads_by_number')
      console.error(
        `Node ${position} does not support reads by block hash (EIP-1898); it is read by number: docs/guides/nodes.md.`,
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
    if (why !== null) throw new Error(`Sponsors cannot send for people on this network: ${why}.`)
    return identity.genesisHash
  } catch (error) {
    if (error instanceof RpcUnavailable || error instanceof RpcError)
      throw new Error('No node responds: check the URL and its key.')
    throw error
  }
}

/** Addresses with keys need not be in the history of a shell. */
async function expand(shell: Shell, rpcUrls: string[]): Promise<string[]> {
  const read = async (url: string) => (url === '-' ? (await text(shell.stdin)).split(/\s+/) : [url])
  return [...new Set((await Promise.all(rpcUrls.map(read))).flat().filter((url) => url !== ''))]
}

const refusal = (details: string[]): AppError =>
  new AppError('invalid_request', details.join(' '), { errors: details.map((detail) => ({ code: 'invalid', detail })) })
const collect = (value: string, before: string[] | undefined): string[] => [...(before ?? []), value]
