import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { sql } from 'kysely'
import { openEmbedded, openPostgres } from '../src/store/db.ts'
import { readMigrations } from '../src/store/migrate.ts'
import { migratedFolder, testCluster, testDatabase, testPooler } from './database.ts'

test('each test database has every migration and nothing of another one', async (t) => {
  const both = await Promise.all([testDatabase(), testDatabase()])
  t.after(() => Promise.all(both.map(({ close }) => close())))
  const [one, other] = both.map(({ db }) => db)
  const numbers = (await readMigrations()).map(({ number }) => number)
  for (const db of [one!, other!]) {
    const rows = await db.selectFrom('migrations').select('number').orderBy('number').execute()
    assert.deepEqual(
      rows.map(({ number }) => number),
      numbers,
    )
  }
  await one!.deleteFrom('migrations').execute()
  assert.equal((await other!.selectFrom('migrations').select('number').execute()).length, numbers.length)
})

test('each folder of an embedded database has every migration and nothing of another one', async (t) => {
  const place = await mkdtemp(join(tmpdir(), 'chatelaine-folders-'))
  t.after(() => rm(place, { recursive: true }))
  const numbers = (await readMigrations()).map(({ number }) => number)
  for (const name of ['one', 'other']) {
    const dir = join(place, name)
    await migratedFolder(dir)
    const db = await openEmbedded({ dir })
    const rows = await db.selectFrom('migrations').select('number').orderBy('number').execute()
    await db.deleteFrom('migrations').execute()
    await db.destroy()
    assert.deepEqual(
      rows.map(({ number }) => number),
      numbers,
    )
  }
})

test(
  'nobody can connect to what the databases are copied from, so none of them is ever copied from half a test',
  { skip: testCluster === null && 'needs PostgreSQL: set TEST_DATABASE_URL' },
  async (t) => {
    const { db, close } = await testDatabase()
    t.after(close)
    const { rows } = await sql<{ datname: string }>`select datname from pg_database where datname like 'chatelaine_template_%'`.execute(db) // prettier-ignore
    assert.ok(rows.length > 0)
    for (const { datname } of rows) {
      const url = new URL(testCluster!)
      url.pathname = `/${datname}`
      const into = await openPostgres({ url: url.href, pooler: testPooler, pool: 1, onError: () => {} })
      t.after(() => into.destroy())
      await assert.rejects(into.selectFrom('migrations').selectAll().execute())
    }
  },
)
