import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { stoppedClock } from '../../test/kit/clock.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { readEvents } from '../events/read.ts'
import { sequence } from '../events/sequence.ts'
import { askApproval } from './ask.ts'
import { decide, readApproval } from './decide.ts'
import { deleteOldApprovals, expireApprovals } from './sweep.ts'

let database: TestDatabase
before(async () => {
  database = await testDatabase()
  await sql`insert into applications (client_id, name, chain_id, kind, redirect_uris, permissions, allowed_origins, secret_hashes)
    values ('shop', 'Shop', 1, 'public', '[]', '["events:read"]', '[]', '[]')`.execute(database.db)
})
after(() => database.close())

const ALICE = '00000000-0000-8000-8000-000000000001'
const OPEN_MS = 30 * 60_000

/** An application with a clock of its own that asks its user. */
function asking(startMs = Date.now()) {
  const clock = stoppedClock(startMs)
  const app = { db: database.db, clock, authOrigin: 'https://wallet.example' }
  const ask = async (intentId: string) => {
    const caller = { accountId: ALICE, clientId: 'shop', chainId: 1 }
    const content = { message: { kind: 'text' as const, content: intentId } }
    const { link } = await askApproval(app, { caller, intentId, content, requestHash: null, rule: 'ask', askedFrom: null }) // prettier-ignore
    return link
  }
  return { app, clock, ask }
}
const approve = (app: ReturnType<typeof asking>['app'], id: string) =>
  decide(app, { id, accountId: ALICE, decision: 'approved', token: 'a.b.c' })

/** The events of a question, oldest first. */
async function eventsOf(id: string) {
  while ((await sequence(database.db)) > 0);
  const app = { db: database.db, networks: new Map() }
  const { events } = await readEvents(app, { clientId: 'shop', accountId: null }, { after: null, types: null, limit: 1_000 }) // prettier-ignore
  return events.filter(({ subject }) => subject === `approval:${id}`)
}
const typesOf = async (id: string) => (await eventsOf(id)).map(({ type }) => type)

test('a question that its user did not answer has one event when it expires; one that was answered in the last moment has none', async () => {
  const { app, clock, ask } = asking()
  const [late, inTime] = [await ask('late'), await ask('in time')]
  await clock.advance(OPEN_MS - 1)
  await expireApprovals(app)
  assert.deepEqual(await typesOf(late.id), ['approval.requested'])
  assert.equal(await approve(app, inTime.id), true)
  await clock.advance(1)
  // Whoever reads it before the next round sees the same state.
  assert.equal((await readApproval(app, late.id))?.state, 'expired')
  await Promise.all([expireApprovals(app), expireApprovals(app)])
  await expireApprovals(app)
  assert.equal((await readApproval(app, late.id))?.state, 'expired')
  assert.deepEqual(await typesOf(late.id), ['approval.requested', 'approval.expired'])
  assert.deepEqual(await typesOf(inTime.id), ['approval.requested', 'approval.granted'])
  const { data } = (await eventsOf(late.id)).at(-1)!
  assert.deepEqual([data.id, data.state, data.rule], [late.id, 'expired', 'ask'])
  assert.equal(Date.parse(data.expiresAt as string), Date.parse(late.expiresAt))
})

test('a question that expires while its user answers is either answered or expired', async () => {
  // The process in which the user answers has a clock that is behind.
  const [ahead, behind] = [asking(), asking()]
  await ahead.clock.advance(OPEN_MS + 1_000)
  for (let round = 0; round < 10; round++) {
    const { id } = await behind.ask(`raced ${round}`)
    const [isApproved] = await Promise.all([approve(behind.app, id), expireApprovals(ahead.app)])
    assert.deepEqual(await typesOf(id), ['approval.requested', isApproved ? 'approval.granted' : 'approval.expired'])
    assert.equal((await readApproval(behind.app, id))?.state, isApproved ? 'approved' : 'expired')
  }
})

test('an expiry that the database has lost comes again under the same id', async () => {
  const { app, clock, ask } = asking()
  const { id } = await ask('lost')
  await clock.advance(OPEN_MS)
  await expireApprovals(app)
  await sql`alter table approvals disable trigger approvals_written`.execute(database.db)
  await sql`update approvals set state = 'waiting' where id = ${id}`.execute(database.db)
  await sql`alter table approvals enable trigger approvals_written`.execute(database.db)
  await expireApprovals(app)
  const ids = (await eventsOf(id)).filter(({ type }) => type === 'approval.expired').map((event) => event.id)
  assert.equal(ids.length, 2)
  assert.equal(new Set(ids).size, 1)
})

test('a question is not deleted before its expiry has an event, however long no process expired any', async () => {
  const { app, ask } = asking(Date.now() - 30 * 24 * 60 * 60_000)
  const { id } = await ask('forgotten')
  await deleteOldApprovals(app.db, 1_000)
  assert.notEqual(await readApproval(app, id), null)
  const { app: today } = asking()
  await expireApprovals(today)
  await deleteOldApprovals(app.db, 1_000)
  assert.equal(await readApproval(today, id), null)
  assert.deepEqual(await typesOf(id), ['approval.requested', 'approval.expired'])
})

test('a request that is repeated after its question was deleted asks anew, and the new question has events of its own', async () => {
  const DAY = 24 * 60 * 60_000
  const events: string[] = []
  for (const { app, clock, ask } of [asking(Date.now() - 2 * DAY), asking()]) {
    const { id } = await ask('repeated')
    await clock.advance(OPEN_MS)
    await expireApprovals(app)
    await deleteOldApprovals(app.db, 1_000)
    events.push(...(await eventsOf(id)).map((event) => `${event.type} ${event.id}`))
  }
  const [first, second] = [events.slice(0, 2), events.slice(-2)]
  assert.deepEqual(
    [first, second].map((some) => some.map((one) => one.split(' ')[0])),
    [
      ['approval.requested', 'approval.expired'],
      ['approval.requested', 'approval.expired'],
    ],
  )
  assert.equal(new Set([...first, ...second]).size, 4)
})
