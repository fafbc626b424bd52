import assert from 'node:assert/strict'
import { explainAddress } from '../abi/address.ts'
import type { Chain } from '../chain/network.ts'
import { closeChain, openChain } from '../chain/open.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import type { Config } from '../config.ts'
import type { Hex } from '../ids.ts'
import { readNativeDecimals } from '../native-decimals.ts'
import type { RootDb } from '../store/db.ts'
import type { Telemetry } from '../telemetry.ts'
import type { NetworkFacts } from './network-facts.ts'
import type { StoredFacts } from './wire.ts'
import { bindNetwork, checkNetwork, explorerOf, readNetworks, templatesAt } from './networks.ts'
import { isOpenToAll, readNodes } from './nodes-file.ts'
import { every, type Clock } from '../clock.ts'

/**
 * A network to serve. If it has no chain id, that of its node counts. `isStored`: its facts are from the database, where
 * an operator may have changed them since.
 */
export type NetworkToOpen = Omit<NetworkFacts, 'chainId'> & {
  chainId: number | undefined
  rpcUrls: readonly string[]
  isStored?: true
}

export type NetworkContext = { db: RootDb; config: NetworkSettings; telemetry: Telemetry; origin: string; clock: Clock }

/** The settings of one network, which are also the defaults of the others. */
export type NetworkSettings = Pick<Config, (typeof NETWORK_KEYS)[number]>
export const NETWORK_KEYS = [
  'NETWORK_NAME',
  'NETWORK_CHAIN_ID',
  'NETWORK_SYMBOL',
  'NETWORK_COIN',
  'NATIVE_DECIMALS',
  'NETWORK_EXPLORER',
  'NETWORK_FINALITY',
  'FEE_CAP_GWEI',
  'TIP_CAP_GWEI',
  'BLOCK_VERIFICATION',
  'NETWORK_GAS',
  'NETWORK_GAS_SPACE',
  'NETWORK_DELEGATE',
  'NETWORK_TOPUP_CONTRACTS',
  'NETWORK_SPONSOR_PER_DAY_WEI',
  'NETWORK_SPONSOR_LOW_WEI',
  'NETWORK_PAGES_PER_USER_WEI',
  'NETWORK_PAGES_PER_DAY_WEI',
] as const satisfies (keyof Config)[]

const RETRY_EVERY_MS = 5_000
/**
 * A network that could not be served is checked again after this, in milliseconds: early responses of a node may
 * change.
 */
const LOOK_AGAIN_EVERY_MS = 60_000

/** Returns the networks of this database that have nodes in NETWORKS_FILE. */
export async function storedNetworks(
  { db, config, telemetry }: Pick<NetworkContext, 'db' | 'config'> & { telemetry: Pick<Telemetry, 'log'> },
  file: string,
): Promise<(NetworkToOpen & { name: string })[]> {
  const nodes = await readNodes(file)
  if (await isOpenToAll(file)) telemetry.log.warn('networks_file_open_to_all', {})
  const known = await readNetworks(db)
  for (const name of Object.keys(nodes))
    if (!known.some((one) => one.name === name)) telemetry.log.warn('nodes_of_unknown_network', { network: name })
  return known.flatMap((listed) => {
    // It is read where it is used.
    const { backfillFrom: _, ...facts } = listed
    const rpcUrls = nodes[facts.name]
    if (rpcUrls !== undefined) return [{ ...facts, rpcUrls, isStored: true as const }]
    const isElsewhere = facts.name === config.NETWORK_NAME
    if (!isElsewhere) telemetry.log.warn('network_without_nodes', { network: facts.name })
    return []
  })
}

/** Returns the network of RPC_URL and NETWORK_…. */
export const settingsNetwork = (
  config: NetworkSettings,
  rpcUrls: readonly string[],
): NetworkToOpen & { name: string } => ({
  rpcUrls,
  chainId: config.NETWORK_CHAIN_ID,
  name: config.NETWORK_NAME,
  symbol: config.NETWORK_SYMBOL,
  coin: config.NETWORK_COIN,
  explorer: config.NETWORK_EXPLORER === undefined ? null : templatesAt(config.NETWORK_EXPLORER),
  finality: config.NETWORK_FINALITY === 'finalized' ? 'finalized' : Number(config.NETWORK_FINALITY),
  blockVerification: null,
  feeCapGwei: null,
  gas: config.NETWORK_GAS,
  gasSpace: (config.NETWORK_GAS_SPACE as Hex | undefined) ?? null,
  delegate: config.NETWORK_DELEGATE,
  topUpContracts: readContracts(config),
  sponsorPerDay: config.NETWORK_SPONSOR_PER_DAY_WEI?.toString() ?? null,
  sponsorLow: config.NETWORK_SPONSOR_LOW_WEI?.toString() ?? null,
  ...readPagesBudget(config),
})

/** Reads the gas budget of the account pages. @throws Error  if only one amount is set */
function readPagesBudget({
  NETWORK_PAGES_PER_USER_WEI: perUser,
  NETWORK_PAGES_PER_DAY_WEI: perDay,
}: NetworkSettings): Pick<StoredFacts, 'pagesPerUser' | 'pagesPerDay'> {
  if ((perUser === undefined) !== (perDay === undefined))
    throw new Error('Set both NETWORK_PAGES_PER_USER_WEI and NETWORK_PAGES_PER_DAY_WEI, or neither.')
  return { pagesPerUser: perUser?.toString() ?? null, pagesPerDay: perDay?.toString() ?? null }
}

/** Reads the addresses. @throws Error  naming the setting */
function readContracts({ NETWORK_TOPUP_CONTRACTS: text = '' }: NetworkSettings): Hex[] {
  const contracts = text.split(/[\s,]+/).filter((one) => one !== '')
  for (const contract of contracts) {
    const problem = explainAddress(contract)
    if (problem !== null) throw new Error(`NETWORK_TOPUP_CONTRACTS: ${contract.slice(0, 64)} ${problem.detail}`)
  }
  return contracts as Hex[]
}

/**
 * Connects to one network and binds it to its chain. Stores the facts of the settings, and never those that are from the
 * database: a newer limit of an operator would be lost.
 * @param development  of a development installation; the embedded chain may start over, and gives funds
 * @throws Error  if it is another chain; RpcUnavailable, RpcError if no node responds
 */
export async function openNetwork(
  place: NetworkContext,
  wanted: NetworkToOpen,
  development: Pick<Chain, 'faucet'> | null = null,
): Promise<Chain> {
  const faucet = development?.faucet ?? null
  const bind = wanted.isStored ? checkNetwork : bindNetwork
  return connectNetwork(place, { ...wanted, faucet, isDevelopment: development !== null }, (facts) =>
    bind(place.db, facts, { mayBegin: faucet !== null }),
  )
}

/** Connects to a network that the server has opened before. It checks the chain, and stores nothing. */
export async function openKnownNetwork(place: NetworkContext, wanted: NetworkToOpen): Promise<Chain> {
  return connectNetwork(place, { ...wanted, faucet: null }, (facts) =>
    checkNetwork(place.db, facts, { mayBegin: false }),
  )
}

async function connectNetwork(
  { config, telemetry, origin, clock }: NetworkContext,
  wanted: NetworkToOpen & Pick<Chain, 'faucet' | 'isDevelopment'>,
  check: (facts: NetworkFacts & { genesisHash: Hex }) => Promise<void>,
): Promise<Chain> {
  const nativeDecimals = readNativeDecimals(config.NATIVE_DECIMALS)
  assert(nativeDecimals !== null, 'the start checks NATIVE_DECIMALS')
  const { chain, genesisHash } = await openChain({
    ...wanted,
    nativeDecimals,
    topUpContracts: new Set((wanted.topUpContracts ?? []).map((one) => one.toLowerCase() as Hex)),
    feeCapWei: BigInt(wanted.feeCapGwei ?? config.FEE_CAP_GWEI) * 1_000_000_000n,
    tipCapWei: BigInt(config.TIP_CAP_GWEI) * 1_000_000_000n,
    verification: wanted.blockVerification ?? config.BLOCK_VERIFICATION,
    explorer: explorerOf(wanted.explorer ?? templatesAt(`${origin}/explorer`)),
    clock,
    onCall: (method, outcome, count) => telemetry.rpcCalls.inc({ method, outcome }, count),
    onNode: (position, event) => telemetry.log.warn('chain_node', { chain: wanted.name, position, event }),
  })
  try {
    await check({ ...wanted, chainId: chain.chainId, genesisHash })
    return chain
  } catch (error) {
    closeChain(chain)
    throw error
  }
}

/**
 * Opens networks concurrently into `chains`. A network whose nodes are down does not prevent a start; it is retried. A
 * network that cannot be served as its settings say is checked again each minute.
 * @returns a function that starts the retries, and returns a function that stops them
 * @throws Error  if a network is another chain than its settings say
 */
export async function openNetworks(
  place: NetworkContext,
  wanted: readonly NetworkToOpen[],
  chains: Map<number, Chain>,
  {
    retryEveryMs = RETRY_EVERY_MS,
    lookAgainEveryMs = LOOK_AGAIN_EVERY_MS,
    explain = async () => null,
  }: {
    retryEveryMs?: number
    lookAgainEveryMs?: number
    /** Returns why a network cannot be served as its settings say; null if it can. @throws RpcUnavailable */
    explain?: (chain: Chain) => Promise<string | null>
  } = {},
): Promise<(onOpened: (chain: Chain) => void) => () => Promise<void>> {
  const waiting = new Set<NetworkToOpen>()
  const refused = new Map<NetworkToOpen, { why: string; until: number }>()
  const ends = await Promise.allSettled(wanted.map(async (network) => open(network)))
  const failure = ends.find((end) => end.status === 'rejected')
  if (failure !== undefined) throw failure.reason

  async function open(network: NetworkToOpen): Promise<Chain | null> {
    try {
      const chain = await openNetwork(place, network)
      const why = await explain(chain).catch((error: unknown) => {
        closeChain(chain)
        throw error
      })
      if (why !== null) {
        closeChain(chain)
        if (refused.get(network)?.why !== why)
          place.telemetry.log.error('network_cannot_sponsor', { network: network.name, reason: why })
        refused.set(network, { why, until: place.clock.ticks() + lookAgainEveryMs })
        waiting.add(network)
        return null
      }
      refused.delete(network)
      waiting.delete(network)
      chains.set(chain.chainId, chain)
      return chain
    } catch (error) {
      if (!(error instanceof RpcUnavailable || error instanceof RpcError)) {
        waiting.delete(network)
        throw error instanceof Error && error.constructor === Error
          ? new Error(`network ${network.name}: ${error.message}`)
          : error
      }
      if (!waiting.has(network)) place.telemetry.log.warn('network_down', { network: network.name }, error)
      waiting.add(network)
      return null
    }
  }

  return (onOpened) => {
    let isStopped = false
    const rounds = every(place.clock, retryEveryMs, async () => {
      const due = [...waiting].filter((network) => (refused.get(network)?.until ?? 0) <= place.clock.ticks())
      await Promise.all(due.map(tryAgain))
    })

    async function tryAgain(network: NetworkToOpen): Promise<void> {
      try {
        const chain = await open(network)
        if (chain === null || isStopped) return
        place.telemetry.log.info('network_up', { network: network.name })
        onOpened(chain)
      } catch (error) {
        // Another chain is behind these nodes, or the database is unavailable: only this network is not served.
        place.telemetry.log.error('network_refused', { network: network.name }, error)
      }
    }

    return async () => {
      isStopped = true
      await rounds.stop()
    }
  }
}
