import { strict as assert } from 'node:assert'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { stoppedClock } from '../../test/kit/clock.ts'
import { writing, type Writer, type Writing } from '../../test/writing.ts'
import { AppError } from '../errors.ts'
import { verifyAccessToken } from '../http/bearer.ts'
import { accountIdOf } from '../ids.ts'
import { SignerRefused } from '../signer-wire/client.ts'
import { notingDenial } from './denials.ts'
import { readEvents } from './read.ts'
import { sequence } from './sequence.ts'
import { deleteOldStates } from './sweep.ts'
import type { WireEvent } from './wire.ts'

const folder = mkdtempSync(join(tmpdir(), 'chatelaine-denials-'))
let world: Writing
before(async () => {
  const file = join(folder, 'policy.json')
  const small = { name: 'small', effect: 'limit', native: { perCall: '1000' } }
  writeFileSync(file, JSON.stringify({ version: 1, rules: [{ name: 'rest', effect: 'allow' }, small] }))
  world = await writing({ SIGNER_POLICY_FILE: file })
  // Before the first token: a process knows the permissions of an application for seconds.
  await sql`update applications set permissions = permissions || '["events:read"]'`.execute(world.db)
})
after(async () => {
  await world?.close()
  rmSync(folder, { recursive: true })
})

async function denials(writer: Pick<Writer, 'accountId'>): Promise<WireEvent[]> {
  while ((await sequence(world.db)) > 0);
  const { events } = await readEvents(world.first.app, { clientId: 'demo', accountId: null }, { after: null, types: ['policy.denied'], limit: 1_000 }) // prettier-ignore
  const { rows } = await sql<{ user_id: string }>`select user_id from accounts where account_id = ${writer.accountId}::uuid`.execute(world.db) // prettier-ignore
  return events.filter(({ userId }) => userId === rows[0]!.user_id)
}
const rowsOf = async ({ accountId }: Pick<Writer, 'accountId'>) =>
  (await sql`select 1 from denials where account_id = ${accountId}::uuid`.execute(world.db)).rows.length

async function post(
  writer: Writer,
  path: string,
  body: object,
): Promise<{ status: number; code: string; detail: string }> {
  const headers = { authorization: `Bearer ${writer.token}` }
  const answer = await world.first.server.inject({ method: 'POST', url: path, headers, payload: body })
  return { ...answer.json<{ code: string; detail: string }>(), status: answer.statusCode }
}
const OTHER = `0x${'5e'.repeat(20)}`
const pay = (writer: Writer, value: string, more: object = {}) =>
  post(writer, '/v1/transactions', { to: OTHER, value, ...more })

test('a write that the policy denies has an event with the rule, the reference and the sentence of the response', async () => {
  const writer = await world.writer('denied')
  assert.equal((await pay(writer, '2000', { dryRun: true })).code, 'policy_denied')
  assert.deepEqual(await denials(writer), [])
  const { status, code, detail } = await pay(writer, '2000', { reference: 'order-17' })
  assert.deepEqual([status, code], [403, 'policy_denied'])
  assert.equal((await pay(writer, '1000')).status, 200)
  const [event, ...more] = await denials(writer)
  assert.deepEqual(more, [])
  assert.deepEqual(event!.data, { request: 'write', rule: 'small', detail, reference: 'order-17', count: 1 })
  assert.deepEqual([event!.subject, event!.chainId], ['user:DEV-denied', 31_337])
})

test('a message that the signer refuses to sign has an event, under its own rule', async () => {
  const writer = await world.writer('message')
  const { code, detail } = await post(writer, '/v1/signatures/message', { hex: `0x${'9c'.repeat(32)}`, reference: 'login' }) // prettier-ignore
  assert.equal(code, 'policy_denied')
  const [event] = await denials(writer)
  const { rule, ...data } = event!.data
  assert.ok(typeof rule === 'string' && detail.includes(rule))
  assert.deepEqual(data, { request: 'signature', detail, reference: 'login', count: 1 })
})

const denial = (rule: string) => {
  const cause = new SignerRefused('policy_denied', 'No.', { rule })
  return new AppError('policy_denied', `The rule ${rule} rejects this transaction.`, { cause })
}

/** A process in which a caller is denied, with a clock of its own. */
async function process(writer: Writer, start = START) {
  const { app } = await world.replica()
  // From then on it knows the permissions of the application.
  await verifyAccessToken(app, writer.token)
  const clock = stoppedClock(start)
  app.clock = clock
  const deny = ({ rule = 'small', clientId = writer.clientId } = {}) =>
    assert.rejects(
      notingDenial(app, { ...writer, clientId }, { request: 'write', reference: null }, () => Promise.reject(denial(rule))), // prettier-ignore
      { code: 'policy_denied' },
    )
  return { clock, deny }
}
const HOUR = 3_600_000
const START = Date.UTC(2026, 0, 31, 12)
const counts = (events: WireEvent[]) => events.map(({ data }) => data.count)

test('denials by one rule have one event and one row an hour, and the next event has their number', async () => {
  const writer = await world.writer('often')
  const { clock, deny } = await process(writer)
  await Promise.all(Array.from({ length: 500 }, () => deny()))
  assert.deepEqual(counts(await denials(writer)), [1])
  await clock.advance(HOUR - 1)
  await deny()
  assert.deepEqual(counts(await denials(writer)), [1])
  await clock.advance(1)
  await deny()
  assert.deepEqual(counts(await denials(writer)), [1, 501])
  assert.equal(await rowsOf(writer), 1)
  await deny({ rule: 'other' })
  assert.deepEqual(counts(await denials(writer)), [1, 501, 1])
})

test('several processes have one event an hour between them', async () => {
  const writer = await world.writer('replicas')
  const [one, two] = [await process(writer), await process(writer)]
  await Promise.all([one.deny(), two.deny()])
  await two.deny()
  assert.deepEqual(counts(await denials(writer)), [1])
  for (const { clock } of [one, two]) await clock.advance(HOUR)
  await two.deny()
  assert.deepEqual(counts(await denials(writer)), [1, 3])
})

test('a denial that is noted again after the database lost it has the same id', async () => {
  const writer = await world.writer('lost')
  await (await process(writer)).deny()
  await sql`delete from denials where account_id = ${writer.accountId}::uuid`.execute(world.db)
  await (await process(writer, START + HOUR - 1)).deny()
  const ids = (await denials(writer)).map(({ id }) => id)
  assert.equal(ids.length, 2)
  assert.equal(new Set(ids).size, 1)
})

test('a denial that cannot be stored changes no response, and the next one has the event', async () => {
  const writer = await world.writer('away')
  const { deny } = await process(writer)
  await sql`alter table denials rename to denials_away`.execute(world.db)
  await deny()
  await sql`alter table denials_away rename to denials`.execute(world.db)
  await deny()
  assert.deepEqual(counts(await denials(writer)), [1])
})

test('an application without a feed has no row', async () => {
  const writer = await world.writer('elsewhere')
  await (await process(writer)).deny({ clientId: 'other' })
  assert.equal(await rowsOf(writer), 0)
})

test('rows without an event for longer than events are stored are deleted', async () => {
  const writer = await world.writer('often')
  assert.ok((await rowsOf(writer)) > 0)
  await sql`update denials set hour = now() - interval '31 days' where account_id = ${accountIdOf('DEV', 'often')}::uuid`.execute(world.db) // prettier-ignore
  await deleteOldStates(world.db, 30)
  assert.equal(await rowsOf(writer), 0)
})
