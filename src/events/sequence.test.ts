import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { until } from '../../test/kit/until.ts'
import { randomOf } from '../../test/random.ts'
import type { App } from '../app.ts'
import type { RootDb } from '../store/db.ts'
import { readEvents } from './read.ts'
import { sequence } from './sequence.ts'
import { deleteOldEvents } from './sweep.ts'
import { noteFinalTransfers, noteTransfers } from './transfers.ts'

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

/** Returns a handle that does something else after the first statement with a certain result. */
function interrupted(
  isPoint: (rows: readonly Record<string, unknown>[]) => boolean,
  act: () => Promise<unknown>,
): RootDb {
  let isOver = false
  return database.db.withPlugin({
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      if (!isOver && isPoint(result.rows as Record<string, unknown>[])) {
        isOver = true
        await act()
      }
      return result
    },
  }) as RootDb
}

const appOf = (db: RootDb) => ({ db, networks: new Map() }) as unknown as App
const ACCOUNT = '00000000-0000-4000-8000-000000000001'

/** Stores events of a feed with the numbers 1 to `count`. */
async function storeEvents(clientId: string, count: number, { isOwn = false, at = 'now()' } = {}): Promise<void> {
  await sql`insert into events select ${clientId}, n, gen_random_uuid(), 'transfer.detected', 'transfer:' || n, ${ACCOUNT}::uuid, 31337, ${isOwn}::boolean, '{}', ${sql.raw(at)}
    from generate_series(1, ${count}::int) as n`.execute(database.db)
  await sql`insert into feeds values (${clientId}, ${count}::bigint)`.execute(database.db)
}

test('events that are deleted while a page is read are in the page, or the reader is told', async () => {
  await storeEvents('aged', 3, { at: "now() - interval '40 days'" })
  const db = interrupted(() => true, () => deleteOldEvents(database.db, 'aged', 30)) // prettier-ignore
  const page = await readEvents(appOf(db), { clientId: 'aged', accountId: null }, { after: 0, types: null, limit: 10 }).catch((error: unknown) => error) // prettier-ignore
  if ((page as { code?: string }).code !== 'cursor_expired')
    assert.equal((page as { events: unknown[] }).events.length, 3)
})

test('a page looks at 5,000 events at most, although the application may see none of them', async () => {
  await storeEvents('unread', 5_001, { isOwn: true })
  const read = (after: number | null) =>
    readEvents(appOf(database.db), { clientId: 'unread', accountId: null }, { after, types: null, limit: 10 })
  const first = await read(null)
  assert.deepEqual([first.events, first.after, first.isEnd], [[], 5_000, false])
  const { after, isEnd } = await read(first.after)
  assert.deepEqual([after, isEnd], [5_001, true])
})

/** Creates an account that has signed in to the application and allows it to read. */
async function allowedAccount(): Promise<void> {
  const { db } = database
  await sql`insert into accounts (account_id, user_id, address) values (${ACCOUNT}::uuid, 'DEV-leaving', '\\x01') on conflict do nothing`.execute(
    db,
  )
  await sql`insert into identities (provider, subject, username, account_id) values ('DEV', 'leaving', 'leaving', ${ACCOUNT}::uuid) on conflict do nothing`.execute(
    db,
  )
  for (const table of ['consents', 'application_users', 'events'])
    await sql`delete from ${sql.table(table)} where account_id = ${ACCOUNT}::uuid`.execute(db)
  await sql`insert into application_users values ('shop', ${ACCOUNT}::uuid)`.execute(db)
  await sql`insert into consents (account_id, client_id, permissions) values (${ACCOUNT}::uuid, 'shop', '["users:read"]')`.execute(
    db,
  )
  while ((await sequence(db)) > 0);
}
const freeze = () => sql`update accounts set frozen_at = clock_timestamp() where account_id = ${ACCOUNT}::uuid`.execute(database.db) // prettier-ignore
const accountEvents = async () =>
  (await sql`select 1 from events where client_id = 'shop' and type = 'account.frozen' and not is_own`.execute(database.db)).rows.length // prettier-ignore
const forgetUser = () => sql`delete from application_users where account_id = ${ACCOUNT}::uuid`.execute(database.db)

test(
  'an application that is revoked while events get their numbers has none of the account afterwards',
  { skip: process.env.TEST_DATABASE_URL === undefined && 'the embedded database executes one transaction at a time' },
  async () => {
    await allowedAccount()
    await freeze()
    const revoking: Promise<unknown>[] = []
    let isRevoked = false
    const revoke = async () => {
      await sql`delete from consents where account_id = ${ACCOUNT}::uuid`.execute(database.db)
      isRevoked = true
    }
    const db = interrupted(
      (rows) => rows.some((row) => 'is_allowed' in row),
      async () => {
        revoking.push(revoke())
        await until('the revocation is over, or waits', async () =>
        isRevoked || (await sql`select from pg_locks where not granted`.execute(database.db)).rows.length > 0) // prettier-ignore
      },
    )
    await sequence(db)
    assert.equal(revoking.length, 1)
    await Promise.all(revoking)
    assert.equal(await accountEvents(), 0)
  },
)

test('a user who leaves an application that needed no consent takes back what it saw of the account', async () => {
  await allowedAccount()
  await freeze()
  while ((await sequence(database.db)) > 0);
  assert.equal(await accountEvents(), 1)
  await forgetUser()
  assert.equal(await accountEvents(), 0)
})

test('a consent that no longer allows users:read takes back what the application saw of the account', async () => {
  await allowedAccount()
  await freeze()
  while ((await sequence(database.db)) > 0);
  assert.equal(await accountEvents(), 1)
  await sql`update consents set permissions = '["wallet:read"]' where account_id = ${ACCOUNT}::uuid`.execute(
    database.db,
  )
  assert.equal(await accountEvents(), 0)
})

test('times of events, and ids that contain them, do not follow the time zone of the session', async () => {
  await allowedAccount()
  await database.db.connection().execute(async (one) => {
    await sql`set timezone = 'Asia/Tokyo'`.execute(one)
    await sql`update accounts set frozen_at = '2026-01-31T12:00:00Z' where account_id = ${ACCOUNT}::uuid`.execute(one)
    await sql`reset timezone`.execute(one)
  })
  while ((await sequence(database.db)) > 0);
  const { rows } = await sql<{ data: { frozenAt: string } }>`select data from events where type = 'account.frozen' order by seq desc limit 1`.execute(database.db) // prettier-ignore
  assert.equal(rows[0]!.data.frozenAt, '2026-01-31T12:00:00+00:00')
})

test('a consent that is stored again with the same permissions is no event', async () => {
  await allowedAccount()
  await sql`update consents set permissions = '["users:read"]', updated_at = clock_timestamp() where account_id = ${ACCOUNT}::uuid`.execute(database.db) // prettier-ignore
  while ((await sequence(database.db)) > 0);
  const { rows } = await sql<{ type: string }>`select type from events where client_id = 'shop' and type like 'consent.%' order by seq desc limit 1`.execute(database.db) // prettier-ignore
  assert.deepEqual(rows, [{ type: 'consent.granted' }])
})

test('an account that is stopped at another nonce while it is stopped has another event', async () => {
  const { db } = database
  await allowedAccount()
  const lane = () => sql<{ type: string; data: { nonce: number } }>`select id, type, data from events where client_id = 'shop' and type like 'account.%' and chain_id is not null order by seq`.execute(db) // prettier-ignore
  await sql`insert into stopped_lanes (chain_id, sender, nonce, reason) values (31337, '\\x01', 4, 'foreign_nonce')`.execute(
    db,
  )
  await sql`update stopped_lanes set nonce = 5`.execute(db)
  await sql`update stopped_lanes set resume_asked_at = now()`.execute(db)
  await sql`delete from stopped_lanes`.execute(db)
  while ((await sequence(db)) > 0);
  const { rows } = await lane()
  assert.deepEqual(
    rows.map(({ type, data }) => [type, data.nonce]),
    [
      ['account.stopped', 4],
      ['account.stopped', 5],
      ['account.resumed', 5],
    ],
  )
  assert.equal(new Set(rows.map((row) => (row as unknown as { id: string }).id)).size, 3)
})

test('an account that is stopped again by the transaction that the database has lost has the same events', async () => {
  const { db } = database
  await allowedAccount()
  const stopAndResume = async (nonce: number, hash: string) => {
    await sql`insert into stopped_lanes (chain_id, sender, nonce, hash, reason, created_at)
      values (31337, '\\x01', ${nonce}, decode(${hash}, 'hex'), 'foreign_nonce', clock_timestamp())`.execute(db)
    await sql`delete from stopped_lanes`.execute(db)
    while ((await sequence(db)) > 0);
  }
  const ids = async () =>
    (await sql<{ id: string }>`select id from events where account_id = ${ACCOUNT}::uuid and type in ('account.stopped', 'account.resumed') order by seq`.execute(db)).rows.map(({ id }) => id) // prettier-ignore
  for (const [nonce, hash] of [[7, 'aa'], [7, 'aa'], [7, 'bb'], [8, 'aa']] as const) await stopAndResume(nonce, hash) // prettier-ignore
  const [stopped, resumed, again, resumedAgain, ...others] = await ids()
  assert.deepEqual([again, resumedAgain], [stopped, resumed])
  assert.equal(new Set([stopped, resumed, ...others]).size, 6)
})

test('a block of a chain whose clock is far ahead does not stop the feeds', async () => {
  const { db } = database
  await allowedAccount()
  await sql`insert into transfers select ${ACCOUNT}::uuid, 31337, 1, 0, 0, 0, 1, word, word, word, null, word, word, word, '12026-01-01', false
    from decode(repeat('01', 20), 'hex') as word`.execute(db)
  await noteTransfers(db, 31_337, 'detected', 1)
  assert.equal(await sequence(db), 1)
})

test('deposits into a contract that is recognised as a wrapper later are detected then, and final after that', async () => {
  const { db } = database
  await allowedAccount()
  const chainId = 31_338
  await sql`update applications set chain_id = ${chainId}`.execute(db)
  const place = sql`31338, 0, decode(repeat('00', 32), 'hex')`
  await sql`insert into cursors (chain_id, block_number, block_hash, finalized_number, epoch) values (${place}, 10, 0)`.execute(
    db,
  )
  await sql`insert into history_cursors (chain_id, block_number, block_hash, epoch) values (31338, 0, decode(repeat('00', 32), 'hex'), 0)`.execute(
    db,
  )
  const through = async (number: number) => {
    await sql`update cursors set finalized_number = ${number}::bigint where chain_id = ${chainId}`.execute(db)
    await sql`update history_cursors set block_number = ${number}::bigint where chain_id = ${chainId}`.execute(db)
    await noteFinalTransfers(db, chainId)
  }
  await through(10)
  for (const block of [11, 20]) {
    await sql`insert into transfers select ${ACCOUNT}::uuid, ${chainId}, ${block}, 0, 0, 0, 900, word, word, word, null, word, word, word, now(), false
      from decode(repeat('02', 20), 'hex') as word`.execute(db)
    await noteTransfers(db, chainId, 'detected', block)
  }
  const token = sql`chain_id = ${chainId} and address = decode(repeat('02', 20), 'hex')`
  await sql`insert into tokens (chain_id, address, symbol, name, decimals, state, attempts)
    values (${chainId}, decode(repeat('02', 20), 'hex'), '', '', 0, 'NEW', 0)`.execute(db)
  const seen = async () => {
    while ((await sequence(db)) > 0);
    const { rows } = await sql<{ type: string; block: number }>`select type, (data ->> 'blockNumber')::int as block from events where chain_id = ${chainId} order by seq`.execute(db) // prettier-ignore
    return rows.map(({ type, block }) => `${type.split('.')[1]} ${block}`)
  }
  await through(15)
  assert.deepEqual(await seen(), [])
  await sql`update tokens set is_wrapper = true, state = 'KNOWN' where ${token}`.execute(db)
  assert.deepEqual(await seen(), ['detected 20'])
  await sql`update tokens set is_wrapper = true, attempts = 1 where ${token}`.execute(db)
  await through(20)
  assert.deepEqual(await seen(), ['detected 20', 'finalized 20'])
})

test('a row that somebody damaged does not stop the feeds: its change is logged, and the next events come', async () => {
  const { db } = database
  await allowedAccount()
  await sql`update consents set permissions = '{"damaged": true}' where account_id = ${ACCOUNT}::uuid`.execute(db)
  await freeze()
  const logged: unknown[] = []
  assert.equal(await sequence(db, (fact) => logged.push([fact.kind, fact.subject])), 2)
  assert.deepEqual(logged, [['consent', `account:${ACCOUNT}`]])
  const { rows } = await sql`select 1 from events where client_id = 'shop' and type = 'account.frozen'`.execute(db)
  assert.equal(rows.length, 1)
})

test('transitions are a list in each row, so that noting one never fails', async () => {
  for (const table of ['transactions', 'operations']) {
    const { rows } = await sql<{ rule: string }>`select pg_get_constraintdef(oid) as rule from pg_constraint
      where conrelid = ${table}::regclass and contype = 'c'`.execute(database.db)
    assert.ok(
      rows.some(({ rule }) => rule.includes('jsonb_typeof(transitions)')),
      table,
    )
  }
})
