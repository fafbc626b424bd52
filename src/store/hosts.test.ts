import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { sql } from 'kysely'
import { startCable } from '../../test/chaos/cable.ts'
import { findPrograms, startPair } from '../../test/chaos/failover-pair.ts'
import { emptyPostgres, testCluster, testPooler } from '../../test/kit/database.ts'
import { until } from '../../test/kit/until.ts'
import { reasonOf } from './away.ts'
import { openPostgres, type RootDb } from './db.ts'
import { distinct, isOther, lastPromoted, readHosts } from './hosts.ts'

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
    ['postgres://u:hush@/db?host=h1,h2', /^several hosts go before/],
    ['postgres://u:hu/sh@h1,h2/db', /^host 1 must/],
    ['host=h1,h2 password=hush', /^expected postgres/],
    ['hush', /^expected postgres/],
  ]
  for (const [url, what] of wrong)
    assert.throws(
      () => readHosts(url),
      (error: Error) => what.test(error.message) && !/hu\/?sh/.test(error.message),
      url,
    )
})

const writer = (name: string, standing: { cluster?: string; timeline?: number; startedAt?: string }) => ({
  host: { url: `postgres://${name}/db`, name },
  ...{ takesWrites: true, cluster: null, timeline: null, startedAt: null },
  ...standing,
})

test('of servers that all take writes only one of a later timeline than all others is used', () => {
  const chosen = (...standings: Parameters<typeof writer>[1][]) =>
    lastPromoted(standings.map((standing, index) => writer(`h${index + 1}`, standing)))?.host.name ?? 'none'
  assert.equal(chosen({}), 'h1')
  assert.equal(chosen({ timeline: 1 }, { timeline: 2 }), 'h2')
  assert.equal(chosen({ cluster: 'a', timeline: 3 }, { timeline: 2 }, { cluster: 'a', timeline: 1 }), 'h1')
  assert.equal(chosen({}, {}), 'none')
  assert.equal(chosen({ timeline: 2 }, {}), 'none')
  assert.equal(chosen({}, { timeline: 2 }), 'none')
  assert.equal(chosen({ cluster: 'a', timeline: 2 }, { cluster: 'a', timeline: 2 }), 'none')
  assert.equal(chosen({ timeline: 1 }, { timeline: 2 }, { timeline: 2 }), 'none')
  assert.equal(chosen({ cluster: 'a', timeline: 1 }, { cluster: 'b', timeline: 2 }), 'none')
})

test('two names of one server are one server, two servers that do not tell when they started are two', () => {
  const namesOf = (...standings: Parameters<typeof writer>[1][]) =>
    distinct(standings.map((standing, index) => writer(`h${index + 1}`, standing))).map(({ host }) => host.name)
  assert.deepEqual(namesOf({ startedAt: '1.5' }, { startedAt: '1.5' }, { startedAt: '1.6' }), ['h1', 'h3'])
  assert.deepEqual(namesOf({ cluster: 'a', startedAt: '1.5' }, { cluster: 'b', startedAt: '1.5' }), ['h1', 'h2'])
  assert.deepEqual(namesOf({}, {}), ['h1', 'h2'])
})

test('a name that leads to a server which was promoted since is another server, a second name of one server is not', () => {
  const before = writer('h1', { timeline: 1, startedAt: '1.5' })
  assert.equal(isOther(before, before), false)
  assert.equal(isOther(before, { ...before, timeline: 2 }), true)
  assert.equal(isOther(before, { ...before, startedAt: '1.6' }), false)
  assert.equal(isOther(before, writer('h2', { timeline: 1, startedAt: '1.5' })), false)
  assert.equal(isOther(before, writer('h2', { timeline: 1, startedAt: '1.6' })), true)
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
  { skip },
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
    // The standby must have the row before the primary is killed.
    await pair.synchronous(true)
    await sql`create table things (n int)`.execute(db)
    await pair.synchronous(false)

    await pair.primary.kill()
    await assert.rejects(portOf(db), { code: 'database_unavailable' })
    await pair.standby.promote()
    await untilSo(async () => (await portOf(db)) === pair.standby.port)
    await sql`insert into things values (1)`.execute(db)

    await pair.primary.start()
    const fresh = await open(pair.listUrl)
    t.after(() => fresh.destroy())
    assert.equal(await portOf(fresh), pair.standby.port)
    assert.deepEqual(rivals, [`127.0.0.1:${pair.standby.port} and 127.0.0.1:${pair.primary.port}`])
    // The new primary is down and the old one reachable: a process that has seen the promotion does not go back.
    await pair.standby.kill()
    await assert.rejects(portOf(fresh), { code: 'database_unavailable' })
    await assert.rejects(portOf(db), { code: 'database_unavailable' })
    assert.deepEqual(new Set(told), new Set([pair.primary.port, pair.standby.port].map((port) => `127.0.0.1:${port}`)))
  },
)

test('a process that stayed with the old primary leaves it when the other one was promoted', { skip }, async (t) => {
  const pair = await startPair(programs!)
  t.after(() => pair.stop())
  const db = await openPostgres({ url: pair.listUrl, pool: 3, onError: () => {} })
  t.after(() => db.destroy())
  assert.equal(await portOf(db), pair.primary.port)
  await pair.standby.promote()
  await untilSo(async () => (await portOf(db)) === pair.standby.port)
})

test(
  'a connection that was begun to the old primary is not used after the promotion was seen, nor does a transaction commit there',
  { skip },
  async (t) => {
    const pair = await startPair(programs!)
    t.after(() => pair.stop())
    const cable = await startCable(pair.primary.port)
    t.after(() => cable.close())
    const told: string[] = []
    const db = await openPostgres({
      ...{ url: pair.listUrl.replace(`${pair.primary.port}`, `${cable.port}`), pool: 5, onError: () => {} },
      onPrimary: (name) => void told.push(name),
    })
    t.after(() => db.destroy())
    await sql`create table things (n int)`.execute(db)
    const opened = Promise.withResolvers<void>()
    const seen = Promise.withResolvers<void>()
    const transaction = db.transaction().execute(async (inner) => {
      await sql`insert into things values (1)`.execute(inner)
      opened.resolve()
      await seen.promise
    })
    const uncommitted = assert.rejects(transaction, { code: 'database_unavailable' })
    await opened.promise

    await pair.standby.promote()
    cable.hang()
    // The pool fills with connections to the old primary that hang, until the servers are asked again.
    const asked: Promise<number | null>[] = []
    await untilSo(async () => {
      asked.push(portOf(db).catch(() => null))
      return told.length === 2
    })
    cable.goOn()
    seen.resolve()
    await uncommitted
    const after = await Promise.all(Array.from({ length: 10 }, () => portOf(db)))
    assert.deepEqual(new Set(after), new Set([pair.standby.port]))
    const answers = new Set((await Promise.all(asked)).filter((port) => port !== null))
    assert.deepEqual(answers, new Set([pair.standby.port]))
    assert.deepEqual(await pair.primary.ask('select n from things'), [])
  },
)

/** Starts a pair of servers whose role may not execute `withdrawn`, and collects log messages. */
async function withheld(t: TestContext, ...withdrawn: string[]) {
  const pair = await startPair(programs!)
  t.after(() => pair.stop())
  await pair.primary.ask('create role plain login')
  for (const name of withdrawn) await pair.primary.ask(`revoke execute on function ${name} from public`)
  const told: { rivals: string[]; undecided: string[]; away: Error[] } = { rivals: [], undecided: [], away: [] }
  const open = async () => {
    const db = await openPostgres({
      ...{ url: pair.listUrl.replace('chatelaine@', 'plain@'), pool: 3 },
      onError: (error) => void told.away.push(error),
      onSecondPrimary: (names_) => void told.rivals.push(names_),
      onUndecided: (names_) => void told.undecided.push(names_),
    })
    t.after(() => db.destroy())
    return db
  }
  // The promoted server must have the role.
  await untilSo(async () => (await pair.standby.ask(`select 1 from pg_roles where rolname = 'plain'`)).length === 1)
  const [old, promoted] = [pair.primary.port, pair.standby.port].map((port) => `127.0.0.1:${port}`)
  return { pair, told, open, old: old!, promoted: promoted! }
}

test(
  'where pg_control_system may not be read, the later timeline is used all the same, and nobody goes back behind it',
  { skip },
  async (t) => {
    const { pair, told, open, old, promoted } = await withheld(t, 'pg_control_system()')
    await pair.standby.promote()
    const db = await open()
    assert.equal(await portOf(db), pair.standby.port)
    assert.deepEqual(told.rivals, [`${promoted} and ${old}`])
    await pair.standby.kill()
    await assert.rejects(portOf(db), { code: 'database_unavailable' })
    await assert.rejects(portOf(db), { code: 'database_unavailable' })
    assert.deepEqual(told.undecided, [])
  },
)

test(
  'two that take writes and tell no timeline are both left alone, and the operator is told, until one of them is stopped',
  { skip },
  async (t) => {
    const { pair, told, open, old, promoted } = await withheld(t, 'pg_control_system()', 'pg_walfile_name(pg_lsn)')
    const db = await open()
    assert.equal(await portOf(db), pair.primary.port)
    await pair.standby.promote()
    await untilSo(async () => {
      await portOf(db).catch(() => null)
      return told.undecided.length > 0
    })
    await assert.rejects(portOf(db), { code: 'database_unavailable' })
    assert.deepEqual(told.undecided, [`${old} and ${promoted}`])
    const fresh = await open()
    await assert.rejects(portOf(fresh), { code: 'database_unavailable' })
    assert.match(reasonOf(told.away.at(-1))!, /it is unknown which was promoted last: stop all but that one$/)
    assert.deepEqual(
      told.undecided,
      Array.from({ length: 2 }, () => `${old} and ${promoted}`),
    )
    assert.deepEqual(told.rivals, [])

    await pair.primary.kill()
    await untilSo(async () => (await portOf(db)) === pair.standby.port)
    await untilSo(async () => (await portOf(fresh)) === pair.standby.port)
  },
)

test(
  'a list of two names that lead to one server is that server, without a word of a second, by either name',
  { skip: testCluster === null ? 'needs PostgreSQL: set TEST_DATABASE_URL' : false },
  async (t) => {
    const { url, drop } = await emptyPostgres(testCluster!)
    t.after(drop)
    const at = new URL(url)
    const cable = await startCable(Number(at.port))
    t.after(() => cable.close())
    const told: string[] = []
    const tell = (name: string) => void told.push(name)
    const db = await openPostgres({
      url: url.replace(at.host, `127.0.0.1:${cable.port},${at.host}`),
      ...{ pooler: testPooler, pool: 1, onError: () => {} },
      ...{ onPrimary: tell, onSecondPrimary: tell, onUndecided: tell },
    })
    t.after(() => db.destroy())
    const port = await portOf(db)
    cable.cut()
    await untilSo(async () => (await portOf(db)) === port)
    assert.deepEqual(told, [`127.0.0.1:${cable.port}`])
  },
)

/** Ignores a connection that breaks while waiting. */
const untilSo = (isSo: () => Promise<boolean>) => until('what the test waits for', () => isSo().catch(() => false))
