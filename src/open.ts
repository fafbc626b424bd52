import { rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { audienceOf, issuerOf, type App } from './app.ts'
import {
  openNetwork,
  openNetworks,
  settingsNetwork,
  storedNetworks,
  type NetworkContext,
} from './applications/open-networks.ts'
import { saveApplication } from './applications/registry.ts'
import type { Chain } from './chain/network.ts'
import { closeChain } from './chain/open.ts'
import { connectAuth } from './auth-link/connect.ts'
import { openClosers } from './closers.ts'
import type { Config } from './config.ts'
import { openEmbeddedChain, writeFacts, type DevelopmentFacts, type EmbeddedChain } from './devnet/development.ts'
import { startSigner } from './devnet/signer.ts'
import { lockFolder } from './folder-lock.ts'
import { openOperatorsListener } from './http/health.ts'
import { listenAt } from './http/listener.ts'
import { issueToken } from './oauth/issue.ts'
import { loadKeys, publicKeys, readPublicKeys } from './oauth/keys.ts'
import { sealKeysOf } from './oauth/seal-keys.ts'
import type { Publisher } from './oauth/revocations.ts'
import { keyFilesOf, openAuthParts, openRevocations } from './open-auth.ts'
import { openDatabase } from './open-database.ts'
import type { IssueToken } from './operator/routes.ts'
import { buildServer, startAuthWorkers, startWorkers } from './server.ts'
import { connectSigner } from './signer-wire/client.ts'
import { recallHead } from './signing-log/keep.ts'
import { toHex } from './hex.ts'
import { createSponsor } from './sponsors/create.ts'
import { explainSponsoring } from './transactions/sponsors/probe-sponsor.ts'
import { tellMissingSponsors } from './sponsors/sponsors.ts'
import { sponsorFaults } from './sponsors/watch.ts'
import { isOwn } from './secret-file.ts'
import { openState } from './state.ts'
import { watchWrites } from './store/away.ts'
import type { RootDb } from './store/db.ts'
import { assertNarrow } from './store/roles.ts'
import { openTelemetry, type Telemetry } from './telemetry.ts'
import { askTokens } from './tokens/ask.ts'
import { readKnownTokens, type ListedToken, type ListedTokens } from './tokens/known.ts'
import { systemClock } from './clock.ts'

export type OpenedProgram = {
  app: App
  /** in development mode only */
  development: Announced | null
  /** Resolves when the signal is aborted; rejects if something that the program needs has ended. */
  untilOver(signal: AbortSignal): Promise<void>
  /** Closes everything in reverse order. */
  close(): Promise<void>
}

type Announced = { facts: DevelopmentFacts; isEmbedded: boolean; issueToken: IssueToken }

/** The context in which networks are opened, with all settings. */
type Here = NetworkContext & { config: Config }

const DEMO = 'demo'
const ONE_COIN = 10n ** 18n
const HOUSE = 'HOUSE'
const HOUSE_WEI = 1_000_000n * ONE_COIN

/** Opens everything and starts serving. It is ready when this returns. */
export async function open(config: Config): Promise<OpenedProgram> {
  const clock = systemClock
  const isDevelopment = config.NODE_ENV !== 'production'
  const telemetry = openTelemetry('server', config.LOG_LEVEL)
  const opened = openClosers(telemetry)
  try {
    if (isDevelopment || config.DATABASE_URL === undefined)
      opened('lock', lockFolder(config.DATA_DIR), (unlock) => unlock())
    // The file of the last run may name another port or another chain.
    if (isDevelopment) await rm(join(config.DATA_DIR, 'dev.json'), { force: true })
    const port = await freePort(config)
    const origin = config.PUBLIC_ORIGIN ?? `http://localhost:${port}`
    const authOrigin = config.AUTH_ORIGIN ?? origin
    const { keysFile, jwksFile } = keyFilesOf(config)
    const { AUTH_SOCKET: authSocket } = config
    // A separate authorization server shares only its public keys.
    const keys = authSocket === undefined ? await loadKeys({ keysFile, jwksFile, create: isDevelopment }) : null
    const published = keys === null ? await readPublicKeys(jwksFile) : { ...publicKeys(keys), seals: keys.seals }
    const link =
      authSocket === undefined
        ? null
        : opened('authorization server', connectAuth(authSocket, clock), (to) => to.close())

    let databaseWasAway = () => {}
    let longestWaitMs = 0
    const onWait = (ms: number) => {
      telemetry.poolWait.observe(ms / 1_000)
      longestWaitMs = Math.max(longestWaitMs, ms)
    }
    const writes = watchWrites(clock.ticks)
    const observers = { onLost: () => databaseWasAway(), onWait, onFailure: writes.failed }
    const [db, embedded, socket] = await allOpened([
      openDatabase(config, telemetry, observers).then((handle) => opened('database', handle, () => handle.destroy())),
      // In production an embedded chain would be one more thing that can fail.
      isDevelopment && config.RPC_URL === undefined
        ? openEmbeddedChain({
            dir: config.DATA_DIR,
            port: config.CHAIN_PORT,
            blockSeconds: config.CHAIN_BLOCK_SECONDS,
            log: telemetry.log,
          }).then((chain) => opened('chain', chain, () => chain.stop()))
        : null,
      config.SIGNER_SOCKET ??
        startSigner({
          dataDir: config.DATA_DIR,
          jwksFile,
          issuer: issuerOf({ authOrigin }),
          audience: audienceOf(origin),
          logLevel: config.LOG_LEVEL,
          keyExport: { isOn: config.KEY_EXPORT === 'on', delaySeconds: config.SIGNER_EXPORT_DELAY_SECONDS },
          log: telemetry.log,
        }).then((signer) => opened('signer', signer, () => signer.stop()).socket),
    ])
    if (!isDevelopment) await warnOfOneUser(socket, telemetry)
    if (link !== null) await assertNarrow(db)
    let revocations: Publisher | null = null
    const renewRevocations = async () => (link === null ? revocations?.publish() : link.publishRevocations())
    const signer = opened(
      'signer connection',
      connectSigner({ path: socket, renewRevocations, verifierKey: config.SIGNER_KEY }),
      (client) => client.close(),
    )
    const chains = opened('nodes', new Map<number, Chain>(), (open) => open.forEach(closeChain))
    const place: Here = { config, db, telemetry, origin, clock }
    const main = isDevelopment ? await openMain(place, embedded) : null
    if (main !== null) chains.set(main.chainId, main)
    const keepTrying = await openOthers(place, chains)

    const app: App = {
      config,
      origin,
      authOrigin,
      db,
      chains,
      networks: chains,
      signer,
      auth: link,
      telemetry,
      state: opened('state', openState(), (state) => state.clear()),
      tokenKeys: { keys: published.keys },
      sealKeys: sealKeysOf(published.seals),
      knownTokens: await listKnownTokens(config, main, embedded),
      clock,
      writesRefused: writes.recent,
      poolWaitMs: () => {
        const ms = longestWaitMs
        longestWaitMs = 0
        return ms
      },
    }
    if (main !== null) await registerDemo(app, main)
    await recallHead(app)
    if (main !== null && embedded !== null && main.gas !== 'self') await openHouse(app, main, embedded)
    const why = main && (await explainUnsponsored(main))
    if (why !== null) throw new Error(`sponsors cannot submit operations on ${main!.name}: ${why}`)
    if (keys !== null) revocations = await openRevocations(app, keys, opened)
    const auth = keys === null ? null : { keys, ...(await openAuthParts(app)), account: null }

    let isDraining = false
    const explored =
      main === null || config.NETWORK_EXPLORER !== undefined
        ? null
        : { chain: main, rpcUrl: embedded?.rpcUrl ?? config.RPC_URL![0]! }
    const server = await buildServer(app, { auth, api: { explored }, isDraining: () => isDraining })
    if (auth !== null) opened('workers of sign-in', startAuthWorkers(app), (running) => running.stop())
    // Opened before the server, so closed after it: requests that wait for a block still get theirs.
    const workers = opened('workers', startWorkers(app), (running) => running.stop())
    databaseWasAway = workers.databaseWasAway
    opened(
      'networks',
      keepTrying((chain) => workers.serve(chain)),
      (stop) => stop(),
    )
    opened('server', server, () => server.close())
    if (config.OPS_LISTEN !== undefined)
      opened(
        'operators',
        await openOperatorsListener(app, config.OPS_LISTEN, {
          isDraining: () => isDraining,
          sponsorFaults: (chainId) => sponsorFaults(app, chainId),
        }),
        (ops) => ops.close(),
      )
    // Before listening: a client that waits for /readyz finds the file.
    const facts = main === null ? null : await announce(app, main, embedded)
    await tellMissingSponsors(app)
    await listenAt(server, { host: config.HOST, port })
    // Report not ready first, so that a load balancer stops sending before the server stops accepting.
    opened('drain', null, async () => {
      isDraining = true
      await clock.sleep(config.DRAIN_SECONDS * 1_000)
    })
    telemetry.log.info('listening', { port, networks: [...chains.keys()].join(' ') })

    const development =
      facts === null
        ? null
        : {
            facts,
            isEmbedded: embedded !== null,
            issueToken: (request: Parameters<IssueToken>[0]) => issueToken(app, keys!, request),
          }
    await main?.head.waitFor(0, 10_000)
    return { app, development, untilOver: (signal) => untilOver(signal, embedded), close: opened.close }
  } catch (error) {
    await opened.close()
    throw error
  }
}

/** Warns if server and signer run as one OS user: each can then read the other's files, keys included. */
async function warnOfOneUser(socket: string, { log }: Telemetry): Promise<void> {
  if (await isOwn(socket))
    log.warn('signer_not_separated', { hint: 'server and signer run as one user: give each its own' })
}

/** Waits for all, even if one fails: only what is known to be open can be closed. */
async function allOpened<T extends readonly unknown[]>(
  opening: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(opening)
  return Promise.all(opening) as Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }>
}

/** Opens the network of a development installation: the embedded chain, or the network of RPC_URL. */
async function openMain(place: Here, embedded: EmbeddedChain | null): Promise<Chain> {
  const { config, db, telemetry } = place
  const ofEmbedded = embedded === null ? null : [embedded.rpcUrl, embedded.rpcUrl.replace(/^http/, 'ws')]
  const settings = settingsNetwork(config, ofEmbedded ?? config.RPC_URL!)
  // The embedded chain has a space and a sponsor with ample funds. Both serve as defaults.
  const wanted =
    embedded === null
      ? settings
      : {
          ...settings,
          gasSpace: settings.gasSpace ?? embedded.space,
          pagesPerUser: settings.pagesPerUser ?? String(ONE_COIN),
          pagesPerDay: settings.pagesPerDay ?? String(1_000n * ONE_COIN),
        }
  if (embedded === null) return openNetwork(place, wanted, { faucet: null })
  const chain = await openNetwork(place, wanted, { faucet: (address) => embedded.faucet(address) })
  // If a sponsor pays, accounts get only what a write needs, when it needs it.
  const refilled = wanted.gas !== 'self' ? Promise.resolve() : refillAccounts(db, embedded, telemetry)
  await refilled.catch((error: unknown) => {
    closeChain(chain)
    throw error
  })
  return chain
}

/**
 * Opens the networks that may be unavailable while others are served. In production this includes the network of
 * RPC_URL.
 */
async function openOthers(place: Here, chains: Map<number, Chain>): ReturnType<typeof openNetworks> {
  const { config } = place
  const fromSettings =
    config.NODE_ENV === 'production' && config.RPC_URL !== undefined ? [settingsNetwork(config, config.RPC_URL)] : []
  const stored = await storedNetworks(place, config.NETWORKS_FILE ?? join(config.DATA_DIR, 'networks.json'))
  const taken = config.RPC_URL !== undefined || config.NODE_ENV !== 'production' ? config.NETWORK_NAME : null
  if (stored.some(({ name }) => name === taken))
    throw new Error(`the network ${taken} has nodes in NETWORKS_FILE and in RPC_URL: remove one of them`)
  if (chains.size + fromSettings.length + stored.length === 0)
    throw new Error('there is no network to serve: add one with `chatelaine network add`, or set RPC_URL')
  return openNetworks(place, [...fromSettings, ...stored], chains, { explain: explainUnsponsored })
}

/** Creates the sponsor of the embedded chain, with ample funds. */
async function openHouse(app: App, { chainId }: Chain, embedded: EmbeddedChain): Promise<void> {
  const { address } = await createSponsor(app, { name: HOUSE, chainId })
  await embedded.fund(address, HOUSE_WEI)
  await embedded.allowSponsor(address)
}

/**
 * Returns why sponsors cannot send users' operations on a network with gas mode `sponsor`; null if they can, or need
 * not.
 * @throws RpcUnavailable
 */
const explainUnsponsored = async (chain: Chain): Promise<string | null> =>
  chain.gas === 'sponsor' ? explainSponsoring(chain) : null

/** Funds the newest 1,000 accounts again: an embedded chain that crashed has lost the funding of its last seconds. */
async function refillAccounts(db: RootDb, embedded: EmbeddedChain, { log }: Telemetry): Promise<void> {
  const accounts = await db
    .selectFrom('accounts')
    .select('address')
    .orderBy('created_at', 'desc')
    .limit(1_000)
    .execute()
  await Promise.all(
    accounts.map(({ address }) =>
      embedded.faucet(toHex(address)).catch((error: unknown) => log.warn('faucet_failed', {}, error)),
    ),
  )
}

/** Registers the demo application: public, any redirect on loopback, all permissions of its user. */
async function registerDemo(app: App, { chainId }: Chain): Promise<void> {
  const loopback = ['http://localhost', 'http://127.0.0.1', 'http://[::1]']
  await saveApplication(app, {
    clientId: DEMO,
    name: 'Demo application',
    chainId,
    kind: 'public',
    redirectUris: loopback.map((origin) => `${origin}/*`),
    permissions: ['wallet:read', 'contracts:read', 'contracts:write', 'messages:sign', 'events:read'],
    allowedOrigins: loopback,
    secretHashes: [],
    logoUri: null,
    isSuspended: false,
    sponsor: { perUser: ONE_COIN, perApplication: 1_000n * ONE_COIN, contracts: null },
  })
}

/** Returns the tokens of KNOWN_TOKENS_FILE and the sample tokens of the embedded chain. */
async function listKnownTokens(
  { KNOWN_TOKENS_FILE: file, NODE_ENV }: Config,
  main: Chain | null,
  embedded: EmbeddedChain | null,
): Promise<ListedTokens> {
  const listed = file === undefined ? [] : readKnownTokens(file, { allowsHttp: NODE_ENV !== 'production' })
  if (main === null || embedded === null) return new Map(listed)
  const { erc20, erc721, erc1155 } = embedded.contracts
  const samples = await askTokens(main, [erc20, erc721, erc1155], 'latest')
  return new Map<string, ListedToken>([
    ...[erc20, erc721, erc1155].map((address, index) => [`${main.chainId}:${address.toLowerCase()}`, samples[index]!.facts] as const), // prettier-ignore
    ...listed,
  ])
}

/** Writes DATA_DIR/dev.json. */
async function announce(app: App, chain: Chain, embedded: EmbeddedChain | null): Promise<DevelopmentFacts> {
  const facts = {
    origin: app.origin,
    baseUrl: audienceOf(app.origin),
    issuer: issuerOf(app),
    rpcUrl: embedded?.rpcUrl ?? app.config.RPC_URL![0]!,
    chainId: chain.chainId,
    clientId: DEMO,
    contracts: embedded?.contracts ?? { erc20: null, erc721: null, erc1155: null, multicall3: null },
  }
  await writeFacts(app.config.DATA_DIR, facts)
  return facts
}

async function untilOver(signal: AbortSignal, embedded: EmbeddedChain | null): Promise<void> {
  const asked = new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
  const ended = embedded?.exited.then(() => {
    if (!signal.aborted) throw new Error('the embedded chain exited; start again to continue')
  })
  await Promise.race([asked, ...(ended === undefined ? [] : [ended])])
}

/**
 * Returns PORT, or a free port if PORT is 0. The port must be known before anything is opened, because it is part of
 * the origin.
 * @throws the system's error if PORT cannot be listened on
 */
async function freePort({ PORT, HOST }: Pick<Config, 'PORT' | 'HOST'>): Promise<number> {
  const probe = createServer()
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  probe.once('error', reject)
  probe.listen(PORT, HOST, () => {
    const address = probe.address()
    probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : PORT))
  })
  return promise
}
