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
import { explainSponsoring } from '../transactions/probe-sponsor.ts'
import { addDeployGas } from './deploy-gas.ts'
import { readCount, readFacts, withFactsOptions, type NetworkFactsOptions } from './network-options.ts'
import { addSet, refuseOfSettings } from './network-set.ts'
import { findPreset, readPresets } from './presets.ts'
import { facts, print, table, type JsonOption } from './print.ts'
import { addRewind } from './rewind.ts'
import { commandActor, type KnownNetwork } from './registry.ts'
import { systemClock } from '../clock.ts'

type NetworkOptions = JsonOption &
  NetworkFactsOptions & {
    rpcUrl?: string[]
    chainId?: string
    gasSpace?: string
    delegate?: string
    acceptUnaudited?: boolean
  }
type DescribedNetwork = KnownNetwork & { nodes: number }

/** `chatelaine network …`: the networks of this installation. */
export function network(): Command {
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
    .action(add)
  addSet(command, describeStored)
  command
    .command('presets')
    .description('list networks that can be added by name')
    .option(...json)
    .action(listPresets)
  command
    .command('list')
    .description('list networks')
    .option(...json)
    .action(list)
  command
    .command('show <name>')
    .description('show a network')
    .option(...json)
    .action(show)
  command
    .command('remove <name>')
    .description('remove a network; refused while applications are bound to it')
    .option(...json)
    .action(remove)
  addRewind(command)
  addDeployGas(command)
  return command
}

async function add(name: string, given: NetworkOptions): Promise<void> {
  const settings = readInstallationSettings()
  refuseOfSettings(name)
  const preset = await findPreset(name)
  const added = await alone(settings, async (db) => {
    const before = (await describeNetworks(db)).find((one) => one.name === name)
    const nodes = await readNodes(settings.networksFile)
    const rpcUrls = given.rpcUrl === undefined ? (nodes[name] ?? []) : await expand(given.rpcUrl)
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
    const genesisHash = await askNodes(rpcUrls, wanted)
    await recorded(db, commandActor(), { action: 'add-network', target: name, look: networkFacts }, (db) =>
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
  print(given, added, `Stored; a running server serves it after its next start.\n\n${describe(added)}`)
}

async function listPresets(given: JsonOption): Promise<void> {
  const presets = await readPresets()
  const rows = presets.map(({ name, title, chainId, symbol, blockMs, finality, blockVerification, explorer }) => [
    ...[name, title, String(chainId), symbol, `${blockMs / 1_000} s`],
    ...[finality === 'finalized' ? finality : `${finality} blocks`, blockVerification ?? '', explorer],
  ])
  print(
    given,
    presets,
    table(['name', 'network', 'chain id', 'currency', 'blocks', 'final', 'checks', 'explorer'], rows),
  )
}

async function list(given: JsonOption): Promise<void> {
  const networks = await readAll()
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
    given,
    networks,
    rows.length === 0
      ? 'No networks yet.'
      : table(['name', 'chain id', 'currency', 'gas', 'nodes', 'applications', 'served'], rows),
  )
}

async function show(name: string, given: JsonOption): Promise<void> {
  const found = (await readAll()).find((one) => one.name === name)
  if (found === undefined) throw new AppError('not_found', `There is no network ${name}.`)
  print(given, found, describe(found))
}

async function describeStored(name: string): Promise<{ network: KnownNetwork; text: string }> {
  const network = (await readAll()).find((one) => one.name === name)
  if (network === undefined) throw new AppError('not_found', `There is no network ${name}.`)
  return { network, text: describe(network) }
}

async function remove(name: string, given: JsonOption): Promise<void> {
  const settings = readInstallationSettings()
  await alone(settings, async (db) => {
    await recorded(db, commandActor(), { action: 'remove-network', target: name, look: networkFacts }, (db) =>
      removeNetwork(db, name),
    )
    const { [name]: _, ...others } = await readNodes(settings.networksFile)
    if (_ !== undefined) await writeNodes(settings.networksFile, others)
  })
  print(given, { name, removed: true }, `Removed ${name}; a running server serves it until it is stopped.`)
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

async function readAll(): Promise<DescribedNetwork[]> {
  const nodes = await readNodes(readInstallationSettings().networksFile)
  const networks = await withRegistry((registry) => registry.networks())
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

async function askNodes(rpcUrls: string[], { chainId, gas, gasSpace, delegate }: NetworkFacts): Promise<Hex> {
  const onNode: OnNode = (position, event) => {
    if (event === 'down') console.error(`Node ${position} is not responding; it is kept and retried.`)
    if (event === 'reads_by_number')
      console.error(
        `Node ${position} does not support reads by block hash (EIP-1898); it is read by number: docs/guides/nodes.md.`,
      )
  }
  try {
    const told = { onCall: () => {}, onNode }
    const { rpc, identity } = await connect(rpcUrls, { clock: systemClock, wantedChainId: chainId, ...told })
    const why = gas === 'sponsor' ? await explainSponsoring({ chainId, gasSpace, delegate, rpc }) : null
    rpc.close()
    if (why !== null) throw new Error(`Sponsors cannot send for people on this network: ${why}.`)
    return identity.genesisHash
  } catch (error) {
    if (error instanceof RpcUnavailable || error instanceof RpcError)
      throw new Error('No node responds: check the URL and its key.')
    throw error
  }
}

/** Addresses with keys need not be in the history of a shell. */
async function expand(rpcUrls: string[]): Promise<string[]> {
  const read = async (url: string) => (url === '-' ? (await text(process.stdin)).split(/\s+/) : [url])
  return [...new Set((await Promise.all(rpcUrls.map(read))).flat().filter((url) => url !== ''))]
}

function describe(one: DescribedNetwork): string {
  return facts([
    ['Name', one.name],
    ['Chain id', String(one.chainId)],
    ['Currency', `${one.coin} (${one.symbol}), ${one.decimals} decimals`],
    ['Explorer', one.explorer === null ? 'pages of this service' : Object.values(one.explorer)],
    ['Finality', one.finality === 'finalized' ? 'finalized' : `after ${one.finality} blocks`],
    ['Block verification', one.blockVerification ?? 'from the settings'],
    ['Fee cap', one.feeCapGwei === null ? 'from the settings' : `${one.feeCapGwei} gwei per gas`],
    ['Gas', gasOf(one)],
    ...(one.topUpContracts.length === 0 ? [] : [topUpFacts(one)]),
    ...(one.gas === 'self' ? [] : sponsorFacts(one)),
    ...(one.owedDelegations === 0 ? [] : [owedFacts(one)]),
    ['Nodes', nodesOf(one)],
    ['Blocks are read from', one.readFrom ?? '-'],
    ['Native currency', nativeOf(one)],
    ['Past looked up', one.backfillFrom === null ? 'from the settings' : `from block ${one.backfillFrom} on`],
    ['Past transfers', backfillOf(one)],
    ['Applications', String(one.applications)],
    ...(one.isServed === undefined ? [] : [['Served', servedOf(one)] as [string, string]]),
  ])
}

function nativeOf({ native }: DescribedNetwork): string {
  if (native === null) return 'not in the history'
  const { fromBlock, internalFromBlock, toBlock } = native
  const internal =
    internalFromBlock === null
      ? 'internal transfers are not known'
      : `internal transfers from block ${internalFromBlock} on`
  return `from block ${fromBlock} to ${toBlock}; ${internal}`
}

function gasOf({ gas, delegate, sponsors, name }: DescribedNetwork): string {
  if (gas === 'self') return 'self: people pay'
  const text =
    gas === 'topup'
      ? 'topup: a sponsor sends people what their write needs'
      : `sponsor: a sponsor sends what people sign${delegate === 'calibur' ? ', accounts delegate to Calibur' : ''}`
  return sponsors === 0
    ? `${text}; it has none: chatelaine sponsor create NAME --network ${name}`
    : `${text}; sponsors: ${sponsors}`
}

const topUpFacts = ({ gas, topUpContracts }: DescribedNetwork): [string, string[]] => [
  'Sent by accounts',
  [
    gas === 'sponsor'
      ? 'topped up, writes to these addresses:'
      : 'once the gas is `sponsor`, writes to these addresses:',
    ...topUpContracts,
  ],
]

const sponsorFacts = ({ sponsorPerDay, sponsorLow, sponsorSpent }: DescribedNetwork): [string, string][] => [
  [
    'Sponsors spent',
    `${sponsorSpent} wei in 24 hours${sponsorPerDay === null ? ', as much as applications may' : ` of ${sponsorPerDay}`}`,
  ],
  ['Sponsor is low', sponsorLow === null ? 'below what a hundred top-ups cost' : `below ${sponsorLow} wei`],
]

const owedFacts = ({ owedDelegations }: DescribedNetwork): [string, string] => [
  'Owed delegations',
  owedDelegations === null
    ? 'not known: the role of this database may not look, chatelaine database roles'
    : `${owedDelegations} accounts: their next write needs a sponsor, its space and a budget`,
]

function backfillOf({ backfill, backfillProgress }: DescribedNetwork): string[] {
  if (backfillProgress === null && backfill === null) return ['nothing was counted yet']
  return [
    ...(backfillProgress === null ? [] : progressOf(backfillProgress)),
    ...(backfill === null ? [] : [groupOf(backfill, { isTold: (backfillProgress?.waiting ?? 0) > 0 })]),
  ]
}

function progressOf({
  waiting,
  asked,
  covered,
  countedAt,
  blocksPerSecond,
  doneAt,
  waitsFor,
}: NonNullable<KnownNetwork['backfillProgress']>): string[] {
  const counts = `${waiting} accounts wait (${asked} asked for), ${covered} have theirs; counted ${countedAt}`
  if (waiting === 0) return [counts]
  const rate = blocksPerSecond === null ? 'rate unknown' : `${blocksPerSecond.toPrecision(3)} blocks a second`
  return [counts, waitsFor === null ? `${rate}; done ${doneAt ?? 'at an unknown time'}` : `waits: ${waitsFor}`]
}

/** @param isTold  what it waits for is said already */
function groupOf(
  { accounts, nextBlock, toBlock, blockedBy }: NonNullable<KnownNetwork['backfill']>,
  { isTold }: { isTold: boolean },
): string {
  const place = `${accounts} accounts, block ${nextBlock} of ${toBlock}`
  return blockedBy === null || isTold ? place : `${place}; blocked: ${blockedBy}`
}

const nodesOf = ({ nodes }: DescribedNetwork): string => (nodes === 0 ? 'from the settings' : String(nodes))
const servedOf = ({ isServed }: DescribedNetwork): string => (isServed === undefined ? '-' : isServed ? 'yes' : 'no')
const refusal = (details: string[]): AppError =>
  new AppError('invalid_request', details.join(' '), { errors: details.map((detail) => ({ code: 'invalid', detail })) })
const collect = (value: string, before: string[] | undefined): string[] => [...(before ?? []), value]
