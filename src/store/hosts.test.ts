import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { findPrograms, startPair } from '../../test/chaos/failover-pair.ts'
import { testCluster } from '../../test/database.ts'
import { openPostgres, type RootDb } from './db.ts'
import { readHosts } from './hosts.ts'

const names = (url: string) => readHosts(url).list.map(({ name }) => name)

test('one server, several, and what node-postgres takes besides are read', () => {
  assert.deepEqual(names('postgres://u:p@h1:5432/db'), ['h1:5432'])
  assert.deepEqual(names('postgresql://u@h1:5432,h2,[::1]:5434/db?target_session_attrs=read-write'), ['h1:5432', 'h2', '[::1]:5434']) // prettier-ignore
  assert.deepEqual(names('postgres:///db?host=/run/postgresql'), [''])
  assert.deepEqual(names('socket:/run/postgresql?db=wallets'), ['its socket'])
})

test('each server of several has the user, the database and the other parameters, and the list itself is not sent', () => {
  const { list, mustTakeWrites } = readHosts(
    'postgres://u:s%40cret@h1:1,h2:2/db?sslmode=verify-full&target_session_attrs=primary',
  )
  assert.deepEqual(
    list.map(({ url }) => url),
    ['postgres://u:s%40cret@h1:1/db?sslmode=verify-full', 'postgres://u:s%40cret@h2:2/db?sslmode=verify-full'],
  )
  assert.equal(mustTakeWrites, true)
  assert.equal(readHosts('postgres://u@h1/db').mustTakeWrites, false)
  assert.equal(readHosts('postgres://u@h1/db?target_session_attrs=read-write').mustTakeWrites, true)
})

test('a connection string that cannot be read is refused by its part, and never repeated', () => {
  const wrong: [string, RegExp][] = [
    ['postgres://u:hush@h1:5432,:5433/db', /^host 2 must/],
    ['postgres://u:hush@h1:5432,/db', /^host 2 must/],
    ['postgres://u:hush@h1:x,h2/db', /^host 1 must/],
    ['postgres://u:hush@h1:70000,h2/db', /^the port of host 1/],
    ['postgres://u:hush@h1,h2/db?target_session_attrs=standby', /^target_session_attrs must be/],
    ['postgres://u:hush@/db?host=h1,h2', /^several hosts stand before/],
    ['postgres://u:hu/sh@h1,h2/db', /^host 1 must/],
    ['host=h1,h2 password=hush', /^it must look like/],
    ['hush', /^it must look like/],
  ]
  for (const [url, what] of wrong)
    assert.throws(
      () => readHosts(url),
      (error: Error) => what.test(error.message) && !/hu\/?sh/.test(error.message),
      url,
    )
})

const programs = findPrograms()
const skip =
  testCluster === null
    ? 'needs PostgreSQL: set TEST_DATABASE_URL'
    : programs === null
      ? "needs PostgreSQL's programs on this machine for a standby of its own"
      : false

const portOf = async (db: RootDb) =>
  (await sql<{ port: number }>`select inet_server_port() as port`.execute(db)).rows[0]!.port

test(
  'of several servers the primary is used, after a promotion the new one, and the old one that comes back is not',
  { skip, timeout: 120_000 },
  async (t) => {
    const pair = await startPair(programs!)
    t.after(() => pair.stop())
    const told: string[] = []
    const rivals: string[] = []
    const open = (url: string) =>
      openPostgres({
        ...{ url, pool: 3, onError: () => {} },
        onPrimary: (name) => void told.push(name),
        onSecondPrimary: (names_) => void rivals.push(names_),
      })
    const backwards = new URL(pair.doorUrl)
    const standbyFirst = pair.doorUrl.replace(
      backwards.host,
      `127.0.0.1:${pair.standby.port},127.0.0.1:${pair.primary.port}`,
    )
    const db = await open(standbyFirst)
    t.after(() => db.destroy())
    assert.equal(await portOf(db), pair.primary.port)
    await sql`create table things (n int)`.execute(db)

    await pair.primary.kill()
    await assert.rejects(portOf(db), { code: 'database_unavailable' })
    await pair.standby.promote()
    const startedAt = performance.now()
    await until(async () => (await portOf(db)) === pair.standby.port)
    assert.ok(performance.now() - startedAt < 5_000)
    await sql`insert into things values (1)`.execute(db)

    await pair.primary.start()
    const fresh = await open(pair.listUrl)
    t.after(() => fresh.destroy())
    assert.equal(await portOf(fresh), pair.standby.port)
    assert.deepEqual(rivals, [`127.0.0.1:${pair.standby.port} and 127.0.0.1:${pair.primary.port}`])
    // The new primary gone, the old one within reach: whoever has seen the promotion does not go back.
    await pair.standby.kill()
    await assert.rejects(portOf(fresh), { code: 'database_unavailable' })
    await assert.rejects(portOf(db), { code: 'database_unavailable' })
    assert.deepEqual(new Set(told), new Set([pair.primary.port, pair.standby.port].map((port) => `127.0.0.1:${port}`)))
  },
)

test(
  'a process that stayed with the old primary leaves it when the other one was promoted',
  { skip, timeout: 120_000 },
  async (t) => {
    const pair = await startPair(programs!)
    t.after(() => pair.stop())
    const db = await openPostgres({ url: pair.listUrl, pool: 3, onError: () => {} })
    t.after(() => db.destroy())
    assert.equal(await portOf(db), pair.primary.port)
    await pair.standby.promote()
    await until(async () => (await portOf(db)) === pair.standby.port)
  },
)

async function until(isSo: () => Promise<boolean>): Promise<void> {
  const endsAt = performance.now() + 20_000
  while (!(await isSo().catch(() => false))) {
    assert.ok(performance.now() < endsAt, 'it took more than 20 s')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
