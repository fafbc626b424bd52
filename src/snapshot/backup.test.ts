// tier: all, because it restores whole installations
import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fillEveryTable, readEveryTable } from '../../test/every-table.ts'
import { inside, kinds, snapshotStage } from '../../test/snapshot-stage.ts'
import { pieceName, type SnapshotRecord } from './manifest.ts'
import { LEFT_OUT, readTables } from './tables.ts'

for (const from of kinds)
  for (const to of kinds)
    test(`every row of every table and every file comes back as it was, ${from} to ${to}`, async (t) => {
      const stage = snapshotStage(t)
      const source = await stage.migrated(from)
      const before = await inside(source, async (session) => {
        await fillEveryTable(session, 7)
        return readEveryTable(session)
      })
      for (const [table, rows] of Object.entries(before)) assert.ok(rows.length > 0, `${table} has rows`)
      const files = [
        { name: 'auth-keys.json', content: Buffer.from('{"keys":[]}') },
        { name: 'settings.env', content: Buffer.from("A='b'\n") },
      ]
      const file = await stage.backup(source, files)
      const folder = join(stage.folder, 'files')
      const target = await stage.empty(to)
      const restored = await stage.restore(file, target, folder)
      assert.deepEqual(await inside(target, readEveryTable), before)
      assert.deepEqual(restored.migrated, [])
      for (const { name, content } of files) {
        assert.deepEqual(readFileSync(join(folder, name)), content)
        assert.equal(statSync(join(folder, name)).mode & 0o777, 0o600)
      }
      // A number that the database gives to a new row continues after those that were restored.
      const next = await inside(target, ({ query }) => query<{ seq: string }>(`insert into facts (kind, subject, data) values ('user', '', '{}') returning seq::text as seq`)) // prettier-ignore
      assert.equal(Number(next[0]!.seq), 1_007)
      await inside(target, ({ query }) => query('delete from facts where seq = 1007'))
      assert.equal(statSync(folder).mode & 0o777, 0o700)
      assert.equal(statSync(file).mode & 0o777, 0o600)
      // Indexes and constraints are equal as well.
      assert.deepEqual(await inside(target, readShape), await inside(source, readShape))
      if (from !== to) return
      // The restored database can be backed up again.
      const again = await stage.empty(from)
      await stage.restore(await stage.backup(target), again)
      assert.deepEqual(await inside(again, readEveryTable), before)
    })

type Shape = { indexes: unknown[]; constraints: unknown[]; migrations: unknown[] }
async function readShape({ query }: Parameters<typeof readEveryTable>[0]): Promise<Shape> {
  return {
    indexes: await query(
      'select tablename, indexname, indexdef from pg_indexes where schemaname = current_schema() order by 1, 2',
    ),
    constraints: await query(
      `select conrelid::regclass::text as t, conname, pg_get_constraintdef(oid) as d from pg_constraint where connamespace = current_schema()::regnamespace and contype <> 'n' order by 1, 2`,
    ),
    migrations: await query('select number, name, sha256 from migrations order by 1'),
  }
}

test('every table of the schema is in a backup or is named as left out, one that came since included', async (t) => {
  const stage = snapshotStage(t)
  const source = await stage.migrated()
  const { all, taken } = await inside(source, async (session) => {
    await session.query('create table of_tomorrow (id text primary key, account_id uuid references accounts)')
    return {
      all: await session.query<{ name: string }>(`select tablename as name from pg_tables where schemaname = current_schema() order by 1`), // prettier-ignore
      taken: (await readTables(session)).map(({ name }) => name),
    }
  })
  assert.deepEqual([...taken, ...Object.keys(LEFT_OUT)].toSorted(), all.map(({ name }) => name).toSorted())
  assert.ok(taken.includes('of_tomorrow'))
  const file = await stage.backup(source)
  const record = JSON.parse(readFileSync(`${file}.json`, 'utf8')) as SnapshotRecord
  assert.deepEqual(Object.keys(record.rows).toSorted(), taken.toSorted())
})

test('a table of many pieces is whole, in any order of its rows', async (t) => {
  const stage = snapshotStage(t)
  for (const kind of kinds) {
    const source = await stage.migrated(kind)
    await inside(source, ({ query }) =>
      query(
        `insert into blocks select g % 3, g, sha256(g::text::bytea), sha256('p'::bytea || g::text::bytea), now() + g * interval '1 microsecond', null from generate_series(1, 60000) g`,
      ),
    )
    const file = await stage.backup(source)
    const names: string[] = []
    await stage.forge(file, (entries) => {
      names.push(...entries.map(({ name }) => name))
      return entries
    })
    assert.ok(names.includes(pieceName('blocks', 2)), `several pieces, ${kind}`)
    const target = await stage.empty(kind)
    await stage.restore(file, target)
    assert.deepEqual((await inside(target, readEveryTable)).blocks, (await inside(source, readEveryTable)).blocks)
  }
})
