/**
 * `npm run bench:native-blocks [-- BLOCKS [TRANSACTIONS]]`: what native currency in the history costs a block, as a ratio to `off` in the same run: calls to
 * the node, bytes that it sends, CPU of this process and of the database. Of blocks that touch no account of ours by native currency, and of blocks that
 * all do. On a throw-away PostgreSQL where its binaries are, else embedded. The node gives transactions of four frames. Prints a table, writes nothing.
 */
import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { App } from '../src/app.ts'
import { explorerAt, type Chain } from '../src/chain/network.ts'
import { openRpc } from '../src/chain/rpc/rpc.ts'
import { readConfig } from '../src/config.ts'
import { startFollower } from '../src/follower/follow.ts'
import { indexTransfers } from '../src/history/index-transfers.ts'
import { openState } from '../src/state.ts'
import { fromHex } from '../src/hex.ts'
import type { RootDb } from '../src/store/db.ts'
import { openTelemetry } from '../src/telemetry.ts'
import { followTransactions } from '../src/transactions/settle/follow.ts'
import { openedHead } from '../test/opened.ts'
import { addressOf } from '../test/nodes/scripted-chain.ts'
import { startPostgres } from './postgres.ts'
import { systemClock } from '../src/clock.ts'

const BLOCKS = Number(process.argv[2] ?? 300)
const TRANSACTIONS = Number(process.argv[3] ?? 150)
/** of the first only the ratio counts: it warms the machine */
const ROUNDS = 3

type Counted = { calls: number; bytes: number }
type Cost = Counted & { cpuMs: number; databaseMs: number }
const cluster = await startPostgres()
if (cluster !== null) process.env.TEST_DATABASE_URL = cluster.url
const { testDatabase } = await import('../test/kit/database.ts')

const child = fork(new URL('history-node.ts', import.meta.url), {
  env: { ...process.env, BLOCKS: String(BLOCKS), TRANSFERS: String(TRANSACTIONS), PER_TRANSACTION: '1', PARTIES: '20000', TRACES: '1' }, // prettier-ignore
  execArgv: ['--disable-warning=ExperimentalWarning', '--max-old-space-size=6000'],
})
const [{ url }] = (await once(child, 'message')) as [{ url: string }]
/** What the node was asked since it was asked this. */
async function counted(): Promise<Counted> {
  child.send('counts')
  const [counts] = (await once(child, 'message')) as [Counted]
  return counts
}

async function follow(db: RootDb, choice: 'off' | 'values' | 'traces'): Promise<Cost> {
  const rpc = openRpc({ url })
  const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 20, NATIVE_HISTORY: choice }
  const app = { config, db, chains: new Map(), telemetry: openTelemetry('bench', 'error'), state: openState(), clock: systemClock } as unknown as App // prettier-ignore
  const chain: Chain = {
    ...{ chainId: 31337, name: 'devnet', symbol: 'ETH', coin: 'Ether', decimals: 18, finality: 64, feeCapWei: 1n },
    ...{ verification: 'bloom', gas: 'self', explorer: explorerAt(''), rpc, ...openedHead(), faucet: async () => {} },
  }
  await counted()
  const [cpu, database] = [process.cpuUsage(), cluster?.cpuMillis() ?? 0]
  const follower = startFollower(app, chain, [followTransactions, { ...indexTransfers, afterCommit: () => {} }])
  for (let at = -1; at < BLOCKS;) {
    await new Promise((resolve) => setTimeout(resolve, 20))
    at = (await db.selectFrom('history_cursors').select('block_number').executeTakeFirst())?.block_number ?? -1
  }
  await follower.stop()
  const { user, system } = process.cpuUsage(cpu)
  rpc.close()
  return { ...(await counted()), cpuMs: (user + system) / 1_000, databaseMs: (cluster?.cpuMillis() ?? 0) - database }
}

/** Who has accounts here: people who only get tokens, or one whom every transaction pays. */
const holders = {
  'touches nobody': Array.from({ length: 1_000 }, (_, index) => addressOf(0x1000_0000 + index)),
  'touches us': [addressOf(0xc0)],
}

async function measure(choice: 'off' | 'values' | 'traces', addresses: readonly `0x${string}`[]): Promise<Cost> {
  const database = await testDatabase()
  try {
    await database.db
      .insertInto('accounts')
      .values(
        addresses.map((address) => ({
          account_id: randomUUID(),
          user_id: `DEV-${address}`,
          address: fromHex(address),
        })),
      )
      .execute()
    return await follow(database.db, choice)
  } finally {
    await database.close()
  }
}

try {
  const rows: Record<string, string | number>[] = []
  for (const [what, addresses] of Object.entries(holders)) {
    const costs = new Map<string, Cost[]>([['off', []], ['values', []], ['traces', []]]) // prettier-ignore
    for (let round = 0; round < ROUNDS; round++)
      for (const [choice, all] of costs) all.push(await measure(choice as 'off', addresses))
    const least = (choice: string, pick: (cost: Cost) => number): number => Math.min(...costs.get(choice)!.map(pick))
    for (const choice of costs.keys()) {
      const each = (pick: (cost: Cost) => number): number => least(choice, pick) / BLOCKS
      const ratio = (pick: (cost: Cost) => number): string => (least(choice, pick) / least('off', pick)).toFixed(2)
      rows.push({
        ...{ blocks: what, NATIVE_HISTORY: choice },
        ...{
          'calls a block': each(({ calls }) => calls).toFixed(2),
          'KiB a block': Math.round(each(({ bytes }) => bytes) / 1_024),
        },
        ...{
          'CPU ms a block': each(({ cpuMs }) => cpuMs).toFixed(2),
          'database ms a block': each(({ databaseMs }) => databaseMs).toFixed(2),
        },
        ...{ 'calls, to off': ratio(({ calls }) => calls), 'bytes, to off': ratio(({ bytes }) => bytes) },
        'CPU with database, to off': ratio(({ cpuMs, databaseMs }) => cpuMs + databaseMs),
      })
    }
  }
  console.table(rows)
} finally {
  child.disconnect()
  await cluster?.end()
}
