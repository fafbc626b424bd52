import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import net from 'node:net'
import { test, type TestContext } from 'node:test'
import { sql } from 'kysely'
import { startCable } from '../../test/chaos/cable.ts'
import { emptyPostgres, testCluster } from '../../test/kit/database.ts'
import { until } from '../../test/kit/until.ts'
import { AppError } from '../errors.ts'
import { watchWrites, type Absence } from './away.ts'
import { openPostgres, retrying, type RootDb } from './db.ts'

const onPostgres = { skip: testCluster === null ? 'needs PostgreSQL: set TEST_DATABASE_URL' : false }

/** Opens a database behind a proxy that can be cut, and collects log messages. */
async function behindCable(t: TestContext, options: { pool?: number; deadlineMs?: number } = {}) {
  const { url, drop } = await emptyPostgres(testCluster!)
  t.after(drop)
  const at = new URL(url)
  const port = Number(at.port)
  const cable = await startCable(port)
  t.after(() => cable.close())
  at.hostname = '127.0.0.1'
  at.port = String(cable.port)
  const told: { away: Error[]; back: Absence[]; lost: number } = { away: [], back: [], lost: 0 }
  const db = await openPostgres({
    ...{ url: at.href, pool: 4, ...options },
    onError: (error) => void told.away.push(error),
    onBack: (absence) => void told.back.push(absence),
    onLost: () => void told.lost++,
  })
  t.after(() => db.destroy())
  return { db, url, port, cable, told }
}

const ask = async (db: RootDb) => (await sql<{ one: number }>`select 1 as one`.execute(db)).rows[0]!.one
const pidOf = async (db: RootDb) =>
  (await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)).rows[0]!.pid
const isUnavailable = (error: unknown) => error instanceof AppError && error.code === 'database_unavailable'

test(
  'a database that is away is one refusal with a time to repeat, told once when it goes and once when it is back',
  onPostgres,
  async (t) => {
    const { db, port, cable, told } = await behindCable(t)
    assert.equal(await ask(db), 1)
    cable.cut()
    const refused = await Promise.allSettled(Array.from({ length: 200 }, () => ask(db)))
    assert.ok(refused.every((one) => one.status === 'rejected' && isUnavailable(one.reason)))
    assert.equal(told.away.length, 1)
    cable.lead(port)
    await untilSo(async () => (await ask(db)) === 1 && told.back.length === 1)
    assert.equal(told.away.length, 1)
    assert.ok(told.back[0]!.failures >= 200)
  },
)

test(
  'a connection that is lost while nobody uses it is told too: what answers next may be an older database',
  onPostgres,
  async (t) => {
    const { db, cable, port, told } = await behindCable(t)
    await ask(db)
    const before = told.lost
    assert.ok(before > 0, 'the first connection of all')
    cable.cut()
    await untilSo(async () => told.lost > before)
    cable.lead(port)
    const lost = told.lost
    assert.equal(await ask(db), 1)
    assert.ok(told.lost > lost, 'the first one after none')
    assert.equal(told.away.length, 0)
  },
)

test('a link that hangs is given up at the deadline, and its connection is used no more', onPostgres, async (t) => {
  const { db, cable } = await behindCable(t, { pool: 1, deadlineMs: 2_000 })
  const before = await pidOf(db)
  cable.hang()
  await assert.rejects(ask(db), isUnavailable)
  cable.goOn()
  assert.notEqual(await pidOf(db), before)
})

test(
  'a link that hangs within a transaction ends it, and gives its connection back to nobody',
  onPostgres,
  async (t) => {
    const { db, cable } = await behindCable(t, { pool: 1, deadlineMs: 2_000 })
    let before = 0
    await assert.rejects(
      db.transaction().execute(async (inner) => {
        before = (await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(inner)).rows[0]!.pid
        cable.hang()
        await sql`select 1`.execute(inner)
      }),
      isUnavailable,
    )
    cable.goOn()
    assert.notEqual(await pidOf(db), before)
  },
)

test(
  'a server that was demoted to a standby is away, and the connection to it is used no more',
  onPostgres,
  async (t) => {
    const { db } = await behindCable(t, { pool: 1 })
    await sql`create table things (n int)`.execute(db)
    const before = await pidOf(db)
    await sql`set default_transaction_read_only = on`.execute(db)
    await assert.rejects(sql`insert into things values (1)`.execute(db), isUnavailable)
    assert.notEqual(await pidOf(db), before)
    await sql`insert into things values (2)`.execute(db)
  },
)

test('a statement that takes too long is refused, and its connection goes on', onPostgres, async (t) => {
  const { db } = await behindCable(t, { pool: 1 })
  const before = await pidOf(db)
  await sql`set statement_timeout = 1000`.execute(db)
  await assert.rejects(sql`select pg_sleep(60)`.execute(db), isUnavailable)
  assert.equal(await pidOf(db), before)
})

test('a connection that is ended in the middle of a statement is away, whoever ended it', onPostgres, async (t) => {
  const { db, url } = await behindCable(t, { pool: 1 })
  const admin = await openPostgres({ url, pool: 1, onError: () => {} })
  t.after(() => admin.destroy())
  const pid = await pidOf(db)
  const asked = assert.rejects(sql`select pg_sleep(20)`.execute(db), isUnavailable)
  await untilSo(async () => {
    const { rows } = await sql`select 1 from pg_stat_activity where pid = ${pid}::int and state = 'active'`.execute(
      admin,
    )
    return rows.length === 1
  })
  await sql`select pg_terminate_backend(${pid}::int)`.execute(admin)
  await asked
})

test('a name that leads nowhere, a wrong database and a closed port are away', onPostgres, async (t) => {
  const { url } = await behindCable(t)
  const other = (change: (at: URL) => void) => {
    const at = new URL(url)
    change(at)
    return at.href
  }
  const urls = [
    other((at) => (at.hostname = `${randomBytes(4).toString('hex')}.invalid`)),
    other((at) => (at.pathname = '/there_is_none')),
    other((at) => (at.port = '1')),
  ]
  for (const one of urls) {
    const db = await openPostgres({ url: one, pool: 1, onError: () => {} })
    await assert.rejects(ask(db), isUnavailable)
    await db.destroy()
  }
})

/**
 * Starts a server that accepts a connection, reports that it is ready, and answers the first statement with this error.
 */
async function saying(t: TestContext, severity: string, code: string): Promise<string> {
  const message = (type: string, body: string) => {
    const length = Buffer.alloc(4)
    length.writeInt32BE(4 + Buffer.byteLength(body, 'latin1'))
    return Buffer.concat([Buffer.from(type), length, Buffer.from(body, 'latin1')])
  }
  const server = net.createServer((socket) => {
    socket.on('error', () => {})
    let isGreeted = false
    socket.on('data', () => {
      const fields = `S${severity}\0V${severity}\0C${code}\0Mserver says so\0\0`
      if (isGreeted) return void socket.end(message('E', fields))
      isGreeted = true
      socket.write(Buffer.concat([message('R', '\0\0\0\0'), message('Z', 'I')]))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return `postgres://someone@127.0.0.1:${(server.address() as net.AddressInfo).port}/any`
}

for (const code of ['08P01', '57P01', '57P02', '57P03', '53300', '53400', '58030', '25006', '57014']) {
  test(`${code} means that the database is away`, async (t) => {
    const url = await saying(t, 'FATAL', code)
    const db = await openPostgres({ url, pool: 1, pooler: 'transaction', onError: () => {} })
    t.after(() => db.destroy())
    await assert.rejects(ask(db), isUnavailable)
  })
}

for (const [code, why] of [
  ['53100', 'its disk is full'],
  ['58030', 'its files cannot be written'],
  ['25006', 'the server accepts no writes'],
  ['57P01', null],
] as const)
  test(`after ${code} a database that answers is known to refuse writes for half a minute: ${why}`, async (t) => {
    let now = 1_000
    const writes = watchWrites(() => now)
    assert.equal(writes.recent(), null)
    const url = await saying(t, 'ERROR', code)
    const db = await openPostgres({ url, pool: 1, pooler: 'transaction', onError: () => {}, onFailure: writes.failed })
    t.after(() => db.destroy())
    await assert.rejects(ask(db), isUnavailable)
    now += 30_000
    assert.equal(writes.recent(), why)
    now += 1
    assert.equal(writes.recent(), null)
  })

test('a serialisation failure is tried five times, and is then a refusal to repeat', async () => {
  let tries = 0
  await assert.rejects(
    retrying(() => {
      tries++
      return Promise.reject(Object.assign(new Error('could not serialize access'), { code: '40001' }))
    }),
    isUnavailable,
  )
  assert.equal(tries, 5)
})

test('what is wrong with a statement stays an error of ours', async () => {
  const wrong = Object.assign(new Error('bind message supplies 1 parameters'), { code: '08P01', severity: 'ERROR' })
  await assert.rejects(
    retrying(() => Promise.reject(wrong)),
    wrong,
  )
  const missing = Object.assign(new Error('relation does not exist'), { code: '42P01' })
  await assert.rejects(
    retrying(() => Promise.reject(missing)),
    missing,
  )
})

/** Ignores a connection that breaks while waiting. */
const untilSo = (isSo: () => Promise<boolean>) => until('what the test waits for', () => isSo().catch(() => false))
