// tier: default, because everything is stored through it
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { sql } from 'kysely'
import { emptyPostgres, testCluster, testDatabase } from '../../test/kit/database.ts'
import { toHex } from '../hex.ts'
import { fromWord, toWord } from './bytes.ts'
import { openPostgres, retrying } from './db.ts'
import { createLedger, migrate, readMigrations } from './migrate.ts'
import { prepared } from './prepared.ts'

test('migrations applied twice leave the database as it is', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  const before = await db.selectFrom('migrations').select(['number', 'sha256']).execute()
  await migrate(db)
  assert.deepEqual(await db.selectFrom('migrations').select(['number', 'sha256']).execute(), before)
  assert.ok(before.length > 0)
})

test('a migration that a database lacks is applied once; one that fails leaves nothing of it', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  const all = await readMigrations()
  const number = all.at(-1)!.number + 1
  const adding = (text: string) => [...all, { number, name: `${number}_later.sql`, text, sha256: text }]
  const statement = 'create table later (one int);\n'
  await assert.rejects(migrate(db, adding(`${statement}select none from later;\n`)), /none/)
  for (let time = 0; time < 2; time++) await migrate(db, adding(statement))
  await assert.rejects(migrate(db), /newer version/)
})

test('a migration that was changed after it had been applied is refused', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  await db.updateTable('migrations').set({ sha256: 'another' }).where('number', '=', 1).execute()
  await assert.rejects(migrate(db), /was changed after/)
})

test('a database of a newer version is refused', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  await db.insertInto('migrations').values({ number: 9_999, name: 'later', sha256: 'x' }).execute()
  await assert.rejects(migrate(db), /newer version/)
})

test('a statement that cannot be serialised runs again by itself; within a transaction only the whole transaction does', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  await sql`create sequence tries`.execute(db)
  // A sequence also counts in transactions that are rolled back.
  const failing = sql`do $$ begin if nextval('tries') % 3 <> 0 then raise exception using errcode = '40001'; end if; end $$`
  const tries = async () => Number((await sql<{ last_value: string }>`select last_value from tries`.execute(db)).rows[0]!.last_value) // prettier-ignore
  await failing.execute(db)
  assert.equal(await tries(), 3)
  const transaction = () => db.transaction().execute((work) => failing.execute(work))
  await assert.rejects(transaction(), { code: '40001' })
  assert.equal(await tries(), 4)
  await retrying(transaction)
  assert.equal(await tries(), 6)
})

test('bytes, 256-bit words, safe integers, times and JSON come back as they went in', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  const largest = 2n ** 256n - 1n
  const at = new Date('2026-01-02T03:04:05.678Z')
  await db
    .insertInto('blocks')
    .values({
      chain_id: 2 ** 53 - 1,
      number: 7,
      hash: toWord(largest),
      parent_hash: toWord(0n),
      mined_at: at,
      base_fee: toWord(1n),
    })
    .execute()
  const row = await db.selectFrom('blocks').selectAll().executeTakeFirstOrThrow()
  assert.equal(fromWord(row.hash), largest)
  assert.equal(fromWord(row.parent_hash), 0n)
  assert.equal(toHex(row.hash), `0x${'f'.repeat(64)}`)
  assert.equal(row.chain_id, 2 ** 53 - 1)
  assert.equal(row.mined_at.getTime(), at.getTime())
})

test(
  'the table of what was applied is made by replicas at once, whichever way PostgreSQL refuses the others',
  { skip: testCluster === null ? 'the embedded database has one connection' : false },
  async (t) => {
    const { url, drop } = await emptyPostgres(testCluster!)
    const replicas = await Promise.all(Array.from({ length: 8 }, () => openPostgres({ url, pool: 1, onError: () => {} }))) // prettier-ignore
    t.after(async () => {
      await Promise.all(replicas.map((db) => db.destroy()))
      await drop()
    })
    // In about one of six rounds, PostgreSQL rejects the name of the row type.
    for (let round = 0; round < 40; round++) {
      await Promise.all(replicas.map((db) => createLedger(db)))
      await sql`drop table migrations`.execute(replicas[0]!)
    }
  },
)

test(
  'replicas that start together migrate once',
  { skip: testCluster === null ? 'the embedded database has one connection' : false },
  async (t) => {
    const { url, drop } = await emptyPostgres(testCluster!)
    t.after(drop)
    const replicas = await Promise.all([1, 2, 3].map(() => openPostgres({ url, pool: 2, onError: () => {} })))
    await Promise.all(replicas.map((db) => migrate(db)))
    const rows = await replicas[0]!.selectFrom('migrations').select('number').execute()
    assert.equal(new Set(rows.map((row) => row.number)).size, rows.length)
    await Promise.all(replicas.map((db) => db.destroy()))
  },
)

test('an embedded database that was never asked anything lets its process end', async () => {
  const child = spawn(
    process.execPath,
    [
      '-e',
      `import(${JSON.stringify(new URL('db.ts', import.meta.url).href)}).then((m) => m.openEmbedded({ dir: 'memory://' })).then((db) => db.destroy())`,
    ],
    { stdio: 'ignore', timeout: 300_000 },
  )
  const [code] = await once(child, 'exit')
  assert.equal(code, 0)
})

test(
  'a marked statement is kept by its connection and planned for each use, others are not kept, and with `off` none is',
  { skip: testCluster === null ? 'the embedded database plans each time' : false },
  async (t) => {
    const { url, drop } = await emptyPostgres(testCluster!)
    t.after(drop)
    for (const prepares of [true, false]) {
      const db = await openPostgres({ url, pool: 1, prepares, onError: () => {} })
      const ask = (value: number) =>
        sql<{ said: number }>`${prepared} select ${value}::int + 1 as said`
          .execute(db)
          .then(({ rows }) => rows[0]!.said)
      assert.deepEqual([await ask(1), await ask(2), await ask(3)], [2, 3, 4])
      await sql`select ${5}::int`.execute(db)
      const { rows } = await sql<{
        uses: string
      }>`select custom_plans as uses from pg_prepared_statements where name like 'chatelaine%'`.execute(db)
      assert.deepEqual(
        rows.map(({ uses }) => Number(uses)),
        prepares ? [3] : [],
      )
      await db.destroy()
    }
  },
)
