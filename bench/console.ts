/**
 * `npm run bench:console`: how long the lists of the console take while rows grow. It measures the pages as an operator gets them, over HTTP,
 * with their statements, on PostgreSQL with its own settings. Rows are made by the database, in the proportions of a busy installation.
 * Arguments: rows of the large tables, in millions (1). `BENCH_DATABASE=embedded` measures the embedded database.
 */
import assert from 'node:assert/strict'
import { performance } from 'node:perf_hooks'
import { sql } from 'kysely'
import type { RootDb } from '../src/store/db.ts'
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
const { rehearse } = await import('../test/rehearsal.ts')
const { openBrowser } = await import('../test/kit/browser.ts')
const { putOperator } = await import('../src/operator/operators.ts')

const world = await rehearse({ env: { RATE_LIMITS: 'off' } })
const { db } = world.app
await fill(db)
const browser = openBrowser(world.origin)
await putOperator(world.app, { userId: 'DEV-opal', role: 'owner' })
await browser.signIn('/console', 'opal')

const one = Math.floor(ROWS / 3)
const id = `tx_${String(one).padStart(10, '0')}`
const lists: [what: string, path: string][] = [
  ['overview', '/console'],
  ['transaction by id', `/console/search?q=${id}`],
  ['transaction by hash', `/console/search?q=0x${one.toString(16).padStart(64, '0')}`],
  ['user by id', `/console/search?q=DEV-user${one}`],
  ['user by beginning of a name, few', `/console/search?q=user${String(one).slice(0, -1)}`],
  ['user by beginning of a name, all', '/console/search?q=user'],
  ['no match', '/console/search?q=nobody-has-this-name'],
  ['transaction', `/console/transactions/${id}`],
  ['user', `/console/users/DEV-user${one}`],
  ['user with 1 % of the transactions', '/console/users/DEV-user0'],
  ['applications', '/console/applications'],
  ['application with all users', '/console/applications/demo'],
  ['networks', '/console/networks'],
  ['audit log', '/console/audit'],
  ['audit log, middle', `/console/audit?before=${Math.floor(ROWS / 2)}`],
  ['operators', '/console/operators'],
]
process.stdout.write(
  `${ROWS} users, transactions, attempts and actions, ${APPLICATIONS} applications, ${cluster === null ? 'embedded' : 'PostgreSQL'}\n`,
)
for (const [what, path] of lists) {
  const times: number[] = []
  for (let round = 0; round < ROUNDS + 5; round++) {
    const began = performance.now()
    const { status, url } = await browser.go(path)
    if (round >= 5) times.push(performance.now() - began)
    assert.equal(status, 200, path)
    assert.ok(url.pathname.startsWith('/console'), path)
  }
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.ceil(times.length * share) - 1]!.toFixed(1)
  process.stdout.write(`${what}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms\n`)
}
await world.close()
await cluster?.end()

/** Fills the tables that the lists read. User 0 has 1 % of the transactions, and all users have the demo application. */
async function fill(on: RootDb): Promise<void> {
  await sql`insert into networks (chain_id, name, genesis_hash) values (31337, 'devnet', decode(repeat('01', 32), 'hex'))`.execute(on) // prettier-ignore
  await sql`insert into applications (client_id, name, chain_id, kind, redirect_uris, secret_hashes, permissions, allowed_origins)
    select 'app' || lpad(i::text, 8, '0'), 'App ' || i, chain_id, kind, redirect_uris, secret_hashes, permissions, allowed_origins
    from applications, generate_series(1, ${APPLICATIONS}::int) as i where client_id = 'demo'`.execute(on)
  for (let from = 0; from < ROWS; from += PORTION) {
    const to = Math.min(from + PORTION, ROWS) - 1
    const each = sql`generate_series(${from}::bigint, ${to}::bigint) as i`
    const account = sql`lpad(to_hex(i), 32, '0')::uuid`
    const owner = sql`(case when i % 100 = 0 then 0 else i end)`
    const at = sql`timestamptz '2026-01-01' + i * interval '1 second'`
    for (const statement of [
      sql`insert into accounts (account_id, user_id, address, created_at, attestation)
        select ${account}, 'DEV-user' || i, decode(lpad(to_hex(i), 40, '0'), 'hex'), ${at}, decode(repeat('00', 64), 'hex') from ${each}`,
      sql`insert into identities (provider, subject, account_id, username, email, created_at, signed_in_at)
        select 'DEV', 'user' || i, ${account}, 'user' || i, 'user' || i || '@example.com', ${at}, ${at} from ${each}`,
      sql`insert into application_users (client_id, account_id, created_at) select 'demo', ${account}, ${at} from ${each}`,
      sql`insert into transactions (id, account_id, client_id, chain_id, sender, nonce, target, value, data, abi, gas_limit, max_fee, state, hash, block_number, is_final, transitions, created_at)
        select 'tx_' || lpad(i::text, 10, '0'), lpad(to_hex(${owner}), 32, '0')::uuid, 'demo', 31337, decode(lpad(to_hex(${owner}), 40, '0'), 'hex'), i,
          decode(repeat('aa', 20), 'hex'), decode(repeat('00', 32), 'hex'), decode('a9059cbb', 'hex'), '', 60000, decode(repeat('00', 32), 'hex'),
          case when i % 1000 = 1 then 'SUBMITTED' else 'MINED' end, decode(lpad(to_hex(i), 64, '0'), 'hex'), i / 100, true, '[]', ${at} from ${each}`,
      sql`insert into attempts (chain_id, hash, transaction_id, gas_limit, max_fee, created_at, broadcast_at)
        select 31337, decode(lpad(to_hex(i), 64, '0'), 'hex'), 'tx_' || lpad(i::text, 10, '0'), 60000, decode(repeat('00', 32), 'hex'), ${at}, ${at} from ${each}`,
      sql`insert into operator_actions (seq, at, actor, via, action, target, record)
        select i + 1, ${at}, 'DEV-opal', 'console', 'freeze', 'DEV-user' || i, decode(repeat('00', 32), 'hex') from ${each}`,
    ])
      await statement.execute(on)
  }
  for (const table of ['accounts', 'identities', 'application_users', 'transactions', 'attempts', 'operator_actions'])
    await sql.raw(`analyze ${table}`).execute(on)
}
