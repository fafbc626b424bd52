import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { sql } from 'kysely'
import { openEmbedded, openPostgres } from '../../src/store/db.ts'
import { readMigrations } from '../../src/store/migrate.ts'
import { keepTemplate, packFolder, unpackTemplate } from './embedded-template.ts'
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

test('what embedded databases are copied from is made anew where it is cut short, changed or of other migrations', async (t) => {
  const place = await mkdtemp(join(tmpdir(), 'chatelaine-templates-'))
  t.after(() => rm(place, { recursive: true }))
  await mkdir(join(place, 'from', 'empty', 'deep'), { recursive: true })
  const log = Buffer.concat([Buffer.from('written'), Buffer.alloc(5_000)])
  await writeFile(join(place, 'from', 'log'), log)
  await writeFile(join(place, 'from', 'empty', 'none'), '')
  await writeFile(join(place, 'from', 'empty', 'deep', 'zeros'), Buffer.alloc(20))
  const file = join(place, 'kept')
  let makings = 0
  const make = async () => {
    makings++
    return packFolder(join(place, 'from'))
  }
  const keep = () => keepTemplate({ file, made: 'these migrations' }, make)
  // Two files that start together make it twice; neither sees half of it.
  await Promise.all([keep(), keep()])
  const whole = await readFile(file)
  makings = 0
  await keep()
  assert.equal(makings, 0)

  // As another set of migrations would have written it: whole in itself, under a name that is not its own.
  await keepTemplate({ file: join(place, 'other'), made: 'other migrations' }, make)
  const ofOthers = await readFile(join(place, 'other'))
  const changed = Buffer.from(whole)
  changed[whole.indexOf('written')]! ^= 1
  for (const [what, planted] of Object.entries({ short: whole.subarray(0, -1), changed, ofOthers, empty: '' })) {
    makings = 0
    await writeFile(file, planted)
    const dir = join(place, what)
    unpackTemplate(await keep(), dir)
    assert.equal(makings, 1, what)
    assert.deepEqual(await readFile(file), whole)
    assert.deepEqual((await readdir(dir, { recursive: true })).toSorted(), ['empty', 'empty/deep', 'empty/deep/zeros', 'empty/none', 'log']) // prettier-ignore
    assert.deepEqual(await readFile(join(dir, 'log')), log)
    assert.deepEqual(await readFile(join(dir, 'empty', 'deep', 'zeros')), Buffer.alloc(20))
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
