import { strict as assert } from 'node:assert'
import { afterEach, beforeEach, test } from 'node:test'
import { sql } from 'kysely'
import { sequence } from '../events/sequence.ts'
import { endpoint, webhookStage, type WebhookStage } from '../../test/webhook-stage.ts'
import { until } from '../../test/kit/until.ts'
import {
  enableWebhook,
  listDeliveries,
  readWebhook,
  redeliverEvent,
  replayWebhook,
  requestTest,
  updateWebhook,
} from './manage.ts'
import { DELAYS_MS } from './schedule.ts'

let stage: WebhookStage
beforeEach(async () => {
  stage = await webhookStage()
})
afterEach(() => stage.close())

const of = (id: string) => ({ id, clientId: 'demo' })
const HOUR = 3_600_000
const seqs = (got: { sequence: number }[]) => got.map(({ sequence: one }) => one)

/** Checks that these events were sent once each, and those of a subject in their order. */
function assertInOrder(got: readonly { subject: string; sequence: number }[], sent: readonly number[]): void {
  const ascending = (list: number[]) => list.toSorted((a, b) => a - b)
  assert.deepEqual(ascending(seqs([...got])), sent)
  for (const of of Map.groupBy(got, ({ subject }) => subject).values()) assert.deepEqual(seqs(of), ascending(seqs(of)))
}

test('each event since the webhook was created is sent once, in the order of its subject', async () => {
  await stage.emit(['before'])
  const { id } = await stage.hook()
  const to = endpoint()
  const sent = await stage.emit(Array.from({ length: 250 }, (_, n) => `transaction:${n % 3}`))
  await stage.courier(to).work()
  assertInOrder(to.got, sent)
  const webhook = await readWebhook(stage.db, of(id))
  assert.deepEqual([webhook.delivered, webhook.waiting, webhook.state], [250, 0, 'enabled'])
  await stage.courier(to).work()
  assert.equal(to.got.length, 250)
})

test('a webhook gets the types that it asked for, and none about itself', async () => {
  const { id } = await stage.hook('', ['transfer.*', 'webhook.*'])
  const to = endpoint()
  await stage.emit(['a'], 'transaction.mined')
  await stage.emit(['b'], 'transfer.detected')
  await stage.emit([`webhook:${id}`, 'webhook:other'], 'webhook.failed')
  await stage.courier(to).work()
  assert.deepEqual(
    to.got.map(({ subject }) => subject),
    ['b', 'webhook:other'],
  )
})

test('an event that fails is repeated, those of its subject wait behind it, and the others go on', async () => {
  const { id } = await stage.hook()
  let isDown = true
  const to = endpoint(({ event }) => (isDown && event.subject === 'a' ? 500 : 200))
  const [first, , third] = await stage.emit(['a', 'b', 'a', 'c'])
  const courier = stage.courier(to)
  await courier.work()
  assert.deepEqual(to.got.map(({ subject }) => subject).toSorted(), ['a', 'b', 'c'])
  const later = await stage.emit(['a', 'd'])
  await courier.work()
  assert.equal(to.got.at(-1)!.subject, 'd')
  assert.equal((await readWebhook(stage.db, of(id))).waiting, 3)
  isDown = false
  to.got.length = 0
  await courier.work()
  assert.deepEqual(to.got, [], 'before its time')
  await stage.age(6_001)
  await courier.work()
  assert.deepEqual(seqs(to.got), [first, third, later[0]])
  assert.equal((await readWebhook(stage.db, of(id))).waiting, 0)
})

test('an event that always fails is dead after thirteen attempts: the feed says so, the log has them, its subject goes on, and it can be sent by hand', async () => {
  const { id } = await stage.hook()
  let isBad = true
  const [first, second] = await stage.emit(['a', 'a'])
  const to = endpoint(({ event }) => (isBad && event.sequence === first ? { status: 500, answer: 'nope' } : 200))
  const courier = stage.courier(to)
  await courier.work()
  for (const ms of DELAYS_MS) {
    // Another subject succeeds in between, so that the webhook does not stand.
    await stage.emit(['other'])
    await stage.age(ms * 1.21)
    await courier.work()
  }
  const [dead, next] = [to.got.filter((event) => event.sequence === first), to.got.at(-1)!]
  assert.equal(dead.length, 13)
  assert.equal(next.sequence, second)
  const webhook = await readWebhook(stage.db, of(id))
  assert.deepEqual([webhook.dead, webhook.waiting], [1, 0])
  while ((await sequence(stage.db)) > 0);
  const facts = await stage.db.selectFrom('events').select(['type', 'data']).where('subject', '=', `webhook:${id}`).execute() // prettier-ignore
  assert.deepEqual(
    facts.map(({ type, data }) => [type, data]),
    [['webhook.failed', { id, eventId: dead[0]!.id, eventType: 'transaction.mined', attempts: 13 }]],
  )
  const { deliveries } = await listDeliveries(stage.db, of(id), { limit: 50, cursor: undefined })
  assert.equal(deliveries.length, 13)
  assert.deepEqual([deliveries[0]!.attempt, deliveries[12]!.attempt, deliveries[0]!.status], [13, 1, 500])
  isBad = false
  await redeliverEvent(stage.db, of(id), dead[0]!.id)
  await courier.work()
  assert.equal(to.got.at(-1)!.id, dead[0]!.id)
  assert.equal((await readWebhook(stage.db, of(id))).dead, 0)
})

test('an endpoint that is down for three days gets every event after, in order, and none is dead', async () => {
  const { id } = await stage.hook()
  let isDown = true
  const to = endpoint(() => (isDown ? { status: null, error: 'ECONNREFUSED' } : 200))
  const courier = stage.courier(to)
  const sent: number[] = []
  for (let hours = 0; hours < 72; hours += 2) {
    sent.push(...(await stage.emit(Array.from({ length: 7 }, (_, n) => `transaction:${n % 5}`))))
    await stage.age(2 * HOUR)
    await courier.work()
  }
  const webhook = await readWebhook(stage.db, of(id))
  assert.deepEqual([webhook.state, webhook.dead, webhook.delivered], ['failing', 0, 0])
  assert.ok(to.got.length < 80, `${to.got.length} attempts in three days`)
  isDown = false
  to.got.length = 0
  for (let turns = 0; turns < 20; turns++) {
    await stage.age(HOUR)
    await courier.work()
  }
  assertInOrder(to.got, sent)
  const after = await readWebhook(stage.db, of(id))
  assert.deepEqual([after.state, after.dead, after.waiting, after.delivered], ['enabled', 0, 0, sent.length])
})

test('the log lists each attempt once, though several are of one millisecond', async () => {
  const { id } = await stage.hook()
  await sql`insert into webhook_deliveries (id, webhook_id, kind, event_id, type, attempt, created_at)
    select 'dlv_' || n, ${id}, 'test', '', 'webhook.test', 1, '2026-01-31T12:00:00.123Z'::timestamptz + n * interval '1 microsecond'
    from generate_series(1, 4) as n`.execute(stage.db)
  const listed: string[] = []
  let cursor: string | undefined
  do {
    const page = await listDeliveries(stage.db, of(id), { limit: 1, cursor })
    listed.push(...page.deliveries.map((one) => one.id))
    cursor = page.nextCursor ?? undefined
  } while (cursor !== undefined)
  assert.deepEqual(listed, ['dlv_4', 'dlv_3', 'dlv_2', 'dlv_1'])
})

test('five days without success disable a webhook, its feed says so, and enabling continues where it stood', async () => {
  const { id } = await stage.hook()
  let isDown = true
  const to = endpoint(() => (isDown ? 500 : 200))
  const courier = stage.courier(to)
  const sent = await stage.emit(Array.from({ length: 30 }, (_, n) => `transaction:${n}`))
  for (let hours = 0; hours < 119; hours += 1) {
    await stage.age(HOUR)
    await courier.work()
  }
  assert.equal((await readWebhook(stage.db, of(id))).state, 'failing')
  await stage.age(3 * HOUR)
  await courier.work()
  const disabled = await readWebhook(stage.db, of(id))
  assert.deepEqual([disabled.state, disabled.disabledReason], ['disabled', 'failing'])
  while ((await sequence(stage.db)) > 0);
  const facts = await stage.db.selectFrom('events').select(['type', 'data']).where('subject', '=', `webhook:${id}`).execute() // prettier-ignore
  assert.deepEqual([facts.length, facts[0]!.type, facts[0]!.data.reason], [1, 'webhook.disabled', 'failing'])
  isDown = false
  to.got.length = 0
  await stage.age(HOUR)
  await courier.work()
  assert.equal(to.got.length, 0)
  await enableWebhook(stage.db, of(id))
  await courier.work()
  assert.deepEqual(
    seqs(to.got).toSorted((a, b) => a - b),
    sent,
  )
  assert.equal((await readWebhook(stage.db, of(id))).dead, 0)
})

test('410 disables at once; 429 with Retry-After lets the whole webhook wait that long, and no longer than an hour', async () => {
  const gone = await stage.hook('gone')
  const busy = await stage.hook('busy')
  let isBusy = true
  const to = endpoint(({ url }) => (url.endsWith('gone') ? 410 : isBusy ? { status: 429, retryAfterMs: 9 * HOUR } : 200)) // prettier-ignore
  const courier = stage.courier(to)
  await stage.emit(['a'])
  await courier.work()
  const disabled = await readWebhook(stage.db, of(gone.id))
  assert.deepEqual([disabled.state, disabled.disabledReason, disabled.waiting], ['disabled', 'gone', 1])
  isBusy = false
  to.got.length = 0
  await stage.emit(['b'])
  await stage.age(HOUR - 60_000)
  await courier.work()
  assert.equal(to.got.length, 0)
  await stage.age(61_000)
  await courier.work()
  assert.deepEqual(
    to.got.map(({ subject }) => subject),
    ['a', 'b'],
  )
  assert.equal((await readWebhook(stage.db, of(busy.id))).waiting, 0)
})

test('a test is sent also while a webhook stands or is disabled, and changes nothing of that', async () => {
  const { id } = await stage.hook()
  const to = endpoint(({ event }) => (event.type === 'webhook.test' ? 200 : 410))
  const courier = stage.courier(to)
  await stage.emit(['a'])
  await courier.work()
  const requested = await requestTest(stage.db, of(id))
  assert.equal(requested.doneAt, null)
  await courier.work()
  const { deliveries } = await listDeliveries(stage.db, of(id), { limit: 50, cursor: undefined })
  assert.deepEqual([deliveries[0]!.id, deliveries[0]!.status, deliveries[0]!.error], [requested.id, 200, null])
  assert.equal(to.got.at(-1)!.id, requested.eventId)
  assert.equal((await readWebhook(stage.db, of(id))).state, 'disabled')
})

test('a replay sends a range once more with the same ids, marked, while new events go on', async () => {
  const { id } = await stage.hook()
  let isDown = false
  const to = endpoint(() => (isDown ? 500 : 200))
  const courier = stage.courier(to)
  await stage.emit(Array.from({ length: 40 }, (_, n) => `transaction:${n}`))
  await courier.work()
  const before = to.got.map(({ id: one }) => one).toSorted()
  to.letters.length = 0
  await replayWebhook(stage.db, of(id), { from: new Date(Date.now() - HOUR).toISOString() })
  await assert.rejects(replayWebhook(stage.db, of(id), { from: new Date(0).toISOString().replace('1970', '2020') }), { code: 'already_exists' }) // prettier-ignore
  isDown = true
  await courier.work()
  assert.equal((await readWebhook(stage.db, of(id))).replay!.failures, 1)
  isDown = false
  to.letters.length = 0
  await stage.age(12_001)
  await stage.emit(['new'])
  await courier.work()
  const replayed = to.letters.filter(({ isReplay }) => isReplay)
  assert.deepEqual(replayed.map(({ event }) => event.id).toSorted(), before)
  assert.ok(to.letters.some(({ isReplay, event }) => !isReplay && event.subject === 'new'))
  assert.equal((await readWebhook(stage.db, of(id))).replay, null)
})

test('a replay ends at the end of its range, although its last event is of another type and new ones follow', async () => {
  const { id } = await stage.hook('', ['transaction.*'])
  const to = endpoint()
  const courier = stage.courier(to)
  const [first] = await stage.emit(['a'])
  await stage.emit(['b'], 'transfer.detected')
  await courier.work()
  await replayWebhook(stage.db, of(id), { from: new Date(Date.now() - HOUR).toISOString() })
  const [later] = await stage.emit(['c'])
  to.letters.length = 0
  for (let looks = 0; looks < 3; looks++) if ((await courier.look()) > 0) await courier.idle()
  const sent = (isReplay: boolean) =>
    to.letters.filter((one) => one.isReplay === isReplay).map(({ event }) => event.sequence)
  assert.deepEqual([sent(true), sent(false)], [[first], [later]])
  assert.equal((await readWebhook(stage.db, of(id))).replay, null)
})

test('a replay whose first events were deleted meanwhile sends the others, and ends', async () => {
  const { id } = await stage.hook()
  const to = endpoint()
  const courier = stage.courier(to)
  const [first, second] = await stage.emit(['a', 'b'])
  await courier.work()
  await replayWebhook(stage.db, of(id), { from: new Date(Date.now() - HOUR).toISOString() })
  await sql`update feeds set trimmed = ${first}::bigint`.execute(stage.db)
  await sql`delete from events where seq = ${first}::bigint`.execute(stage.db)
  to.letters.length = 0
  for (let looks = 0; looks < 3; looks++) if ((await courier.look()) > 0) await courier.idle()
  assert.deepEqual(
    to.letters.map(({ event }) => event.sequence),
    [second],
  )
  assert.equal((await readWebhook(stage.db, of(id))).replay, null)
  assert.equal(stage.told('webhook_events_expired').length, 1)
})

test('from the response to a change of its types on, a webhook gets all of them, also while an answer is awaited', async () => {
  const { id } = await stage.hook('', ['transaction.*'])
  const answer = Promise.withResolvers<number>()
  const to = endpoint(({ event }) => (event.subject === 'slow' ? answer.promise : 200))
  const courier = stage.courier(to)
  await stage.emit(['slow'])
  await courier.look()
  await until('an event is in flight', () => to.got.length === 1)
  await updateWebhook(stage.db, of(id), { types: ['transaction.*', 'transfer.*'] }, { privateHosts: new Set() })
  await stage.emit(['moved'], 'transfer.detected')
  await stage.emit(['next'])
  await until('a later event is sent', () => to.got.some(({ subject }) => subject === 'next'))
  answer.resolve(200)
  await courier.idle()
  await courier.work()
  assert.deepEqual(to.got.map(({ subject }) => subject).toSorted(), ['moved', 'next', 'slow'])
})

test('a process that lost its webhook to another one stores nothing', async () => {
  const { id } = await stage.hook()
  const answers: (() => void)[] = []
  const slow = endpoint(() => new Promise((done) => answers.push(() => done(200))))
  const first = stage.courier(slow)
  await stage.emit(['a'])
  await first.look()
  await until('an event is in flight', () => answers.length === 1)
  await stage.age(60_000)
  const second = endpoint(() => 500)
  await stage.courier(second).work()
  answers[0]!()
  await first.idle()
  const webhook = await readWebhook(stage.db, of(id))
  assert.deepEqual([webhook.waiting, webhook.delivered, slow.got.length], [1, 0, 1])
})

test('events that were deleted before they could be sent are passed over, and the log says so', async () => {
  const { id } = await stage.hook()
  const to = endpoint()
  const [first] = await stage.emit(['a'])
  await sql`update feeds set trimmed = ${first}::bigint`.execute(stage.db)
  await sql`delete from events`.execute(stage.db)
  const [second] = await stage.emit(['b'])
  await stage.courier(to).work()
  assert.deepEqual(seqs(to.got), [second])
  assert.match((await readWebhook(stage.db, of(id))).lastFailure!, /deleted/)
  assert.equal(stage.told('webhook_events_expired').length, 1)
  const [third, fourth] = await stage.emit(['c', 'c'])
  let isDown = true
  const courier = stage.courier(endpoint(() => (isDown ? 500 : 200)))
  await courier.work()
  await sql`delete from events where seq = ${third}::bigint`.execute(stage.db)
  isDown = false
  const rest = endpoint()
  await stage.age(6_001)
  await stage.courier(rest).work()
  assert.deepEqual([seqs(rest.got), stage.told('webhook_events_expired').length], [[fourth], 2])
  assert.equal((await readWebhook(stage.db, of(id))).waiting, 0)
})

test('a suspended application, and one without events:read, is sent nothing until the operator allows it again', async () => {
  await stage.hook()
  const to = endpoint(async ({ event }) => {
    if (event.subject === 'transaction:70') await sql`update applications set suspended_at = now()`.execute(stage.db)
    return 200
  })
  const courier = stage.courier(to)
  const sent = await stage.emit(Array.from({ length: 300 }, (_, n) => `transaction:${n}`))
  await courier.work()
  assert.ok(to.got.length < 70 + 2 * 72, `${to.got.length} sent`)
  const before = to.got.length
  await courier.work()
  await sql`update applications set suspended_at = null, permissions = permissions - 'events:read'`.execute(stage.db)
  await courier.work()
  assert.equal(to.got.length, before)
  await sql`update applications set permissions = permissions || '["events:read"]'`.execute(stage.db)
  await courier.work()
  assert.deepEqual(
    seqs(to.got).toSorted((a, b) => a - b),
    sent,
  )
})

test('an endpoint that took an event in the last five days is not disabled, although each of its successes was followed by a failure', async () => {
  const { id } = await stage.hook()
  let isDown = false
  const to = endpoint(({ event }) => (isDown || event.subject.startsWith('bad') ? 500 : 200))
  const courier = stage.courier(to)
  for (let days = 0; days < 7; days++) {
    await stage.emit([`good:${days}`, `bad:${days}`])
    await courier.work()
    await stage.age(24 * HOUR)
  }
  isDown = true
  await stage.emit(Array.from({ length: 20 }, (_, n) => `transaction:${n}`))
  await courier.work()
  assert.equal((await readWebhook(stage.db, of(id))).state, 'failing')
})

test('a process that takes over loses no event behind a retry that its cursor has not passed', async () => {
  const { id } = await stage.hook()
  const held: ((status: number) => void)[] = []
  const hold = () => new Promise<number>((answer) => held.push(answer))
  const [slow, failed] = await stage.emit(['slow', 'a'])
  const first = stage.courier(endpoint(({ event }) => (event.sequence === slow ? hold() : 500)))
  await first.look()
  await until('the retry is stored', async () => (await readWebhook(stage.db, of(id))).waiting === 1)
  first.kill()
  held.shift()!(200)
  await stage.age(HOUR)

  const to = endpoint(({ event }) => (event.sequence === slow ? hold() : 200))
  const second = stage.courier(to)
  await second.look()
  await until('the retry was sent', async () => to.got.some(({ sequence: one }) => one === failed) && (await readWebhook(stage.db, of(id))).waiting === 0) // prettier-ignore
  const [later] = await stage.emit(['a', 'b'])
  await until('what is behind it was sent', () => to.got.some(({ subject }) => subject === 'b'))
  held.shift()!(200)
  await second.work()
  await stage.age(HOUR)
  await second.work()
  assert.deepEqual(seqs(to.got.filter(({ subject }) => subject !== 'b')), [slow, failed, later])
})

test('a webhook that waits for its probe sends nothing again that was accepted', async () => {
  const { id } = await stage.hook()
  const held: ((status: number) => void)[] = []
  let isBusy = true
  const to = endpoint(({ event }) => {
    if (isBusy && event.subject === 'slow') return new Promise((answer) => held.push(answer))
    return isBusy && event.subject === 'c' ? { status: 503, retryAfterMs: 60_000 } : 200
  })
  const courier = stage.courier(to)
  const sent = await stage.emit(['slow', 'slow', 'a', 'a', 'b', 'c'])
  await courier.look()
  await until('the others were answered', async () => (await readWebhook(stage.db, of(id))).waiting === 1)
  isBusy = false
  held.shift()!(200)
  await courier.idle()
  await stage.age(HOUR)
  await courier.work()
  await stage.age(HOUR)
  await courier.work()
  assert.deepEqual([(await readWebhook(stage.db, of(id))).waiting, held.length], [0, 0])
  const refused = seqs(to.got).indexOf(sent[5]!)
  assertInOrder(to.got.toSpliced(refused, 1), sent)
})
