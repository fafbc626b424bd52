import { join } from 'node:path'
import type { App } from '../app.ts'
import { explorerAt, type Chain } from '../chain/network.ts'
import { openChain } from '../chain/open.ts'
import { readConfig } from '../config.ts'
import type { Hex } from '../ids.ts'
import { openEmbedded, openPostgres } from '../store/db.ts'
import { lockFolder } from '../store/folder-lock.ts'
import { migrate } from '../store/migrate.ts'
import { openTelemetry } from '../telemetry.ts'

/** What a command needs of the program: settings, database and node, without server, signer and follower. */
export type Installation = { app: App; chain: Chain; close(): Promise<void> }

/**
 * Opens the installation that the environment describes, as the server would. Beside a running server this needs
 * PostgreSQL: the embedded database lets one process in.
 * @throws ConfigError | FolderInUse | Error
 */
export async function openInstallation(env: NodeJS.ProcessEnv): Promise<Installation> {
  const config = readConfig(env, 'server')
  if (config.RPC_URL === undefined) throw new Error('RPC_URL is missing: the embedded chain runs inside the server.')
  const telemetry = openTelemetry('command', config.LOG_LEVEL)
  const closers: (() => Promise<void> | void)[] = []
  const close = async () => {
    for (const end of closers.toReversed()) await end()
  }
  try {
    if (config.DATABASE_URL === undefined) closers.push(await lockFolder(config.DATA_DIR))
    const onError = (error: Error) => telemetry.log.warn('database_connection_lost', {}, error)
    const db =
      config.DATABASE_URL === undefined
        ? await openEmbedded({ dir: join(config.DATA_DIR, 'db') })
        : await openPostgres({ url: config.DATABASE_URL, pool: 4, onError })
    closers.push(() => db.destroy())
    await migrate(db)
    const { chain } = await openChain({
      rpcUrls: config.RPC_URL,
      chainId: config.NETWORK_CHAIN_ID,
      name: config.NETWORK_NAME,
      symbol: config.NETWORK_SYMBOL,
      coin: config.NETWORK_COIN,
      decimals: config.NETWORK_DECIMALS,
      finality: config.NETWORK_FINALITY === 'finalized' ? 'finalized' : Number(config.NETWORK_FINALITY),
      feeCapWei: BigInt(config.FEE_CAP_GWEI) * 1_000_000_000n,
      multicall3: (config.MULTICALL3 as Hex | undefined) ?? null,
      explorer: explorerAt(config.NETWORK_EXPLORER ?? ''),
      faucet: null,
      now: () => Date.now(),
      onCall: () => {},
    })
    closers.push(() => chain.rpc.close())
    const chains = new Map([[chain.chainId, chain]])
    // No server and no signer: commands neither answer requests nor send transactions.
    const app = { config, origin: '', db, chains, telemetry, now: () => Date.now() } as unknown as App
    return { app, chain, close }
  } catch (error) {
    await close()
    throw error
  }
}
