/**
 * `npm run bench:history`: what the index of transfers costs, against fetching and parsing alone and against a loop
 * made by hand, in one run; then with more and more users; then pages of one user's history. With TEST_DATABASE_URL
 * on PostgreSQL too.
 * Arguments: blocks (2000).
 */
import { fork, type ChildProcess } from 'node:child_process'
import { sql } from 'kysely'
import type { App } from '../src/app.ts'
import { explorerAt, type Chain } from '../src/chain/network.ts'
import { openRpc, type Rpc } from '../src/chain/rpc/rpc.ts'
import { readConfig } from '../src/config.ts'
import { startFollower } from '../src/follower/follow.ts'
import { indexTransfers } from '../src/history/index-transfers.ts'
import { readHistory } from '../src/history/read.ts'
import type { Caller } from '../src/http/bearer.ts'
import type { Hex } from '../src/ids.ts'
import { openState } from '../src/state.ts'
import { openEmbedded, type RootDb } from '../src/store/db.ts'
import { openTelemetry } from '../src/telemetry.ts'
import { followTransactions } from '../src/transactions/settle/follow.ts'
import { attestingSigner } from '../test/attesting.ts'
import { addressOf } from '../test/nodes/scripted-chain.ts'
import { startPostgres } from './postgres.ts'
import { openedHead } from '../test/opened.ts'
import { systemClock } from '../src/clock.ts'

// A cluster of our own, unless one is named: then what others do on it counts as ours.
const cluster = await startPostgres()
if (cluster !== null) process.env.TEST_DATABASE_URL = cluster.url
const { migratedSnapshot, testCluster, testDatabase } = await import('../test/kit/database.ts')

const BLOCKS = Number(process.argv[2] ?? 2_000)
const TRANSFERS = 100
/** of the one user whose pages are asked for */
const PAGES = (process.env.PAGE_ROWS ?? '1000,100000,1000000').split(',').map(Number)
const OURS = 10_000
const FIRST = 0x1000_0000
/** token and party of a user's oldest transfers only */
const OLD = 0xfff
const accountIdOf = (address: Hex) => `00000000-0000-8000-8000-${address.slice(-12)}`

type Node = { url: string; bytes: number; child: ChildProcess }
/** CPU of this process, without the node, and of PostgreSQL: it holds still when others share the machine */
type Measured = { seconds: number; cpuSeconds: number; databaseSeconds: number; heapMb: number }

async function startNode(perTransaction: number): Promise<Node> {
  const env = {
    ...process.env,
    BLOCKS: String(BLOCKS),
    TRANSFERS: String(TRANSFERS),
    PER_TRANSACTION: String(perTransaction),
    PARTIES: String(2 * OURS),
  }
  const child = fork(new URL('history-node.ts', import.meta.url), {
    env,
    execArgv: ['--disable-warning=ExperimentalWarning', '--max-old-space-size=6000'],
  })
  const { url, bytes } = await new Promise<{ url: string; bytes: number }>((resolve, reject) => {
    child.once('message', (message) => resolve(message as { url: string; bytes: number }))
    child.once('exit', (code) => reject(new Error(`the node ended with ${code}`)))
  })
  return { url, bytes, child }
}

async function timed(work: () => Promise<void>): Promise<Measured> {
  let heap = 0
  const watch = setInterval(() => (heap = Math.max(heap, process.memoryUsage().rss)), 100)
  const cpu = process.cpuUsage()
  const database = cluster?.cpuMillis() ?? 0
  const startedAt = performance.now()
  await work()
  const seconds = (performance.now() - startedAt) / 1_000
  clearInterval(watch)
  const { user, system } = process.cpuUsage(cpu)
  const databaseSeconds = ((cluster?.cpuMillis() ?? 0) - database) / 1_000
  return { seconds, cpuSeconds: (user + system) / 1e6, databaseSeconds, heapMb: heap / 1_048_576 }
}

/** Blocks as everybody here asks for them: headers by number, then block and receipts by hash, eight side by side. */
async function* wholeBlocks(rpc: Rpc): AsyncGenerator<{ block: RawBlock; receipts: RawReceipt[] }[]> {
  const fetch = async (from: number) => {
    const numbers = Array.from(
      { length: Math.min(32, BLOCKS - from + 1) },
      (_, index) => `0x${(from + index).toString(16)}`,
    )
    const headers = (await rpc.batch(
      numbers.map((number) => ({ method: 'eth_getBlockByNumber', params: [number, false] })),
    )) as { hash: Hex }[]
    const blocks: { block: RawBlock; receipts: RawReceipt[] }[] = []
    for (let start = 0; start < headers.length; start += 8) {
      const some = await Promise.all(
        headers.slice(start, start + 8).map(async ({ hash }) => {
          const [block, receipts] = await rpc.batch([
            { method: 'eth_getBlockByHash', params: [hash, false] },
            { method: 'eth_getBlockReceipts', params: [hash] },
          ])
          return { block: block as RawBlock, receipts: receipts as RawReceipt[] }
        }),
      )
      blocks.push(...some)
    }
    return blocks
  }
  let next = fetch(1)
  for (let from = 1; from <= BLOCKS; from += 32) {
    const blocks = await next
    if (from + 32 <= BLOCKS) next = fetch(from + 32)
    yield blocks
  }
}
type RawBlock = { number: Hex; hash: Hex; timestamp: Hex }
type RawLog = {
  address: Hex
  topics: [Hex, Hex, Hex]
  data: Hex
  logIndex: Hex
  transactionHash: Hex
  blockNumber: Hex
  blockHash: Hex
}
type RawReceipt = { logs: RawLog[] }

/** What somebody writes in an afternoon: no checks, no reorganisations, no spam, the addresses in a Set. `by_hand` has a primary key and no other index. */
async function byHand(
  db: RootDb,
  table: 'by_hand' | 'transfers',
  windows: AsyncIterable<{ log: RawLog; timestamp: number }[]>,
): Promise<void> {
  const ours = new Set(Array.from({ length: OURS }, (_, index) => addressOf(FIRST + index)))
  for await (const logs of windows) {
    const rows: unknown[][] = []
    for (const { log, timestamp } of logs) {
      const [from, to] = [`0x${log.topics[1].slice(26)}`, `0x${log.topics[2].slice(26)}`] as [Hex, Hex]
      const add = (address: Hex, direction: number) =>
        rows.push([
          accountIdOf(address),
          31337,
          Number(log.blockNumber),
          Number(log.logIndex),
          0,
          direction,
          20,
          bytesOf(log.address),
          bytesOf(from),
          bytesOf(to),
          null,
          bytesOf(log.data),
          bytesOf(log.transactionHash),
          bytesOf(log.blockHash),
          new Date(timestamp * 1_000),
          false,
        ])
      if (ours.has(from)) add(from, 1)
      if (ours.has(to)) add(to, 0)
    }
    for (let start = 0; start < rows.length; start += 1_000) {
      const some = rows.slice(start, start + 1_000)
      await sql`insert into ${sql.table(table)} values ${sql.join(some.map((row) => sql`(${sql.join(row)})`))} on conflict do nothing`.execute(
        db,
      )
    }
  }
}
const bytesOf = (hex: Hex) => Buffer.from(hex.slice(2), 'hex')

async function* fromReceipts(rpc: Rpc) {
  for await (const blocks of wholeBlocks(rpc))
    yield blocks.flatMap(({ block, receipts }) =>
      receipts.flatMap(({ logs }) => logs.map((log) => ({ log, timestamp: Number(block.timestamp) }))),
    )
}

async function* fromLogs(rpc: Rpc) {
  const fetch = async (from: number) => {
    const range = { fromBlock: `0x${from.toString(16)}`, toBlock: `0x${Math.min(BLOCKS, from + 31).toString(16)}` }
    const numbers = Array.from(
      { length: Math.min(32, BLOCKS - from + 1) },
      (_, index) => `0x${(from + index).toString(16)}`,
    )
    const [[logs], headers] = await Promise.all([
      rpc.batch([{ method: 'eth_getLogs', params: [range] }]),
      rpc.batch(numbers.map((number) => ({ method: 'eth_getBlockByNumber', params: [number, false] }))),
    ])
    const times = new Map((headers as RawBlock[]).map(({ number, timestamp }) => [number, Number(timestamp)]))
    return (logs as RawLog[]).map((log) => ({ log, timestamp: times.get(log.blockNumber)! }))
  }
  let next = fetch(1)
  for (let from = 1; from <= BLOCKS; from += 32) {
    const logs = await next
    if (from + 32 <= BLOCKS) next = fetch(from + 32)
    yield logs
  }
}

async function ours(db: RootDb, url: string, verification: Chain['verification'] = 'bloom'): Promise<void> {
  const rpc = openRpc({ url })
  const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 20 }
  const app = appOf(db, config)
  const chain: Chain = {
    ...{ chainId: 31337, name: 'devnet', symbol: 'ETH', coin: 'Ether', decimals: 18, finality: 64, feeCapWei: 1n },
    ...{
      verification,
      gas: 'self',
      explorer: explorerAt(''),
      rpc,
      ...openedHead(),
      faucet: async () => {},
    },
  }
  const follower = startFollower(app, chain, [followTransactions, { ...indexTransfers, afterCommit: () => {} }])
  for (let at = -1; at < BLOCKS;) {
    await new Promise((resolve) => setTimeout(resolve, 20))
    at = (await db.selectFrom('history_cursors').select('block_number').executeTakeFirst())?.block_number ?? -1
  }
  await follower.stop()
  rpc.close()
}

/** As far as these verbs look. The signer attests that who is named after an address has it. */
function appOf(db: RootDb, config: App['config'], chains: App['chains'] = new Map()): App {
  const telemetry = openTelemetry('bench', 'error')
  return { config, db, chains, telemetry, signer, state: openState(), clock: systemClock } as unknown as App
}
const signer = attestingSigner((userId) => userId.slice(userId.indexOf('-') + 1) as Hex)

async function addAccounts(db: RootDb, count: number): Promise<void> {
  const rows = Array.from({ length: Math.min(count, OURS) }, (_, index) => addressOf(FIRST + index))
  for (let start = 0; start < rows.length; start += 1_000) {
    const some = rows
      .slice(start, start + 1_000)
      .map((address) => ({ account_id: accountIdOf(address), user_id: `DEV-${address}`, address: bytesOf(address) }))
    await db.insertInto('accounts').values(some).execute()
  }
  await addStrangers(db, count - rows.length)
}

/** rows of one statement: it has to end within the time-out of statements */
const PORTION = 50_000

/** Users who are in no transfer of the chain. */
async function addStrangers(db: RootDb, count: number): Promise<void> {
  if (count > PORTION) await addStrangers(db, count - PORTION)
  if (count <= 0) return
  await sql`insert into accounts (account_id, user_id, address)
    select gen_random_uuid(), 'FILL-' || gen_random_uuid(), decode(substr(md5(n::text || random()::text) || md5(random()::text), 1, 40), 'hex') from generate_series(1, ${Math.min(count, PORTION)}::int) as n`.execute(
    db,
  )
}

async function clear(db: RootDb): Promise<void> {
  await sql`truncate transfers, blocks, cursors, history_cursors, tokens`.execute(db)
}

const line = (name: string, { seconds, cpuSeconds, databaseSeconds, heapMb }: Measured, base?: Measured) => {
  const rate = (BLOCKS * TRANSFERS) / seconds
  const perTransfer = (some: number) => ((some / BLOCKS / TRANSFERS) * 1e6).toFixed(1)
  const cpu = (one: Measured) => one.cpuSeconds + one.databaseSeconds
  const ratio =
    base === undefined
      ? ''
      : `, ${(base.seconds / seconds).toFixed(2)} of the loop by hand, by CPU ${(cpu(base) / (cpuSeconds + databaseSeconds)).toFixed(2)}`
  console.log(
    `${name}: ${Math.round(rate)} transfers/s, ${((seconds / BLOCKS) * 1_000).toFixed(2)} ms a block, ${perTransfer(cpuSeconds)} µs of CPU a transfer and ${perTransfer(databaseSeconds)} of PostgreSQL, ${heapMb.toFixed(0)} MB resident${ratio}`,
  )
}

const ROUNDS = Number(process.env.ROUNDS ?? 3)

/** Every variant once a round, of each figure the best of its rounds: others who share the machine make a run slower, never faster. */
async function best(variants: Record<string, () => Promise<void>>): Promise<Map<string, Measured>> {
  const results = new Map<string, Measured>()
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, work] of Object.entries(variants)) {
      const measured = await timed(work)
      const { seconds, cpuSeconds, databaseSeconds, heapMb } = results.get(name) ?? measured
      results.set(name, {
        seconds: Math.min(seconds, measured.seconds),
        cpuSeconds: Math.min(cpuSeconds, measured.cpuSeconds),
        databaseSeconds: Math.min(databaseSeconds, measured.databaseSeconds),
        heapMb: Math.max(heapMb, measured.heapMb),
      })
    }
  }
  return results
}

async function measureIndex(perTransaction: number): Promise<void> {
  const node = await startNode(perTransaction)
  console.log(
    `\n${BLOCKS} blocks, ${BLOCKS * TRANSFERS} transfers, ${perTransaction} in a transaction, ${(node.bytes / 1_048_576).toFixed(0)} MB of blocks and receipts; ${OURS} of ${2 * OURS} parties are ours; best of ${ROUNDS}`,
  )
  const rpc = openRpc({ url: node.url })
  const read = async () => {
    for await (const _ of wholeBlocks(rpc));
  }
  const embedded = await openEmbedded({ snapshot: await migratedSnapshot() })
  await addAccounts(embedded, OURS)
  const onEmbedded = async () => {
    await clear(embedded)
    await ours(embedded, node.url)
  }
  if (testCluster === null) {
    const results = await best({ 'fetch and parse only': read, 'ours on the embedded database': onEmbedded })
    for (const [name, measured] of results) line(name, measured)
  } else {
    const { db, close } = await testDatabase()
    await addAccounts(db, OURS)
    const cleared = (work: () => Promise<void>) => async () => {
      await clear(db)
      await work()
    }
    await sql`create table by_hand (like transfers including defaults, primary key (account_id, chain_id, block_number, log_index, batch_index, direction))`.execute(
      db,
    )
    const hand = 'loop by hand, the same calls, a primary key and no other index'
    const results = await best({
      'fetch and parse only': read,
      [hand]: async () => {
        await sql`truncate by_hand`.execute(db)
        await byHand(db, 'by_hand', fromReceipts(rpc))
      },
      'loop by hand, our table': cleared(() => byHand(db, 'transfers', fromReceipts(rpc))),
      'loop by hand, our table, eth_getLogs by range': cleared(() => byHand(db, 'transfers', fromLogs(rpc))),
      'ours on PostgreSQL': cleared(() => ours(db, node.url)),
      'ours on PostgreSQL, hash': cleared(() => ours(db, node.url, 'hash')),
      'ours on the embedded database': onEmbedded,
    })
    const base = results.get(hand)!
    for (const [name, measured] of results) line(name, measured, base)
    await close()
  }
  await embedded.destroy()
  rpc.close()
  node.child.disconnect()
}

async function measureUsers(): Promise<void> {
  if (testCluster === null) return
  const node = await startNode(10)
  console.log('\nusers known, the same 1,000 of them in the transfers')
  const { db, close } = await testDatabase()
  await addAccounts(db, 1_000)
  for (const users of [1_000, 10_000, 100_000, 1_000_000]) {
    const { count } = await db
      .selectFrom('accounts')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow()
    await addStrangers(db, users - Number(count))
    await sql`analyze accounts`.execute(db)
    await clear(db)
    line(`${users} users`, await timed(() => ours(db, node.url)))
  }
  await close()
  node.child.disconnect()
}

async function measurePages(): Promise<void> {
  if (testCluster === null) return
  console.log('\npages of 50 of one user, by the verb behind the route; every page at another place')
  const { db, close } = await testDatabase()
  await addAccounts(db, 1_000)
  const me = addressOf(FIRST)
  const accountId = accountIdOf(me)
  await db
    .insertInto('identities')
    .values({ provider: 'DEV', subject: me, account_id: accountId, username: 'me' })
    .execute()
  await sql`insert into cursors (chain_id, block_number, block_hash, finalized_number, epoch) values (31337, 10000000, '\\x00', 9999000, 1)`.execute(
    db,
  )
  await sql`insert into history_cursors (chain_id, block_number, block_hash, epoch) values (31337, 10000000, '\\x00', 1)`.execute(
    db,
  )
  const chain = { chainId: 31337, name: 'devnet', explorer: explorerAt(''), state: openState() } as Chain
  const app = appOf(db, readConfig({ BACKFILL: 'off' }, 'server'), new Map([[31337, chain]]))
  const caller = {
    kind: 'user',
    userId: `DEV-${me}`,
    accountId,
    chainId: 31337,
    network: 'devnet',
  } as unknown as Caller
  const timeOf = (block: number) => new Date((1_500_000_000 + block * 2) * 1_000).toISOString()
  let rows = 0
  for (const total of PAGES) {
    for (; rows < total; rows = Math.min(total, rows + PORTION)) {
      // Coins of fifty tokens, one in ten of them spam; the first hundred rows have what no other has.
      await sql`insert into transfers
      select ${accountId}::uuid, 31337, n, n % 200, 0, case when n < 100 then 2 else n % 2 end, case when n < 100 then 721 else 20 end,
        decode(lpad(to_hex(case when n < 100 then ${OLD}::int else 28672 + n % 50 end), 40, '0'), 'hex'),
        decode(lpad(to_hex(case when n < 100 then ${OLD}::int else ${FIRST}::int + n % 1000 end), 40, '0'), 'hex'),
        decode(lpad(to_hex(case when n < 100 then ${OLD}::int else ${FIRST}::int + n % 997 end), 40, '0'), 'hex'),
        null, decode(lpad(to_hex(n), 64, '0'), 'hex'), decode(lpad(to_hex(n), 64, '0'), 'hex'), decode(lpad(to_hex(n), 64, '0'), 'hex'),
        to_timestamp(1500000000 + n * 2), n % 10 = 0, 0
      from generate_series(${rows + 1}::int, ${Math.min(total, rows + PORTION)}::int) as n`.execute(db)
    }
    await sql`analyze transfers`.execute(db)
    const block = () => 1 + Math.floor(Math.random() * total)
    const places: [string, () => Record<string, string>][] = [
      ['the newest', () => ({})],
      ['any place', () => ({ toBlock: String(block()) })],
      ['spam included, any place', () => ({ toBlock: String(block()), includeSpam: 'true' })],
      ['from a block on', () => ({ fromBlock: String(block()) })],
      ['up to a time', () => ({ to: timeOf(block()) })],
      ['from a time on', () => ({ from: timeOf(block()) })],
      ['from a time that is not yet', () => ({ from: timeOf(2 * total) })],
      ['finalized only', () => ({ finality: 'finalized' })],
      ['what arrives, any place', () => ({ direction: 'in', toBlock: String(block()) })],
      ['a type of long ago', () => ({ type: 'ERC721' })],
      ['a type that never was', () => ({ type: 'ERC1155' })],
      [
        'one token of fifty, any place',
        () => ({ token: addressOf(0x7000 + (block() % 50)), toBlock: String(block()) }),
      ],
      ['a token of long ago', () => ({ token: addressOf(OLD) })],
      ['a token that never was', () => ({ token: addressOf(0x9999) })],
      ['a counterparty, one row in a thousand', () => ({ counterparty: addressOf(FIRST + (block() % 900)) })],
      ['a counterparty of long ago', () => ({ counterparty: addressOf(OLD) })],
      ['a counterparty that never was', () => ({ counterparty: addressOf(0x9999) })],
      ['a token and a counterparty', () => ({ token: addressOf(0x7000 + (block() % 50)), counterparty: addressOf(FIRST + (block() % 900)) })], // prettier-ignore
    ]
    for (const [name, query] of places) {
      const times: number[] = []
      for (let count = 0; count < 300; count++) {
        const startedAt = performance.now()
        await readHistory(app, caller, `DEV-${me}`, query())
        times.push(performance.now() - startedAt)
      }
      times.sort((a, b) => a - b)
      console.log(`${total} rows, ${name}: p50 ${times[150]!.toFixed(1)} ms, p99 ${times[296]!.toFixed(1)} ms`)
    }
  }
  await close()
}

const parts = (process.env.PARTS ?? 'index,users,pages').split(',')
if (parts.includes('ten')) await measureIndex(10)
if (parts.includes('index')) {
  await measureIndex(10)
  await measureIndex(1)
}
if (parts.includes('users')) await measureUsers()
if (parts.includes('pages')) await measurePages()
await cluster?.end()
process.exit()
