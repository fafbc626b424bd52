import {
  NETWORK_KEYS,
  openKnownNetwork,
  settingsNetwork,
  storedNetworks,
  type NetworkContext,
  type NetworkToOpen,
} from '../applications/open-networks.ts'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { readSome } from '../config.ts'
import { openTelemetry } from '../telemetry.ts'
import type { RootDb } from '../store/db.ts'
import { readInstallationSettings, withDatabase } from './database.ts'
import { systemClock } from '../clock.ts'
import { logTo, type Shell } from './shell.ts'

/** Parts of the program that a command uses: database, log and one network, without server, signer and follower. */
export type Installation = { app: Pick<App, 'clock' | 'db' | 'telemetry'>; chain: Chain }

export const NETWORK_OPTION = ['--network <name>', 'network; required if there are several'] as const

/**
 * Works on one network of the installation, with the server's nodes. While a server runs, this needs PostgreSQL: only
 * one process may use the embedded database.
 * @param name  undefined: the only network of the installation
 * @throws ConfigError | FolderInUse | RpcUnavailable | RpcError | Error
 */
export async function withInstallation(
  shell: Shell,
  name: string | undefined,
  work: (installation: Installation) => Promise<void>,
): Promise<void> {
  const settings = readInstallationSettings(shell.env)
  await withDatabase(settings, async (db) => {
    const { context, networks } = await describeNetworks(shell, db)
    const chain = await openKnownNetwork(context, choose(networks, name))
    try {
      await work({ app: { clock: systemClock, db, telemetry: context.telemetry }, chain })
    } finally {
      chain.rpc.close()
    }
  })
}

/** Opens the networks whose nodes respond. The caller closes them. */
export async function openReachable(shell: Shell, db: RootDb): Promise<Map<number, Chain>> {
  const { context, networks } = await describeNetworks(shell, db)
  const opened = await Promise.all(
    networks.map((network) =>
      openKnownNetwork(context, network).catch((error: unknown) => {
        context.telemetry.log.warn('network_down', { network: network.name }, error)
        return null
      }),
    ),
  )
  return new Map(opened.flatMap((chain) => (chain === null ? [] : [[chain.chainId, chain]])))
}

async function describeNetworks(
  shell: Shell,
  db: RootDb,
): Promise<{ context: NetworkContext; networks: NetworkToOpen[] }> {
  const { LOG_LEVEL, RPC_URL, ...config } = readSome(shell.env, ['LOG_LEVEL', 'RPC_URL', ...NETWORK_KEYS])
  const context = {
    db,
    config,
    telemetry: openTelemetry('command', LOG_LEVEL, logTo(shell)),
    origin: '',
    clock: systemClock,
  }
  const stored = await storedNetworks(context, readInstallationSettings(shell.env).networksFile)
  return { context, networks: [...(RPC_URL === undefined ? [] : [settingsNetwork(config, RPC_URL)]), ...stored] }
}

function choose(networks: NetworkToOpen[], name: string | undefined): NetworkToOpen {
  const names = networks.map((network) => network.name).join(', ')
  if (networks.length === 0)
    throw new Error(
      'No network has nodes in these settings. Set RPC_URL or NETWORKS_FILE as for the server. The embedded chain is available only inside the server.',
    )
  const [first, ...others] = name === undefined ? networks : networks.filter((network) => network.name === name)
  if (first === undefined) throw new Error(`No network ${name} has nodes in these settings; known networks: ${names}.`)
  if (others.length > 0) throw new Error(`Give --network, one of ${names}.`)
  return first
}
