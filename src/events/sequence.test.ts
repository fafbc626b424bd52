import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { randomOf } from '../../test/random.ts'
import type { App } from '../app.ts'
import { readEvents } from './read.ts'
import { sequence } from './sequence.ts'

/** EVENT_WRITES=20000 is the long form. */
const WRITES = Number(process.env.EVENT_WRITES ?? 400)
const SUBJECTS = 12
const WRITERS = 8

let database: TestDatabase
before(async () => {
  database = await testDatabase()
  await sql`insert into applications (client_id, name, chain_id, kind, redirect_uris, permissions, allowed_origins, secret_hashes)
    values ('shop', 'Shop', 31337, 'public', '[]', '["events:read"]', '[]', '[]')`.execute(database.db)
  await sql`insert into final_transfers select n, 0 from generate_series(1, ${SUBJECTS}::int) as n`.execute(database.db)
})
after(() => database.close())

test('whatever the order in which writers commit, a reader that goes on from its cursor sees each fact once, and those of a subject in their order', async () => {
  const { db } = database
  const random = randomOf(7)
  let left = WRITES
  let isDone = false
  /** Changes a row, notes it, and commits late: others with a later number commit before. */
  async function write(): Promise<void> {
    while (left-- > 0) {
      const subject = random(SUBJECTS) + 1
      const waits = random(4)
      await db.transaction().execute(async (tx) => {
        const { rows } = await sql<{ n: number }>`
          update final_transfers set block_number = block_number + 1 where chain_id = ${subject}::bigint returning block_number as n`.execute(
          tx,
        )
        const hash = rows[0]!.n.toString(16).padStart(64, '0')
        const data = {
          id: String(subject),
          state: 'SUBMITTED',
          hash,
          steps: [{ state: 'SUBMITTED', at: '', hash: `0x${hash}` }],
          before: null,
        }
        await sql`insert into facts (kind, chain_id, client_id, subject, data)
          values ('write', 31337, 'shop', ${`transaction:${subject}`}, ${JSON.stringify(data)}::jsonb)`.execute(tx)
        for (let wait = 0; wait < waits; wait++) await sql`select pg_sleep(0.001)`.execute(tx)
      })
    }
  }
  const numbering = async () => {
    while (!isDone) if ((await sequence(db)) === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  const app = { db, networks: new Map() } as unknown as App
  const seen: { subject: string; place: number }[] = []
  let after = 0
  async function look(limit: number): Promise<void> {
    const page = await readEvents(app, { clientId: 'shop', accountId: null }, { after, types: null, limit })
    after = page.after
    for (const { subject, data } of page.events) seen.push({ subject, place: Number(data.hash) })
  }
  const reading = async () => {
    while (!isDone) {
      await look(random(20) + 1)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const readers = [reading(), numbering(), numbering()]
  await Promise.all(Array.from({ length: WRITERS }, write))
  isDone = true
  await Promise.all(readers)
  while ((await sequence(db)) > 0);
  for (let before = -1; before !== after;) {
    before = after
    await look(1_000)
  }
  assert.equal(seen.length, WRITES)
  for (const [subject, places] of Map.groupBy(seen, (one) => one.subject))
    assert.deepEqual(
      places.map(({ place }) => place),
      places.map((_, index) => index + 1),
      subject,
    )
})

test('numbers never fall behind the clock: a feed that was restored from an older copy gives no number twice', async () => {
  const { db } = database
  const newest = async () =>
    (await sql<{ seq: number }>`select seq from feeds where client_id = 'shop'`.execute(db)).rows[0]!.seq
  const note = () =>
    sql`insert into facts (kind, client_id, subject, data) values ('user', 'shop', 'account:x', '{"row": {"created_at": "2026-01-31"}}')`.execute(
      db,
    )
  await note()
  await sequence(db)
  const lost = await newest()
  await sql`delete from events where seq > ${lost - 1}::bigint`.execute(db)
  await sql`update feeds set seq = 1 where client_id = 'shop'`.execute(db)
  await note()
  await sequence(db)
  assert.ok((await newest()) > lost)
})
