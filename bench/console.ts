/**
 * `npm run bench:console`: how long the lists of the console and of the account pages take while rows grow. It measures the pages as
 * operators and users get them, over HTTP, with their statements, on PostgreSQL. Each round asks for another user and transaction, so that
 * rows come from the disk unless they are buffered. Rows are made by the database, in the proportions of a busy installation.
 * Arguments: rows of the large tables, in millions (1). `BENCH_DATABASE=embedded` measures the embedded database. `BENCH_KEPT=postgres://…`
 * names a database that remains: a run continues its rows where an earlier run ended. `ROUNDS=0` only makes rows.
 */
import assert from 'node:assert/strict'
import { performance } from 'node:perf_hooks'
import { sql } from 'kysely'
import { accountReads } from '../src/account/reads.ts'
import { accountIdOf } from '../src/ids.ts'
import type { AccountSlices } from '../src/oauth/account/slices.ts'
import { openPostgres, type RootDb } from '../src/store/db.ts'
import { migrate } from '../src/store/migrate.ts'
import { fakeChain } from '../test/fake-chain.ts'
import { startPostgres } from './postgres.ts'

const MILLIONS = Number(process.argv[2] ?? 1)
const ROWS = Math.round(MILLIONS * 1e6)
const ROUNDS = Number(process.env.ROUNDS ?? 200)
/** rows of one statement: it has to end within the time-out of statements */
const PORTION = 200_000
const APPLICATIONS = Math.max(60, Math.min(10_000, ROWS / 1_000))

const cluster = await startPostgres()
if (cluster === null) delete process.env.TEST_DATABASE_URL
else process.env.TEST_DATABASE_URL = cluster.url
const { addressOf, rehearse } = await import('../test/rehearsal.ts')
const { openBrowser } = await import('../test/kit/browser.ts')
const { putOperator } = await import('../src/operator/operators.ts')

/** null: the database of this run */
const kept = process.env.BENCH_KEPT === undefined ? null : await openKept(process.env.BENCH_KEPT)
/** Reads of the account pages, by the world that opens after them. */
const slices = new Proxy({} as AccountSlices, {
  get: (_, name) => (name === 'sending' ? null : Reflect.get(accountReads(world.app), name)),
})
const world = await rehearse({
  env: { RATE_LIMITS: 'off' },
  slices,
  ...(kept === null ? {} : { slow: () => kept }),
})
const { db } = world.app
const node = fakeChain({})
node.mine(1)
world.app.chains.set(31_337, node.chain)
await fill(db)
const operator = openBrowser(world.origin)
await putOperator(world.app, { userId: 'DEV-opal', role: 'owner' })
await operator.signIn('/console', 'opal')
const whale = openBrowser(world.origin)
await whale.signIn('/account', 'user0')

/** A number that differs from round to round, far from that of the round before. It is no user with another's writes. */
const one = (round: number): number => (Math.floor(ROWS * ((round * 0.618034) % 1)) & ~1) + 1
const txOf = (at: number): string => `tx_${String(at).padStart(10, '0')}`
type List = [what: string, path: (round: number) => string, browser?: typeof whale]
const lists: List[] = [
  ['overview', () => '/console'],
  ['search: transaction by id', (round) => `/console/search?q=${txOf(one(round))}`],
  ['search: transaction by hash', (round) => `/console/search?q=0x${one(round).toString(16).padStart(64, '0')}`],
  ['search: user by id', (round) => `/console/search?q=DEV-user${one(round)}`],
  ['search: beginning of a few names', (round) => `/console/search?q=user${String(one(round)).slice(0, -1)}`],
  ['search: beginning of many names', (round) => `/console/search?q=user${String(one(round)).slice(0, 2)}`],
  ['search: beginning of all names', () => '/console/search?q=user'],
  ['search: no match', () => '/console/search?q=nobody-has-this-name'],
  ['transaction', (round) => `/console/transactions/${txOf(one(round))}`],
  ['user', (round) => `/console/users/DEV-user${one(round)}`],
  ['user with 1 % of the transactions', () => '/console/users/DEV-user0'],
  ['applications', () => '/console/applications'],
  ['application with all users', () => '/console/applications/demo'],
  ['networks', () => '/console/networks'],
  ['audit log', () => '/console/audit'],
  ['audit log, anywhere', (round) => `/console/audit?before=${one(round)}`],
  ['operators', () => '/console/operators'],
  ['account of this user', () => '/account', whale],
  ['account: activity', () => '/account/activity', whale],
  ['account: activity, sent', () => '/account/activity?direction=out', whale],
  ['account: activity, received', () => '/account/activity?direction=in', whale],
  [
    'account: activity, an application with few of the writes',
    () => '/account/activity?application=app00000001',
    whale,
  ],
  ['account: applications', () => '/account/applications', whale],
  ['account: security', () => '/account/security', whale],
]
process.stdout.write(
  `${ROWS} users, transactions, attempts and actions, ${APPLICATIONS} applications, ${cluster === null ? 'embedded' : 'PostgreSQL'}\n`,
)
for (const [what, path, browser = operator] of ROUNDS === 0 ? [] : lists) {
  const times: number[] = []
  const cpuBefore = [process.cpuUsage(), cluster?.cpuMillis() ?? 0] as const
  for (let round = 0; round < ROUNDS + 5; round++) {
    const began = performance.now()
    const { status, url, text } = await browser.go(path(round))
    if (round >= 5) times.push(performance.now() - began)
    assert.equal(status, 200, path(round))
    assert.equal(url.pathname, path(round).split('?')[0], path(round))
    if (what.startsWith('search: transaction')) assert.ok(text.includes(txOf(one(round))), path(round))
  }
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.ceil(times.length * share) - 1]!.toFixed(1)
  const own = process.cpuUsage(cpuBefore[0])
  const cpu = [(own.user + own.system) / 1_000, (cluster?.cpuMillis() ?? 0) - cpuBefore[1]]
  const [ours, databases] = cpu.map((ms) => (ms / (ROUNDS + 5)).toFixed(1))
  process.stdout.write(`${what}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, CPU ${ours} ms, PostgreSQL ${databases} ms\n`)
}
await world.close()
await kept?.destroy()
await cluster?.end()

async function openKept(url: string): Promise<RootDb> {
  const on = await openPostgres({ url, pool: 8, onError: () => {} })
  const { rows } = await sql<{ isNew: boolean }>`select to_regclass('accounts') is null as "isNew"`.execute(on)
  if (rows[0]!.isNew) await migrate(on)
  return on
}

/**
 * Fills the tables that the lists read, after the rows that are there. All users have the demo application. User 0 has 1 % of the
 * transactions, a thousandth of them by another application, and receives the payments, 2 % of the transactions. One account in a
 * thousand is stopped.
 */
async function fill(on: RootDb): Promise<void> {
  await sql`insert into networks (chain_id, name, genesis_hash) values (31337, 'devnet', decode(repeat('01', 32), 'hex')) on conflict do nothing`.execute(on) // prettier-ignore
  await sql`insert into applications (client_id, name, chain_id, kind, redirect_uris, secret_hashes, permissions, allowed_origins)
    select 'app' || lpad(i::text, 8, '0'), 'App ' || i, chain_id, kind, redirect_uris, secret_hashes, permissions, allowed_origins
    from applications, generate_series(1, ${APPLICATIONS}::int) as i where client_id = 'demo' on conflict do nothing`.execute(
    on,
  )
  await sql`insert into application_users (client_id, account_id) values ('app00000001', ${accountIdOf('DEV', 'user0')}) on conflict do nothing`.execute(on) // prettier-ignore
  const { rows } = await sql<{ filled: number }>`select coalesce(max(seq), 0) as filled from operator_actions`.execute(
    on,
  )
  const first = Number(rows[0]!.filled)
  for (let from = first; from < ROWS; from += PORTION) {
    const to = Math.min(from + PORTION, ROWS) - 1
    const each = sql`generate_series(${from}::bigint, ${to}::bigint) as i`
    const accountOf = (isWhale: string) => sql`(case when ${sql.raw(isWhale)} then ${accountIdOf('DEV', 'user0')} else lpad(to_hex(i), 32, '0') end)::uuid` // prettier-ignore
    const addressAt = (number: string) => sql`substr(sha256(('DEV-user' || ${sql.raw(number)})::bytea), 1, 20)`
    const isPayment = sql`i % 50 = 25`
    const at = sql`timestamptz '2026-01-01' + i * interval '1 second'`
    for (const statement of [
      sql`insert into accounts (account_id, user_id, address, created_at, attestation)
        select ${accountOf('i = 0')}, 'DEV-user' || i, ${addressAt('i')}, ${at}, case when i > 0 then decode(repeat('00', 64), 'hex') end from ${each}`,
      sql`insert into identities (provider, subject, account_id, username, email, created_at, signed_in_at)
        select 'DEV', 'user' || i, ${accountOf('i = 0')}, 'user' || i, 'user' || i || '@example.com', ${at}, ${at} from ${each}`,
      sql`insert into application_users (client_id, account_id, created_at) select 'demo', ${accountOf('i = 0')}, ${at} from ${each}`,
      sql`insert into transactions (id, account_id, client_id, chain_id, sender, nonce, target, value, data, abi, gas_limit, max_fee, state, hash, block_number, is_final, transitions, created_at)
        select 'tx_' || lpad(i::text, 10, '0'), ${accountOf('i % 100 = 0')}, case when i % 100000 = 0 then 'app00000001' else 'demo' end, 31337,
          ${addressAt('(case when i % 100 = 0 then 0 else i end)')}, i,
          case when ${isPayment} then ${Buffer.from(addressOf('DEV-user0').slice(2), 'hex')}::bytea else decode(repeat('aa', 20), 'hex') end,
          decode(lpad(case when ${isPayment} then '1' else '0' end, 64, '0'), 'hex'),
          case when ${isPayment} then ''::bytea else decode('a9059cbb', 'hex') end, '', 60000, decode(repeat('00', 32), 'hex'),
          case when i % 1000 = 1 then 'SUBMITTED' else 'MINED' end, decode(lpad(to_hex(i), 64, '0'), 'hex'), i / 100, true, '[]', ${at} from ${each}`,
      sql`insert into attempts (chain_id, hash, transaction_id, gas_limit, max_fee, created_at, broadcast_at)
        select 31337, decode(lpad(to_hex(i), 64, '0'), 'hex'), 'tx_' || lpad(i::text, 10, '0'), 60000, decode(repeat('00', 32), 'hex'), ${at}, ${at} from ${each}`,
      sql`insert into stopped_lanes (chain_id, sender, nonce, reason, created_at)
        select 31337, ${addressAt('i')}, i + 1, 'foreign transaction', ${at} from ${each} where i % 1000 = 7`,
      sql`insert into operator_actions (seq, at, actor, via, action, target, record)
        select i + 1, ${at}, 'DEV-opal', 'console', 'freeze', 'DEV-user' || i, decode(repeat('00', 32), 'hex') from ${each}`,
    ])
      await statement.execute(on)
  }
  if (first >= ROWS) return
  for (const table of [
    'accounts',
    'identities',
    'application_users',
    'transactions',
    'attempts',
    'stopped_lanes',
    'operator_actions',
  ])
    await sql.raw(`analyze ${table}`).execute(on)
}
