import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { importJWK, SignJWT } from 'jose'
import { sql } from 'kysely'
import { encodeFunctionData, parseAbi } from 'viem'
import { accountIdOf, type Hex } from '../../src/ids.ts'
import { newKeys, publicKeys, type PrivateKeys } from '../../src/oauth/keys.ts'
import { connectSigner } from '../../src/signer-wire/client.ts'
import { fromHex } from '../../src/hex.ts'
import { openEmbedded, openPostgres, retrying, type RootDb } from '../../src/store/db.ts'
import { migrate } from '../../src/store/migrate.ts'
import { emptyPostgres, migratedFolder } from '../kit/database.ts'
import { TESTED_DELEGATE } from '../delegate.ts'
import { age } from '../lost-tail.ts'
import { startFaultyNode, type FaultyNode } from '../nodes/faulty-node.ts'
import { supervise, type Supervised } from './processes.ts'
import { freePort } from '../kit/ports.ts'
import { tearConnections, type TornDatabase } from './torn-database.ts'

export const PROJECT = join(import.meta.dirname, '../..')
const ORIGIN = 'http://localhost:4000'
const CHAIN_ID = 31_337
/** blocks mined before anything is proven: no reorganisation goes below them, so the accounts keep their coins */
export const QUIET_BLOCKS = 80
/** blocks; more than the deepest reorganisation */
const FINALITY = 72

/** wei that every account has before anything is proven */
export const COINS = 1_000n * 10n ** 18n
/** and units of the token */
export const TOKENS = 10n ** 30n
/**
 * wei that the contract has: its first payment takes more gas than the margin of an estimate, so after a reorganisation one
 * that was estimated after others could be the first, and fail
 */
const PAID = 1n

export type Account = { name: string; address: Hex; token: string }
export type Server = Supervised & { url: string }

/** The product as processes: signer, replicas on one database, a faulty node in front of a real chain. */
export type ChaosWorld = {
  node: FaultyNode
  probe: Hex
  /** a token that every account has some of */
  token: Hex
  accounts: Account[]
  servers: Server[]
  signer: Supervised
  /** the newest block before anything is proven */
  firstBlock: number
  /** blocks after which one is final */
  finality: number
  /** wei per gas that no offer may be above */
  feeCapWei: bigint
  /** what the harness sent in an account's name, with the account's own key, past the service */
  foreign: Set<Hex>
  /** of these, those after which an operator let the account go on */
  resumed: Set<Hex>
  /** wei that the harness gave to an account, or took, beside the chain's transactions */
  given: Map<Hex, bigint>
  /** the harness's own way to the database; null for the embedded one, which lets one process in */
  db: RootDb | null
  /** the way between the servers and the database; null for the embedded one */
  torn: TornDatabase | null
  signerDir: string
  folder: string
  roll: () => number
  /** makes everything in the database that many seconds older: what waits for its time gets its turn */
  age(seconds: number): Promise<void>
  /** reads the service's tables; the embedded database lets nobody in beside the server, which is started again after it */
  reading<T>(work: (db: RootDb) => Promise<T>): Promise<T>
  close(): Promise<void>
}

export type WorldOptions = {
  roll: () => number
  replicas: number
  accounts: number
  /** PostgreSQL cluster, or null for the embedded database */
  cluster: string | null
  /** an empty database of the caller's own instead: the harness's way to it, and what the servers are told */
  database?: { url: string; servers: string }
  /** folder that holds src/: the project, or a copy of it that was made worse */
  home?: string
  settings?: Record<string, string>
  /** before there is a server: what else the chain and the signer hold, what servers are told of it, and what the database has */
  prepare?: (place: { node: FaultyNode; socket: string; accounts: Account[] }) => Promise<Prepared>
}

export type Prepared = { settings: Record<string, string>; fill(db: RootDb): Promise<void> }

export async function chaosWorld(options: WorldOptions): Promise<ChaosWorld> {
  const closers: (() => unknown)[] = []
  const close = async () => {
    for (const one of closers.splice(0)) await one()
  }
  try {
    return await assemble(options, closers, close)
  } catch (error) {
    await close()
    throw error
  }
}

async function assemble(
  { roll, replicas, accounts: many, cluster, database, home = PROJECT, settings = {}, prepare }: WorldOptions,
  closers: (() => unknown)[],
  close: () => Promise<void>,
): Promise<ChaosWorld> {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-proof-'))
  closers.unshift(() => rm(folder, { recursive: true, force: true }))
  const keys = newKeys()
  const keysFile = join(folder, 'auth-keys.json')
  await writeFile(keysFile, JSON.stringify(keys), { mode: 0o600 })
  await writeFile(join(folder, 'auth-keys.public.json'), JSON.stringify(publicKeys(keys)))

  const node = await startFaultyNode(roll)
  closers.unshift(() => node.stop())
  const signerDir = join(folder, 'store')
  const socket = join(folder, 'signer.sock')
  const signer = supervise({
    name: 'signer',
    file: join(home, 'src/signer/main.ts'),
    args: ['--development'],
    cwd: home,
    readyWhen: /ready/,
    env: {
      NODE_ENV: 'test',
      LOG_LEVEL: 'warn',
      SIGNER_SOCKET: socket,
      SIGNER_DIR: signerDir,
      SIGNER_KEK_FILE: join(folder, 'kek'),
      SIGNER_JWKS_FILE: join(folder, 'auth-keys.public.json'),
      SIGNER_ISSUER: `${ORIGIN}/oauth`,
      SIGNER_AUDIENCE: `${ORIGIN}/v1`,
      ...(TESTED_DELEGATE === 'calibur' ? { SIGNER_CALIBUR: 'on' } : {}),
    },
  })
  closers.unshift(() => signer.stop())
  const [[probe, token]] = await Promise.all([deployContracts(node), signer.ready()])

  const accounts = await makeAccounts(many, { socket, keys, node })
  await giveTokens(node, token, accounts)
  const prepared = await prepare?.({ node, socket, accounts })
  await node.anvil.rpc('anvil_mine', `0x${QUIET_BLOCKS.toString(16)}`)

  const firstBlock = Number(await node.anvil.rpc<Hex>('eth_blockNumber'))

  const store =
    database === undefined
      ? await openStore(cluster, { folder, accounts })
      : await useStore(database, { folder, accounts })
  if (prepared !== undefined) await store.filled(prepared.fill)
  closers.unshift(() => store.close())
  const servers = await Promise.all(
    Array.from({ length: replicas }, async (_, index): Promise<Server> => {
      const port = await freePort()
      const dataDir = store.url === null ? store.dataDir : join(folder, `replica-${index}`)
      await mkdir(dataDir, { recursive: true })
      const server = supervise({
        name: `server ${index}`,
        file: join(home, 'src/main.ts'),
        cwd: home,
        readyWhen: /\n/,
        env: {
          NODE_ENV: 'test',
          LOG_LEVEL: 'warn',
          PORT: String(port),
          DEVELOPMENT_OPEN_TO: 'everyone',
          PUBLIC_ORIGIN: ORIGIN,
          DATA_DIR: dataDir,
          RPC_URL: node.url,
          NETWORK_CHAIN_ID: String(CHAIN_ID),
          NETWORK_FINALITY: String(FINALITY),
          SIGNER_SOCKET: socket,
          AUTH_KEYS_FILE: keysFile,
          RATE_LIMITS: 'off',
          FOLLOW_INTERVAL_MS: '50',
          ...(store.url === null ? {} : { DATABASE_URL: store.url }),
          ...settings,
          ...prepared?.settings,
        },
      })
      closers.unshift(() => server.stop())
      return Object.assign(server, { url: `http://127.0.0.1:${port}` })
    }),
  )
  await Promise.all(servers.map((server) => server.ready()))
  return {
    ...{ node, probe, token, accounts, servers, signer, signerDir, folder, roll, close },
    ...{
      db: store.db,
      torn: store.torn,
      firstBlock,
      finality: FINALITY,
      foreign: new Set(),
      resumed: new Set(),
      given: new Map([[probe, PAID]]),
    },
    feeCapWei: BigInt(settings.FEE_CAP_GWEI ?? 1_000) * 10n ** 9n,
    reading: async (work) => {
      if (store.db !== null) return work(store.db)
      const [server] = servers
      server!.hold()
      server!.signal('SIGTERM')
      await server!.gone()
      const db = await openEmbedded({ dir: join(store.dataDir, 'db') })
      try {
        return await work(db)
      } finally {
        await db.destroy()
        server!.goOn()
        await server!.ready()
      }
    },
    age: async (seconds) => {
      if (store.db === null) throw new Error('the embedded database has no second door')
      const by = sql`${`${seconds} seconds`}::interval`
      // The whole tables, in no order that the program locks them in: where they meet, one of them is told to begin again.
      await retrying(() => age({ db: store.db! }, seconds))
      await retrying(() =>
        sql`update attempts set created_at = created_at - ${by}, broadcast_at = broadcast_at - ${by}`.execute(
          store.db!,
        ),
      )
    },
  }
}

/** Accounts with keys in the signer, coins on the chain and a token that every replica and the signer believe. */
async function makeAccounts(
  many: number,
  { socket, keys, node }: { socket: string; keys: PrivateKeys; node: FaultyNode },
): Promise<Account[]> {
  const client = connectSigner({ path: socket, timeoutMs: 60_000 })
  const signing = keys.keys.find(({ alg }) => alg === 'ES256')!
  const key = await importJWK(signing, 'ES256')
  const accounts: Account[] = []
  for (let index = 0; index < many; index++) {
    const name = `writer-${index}`
    const { address } = await client.createAccount({ userId: `DEV-${name}` })
    await node.anvil.rpc('anvil_setBalance', address, `0x${COINS.toString(16)}`)
    const token = await new SignJWT({
      client_id: 'demo',
      scope: 'openid wallet:read contracts:write',
      chain_id: CHAIN_ID,
      gid: `proof-${index}`,
    })
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: signing.kid })
      .setIssuer(`${ORIGIN}/oauth`)
      .setAudience(`${ORIGIN}/v1`)
      .setSubject(`DEV-${name}`)
      .setJti(randomUUID())
      .setIssuedAt()
      .setExpirationTime('12h')
      .sign(key)
    accounts.push({ name, address: address.toLowerCase() as Hex, token })
  }
  client.close()
  return accounts
}

type Store = {
  db: RootDb | null
  torn: TornDatabase | null
  url: string | null
  dataDir: string
  /** before any server runs */
  filled(fill: (db: RootDb) => Promise<void>): Promise<void>
  close(): Promise<void>
}

const rowsOf = (accounts: Account[]) =>
  accounts.map(({ name, address }) => ({
    account_id: accountIdOf('DEV', name),
    user_id: `DEV-${name}`,
    address: fromHex(address),
  }))

/** A database that the caller made, moves and takes away. */
async function useStore(
  { url, servers }: { url: string; servers: string },
  { folder, accounts }: { folder: string; accounts: Account[] },
): Promise<Store> {
  const db = await openPostgres({ url, pool: 3, onError: () => {} })
  await migrate(db)
  await db.insertInto('accounts').values(rowsOf(accounts)).execute()
  return { db, torn: null, url: servers, dataDir: folder, filled: (fill) => fill(db), close: () => db.destroy() }
}

async function openStore(
  cluster: string | null,
  { folder, accounts }: { folder: string; accounts: Account[] },
): Promise<Store> {
  const rows = rowsOf(accounts)
  const dataDir = join(folder, 'data')
  await mkdir(dataDir)
  if (cluster === null) {
    const dir = join(dataDir, 'db')
    await migratedFolder(dir)
    const db = await openEmbedded({ dir })
    await db.insertInto('accounts').values(rows).execute()
    await db.destroy()
    const filled: Store['filled'] = async (fill) => {
      const again = await openEmbedded({ dir })
      await fill(again)
      await again.destroy()
    }
    return { db: null, torn: null, url: null, dataDir, filled, close: async () => {} }
  }
  const { url, drop } = await emptyPostgres(cluster)
  const db = await openPostgres({ url, pool: 3, onError: () => {} })
  await migrate(db)
  await db.insertInto('accounts').values(rows).execute()
  const torn = await tearConnections(url)
  const close = async () => {
    torn.close()
    await db.destroy()
    await drop()
  }
  return { db, torn, url: torn.url, dataDir, filled: (fill) => fill(db), close }
}

async function deployContracts({ anvil }: FaultyNode): Promise<[probe: Hex, token: Hex]> {
  const [from] = await anvil.rpc<Hex[]>('eth_accounts')
  const hashes: Hex[] = []
  for (const name of ['Probe', 'SampleToken']) {
    const { bytecode } = JSON.parse(readFileSync(join(PROJECT, `contracts/out/${name}.json`), 'utf8')) as { bytecode: Hex } // prettier-ignore
    hashes.push(await anvil.rpc<Hex>('eth_sendTransaction', { from, data: bytecode, gas: '0xe4e1c0' }))
  }
  await anvil.rpc('evm_mine')
  const [probe, token] = await Promise.all(
    hashes.map(async (hash) => {
      const receipt = await anvil.rpc<{ contractAddress: Hex; status: Hex }>('eth_getTransactionReceipt', hash)
      if (receipt.status !== '0x1') throw new Error('a contract was not deployed')
      return receipt.contractAddress.toLowerCase() as Hex
    }),
  )
  const data = encodeFunctionData({ abi: parseAbi(['function pay() payable']), functionName: 'pay' })
  await anvil.rpc('eth_sendTransaction', { from, to: probe, data, value: `0x${PAID.toString(16)}`, gas: '0x249f0' })
  await anvil.rpc('evm_mine')
  return [probe!, token!]
}

async function giveTokens({ anvil }: FaultyNode, token: Hex, accounts: Account[]): Promise<void> {
  const [from] = await anvil.rpc<Hex[]>('eth_accounts')
  const abi = parseAbi(['function mint(address to, uint256 amount)'])
  for (const { address } of accounts) {
    const data = encodeFunctionData({ abi, functionName: 'mint', args: [address, TOKENS] })
    await anvil.rpc<Hex>('eth_sendTransaction', { from, to: token, data, gas: '0x249f0' })
  }
  await anvil.rpc('evm_mine')
}
