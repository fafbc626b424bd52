import { join } from 'node:path'
import { audienceOf, issuerOf, type App } from './app.ts'
import { isOpenToAll } from './applications/nodes-file.ts'
import { listNetworks } from './applications/networks.ts'
import { accountThrough } from './auth-link/account.ts'
import { openClosers, type Opened } from './closers.ts'
import type { Config } from './config.ts'
import { openOperatorsListener } from './http/health.ts'
import { listenAt } from './http/listener.ts'
import { listenAtSocket } from './http/unix-socket.ts'
import { developmentProvider, readProviders, type ProviderSettings } from './oauth/federation/providers.ts'
import { loadKeys, publicKeys, type PrivateKeys } from './oauth/keys.ts'
import { startRevocations, type Publisher } from './oauth/revocations.ts'
import { sealKeysOf } from './oauth/seal-keys.ts'
import { openDatabase } from './open-database.ts'
import { openOperatorDoor, type OperatorDoor } from './operator/auth.ts'
import { buildServer, startAuthWorkers } from './server.ts'
import { connectSigner } from './signer-wire/client.ts'
import { recallHead } from './signing-log/keep.ts'
import { openState } from './state.ts'
import { openTelemetry } from './telemetry.ts'
import { readKnownTokens } from './tokens/known.ts'
import { every, systemClock } from './clock.ts'

/** Interval at which the networks are read again. */
const NETWORKS_MS = 30_000

/**
 * Opens the separate authorization server, which serves when this returns. It opens no node and requests no transaction
 * signatures.
 */
export async function openAuth(config: Config): Promise<{ close(): Promise<void> }> {
  const telemetry = openTelemetry('auth', config.LOG_LEVEL)
  const opened = openClosers(telemetry)
  try {
    const origin = config.PUBLIC_ORIGIN!
    const keys = await loadKeys({ ...keyFilesOf(config), create: false })
    const told = { onLost: () => {}, onWait: (ms: number) => telemetry.poolWait.observe(ms / 1_000) }
    const db = opened('database', await openDatabase(config, telemetry, told), (handle) => handle.destroy())
    const signer = opened(
      'signer connection',
      connectSigner({ path: config.SIGNER_AUTH_SOCKET!, verifierKey: config.SIGNER_KEY }),
      (to) => to.close(),
    )
    const app: App = {
      config,
      origin,
      db,
      signer,
      telemetry,
      auth: null,
      tokenKeys: publicKeys(keys),
      clock: systemClock,
      authOrigin: config.AUTH_ORIGIN!,
      sealKeys: sealKeysOf(keys.seals),
      chains: new Map(),
      networks: await openNames({ clock: systemClock, db }, opened),
      // For their pictures: everything else of tokens is read by the API.
      ...(config.KNOWN_TOKENS_FILE === undefined ? {} : { knownTokens: readKnownTokens(config.KNOWN_TOKENS_FILE) }),
      state: opened('state', openState(), (state) => state.clear()),
    }
    await recallHead(app)
    await openRevocations(app, keys, opened)
    let isDraining = false
    const auth = { keys, ...(await openAuthParts(app)), account: accountThrough(app, keys, config.API_URL) }
    const server = await buildServer(app, { auth, api: null, isDraining: () => isDraining })
    opened('workers', startAuthWorkers(app), (running) => running.stop())
    opened('server', server, () => server.close())
    const { OPS_LISTEN, HOST, PORT, AUTH_SOCKET } = config
    if (OPS_LISTEN !== undefined)
      opened('operators', await openOperatorsListener(app, OPS_LISTEN, { isDraining: () => isDraining }), (ops) => ops.close()) // prettier-ignore
    await listenAt(server, { host: HOST, port: PORT })
    opened(
      'socket',
      await listenAtSocket(server, { path: AUTH_SOCKET!, setting: 'AUTH_SOCKET', clock: app.clock }),
      (door) => door.close(),
    )
    opened('drain', null, async () => {
      isDraining = true
      await app.clock.sleep(config.DRAIN_SECONDS * 1_000)
    })
    telemetry.log.info('listening', { port: PORT, issuer: issuerOf(app), audience: audienceOf(origin) })
    return { close: opened.close }
  } catch (error) {
    await opened.close()
    throw error
  }
}

/** Reads the names of networks, and reads them again at an interval. */
async function openNames(
  { clock, db }: Pick<App, 'clock' | 'db'>,
  opened: Opened,
): Promise<ReadonlyMap<number, { name: string }>> {
  const names = new Map<number, { name: string }>()
  const read = async () => {
    const networks = await listNetworks(db)
    for (const { chainId, name } of networks) names.set(chainId, { name })
  }
  await read()
  // If a read fails, the next one retries.
  opened('networks', every(clock, NETWORKS_MS, read), (rounds) => rounds.stop())
  return names
}

/** Starts publishing the lists of revoked tokens and sends the first one. */
export async function openRevocations(app: App, keys: PrivateKeys, opened: Opened): Promise<Publisher> {
  const publisher = opened('revocations', startRevocations(app, keys), (running) => running.stop())
  // An unavailable signer gets the list later. It logs the outage, and /readyz reports it.
  await publisher.publish().catch(() => {})
  return publisher
}

/** Opens the identity providers with their secrets, and the operator tokens by their hashes. */
export async function openAuthParts({
  config,
  authOrigin,
  telemetry,
}: Pick<App, 'config' | 'authOrigin' | 'telemetry'>): Promise<{
  providers: ProviderSettings[]
  operator: OperatorDoor | null
}> {
  const isDevelopment = config.NODE_ENV !== 'production'
  if (config.PROVIDERS_FILE !== undefined && (await isOpenToAll(config.PROVIDERS_FILE)))
    telemetry.log.warn('providers_file_open_to_all', {})
  const providers = [
    ...(config.PROVIDERS_FILE === undefined ? [] : readProviders(config.PROVIDERS_FILE, { allowsHttp: isDevelopment })),
    ...(isDevelopment ? [developmentProvider(authOrigin)] : []),
  ]
  return { providers, operator: await openOperatorDoor(config) }
}

/** Returns the paths of the authorization server keys, private and public. */
export function keyFilesOf({ AUTH_KEYS_FILE, AUTH_JWKS_FILE, DATA_DIR }: Config): {
  keysFile: string
  jwksFile: string
} {
  const keysFile = AUTH_KEYS_FILE ?? join(DATA_DIR, 'auth-keys.json')
  return { keysFile, jwksFile: AUTH_JWKS_FILE ?? `${keysFile.replace(/\.json$/, '')}.public.json` }
}
