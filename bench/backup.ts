/**
 * `ACCOUNTS=1000000 TRANSFERS=2000000 WRITES=500000 node bench/backup.ts`: what `chatelaine backup` and `restore` take for an
 * installation of that size on PostgreSQL, as the processes that an operator runs: seconds, megabytes, and the most memory they had.
 * Writers go on beside the backup; how long they wait for an answer is told with it and without. EMBEDDED=1: the backup is restored into an
 * embedded database, too, as one that moves, or a drill, does.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { makeIdentity } from '../src/backup/age.ts'
import { openPostgres } from '../src/store/db.ts'
import { migrate } from '../src/store/migrate.ts'
import { startPostgres } from './postgres.ts'

const count = (name: string, otherwise: number) => Number(process.env[name] ?? otherwise)
const [ACCOUNTS, TRANSFERS, WRITES] = [count('ACCOUNTS', 100_000), count('TRANSFERS', 200_000), count('WRITES', 50_000)]
const BATCH = 50_000

const folder = mkdtempSync(join(tmpdir(), 'chatelaine-bench-backup-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
const cluster = await startPostgres()
if (cluster === null) throw new Error('needs PostgreSQL')
const admin = new pg.Client({ connectionString: cluster.url })
await admin.connect()
const names = ['from', 'to'].map((name) => `bench_backup_${name}_${process.pid}`)
const [from, to] = names.map((name) => Object.assign(new URL(cluster.url), { pathname: `/${name}` }).href)
for (const name of names) await admin.query(`create database ${name}`)
try {
  await fill(from!)
  await measure()
} finally {
  for (const name of names) await admin.query(`drop database ${name} with (force)`)
  await admin.end()
  await cluster.end()
}

async function fill(url: string): Promise<void> {
  const db = await openPostgres({ url, pool: 1, onError: () => {} })
  await migrate(db)
  await db.destroy()
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const account = (n: string) => `md5('account' || ${n})::uuid`
  const bytes = (what: string, n: string, length: number) => `substr(sha256(('${what}' || ${n})::bytea) || sha256(('${what}2' || ${n})::bytea), 1, ${length})` // prettier-ignore
  const address = (n: string) => bytes('address', n, 20)
  const each = async (rows: number, text: (range: string) => string) => {
    for (let at = 1; at <= rows; at += BATCH) await client.query(text(`generate_series(${at}, ${Math.min(rows, at + BATCH - 1)}) n`)) // prettier-ignore
  }
  await client.query(`insert into wrapped_data_keys values ('\\x01', 1, 'file', ${bytes('dek', '1', 60)}, now())`)
  await each(ACCOUNTS, (range) => `insert into accounts (account_id, user_id, address, attestation, is_key_new) select ${account('n')}, 'DISCORD-8035111022' || (10000000 + n), ${address('n')}, ${bytes('attestation', 'n', 64)}, true from ${range}`) // prettier-ignore
  await each(ACCOUNTS, (range) => `insert into identities (provider, subject, account_id, username, image_src, email, email_verified, signed_in_at) select 'DISCORD', '8035111022' || (10000000 + n), ${account('n')}, 'person' || n, 'https://cdn.example/avatars/' || md5(n::text), 'person' || n || '@mail.example', true, now() from ${range}`) // prettier-ignore
  await each(ACCOUNTS, (range) => `insert into wrapped_keys select 'DISCORD-8035111022' || (10000000 + n), ${address('n')}, 1, '\\x01', ${bytes('key', 'n', 32)}, ${bytes('iv', 'n', 12)}, ${bytes('tag', 'n', 16)} from ${range}`) // prettier-ignore
  await each(ACCOUNTS, (range) => `insert into application_users select 'shop', ${account('n')}, now() from ${range}`)
  await each(TRANSFERS, (range) => `insert into transfers select ${account(`(n % ${ACCOUNTS} + 1)`)}, 1, 1000000 + n / 20, n % 20, 0, n % 2, 20, ${bytes('token', '(n % 50)', 20)}, ${address('n')}, ${address('(n + 7)')}, null, ${bytes('value', 'n', 32)}, ${bytes('hash', 'n', 32)}, ${bytes('block', '(n / 20)', 32)}, now(), false, 0 from ${range}`) // prettier-ignore
  await each(WRITES, (range) => `insert into transactions (id, account_id, client_id, chain_id, sender, nonce, target, value, data, gas_limit, max_fee, abi, request_hash, state, hash, block_number, block_hash, gas_used, effective_gas_price, succeeded, is_final, transitions) select 'tx_' || md5(n::text), ${account(`(n % ${ACCOUNTS} + 1)`)}, 'shop', 1, ${address(`(n % ${ACCOUNTS} + 1)`)}, n / ${ACCOUNTS}, ${bytes('token', '(n % 50)', 20)}, ${bytes('zero', '0', 32)}, ${bytes('data', 'n', 64)} || '\\x00000001', 65000, ${bytes('fee', '0', 32)}, 'transfer(address,uint256)', ${bytes('request', 'n', 32)}, 'FINALIZED', ${bytes('txhash', 'n', 32)}, 1000000 + n / 20, ${bytes('block', '(n / 20)', 32)}, 51000, ${bytes('price', '0', 32)}, true, true, '[{"at": "2026-01-01T00:00:00.000Z", "state": "SUBMITTED"}, {"at": "2026-01-01T00:00:12.000Z", "state": "MINED"}]' from ${range}`) // prettier-ignore
  await each(WRITES, (range) => `insert into attempts (chain_id, hash, transaction_id, raw, gas_limit, max_fee, broadcast_at) select 1, ${bytes('txhash', 'n', 32)}, 'tx_' || md5(n::text), null, 65000, ${bytes('fee', '0', 32)}, now() from ${range}`) // prettier-ignore
  await client.query('analyze')
  const { rows } = await client.query<{ size: number }>(
    'select pg_database_size(current_database())::float8 / 1e6 as size',
  )
  say(`${ACCOUNTS} accounts with identity and wrapped key, ${TRANSFERS} transfers, ${WRITES} writes: ${Math.round(rows[0]!.size)} MB in PostgreSQL`) // prettier-ignore
  await client.end()
}

async function measure(): Promise<void> {
  const { identity, recipient } = makeIdentity()
  const [file, identityFile] = [join(folder, 'backup.age'), join(folder, 'identity')]
  writeFileSync(identityFile, identity, { mode: 0o600 })
  const alone = await writeFor(2_000)
  const copying = chatelaine(from!, 'backup', '--to', file, '--recipient', recipient, '--without-files')
  const beside = await writeWhile(copying.ended)
  say(`backup: ${await copying.ended}, ${(statSync(file).size / 1e6).toFixed(0)} MB; a write beside it p50 ${beside.p50} ms, p99 ${beside.p99} ms, alone ${alone.p50} and ${alone.p99} ms`) // prettier-ignore
  const restoring = chatelaine(to!, 'restore', file, '--identity', identityFile, '--without-files')
  say(`restore: ${await restoring.ended}`)
  if (process.env.EMBEDDED === '1')
    say(`drill, embedded: ${await chatelaine('', 'drill', file, '--identity', identityFile, '--in', folder).ended}`)
}

/** @returns seconds and the most memory of the process, in words */
function chatelaine(url: string, ...words: string[]): { ended: Promise<string> } {
  const began = performance.now()
  const program = join(import.meta.dirname, '../src/cli/main.ts')
  const env = { PATH: process.env.PATH, DATA_DIR: join(folder, 'data'), ...(url === '' ? {} : { DATABASE_URL: url }) }
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program, ...words], { env, stdio: ['ignore', 'ignore', 'inherit'] }) // prettier-ignore
  let most = 0
  const timer = setInterval(() => {
    const [, kilobytes] = /^VmHWM:\s+(\d+)/m.exec(statusOf(child.pid!)) ?? []
    most = Math.max(most, Number(kilobytes ?? 0))
  }, 50)
  const ended = new Promise<string>((resolve) => {
    child.once('exit', (code) => {
      clearInterval(timer)
      resolve(`${((performance.now() - began) / 1_000).toFixed(1)} s, ${Math.round(most / 1_024)} MiB at most, exit code ${code}`) // prettier-ignore
    })
  })
  return { ended }
}

function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}

type Waits = { p50: string; p99: string }
function writeFor(ms: number): Promise<Waits> {
  return writeWhile(new Promise((resolve) => setTimeout(resolve, ms)))
}

/** One row after another changed and committed, until something has ended. */
async function writeWhile(until: Promise<unknown>): Promise<Waits> {
  const client = new pg.Client({ connectionString: from! })
  await client.connect()
  let isOver = false
  void until.then(() => (isOver = true))
  const waits: number[] = []
  for (let n = 0; !isOver; n++) {
    const at = performance.now()
    await client.query(`update identities set signed_in_at = now() where provider = 'DISCORD' and subject = '8035111022' || $1::text`, [String(10_000_000 + (n % ACCOUNTS) + 1)]) // prettier-ignore
    waits.push(performance.now() - at)
  }
  await client.end()
  waits.sort((a, b) => a - b)
  const at = (part: number) => waits[Math.floor(waits.length * part)]!.toFixed(1)
  return { p50: at(0.5), p99: at(0.99) }
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}
