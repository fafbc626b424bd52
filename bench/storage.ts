/**
 * `npm run bench:storage [-- --writes=20000 --generations=6]`: bytes that a write keeps in PostgreSQL, by table and index,
 * and how many of its updates stayed on their page. The statements of a write, of the blocks that hold it and of what is swept
 * a week after, over a generation of writes after another; vacuum runs in between, as it does by itself in a week
 * (`--vacuum=off`: not). No signer and no node: their bytes are random, as long as those of a token transfer. On the
 * cluster of TEST_DATABASE_URL, else a throw-away one.
 */
import { createHash, randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import { sql } from 'kysely'
import type { App } from '../src/app.ts'
import { readConfig } from '../src/config.ts'
import { accountIdOf, transactionIdOf, type Hex } from '../src/ids.ts'
import { migrate } from '../src/store/migrate.ts'
import { openPostgres } from '../src/store/db.ts'
import { openTelemetry } from '../src/telemetry.ts'
import { markFinal, markMined, type Mined } from '../src/transactions/settle/states.ts'
import { dropBytes } from '../src/transactions/settle/sweep.ts'
import { storeFirst } from '../src/transactions/lanes/store.ts'
import { takeNonce, type Binding } from '../src/transactions/lanes/take-nonce.ts'
import { emptyPostgres } from '../test/kit/database.ts'
import { fakeChain } from '../test/fake-chain.ts'
import { startPostgres } from './postgres.ts'
import { openState } from '../src/state.ts'
import { systemClock } from '../src/clock.ts'

const { values: flags } = parseArgs({
  options: {
    writes: { type: 'string', default: '20000' },
    generations: { type: 'string', default: '6' },
    accounts: { type: 'string', default: '3000' },
    group: { type: 'string', default: '64' },
    vacuum: { type: 'string', default: 'on' },
  },
})
const WRITES = Number(flags.writes)
const GENERATIONS = Number(flags.generations)
const ACCOUNTS = Number(flags.accounts)
/** writes that are under way at a time, and those of a block: what waits for a block is open meanwhile */
const GROUP = Number(flags.group)
const IN_BLOCK = 640
/** blocks until a block is final */
const FINALITY = 4
/** bytes of a signed transfer of tokens, fees of type 2 */
const RAW_BYTES = 178
const GWEI = 1_000_000_000n

const cluster = await startPostgres()
if (cluster === null) throw new Error('bench:storage needs PostgreSQL: see CONTRIBUTING.md.')
const database = await emptyPostgres(cluster.url)
const db = await openPostgres({ url: database.url, pooler: 'none', pool: 8, onError: () => {} })
await migrate(db)
// The database's clock, eight days on: for the connection that sweeps.
await sql`create schema later`.execute(db)
await sql`create function later.now() returns timestamptz language sql stable as $$ select pg_catalog.now() + interval '8 days' $$`.execute(
  db,
)
await sql
  .raw(`alter database ${new URL(database.url).pathname.slice(1)} set search_path = later, pg_catalog, public`)
  .execute(db)
const later = await openPostgres({ url: database.url, pooler: 'none', pool: 1, onError: () => {} })
const EIGHT_DAYS_MS = 8 * 86_400_000
const { chain, mine } = fakeChain({})
const { chainId } = chain
const app: App = {
  config: readConfig({ NODE_ENV: 'test', RATE_LIMITS: 'off', MAX_PENDING_WRITES: '1000000' }, 'server'),
  ...{
    origin: 'http://localhost:4000',
    authOrigin: 'http://localhost:4000',
    networks: new Map(),
    auth: null,
    db,
    chains: new Map([[chainId, chain]]),
    signer: {} as App['signer'],
  },
  ...{
    telemetry: openTelemetry('bench', 'silent'),
    tokenKeys: { keys: [] },
    sealKeys: { signing: null, known: new Map(), macs: null },
    state: openState(),
    clock: systemClock,
  },
}

const accounts = Array.from({ length: ACCOUNTS }, (_, index) => ({
  accountId: accountIdOf('BENCH', String(index)),
  from: hexOf(randomBytes(20)),
}))
const TARGET = hexOf(randomBytes(20))
const TERMS = {
  gas: 52_000n,
  fees: { type: 'eip1559', maxFeePerGas: 3n * GWEI, maxPriorityFeePerGas: GWEI },
} as const

type Written = { id: string; hash: Hex }
let numbers = 0
let block = 1_000

async function write(): Promise<Written> {
  const number = numbers++
  const { accountId, from } = accounts[number % ACCOUNTS]!
  const scope = { accountId, clientId: 'shop-of-the-bench', route: '/v1/contracts/method/write', key: String(number) }
  const data = hexOf(Buffer.concat([Buffer.from('a9059cbb', 'hex'), Buffer.alloc(44), randomBytes(20)]))
  const binding: Binding = {
    ...{
      id: transactionIdOf(scope, 0),
      requestHash: createHash('sha256').update(String(number)).digest(),
      reference: null,
    },
    ...{ accountId, clientId: scope.clientId, from, terms: TERMS, budget: { available: 10n ** 24n, paidBelow: 0 } },
    intent: { to: TARGET, data, value: 0n, abi: 'transfer(address to, uint256 amount)', fn: null, errors: [] },
  }
  const taken = await takeNonce(app, chain, binding, 0)
  if (taken === 'key is taken' || !('nonce' in taken)) throw new Error('a write was not bound')
  const { id, requestHash, intent, terms } = binding
  const bound = {
    id,
    requestHash,
    accountId,
    chainId,
    from,
    nonce: taken.nonce,
    to: intent.to,
    reference: null,
    value: 0n,
    data,
    ...terms,
  }
  const attempt = { raw: hexOf(randomBytes(RAW_BYTES)), hash: hexOf(randomBytes(32)), isCancel: false, ...terms }
  await storeFirst(app, chain, bound, attempt)
  return { id: binding.id, hash: attempt.hash }
}

/** A block with writes, and what it makes final, in one transaction, as the follower does. */
async function follow(written: Written[]): Promise<void> {
  const number = block++
  const mined: Mined[] = written.map((one) => ({
    ...{
      ...one,
      isCancel: false,
      blockNumber: number,
      blockHash: hexOf(createHash('sha256').update(String(number)).digest()),
    },
    ...{ succeeded: true, gasUsed: 51_000, effectiveGasPrice: 2n * GWEI },
  }))
  await db.transaction().execute(async (db) => {
    await markMined(db, app, chainId, mined)
    await markFinal(db, app, chainId, number - FINALITY)
  })
  mine(number)
}

type Sizes = Map<string, number>

async function sizes(): Promise<Sizes> {
  const { rows } = await sql<{ name: string; bytes: number }>`
    select c.relname as name, pg_relation_size(c.oid) + case c.relkind when 'r' then pg_relation_size(c.oid, 'fsm') + pg_relation_size(c.oid, 'vm')
      + coalesce((select pg_total_relation_size(c.reltoastrelid) where c.reltoastrelid <> 0), 0) else 0 end as bytes
    from pg_class c left join pg_index i on i.indexrelid = c.oid
    where coalesce(i.indrelid, c.oid) in ('transactions'::regclass, 'attempts'::regclass)`.execute(db)
  return new Map(rows.map(({ name, bytes }) => [name, Number(bytes)]))
}

const micros = { write: 0, follow: 0, sweep: 0 }
const millis = { write: 0, follow: 0, sweep: 0 }

async function timed<T>(part: keyof typeof micros, work: () => Promise<T>): Promise<T> {
  const [before, since] = [cluster!.cpuMillis(), performance.now()]
  const done = await work()
  micros[part] += (cluster!.cpuMillis() - before) * 1_000
  millis[part] += performance.now() - since
  return done
}

async function generation(): Promise<void> {
  for (let start = 0; start < WRITES; start += IN_BLOCK) {
    const written: Written[] = []
    const many = Math.min(IN_BLOCK, WRITES - start)
    await timed('write', async () => {
      const work = async () => {
        while (numbers < start + many + generationStart) written.push(await write())
      }
      await Promise.all(Array.from({ length: GROUP }, work))
    })
    await timed('follow', () => follow(written))
  }
  for (let count = 0; count <= FINALITY; count++) await follow([])
}

let generationStart = 0
const perGeneration: Sizes[] = []
for (let index = 0; index < GENERATIONS; index++) {
  generationStart = numbers
  await generation()
  await timed('sweep', async () => {
    while (await dropBytes({ db: later, clock: { ...systemClock, wall: () => Date.now() + EIGHT_DAYS_MS } }, chainId));
  })
  for (const table of flags.vacuum === 'off' ? [] : ['transactions', 'attempts'])
    await sql.raw(`vacuum (analyze) ${table}`).execute(db)
  perGeneration.push(await sizes())
}
const [first, last] = [perGeneration[(GENERATIONS >> 1) - 1]!, perGeneration.at(-1)!]
const grown = (GENERATIONS - (GENERATIONS >> 1)) * WRITES
console.log(`${numbers} writes; bytes a write, of the last ${grown}:`)
let sum = 0
for (const [name, bytes] of [...last].toSorted(([a], [b]) => a.localeCompare(b))) {
  const each = (bytes - (first.get(name) ?? 0)) / grown
  sum += each
  console.log(`  ${name.padEnd(44)} ${each.toFixed(0).padStart(6)}`)
}
console.log(`  ${'together'.padEnd(44)} ${sum.toFixed(0).padStart(6)}`)
const { rows: updates } = await sql<{ relname: string; n_tup_upd: number; n_tup_hot_upd: number }>`
  select relname, n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname in ('transactions', 'attempts')`.execute(
  db,
)
for (const { relname, n_tup_upd: all, n_tup_hot_upd: hot } of updates)
  console.log(
    `  ${relname}: ${(Number(all) / numbers).toFixed(2)} updates a write, ${((Number(hot) / Number(all)) * 100).toFixed(0)} % on their page`,
  )
for (const part of ['write', 'follow', 'sweep'] as const)
  console.log(
    `  ${part}: ${(micros[part] / numbers).toFixed(0)} µs of PostgreSQL a write, ${((numbers / millis[part]) * 1_000).toFixed(0)} a second`,
  )
const { rows: lengths } = await sql<{ name: string; bytes: number }>`
  select 'transactions' as name, avg(pg_column_size(t.*)) as bytes from transactions t where is_final union all
  select 'attempts', avg(pg_column_size(a.*)) from attempts a where raw is null`.execute(db)
console.log(`  a row: ${lengths.map(({ name, bytes }) => `${name} ${Number(bytes).toFixed(0)}`).join(', ')}`)
await later.destroy()
await db.destroy()
await database.drop()
await cluster.end()

function hexOf(bytes: Uint8Array): Hex {
  return `0x${Buffer.from(bytes).toString('hex')}`
}
