import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { importJWK, SignJWT } from 'jose'
import { sql } from 'kysely'
import { accountIdOf, type Hex } from '../../src/ids.ts'
import { newKey, publicKeys, type PrivateKeys } from '../../src/oauth/keys.ts'
import { connectSigner } from '../../src/signer/client.ts'
import { fromHex } from '../../src/store/bytes.ts'
import { openEmbedded, openPostgres, type RootDb } from '../../src/store/db.ts'
import { migrate } from '../../src/store/migrate.ts'
import { emptyPostgres, migratedSnapshot } from '../database.ts'
import { startFaultyNode, type FaultyNode } from './faulty-node.ts'
import { freePort, supervise, type Supervised } from './processes.ts'
import { tearConnections, type TornDatabase } from './torn-database.ts'

export const PROJECT = join(import.meta.dirname, '../..')
const ORIGIN = 'http://localhost:4000'
const CHAIN_ID = 31_337
/** blocks mined before anything is proven: no reorganisation goes below them, so the accounts keep their coins */
const QUIET_BLOCKS = 80
/** blocks; more than the deepest reorganisation */
const FINALITY = 72

export type Account = { name: string; address: Hex; token: string }
export type Server = Supervised & { url: string }

/** The product as processes: signer, replicas on one database, a faulty node in front of a real chain. */
export type ChaosWorld = {
  node: FaultyNode
  probe: Hex
  accounts: Account[]
  servers: Server[]
  signer: Supervised
  /** the harness's own way to the database; null for the embedded one, which lets one process in */
  db: RootDb | null
  /** the way between the servers and the database; null for the embedded one */
  torn: TornDatabase | null
  signerDir: string
  folder: string
  roll: () => number
  /** makes everything in the database that many seconds older: what waits for its time gets its turn */
  age(seconds: number): Promise<void>
  close(): Promise<void>
}

export type WorldOptions = {
  roll: () => number
  replicas: number
  accounts: number
  /** PostgreSQL cluster, or null for the embedded database */
  cluster: string | null
  /** folder that holds src/: the project, or a copy of it that was made worse */
  home?: string
  settings?: Record<string, string>
}

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
  { roll, replicas, accounts: many, cluster, home = PROJECT, settings = {} }: WorldOptions,
  closers: (() => unknown)[],
  close: () => Promise<void>,
): Promise<ChaosWorld> {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-proof-'))
  closers.unshift(() => rm(folder, { recursive: true, force: true }))
  const keys: PrivateKeys = { keys: [newKey('ES256'), newKey('RS256')] }
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
    },
  })
  closers.unshift(() => signer.stop())
  const [probe] = await Promise.all([deployProbe(node), signer.ready()])

  const accounts = await makeAccounts(many, { socket, keys, node })
  await node.anvil.rpc('anvil_mine', `0x${QUIET_BLOCKS.toString(16)}`)

  const store = await openStore(cluster, { folder, accounts })
  closers.unshift(() => store.close())
  const servers = await Promise.all(
    Array.from({ length: replicas }, async (_, index): Promise<Server> => {
      const port = await freePort()
      const dataDir = cluster === null ? store.dataDir : join(folder, `replica-${index}`)
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
        },
      })
      closers.unshift(() => server.stop())
      return Object.assign(server, { url: `http://127.0.0.1:${port}` })
    }),
  )
  await Promise.all(servers.map((server) => server.ready()))
  return {
    ...{ node, probe, accounts, servers, signer, signerDir, folder, roll, close },
    ...{ db: store.db, torn: store.torn },
    age: async (seconds) => {
      if (store.db === null) throw new Error('the embedded database has no second door')
      const by = sql`${`${seconds} seconds`}::interval`
      await sql`update transactions set created_at = created_at - ${by}, updated_at = updated_at - ${by}`.execute(
        store.db,
      )
      await sql`update attempts set created_at = created_at - ${by}, broadcast_at = broadcast_at - ${by}`.execute(
        store.db,
      )
    },
  }
}

/** Accounts with keys in the signer, coins on the chain and a token that every replica and the signer believe. */
async function makeAccounts(
  many: number,
  { socket, keys, node }: { socket: string; keys: PrivateKeys; node: FaultyNode },
): Promise<Account[]> {
  const client = connectSigner({ path: socket })
  const signing = keys.keys.find(({ alg }) => alg === 'ES256')!
  const key = await importJWK(signing, 'ES256')
  const accounts: Account[] = []
  for (let index = 0; index < many; index++) {
    const name = `writer-${index}`
    const { address } = await client.createAccount({ userId: `DEV-${name}` })
    await node.anvil.rpc('anvil_setBalance', address, '0x3635c9adc5dea00000')
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
  close(): Promise<void>
}

async function openStore(
  cluster: string | null,
  { folder, accounts }: { folder: string; accounts: Account[] },
): Promise<Store> {
  const rows = accounts.map(({ name, address }) => ({
    account_id: accountIdOf('DEV', name),
    user_id: `DEV-${name}`,
    address: fromHex(address),
  }))
  const dataDir = join(folder, 'data')
  await mkdir(dataDir)
  if (cluster === null) {
    const dir = join(dataDir, 'db')
    await (await PGlite.create({ dataDir: dir, loadDataDir: await migratedSnapshot() })).close()
    const db = await openEmbedded({ dir })
    await db.insertInto('accounts').values(rows).execute()
    await db.destroy()
    return { db: null, torn: null, url: null, dataDir, close: async () => {} }
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
  return { db, torn, url: torn.url, dataDir, close }
}

async function deployProbe({ anvil }: FaultyNode): Promise<Hex> {
  const { bytecode } = JSON.parse(readFileSync(join(PROJECT, 'contracts/out/Probe.json'), 'utf8')) as { bytecode: Hex }
  const [from] = await anvil.rpc<Hex[]>('eth_accounts')
  const hash = await anvil.rpc<Hex>('eth_sendTransaction', { from, data: bytecode, gas: '0x1c9c380' })
  await anvil.rpc('evm_mine')
  const receipt = await anvil.rpc<{ contractAddress: Hex; status: Hex }>('eth_getTransactionReceipt', hash)
  if (receipt.status !== '0x1') throw new Error('the probe was not deployed')
  return receipt.contractAddress.toLowerCase() as Hex
}
