// tier: all, because it backs up beside 200 writers
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { testCluster, testPooler } from '../../test/kit/database.ts'
import { inside, snapshotStage } from '../../test/snapshot-stage.ts'
import { AppError } from '../errors.ts'
import { openPostgres, type RootDb } from '../store/db.ts'
import { BackupError } from './fault.ts'
import { findDangling } from './tables.ts'

const skip = testCluster === null ? 'the embedded database lets one process in: needs TEST_DATABASE_URL' : false
const WRITERS = 200

test('a backup beside 200 writers is the rows of one moment, and none of them waits for it', { skip }, async (t) => {
  const stage = snapshotStage(t)
  const source = await stage.migrated('postgres')
  assert.ok('url' in source)
  // Add rows after the accounts were copied, and before the tables that refer to them.
  await inside(
    source,
    ({ query }) =>
    query(`insert into blocks select 1, g, sha256(g::text::bytea), sha256(g::text::bytea), now(), null from generate_series(1, 60000) g`), // prettier-ignore
  )
  const db = await openPostgres({ url: source.url, pooler: testPooler, pool: 12, onError: () => {} })
  let isOver = false
  let commits = 0
  let longestMs = 0
  const writers = Array.from({ length: WRITERS }, async () => {
    while (!isOver) {
      await db
        .transaction()
        .execute(async (db) => {
          const began = performance.now()
          await addPerson(db)
          longestMs = Math.max(longestMs, performance.now() - began)
        })
        .then(() => commits++, nobodyHadPlace)
    }
  })
  while (commits < WRITERS) await new Promise((resolve) => setTimeout(resolve, 10))
  const before = commits
  const file = await stage.backup(source)
  const during = commits - before
  isOver = true
  await Promise.all(writers)
  await db.destroy()
  assert.ok(during > 20, `${during} were committed meanwhile`)
  assert.ok(longestMs < 60_000, `one waited ${longestMs} ms`)

  const target = await stage.empty('postgres')
  const { rows } = await stage.restore(file, target)
  const counts = [rows.accounts, rows.identities, rows.transactions, rows.attempts]
  assert.deepEqual(new Set(counts).size, 1, `of each as many: ${counts.join()}`)
  assert.ok(rows.accounts! >= before && rows.accounts! < commits, 'neither before it began nor after it ended')
  assert.deepEqual(await inside(target, findDangling), [])
})

test(
  'a table that was rewritten or emptied before its turn came ends a backup, which would lack its rows',
  { skip },
  async (t) => {
    for (const change of [
      'alter table provider_issuers alter column issuer type varchar(300)',
      'alter table provider_issuers add column noted timestamptz not null default clock_timestamp()',
      'truncate provider_issuers',
      'drop table provider_issuers; create table provider_issuers (provider text primary key, issuer text, created_at timestamptz)',
    ]) {
      const stage = snapshotStage(t)
      const source = await stage.migrated('postgres')
      await inside(source, ({ query }) => query(`insert into provider_issuers values ('X', 'https://x.example')`))
      const backed = await inside(source, async ({ query }) => {
        // Lock the table before it is copied, so that the backup waits here.
        await query('lock table attempts in access exclusive mode')
        const backed = stage.backup(source).catch((error: unknown) => error)
        const isWaiting = async () => (await query(`select from pg_locks where not granted and relation = 'attempts'::regclass`)).length > 0 // prettier-ignore
        while (!(await isWaiting())) await new Promise((resolve) => setTimeout(resolve, 10))
        await query(change)
        return { backed }
      })
      const error = await backed.backed
      assert.ok(error instanceof BackupError, change)
      assert.match(error.message, /^The table provider_issuers was changed during the backup/)
    }
  },
)

/** On a slow machine, some of the writers wait for a connection longer than the pool allows. */
function nobodyHadPlace(error: unknown): void {
  if (!(error instanceof AppError && error.code === 'database_unavailable')) throw error
}

/** Adds a user with a write, in one commit. */
async function addPerson(
  db: Parameters<Parameters<ReturnType<RootDb['transaction']>['execute']>[0]>[0],
): Promise<void> {
  const [account_id, id, hash, bytes] = [randomUUID(), `tx_${randomUUID()}`, randomBytes(32), randomBytes(20)]
  await db
    .insertInto('accounts')
    .values({ account_id, user_id: `X-${id}`, address: bytes })
    .execute()
  await db.insertInto('transactions').values({ id, account_id, client_id: 'shop', chain_id: 1, sender: bytes, nonce: 0, target: bytes, value: hash, data: hash, gas_limit: 1, max_fee: hash, abi: 'f()', request_hash: null, state: 'SUBMITTED', transitions: '[]' }).execute() // prettier-ignore
  await db.insertInto('attempts').values({ chain_id: 1, hash, transaction_id: id, raw: hash, gas_limit: 1, max_fee: hash }).execute() // prettier-ignore
  await db.insertInto('identities').values({ provider: 'X', subject: id, account_id, username: id }).execute()
}
