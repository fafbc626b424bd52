/**
 * `npm run bench:backfill`: how long the worker takes that gives accounts their past by itself (docs/decisions/0065), from a node on this
 * machine that answers at once. A chain of a million blocks, ten transfers of each account in it, half of them between two of ours.
 * Arguments: accounts (10000), blocks (1000000).
 */
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { sql } from 'kysely'
import type { App } from '../src/app.ts'
import { explorerAt, type Chain } from '../src/chain/network.ts'
import { openRpc } from '../src/chain/rpc/rpc.ts'
import { readConfig } from '../src/config.ts'
import { fillNext } from '../src/history/automatic-backfill.ts'
import { openState } from '../src/state.ts'
import { openTelemetry } from '../src/telemetry.ts'
import { openedHead } from '../test/opened.ts'
import { startPostgres } from './postgres.ts'
import { systemClock } from '../src/clock.ts'

const ACCOUNTS = Number(process.argv[2] ?? 10_000)
const BLOCKS = Number(process.argv[3] ?? 1_000_000)
/** as a node of one's own allows; the default, 5, is for one that is paid by the call */
const CALLS_PER_SECOND = '1000'
const PORTION = 10_000

const cluster = await startPostgres()
if (cluster !== null) process.env.TEST_DATABASE_URL = cluster.url
const { testDatabase } = await import('../test/kit/database.ts')

const child = fork(new URL('backfill-node.ts', import.meta.url), {
  env: { ...process.env, BLOCKS: String(BLOCKS), ACCOUNTS: String(ACCOUNTS) },
  execArgv: ['--disable-warning=ExperimentalWarning'],
})
const { url } = await new Promise<{ url: string }>((resolve) => child.once('message', (told) => resolve(told as never)))

const { db, close } = await testDatabase()
for (let first = 0; first < ACCOUNTS; first += PORTION)
  await sql`insert into accounts (account_id, user_id, address)
    select ('00000000-0000-8000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'DEV-' || n, decode(lpad(to_hex(268435456 + n), 40, '0'), 'hex')
    from generate_series(${first}::int, ${Math.min(ACCOUNTS, first + PORTION) - 1}::int) as n`.execute(db)
// Followed so far by a process that did not know them.
await sql`insert into cursors (chain_id, block_number, block_hash, finalized_number, epoch) values (31337, ${BLOCKS}::int, '\\x00', ${BLOCKS}::int, 1)`.execute(db) // prettier-ignore
await sql`insert into history_cursors (chain_id, block_number, block_hash, epoch) values (31337, ${BLOCKS}::int, '\\x00', 1)`.execute(db) // prettier-ignore

const config = readConfig({ BACKFILL_CALLS_PER_SECOND: CALLS_PER_SECOND }, 'server')
const rpc = openRpc({ url })
const chain: Chain = {
  ...{ chainId: 31337, name: 'devnet', symbol: 'ETH', coin: 'Ether', decimals: 18, finality: 64, feeCapWei: 1n },
  ...{ verification: 'bloom', gas: 'self', explorer: explorerAt(''), rpc, ...openedHead(), faucet: null },
}
const app = { config, db, telemetry: openTelemetry('bench', 'error'), poolWaitMs: () => 0, state: openState(), clock: systemClock } as unknown as App // prettier-ignore

const stopping = new AbortController().signal
const cpu = process.cpuUsage()
const databaseBefore = cluster?.cpuMillis() ?? 0
const since = performance.now()
let groups = 0
while ((await fillNext(app, chain, { owner: 'bench', stopping })) === 'filled') groups++
const seconds = (performance.now() - since) / 1_000
const { user, system } = process.cpuUsage(cpu)
const { transfers } = await db.selectFrom('transfers').select(({ fn }) => fn.countAll<string>().as('transfers')).executeTakeFirstOrThrow() // prettier-ignore
const { covered } = await db.selectFrom('coverage').select(({ fn }) => fn.countAll<string>().as('covered')).executeTakeFirstOrThrow() // prettier-ignore
// The node counts for itself: a fast loss would be no speed.
const expected = await new Promise<number>((resolve) => {
  child.once('message', (told) => resolve((told as { rows: number }).rows))
  child.send('count')
})
assert.deepEqual([Number(transfers), Number(covered)], [expected, ACCOUNTS])
console.log(
  `${ACCOUNTS} accounts in ${groups} groups over ${BLOCKS} blocks: ${seconds.toFixed(0)} s, ${Math.round((groups * BLOCKS) / seconds)} blocks of a group a second, ${transfers} rows, all that there are; CPU ${((user + system) / 1e6).toFixed(0)} s of this process, ${(((cluster?.cpuMillis() ?? 0) - databaseBefore) / 1_000).toFixed(0)} s of PostgreSQL`,
)
rpc.close()
await close()
child.disconnect()
await cluster?.end()
process.exit()
