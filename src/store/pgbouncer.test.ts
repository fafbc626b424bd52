import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { emptyPostgres, testCluster } from '../../test/kit/database.ts'
import { findPgBouncer, startPgBouncer } from '../../test/pgbouncer.ts'
import { world } from '../../test/world.ts'
import { openPostgres } from './db.ts'
import { migrate } from './migrate.ts'
import { prepared } from './prepared.ts'

const program = findPgBouncer()
const skip =
  testCluster === null
    ? 'needs PostgreSQL: set TEST_DATABASE_URL'
    : program === null
      ? 'PgBouncer is not installed (Debian: apt-get install pgbouncer); .ci/run installs it'
      : false

/** Returns the URL of an empty database behind PgBouncer. */
async function pooledDatabase(t: { after(close: () => Promise<void>): void }): Promise<string> {
  const { url, drop } = await emptyPostgres(testCluster!)
  const bouncer = await startPgBouncer(program!, url)
  t.after(async () => {
    await bouncer.stop()
    await drop()
  })
  return bouncer.url
}

test(
  'with DATABASE_POOLER=transaction nothing is asked of PgBouncer that it refuses, with none it refuses',
  { skip },
  async (t) => {
    const url = await pooledDatabase(t)
    const refused = await openPostgres({ url, pool: 1, onError: () => {} })
    await assert.rejects(sql`select 1`.execute(refused), (error: Error) =>
      /unsupported startup parameter/.test((error.cause as Error).message),
    )
    await refused.destroy()
    const db = await openPostgres({ url, pool: 4, pooler: 'transaction', onError: () => {} })
    t.after(() => db.destroy())
    await migrate(db)
    await migrate(db)
  },
)

test('behind PgBouncer marked statements are not kept, and many clients share few connections', { skip }, async (t) => {
  const url = await pooledDatabase(t)
  const clients = await Promise.all(
    Array.from({ length: 4 }, () => openPostgres({ url, pool: 8, pooler: 'transaction', onError: () => {} })),
  )
  t.after(async () => void (await Promise.all(clients.map((db) => db.destroy()))))
  await sql`create table counters (n int primary key, many int not null)`.execute(clients[0]!)
  await sql`insert into counters values (1, 0)`.execute(clients[0]!)
  await Promise.all(
    Array.from({ length: 400 }, (_, index) =>
      clients[index % clients.length]!.transaction().execute(async (db) => {
        await sql`${prepared} update counters set many = many + ${1}::int where n = ${1}::int`.execute(db)
        await sql`${prepared} select many from counters where n = ${1}::int`.execute(db)
      }),
    ),
  )
  const { rows } = await sql<{ many: number }>`select many from counters`.execute(clients[0]!)
  assert.equal(rows[0]!.many, 400)
  const kept = await sql`select name from pg_prepared_statements where name like 'chatelaine%'`.execute(clients[0]!)
  assert.deepEqual(kept.rows, [])
})

test(
  'the whole service works through PgBouncer: a person signs in, writes, and reads what was written',
  { skip },
  async (t) => {
    const url = await pooledDatabase(t)
    const here = await world({ DATABASE_URL: url, DATABASE_POOLER: 'transaction' })
    t.after(() => here.close())
    const { alice, bob, facts } = here
    const call = { address: facts.contracts.erc20!, abi: 'transfer(address,uint256)', args: [bob.address, '0'] }
    const headers = { 'idempotency-key': 'through the pooler' }
    const first = await alice.post('/v1/contracts/method/write?wait=mined', call, headers)
    assert.equal(first.status, 200, JSON.stringify(first.body))
    const again = await alice.post('/v1/contracts/method/write', call, headers)
    assert.equal(again.body.hash, first.body.hash)
    assert.equal((await alice.get(`/v1/transactions/${first.body.hash}`)).status, 200)
    assert.equal((await alice.get(`/v1/users/${alice.userId}/balance`)).status, 200)
    assert.equal((await alice.get(`/v1/users/${alice.userId}/history`)).status, 200)
  },
)
