// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { findPrograms, startPair } from '../test/chaos/failover-pair.ts'
import { testCluster } from '../test/kit/database.ts'

const pages = ['high-availability.md', 'runbooks/database-restore.md']
const programs = findPrograms()
const skip =
  testCluster === null
    ? 'needs PostgreSQL: set TEST_DATABASE_URL'
    : programs === null
      ? "needs PostgreSQL's programs on this machine, for servers of its own"
      : false

test(
  'every command of the pages on failover and dumps does what they say, on a primary and a standby',
  { skip },
  async (t) => {
    const text = (await Promise.all(pages.map((page) => readFile(new URL(`../docs/operate/${page}`, import.meta.url), 'utf8')))).join('\n') // prettier-ignore
    const blocks = [...text.matchAll(/<!-- run -->\n *```sh\n([\s\S]*?)```/g)].map((match) => match[1]!)
    const [create, synchronous, promote, pooler, role, dump, restore] = blocks
    assert.equal(blocks.length, 7)
    const pair = await startPair(programs!)
    t.after(() => pair.stop())
    const folder = await mkdtemp(join(tmpdir(), 'chatelaine-failover-'))
    t.after(() => rm(folder, { recursive: true, force: true }))
    const { primary, standby } = pair
    const env = {
      PATH: `${programs}${delimiter}${process.env.PATH ?? ''}`,
      ...{ PGHOST: '127.0.0.1', PGPORT: String(primary.port), PGUSER: 'chatelaine' },
      STANDBY_PORT: String(standby.port),
      // The promoted standby.
      DATABASE_PORT: String(standby.port),
    }
    const run = (commands: string) => promisify(execFile)('bash', ['-ec', commands], { env, cwd: folder })
    const onStandby = (sql: string) => run(`psql -p "$STANDBY_PORT" -d wallet -Atc "${sql}"`)

    await run(create!)
    assert.match((await run(synchronous!)).stdout, /streaming\s*\|\s*(sync|async)/)
    await primary.admin('select 1')
    await run('psql -d wallet -c "create table kept (n int)" -c "insert into kept values (1)"')
    await primary.kill()
    await run(promote!)
    assert.equal((await onStandby('select pg_is_in_recovery()')).stdout.trim(), 'f')
    assert.match((await run(`${pooler!}\necho $DATABASE_POOLER`)).stdout, /^transaction$/m)
    await run(role!)
    const { stdout: limits } = await onStandby("select array_to_string(rolconfig, ' ') from pg_roles where rolname = 'wallet'") // prettier-ignore
    for (const limit of ['statement_timeout=15s', 'idle_in_transaction_session_timeout=30s', 'jit=off'])
      assert.ok(limits.includes(limit), limits)
    await run(dump!)
    await onStandby('insert into kept values (2)')
    await run(restore!)
    assert.equal((await onStandby('select count(*) from kept')).stdout.trim(), '1')
  },
)
