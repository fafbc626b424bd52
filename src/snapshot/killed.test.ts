// tier: all, because it kills backups and restores
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { inside, isEmpty, kinds, snapshotStage } from '../../test/snapshot-stage.ts'
import { testCluster, testPooler } from '../../test/kit/database.ts'
import { until } from '../../test/kit/until.ts'
import { AppError } from '../errors.ts'
import { openPostgres } from '../store/db.ts'
import { sql } from 'kysely'
import type { DatabasePlace } from '../store/copy.ts'

const MAIN = fileURLToPath(new URL('../cli/main.ts', import.meta.url))
const BLOCKS = `insert into blocks select 1, g, sha256(g::text::bytea), sha256('p'::bytea || g::text::bytea), now(), null from generate_series(1, 60000) g`

for (const kind of kinds)
  test(`a restore that is killed in the middle leaves nothing that counts, and is done again, ${kind}`, async (t) => {
    const stage = snapshotStage(t)
    const source = await stage.migrated(kind)
    await inside(source, ({ query }) => query(BLOCKS))
    const file = await stage.backup(source)
    const identity = join(stage.folder, 'identity')
    writeFileSync(identity, stage.keys.identity, { mode: 0o600 })
    const target = await stage.empty(kind)
    const settings: Record<string, string> =
      'url' in target
        ? { DATABASE_URL: target.url, DATABASE_POOLER: target.pooler, DATA_DIR: join(stage.folder, 'data') }
        : { DATA_DIR: join(stage.folder, 'data') }
    const place: DatabasePlace = 'url' in target ? target : { dir: join(stage.folder, 'data', 'db') }
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', MAIN, 'restore', file, '--identity', identity, '--without-files'], { env: { PATH: process.env.PATH, ...settings }, stdio: 'ignore' }) // prettier-ignore
    await until('it has begun', async () => ('dir' in place ? existsSync(`${place.dir}.partial`) : isCopying(place.url))) // prettier-ignore
    child.kill('SIGKILL')
    await once(child, 'exit')
    if ('dir' in place) assert.ok(!existsSync(place.dir))
    else await until('the database has noticed', async () => !(await isCopying(place.url)))
    if ('url' in place) assert.ok(await isEmpty(place))
    await stage.restore(file, place)
    assert.deepEqual(await inside(place, ({ query }) => query('select count(*)::int as rows from blocks')), [{ rows: 60_000 }]) // prettier-ignore
  })

async function isCopying(url: string): Promise<boolean> {
  return (await others(url, sql`state <> 'idle' and xact_start is not null`)) > 0
}

async function others(url: string, which: ReturnType<typeof sql>, act = sql`count(*)::int`): Promise<number> {
  const db = await openPostgres({ url: testCluster!, pooler: testPooler, pool: 1, onError: () => {} })
  const name = new URL(url).pathname.slice(1)
  const { rows } = await sql<{ n: number }>`select ${act} as n from pg_stat_activity where datname = ${name} and ${which}`.execute(db) // prettier-ignore
  await db.destroy()
  return Number(rows[0]?.n ?? 0)
}

test(
  'a backup whose connection is cut ends with what is wrong, and leaves no file',
  { skip: testCluster === null },
  async (t) => {
    const stage = snapshotStage(t)
    const source = await stage.migrated('postgres')
    assert.ok('url' in source)
    await inside(source, ({ query }) => query(BLOCKS))
    const making = stage.backup(source).then(
      () => null,
      (error: unknown) => error,
    )
    const isBegun = () => readdirSync(stage.folder).some((name) => name.endsWith('.partial'))
    await until('it writes', async () => isBegun())
    await others(source.url, sql`xact_start is not null`, sql`count(pg_terminate_backend(pid))::int`)
    const error = await making
    assert.ok(error instanceof AppError && error.code === 'database_unavailable', String(error))
    assert.deepEqual(readdirSync(stage.folder), [])
  },
)
