/**
 * `npm run bench:lanes [-- --lanes=10000 --old=200 --dry=1200 --delay=50]`: how soon fees of many accounts are raised
 * after blocks priced all of them out for five minutes, behind a slow node. The real signer and ledger, PostgreSQL
 * (the cluster of TEST_DATABASE_URL, else a throw-away one), a scripted node in a process of its own. In one run: a round
 * as it was before, one account after another; a round as it is; and one account with coins behind many that have none.
 */
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { sql } from 'kysely'
import type { App } from '../src/app.ts'
import { readQuantity } from '../src/chain/rpc/answers.ts'
import type { Chain } from '../src/chain/network.ts'
import { openRpc } from '../src/chain/rpc/rpc.ts'
import { readConfig } from '../src/config.ts'
import { accountIdOf, type Hex } from '../src/ids.ts'
import { ask, CHAIN_ID, makePlace, startSigner } from '../test/kit/signer.ts'
import { migrate } from '../src/store/migrate.ts'
import { openPostgres } from '../src/store/db.ts'
import { openTelemetry } from '../src/telemetry.ts'
import { toBound } from '../src/transactions/intent.ts'
import { raiseLowest } from '../src/transactions/lanes/raise.ts'
import { readAttempts } from '../src/transactions/attempts.ts'
import { raiseFee } from '../src/transactions/lanes/replace.ts'
import { emptyPostgres } from '../test/kit/database.ts'
import { cpuMillis } from './place.ts'
import { startPostgres } from './postgres.ts'
import { openedHead } from '../test/opened.ts'
import { openState } from '../src/state.ts'
import { systemClock } from '../src/clock.ts'

const { values: flags } = parseArgs({
  options: {
    lanes: { type: 'string', default: '10000' },
    old: { type: 'string', default: '200' },
    dry: { type: 'string', default: '1200' },
    delay: { type: 'string', default: '50' },
  },
})
const LANES = Number(flags.lanes)
const OLD = Number(flags.old)
const DRY = Number(flags.dry)
const GWEI = 1_000_000_000n
const BLOCK_SECONDS = 12

const cluster = await startPostgres()
if (cluster === null) throw new Error('bench:lanes needs PostgreSQL: see CONTRIBUTING.md.')
const database = await emptyPostgres(cluster.url)
const db = await openPostgres({ url: database.url, pooler: 'none', pool: 16, onError: () => {} })
await migrate(db)
const place = await makePlace()
const signer = await startSigner(place, { more: { LOG_LEVEL: 'warn' } })
const node = fork(new URL('lanes-node.ts', import.meta.url).pathname, {
  execArgv: ['--disable-warning=ExperimentalWarning'],
  env: { ...process.env, DELAY_MS: flags.delay },
})
const [{ url }] = (await once(node, 'message')) as [{ url: string }]

const rpc = openRpc({ url })
const { clock, head, memory, state } = openedHead()
const hash: Hex = `0x${'00'.repeat(32)}`
head.set({ number: 1_000, hash, parentHash: hash, timestamp: 0, baseFee: 20n * GWEI })
const explorer = { tx: String, address: String, block: String }
const chain: Chain = {
  ...{ chainId: CHAIN_ID, name: 'bench', symbol: 'ETH', coin: 'Ether', decimals: 18, finality: 'finalized' },
  ...{
    feeCapWei: 1_000n * GWEI,
    verification: 'bloom',
    gas: 'self',
    explorer,
    clock,
    rpc,
    head,
    memory,
    state,
    faucet: null,
  },
}
const app: App = {
  config: readConfig({ NODE_ENV: 'test', RATE_LIMITS: 'off' }, 'server'),
  ...{
    origin: 'http://localhost:4000',
    authOrigin: 'http://localhost:4000',
    networks: new Map(),
    auth: null,
    db,
    chains: new Map([[CHAIN_ID, chain]]),
    signer,
  },
  ...{
    telemetry: openTelemetry('bench', 'silent'),
    tokenKeys: { keys: [] },
    sealKeys: { signing: null, known: new Map(), macs: null },
    state: openState(),
    clock: systemClock,
  },
}

type Lane = { address: Hex; raw: Hex; hash: Hex; index: number }

/** Accounts with one write each that is signed and was sent five minutes ago, for less than blocks want. */
async function makeLanes(count: number, name: string): Promise<Lane[]> {
  const make = async (index: number): Promise<Lane> => {
    const userId = `BENCH-${name}${index}`
    const [{ address }, accessToken] = await Promise.all([signer.createAccount({ userId }), place.token(userId)])
    const fees = { maxFeePerGas: String(2n * GWEI), maxPriorityFeePerGas: String(GWEI) }
    const { raw, hash } = await signer.sign(ask(address, { ...fees, intentId: idOf(name, index), accessToken }))
    return { address, raw, hash, index }
  }
  const lanes: Lane[] = []
  for (let start = 0; start < count; start += 64)
    lanes.push(...(await Promise.all(Array.from({ length: Math.min(64, count - start) }, (_, at) => make(start + at)))))
  for (let start = 0; start < count; start += 1_000) await insert(lanes.slice(start, start + 1_000), name)
  await sql`analyze`.execute(db)
  return lanes
}

const idOf = (name: string, index: number): string => `tx_${name}${index}`

async function insert(lanes: Lane[], name: string): Promise<void> {
  const terms = { gas_limit: 21_000, max_fee: wordOf(2n * GWEI), max_priority_fee: wordOf(GWEI) }
  const before = new Date(Date.now() - 300_000)
  await db
    .insertInto('transactions')
    .values(
      lanes.map(({ address, hash, index }) => ({
        ...{ id: idOf(name, index), account_id: accountIdOf('BENCH', `${name}${index}`), client_id: 'shop' },
        ...{
          chain_id: CHAIN_ID,
          sender: bytesOf(address),
          nonce: 0,
          target: Buffer.alloc(20, 0xc0),
          value: wordOf(1n),
        },
        ...{ data: Buffer.alloc(0), ...terms, abi: '', hash: bytesOf(hash), state: 'SUBMITTED' as const },
        ...{ transitions: '[]', created_at: before, updated_at: before },
      })),
    )
    .execute()
  await db
    .insertInto('attempts')
    .values(
      lanes.map(({ hash, raw, index }) => ({
        ...{ chain_id: CHAIN_ID, hash: bytesOf(hash), transaction_id: idOf(name, index), raw: bytesOf(raw), ...terms },
        ...{ created_block: 975, created_at: before, broadcast_at: before },
      })),
    )
    .execute()
}

const bytesOf = (hex: Hex): Buffer => Buffer.from(hex.slice(2), 'hex')
const wordOf = (value: bigint): Buffer => Buffer.from(value.toString(16).padStart(64, '0'), 'hex')

/** All raises that came to the node since the last question, by time. */
async function came(): Promise<{ came: number[]; requests: number }> {
  node.send({})
  const [report] = (await once(node, 'message')) as [{ came: number[]; requests: number }]
  return { ...report, came: report.came.toSorted((a, b) => a - b) }
}

/** As rounds were: one account after another, 200 of them. */
async function oldRound(): Promise<void> {
  const rows = await db.selectFrom('transactions').selectAll().where('state', '=', 'SUBMITTED').limit(OLD).execute()
  for (const row of rows) {
    const bound = toBound(row)
    await readAttempts(app, bound)
    readQuantity(await rpc.call('eth_getBalance', [bound.from, 'latest']), 'balance')
    await raiseFee(app, chain, bound)
  }
}

async function newRounds(): Promise<void> {
  while (await raiseLowest(app, chain));
}

async function measured(name: string, count: number, work: () => Promise<void>): Promise<number> {
  const cpus = () => [cpuMillis(process.pid), cpuMillis(signer.pid), cluster!.cpuMillis()]
  const before = cpus()
  const begun = Date.now()
  await work()
  const seconds = (Date.now() - begun) / 1_000
  const [own, signing, database] = cpus().map((now, index) => (((now - before[index]!) * 1_000) / count).toFixed(0))
  const report = await came()
  const blockOf = (at: number) => Math.floor((at - begun) / 1_000 / BLOCK_SECONDS) + 1
  assert.equal(report.came.length, count)
  console.log(
    `${name}: ${count} raised and sent in ${seconds.toFixed(1)} s, ${(count / seconds).toFixed(0)}/s; half of them after ` +
      `${((report.came[count >> 1]! - begun) / 1_000).toFixed(1)} s, the last in block ${blockOf(report.came.at(-1)!)} of ${BLOCK_SECONDS} s; ` +
      `µs of CPU each: keeper ${own}, signer ${signing}, PostgreSQL ${database}; ${report.requests} HTTP requests to the node`,
  )
  return count / seconds
}

const clear = () => sql`truncate transactions, attempts, waits`.execute(db)

try {
  await makeLanes(OLD, 'o')
  const old = await measured('one after another', OLD, oldRound)
  await clear()
  await makeLanes(LANES, 'n')
  const now = await measured('side by side', LANES, newRounds)
  console.log(
    `${(now / old).toFixed(1)} times as many a second; ${LANES} one after another would take ${(LANES / old / 60).toFixed(1)} min`,
  )
  await clear()
  const lanes = (await makeLanes(DRY + 1, 'd')).toSorted((a, b) => (a.address < b.address ? -1 : 1))
  node.send({ poor: lanes.slice(0, -1).map(({ address }) => address) })
  await once(node, 'message')
  await measured(`behind ${DRY} accounts without coins`, 1, newRounds)
  const again = Date.now()
  await newRounds()
  console.log(`the next round, with all of them put off: ${Date.now() - again} ms`)
} finally {
  node.disconnect()
  rpc.close()
  await signer.end('SIGTERM')
  place.clear()
  await db.destroy()
  await database.drop()
  await cluster.end()
}
