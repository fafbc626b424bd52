/**
 * `npm run bench:history-growth`: what a row costs to store, and a page of one user to read, while the rows of others grow. On
 * PostgreSQL of our own with its own settings: 128 MB of buffers, far less than the rows, so that what is read past them
 * is counted, whatever the machine and its memory. For the table as it is, and for it parted by hash of the account, by blocks, and by both.
 * Arguments: rows of others, in millions, smallest first (0.1 1 4).
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import type { Chain } from '../src/chain/network.ts'
import { insertTransfers } from '../src/history/columns.ts'
import type { TransferRow } from '../src/history/rows.ts'
import { selectTransfers } from '../src/history/select.ts'
import type { Hex } from '../src/ids.ts'
import type { RootDb } from '../src/store/db.ts'
import { startPostgres } from './postgres.ts'

delete process.env.TEST_DATABASE_URL
const cluster = await startPostgres()
assert(cluster !== null, 'this needs PostgreSQL')
process.env.TEST_DATABASE_URL = cluster.url
const { testDatabase } = await import('../test/kit/database.ts')

const SIZES = process.argv.slice(2).map((millions) => Math.round(Number(millions) * 1e6))
if (SIZES.length === 0) SIZES.push(100_000, 1_000_000, 4_000_000)
const LAYOUTS = (process.env.LAYOUTS ?? 'one,hash,blocks,hash-blocks').split(',')
/** of the user whose pages are read, spread over all blocks */
const OWN = 1_000
/** users that others' rows are of */
const USERS = 1_000_000
const PER_BLOCK = 100
/** rows whose storing is measured at each size */
const MEASURED = 40_000
const CHAIN = { chainId: 31337 } as Chain
const ME = '11111111-1111-4111-8111-111111111111'

/** rows of one statement: it has to end within the time-out of statements */
const PORTION = 20_000
const HASHES = 16
/** blocks of one part, half a million rows */
const BLOCKS_OF_PART = 5_000

/** The same table in parts: its columns, its primary key and its indexes. */
async function part(db: RootDb, layout: string, blocks: number): Promise<void> {
  if (layout === 'one') return
  await sql`alter table transfers rename to transfers_before`.execute(db)
  const [by, hashes] = layout === 'blocks' ? ['range (block_number)', 0] : ['hash (account_id)', HASHES]
  await sql.raw(`create table transfers (like transfers_before including defaults) partition by ${by}`).execute(db)
  const ranges = async (of: string) => {
    for (let from = 0; from < blocks; from += BLOCKS_OF_PART) {
      const range = `from (${from}) to (${from + BLOCKS_OF_PART})`
      await sql.raw(`create table ${of}_${from} partition of ${of} for values ${range}`).execute(db)
    }
  }
  for (let hash = 0; hash < hashes; hash++) {
    const inside = layout === 'hash-blocks' ? 'partition by range (block_number)' : ''
    const [name, remainder] = [`transfers_${hash}`, `(modulus ${HASHES}, remainder ${hash})`]
    await sql.raw(`create table ${name} partition of transfers for values with ${remainder} ${inside}`).execute(db)
    if (inside !== '') await ranges(name)
  }
  if (hashes === 0) await ranges('transfers')
  const { rows } = await sql<{ indexdef: string }>`select indexdef from pg_indexes where tablename = 'transfers_before'`.execute(db) // prettier-ignore
  await sql`drop table transfers_before`.execute(db)
  for (const { indexdef } of rows) await sql.raw(indexdef.replaceAll('transfers_before', 'transfers')).execute(db)
}

const idOf = (user: number): string => `00000000-0000-8000-8000-${user.toString(16).padStart(12, '0')}`
const TOKENS = 500

/** Rows of others, and now and then one of ours, as the chain would bring them. */
async function grow(db: RootDb, from: number, to: number, total: number): Promise<void> {
  const every = Math.floor(total / OWN)
  for (let start = from; start < to; start += PORTION) {
    await sql`insert into transfers (account_id, chain_id, block_number, log_index, batch_index, direction, token_type, token, sender, recipient,
        token_id, value, hash, block_hash, mined_at, is_spam)
      select case when n % ${every} = 0 then ${ME}::uuid
          else ('00000000-0000-8000-8000-' || lpad(to_hex((hashint8(n)::bigint + 2147483648) % ${USERS}), 12, '0'))::uuid end,
        31337, n / ${PER_BLOCK}, n % ${PER_BLOCK}, 0, n % 2, 20,
        decode(lpad(to_hex(28672 + n % ${TOKENS}), 40, '0'), 'hex'), decode(substr(md5(n::text || 'from'), 1, 32) || '00000000', 'hex'),
        decode(substr(md5(n::text || 'to'), 1, 32) || '00000000', 'hex'), null, decode(lpad(to_hex(n), 64, '0'), 'hex'),
        decode(md5((n / 3)::text) || md5((n / 3)::text), 'hex'), decode(md5((n / ${PER_BLOCK})::text) || md5(''), 'hex'),
        to_timestamp(1500000000 + n / ${PER_BLOCK} * 12), n % 10 = 0
      from generate_series(${start}::int, ${Math.min(to, start + PORTION) - 1}::int) as n`.execute(db)
  }
  await sql`vacuum analyze transfers`.execute(db)
  await sql`checkpoint`.execute(db)
}

const word = (value: number): Hex => `0x${value.toString(16).padStart(64, '0')}`
const random = (bytes: number): Hex => `0x${randomBytes(bytes).toString('hex')}`

/** What the history stores of blocks behind the rows that are there, in its own commits of 2,000. */
function rowsAt(block: number): TransferRow[] {
  return Array.from({ length: MEASURED }, (_, n) => ({
    accountId: idOf(Math.floor(Math.random() * USERS)),
    ...{ blockNumber: block + Math.floor(n / PER_BLOCK), logIndex: n % PER_BLOCK, batchIndex: 0, direction: n % 2 },
    ...{ tokenType: 20, token: `0x${(28_672 + (n % TOKENS)).toString(16).padStart(40, '0')}`, sender: random(20) },
    ...{ recipient: random(20), tokenId: null, value: word(n), hash: random(32), blockHash: random(32) },
    ...{ minedAt: 1_500_000_000 + block * 12, isSpam: false, omitted: 0 },
  }))
}

type Counters = { read: number; wal: number }

async function counters(db: RootDb): Promise<Counters> {
  await sql`select pg_stat_force_next_flush()`.execute(db)
  await sql`select 1`.execute(db)
  const { rows } = await sql<{ read: string; wal: string }>`
    select sum(blks_read)::text as read, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::text as wal
    from pg_stat_database where datname = current_database()`.execute(db)
  return { read: Number(rows[0]!.read), wal: Number(rows[0]!.wal) }
}

/** Stores rows and takes them away again. */
async function store(db: RootDb, block: number): Promise<string> {
  const rows = rowsAt(block)
  const before = await counters(db)
  const cpu = cluster!.cpuMillis()
  for (let start = 0; start < rows.length; start += 2_000)
    assert.equal(await insertTransfers(db, CHAIN, rows.slice(start, start + 2_000)), 2_000)
  const spent = cluster!.cpuMillis() - cpu
  const after = await counters(db)
  const each = (value: number, digits: number) => (value / MEASURED).toFixed(digits)
  await sql`delete from transfers where chain_id = 31337 and block_number >= ${block}`.execute(db)
  await sql`vacuum transfers`.execute(db)
  return `${each(spent * 1_000, 1)} µs of PostgreSQL a row, ${each(after.read - before.read, 2)} pages read, ${each(after.wal - before.wal, 0)} bytes of WAL`
}

const QUESTIONS = { 'any place': {}, 'one token': { token: 28_672 }, 'what never was': { token: 1 } } as const

async function pages(db: RootDb, blocks: number): Promise<string> {
  const told: string[] = []
  for (const [name, asked] of Object.entries(QUESTIONS)) {
    const times: number[] = []
    const before = await counters(db)
    for (let count = 0; count < 200; count++) {
      const startedAt = performance.now()
      await selectTransfers(db, {
        ...{ accountId: ME, chainId: 31337, after: null, limit: 51, unlike: [] },
        bounds: { indexedTo: Math.floor(Math.random() * blocks), finalizedTo: -1 },
        filters: {
          ...{ types: null, direction: 'all', counterparty: null, fromBlock: null, toBlock: null, fromTime: null },
          ...{ toTime: null, isFinalOnly: false, includesSpam: false },
          token: 'token' in asked ? (`0x${asked.token.toString(16).padStart(40, '0')}` as Hex) : null,
        },
      })
      times.push(performance.now() - startedAt)
    }
    const read = (await counters(db)).read - before.read
    times.sort((a, b) => a - b)
    told.push(
      `${name} p50 ${times[100]!.toFixed(1)} p99 ${times[197]!.toFixed(1)} ms, ${(read / 200).toFixed(1)} pages read`,
    )
  }
  return told.join('; ')
}

for (const layout of LAYOUTS) {
  const { db, close } = await testDatabase()
  const total = SIZES.at(-1)!
  await part(db, layout, total / PER_BLOCK + MEASURED / PER_BLOCK)
  let rows = 0
  for (const size of SIZES) {
    await grow(db, rows, size, total)
    rows = size
    const { rows: taken } = await sql<{ bytes: string }>`
      select sum(pg_total_relation_size(oid))::text as bytes from pg_class where relkind = 'r' and relname like 'transfers%'`.execute(
      db,
    )
    const bytes = Number(taken[0]!.bytes)
    console.log(`${layout}, ${size} rows of others, ${(bytes / size).toFixed(0)} bytes each`)
    console.log(`  storing: ${await store(db, size / PER_BLOCK)}`)
    console.log(`  a page: ${await pages(db, size / PER_BLOCK)}`)
  }
  await close()
}
await cluster.end()
process.exit()
