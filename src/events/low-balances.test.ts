import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { writing, type Writer, type Writing } from '../../test/writing.ts'
import { raiseLowest } from '../transactions/lanes/raise.ts'
import { readEvents } from './read.ts'
import { sequence } from './sequence.ts'
import { deleteOldStates } from './sweep.ts'

let world: Writing
before(async () => {
  world = await writing()
  await sql`update applications set permissions = permissions || '["events:read"]'`.execute(world.db)
})
after(() => world.close())

async function lows({ userId }: Writer) {
  while ((await sequence(world.db)) > 0);
  const { events } = await readEvents(world.first.app, { clientId: 'demo', accountId: null }, { after: null, types: ['account.low_balance'], limit: 1_000 }) // prettier-ignore
  return events.filter((event) => event.userId === userId)
}
async function hold({ address }: Writer, wei: bigint): Promise<void> {
  await world.rpc('anvil_setBalance', address, `0x${wei.toString(16)}`)
  await world.mine()
}
const MUCH = 10n ** 19n
const isRejected = { code: 'insufficient_funds' }
const add = (writer: Writer) => world.add(world.first, writer)

test('an account that cannot pay for a write has one event until a write of it is sent, with both amounts', async () => {
  const writer = await world.writer('poor')
  await hold(writer, 5n)
  const error = await add(writer).then(
    () => assert.fail('it was sent'),
    (reason: { funds: { needed: string } }) => reason,
  )
  for (let times = 0; times < 3; times++) await assert.rejects(add(writer), isRejected)
  const [event, ...more] = await lows(writer)
  assert.deepEqual(more, [])
  assert.deepEqual(event!.data, { transactionId: null, needed: error.funds.needed, available: '5' })
  assert.deepEqual([event!.subject, event!.chainId], ['user:DEV-poor', 31_337])
  await hold(writer, MUCH)
  await add(writer)
  await world.mine()
  await hold(writer, 0n)
  await assert.rejects(add(writer), isRejected)
  await assert.rejects(add(writer), isRejected)
  const ids = (await lows(writer)).map(({ id }) => id)
  assert.equal(ids.length, 2)
  assert.equal(new Set(ids).size, 2)
})

test('a rejection that the database has lost comes again under the same id', async () => {
  const writer = await world.writer('lost')
  await hold(writer, 5n)
  await assert.rejects(add(writer), isRejected)
  await sql`delete from low_balances where account_id = ${writer.accountId}::uuid`.execute(world.db)
  await assert.rejects(add(writer), isRejected)
  const ids = (await lows(writer)).map(({ id }) => id)
  assert.equal(ids.length, 2)
  assert.equal(new Set(ids).size, 1)
})

/** Makes the next check of the fees of all signed writes due. */
async function checked(): Promise<void> {
  await sql`update attempts set created_at = now() - interval '25 seconds', created_block = null`.execute(world.db)
  await sql`update waits set due_at = null`.execute(world.db)
  await raiseLowest(world.first.app, world.first.chain)
}

test('a signed write that waits for funds has one event, however often it is checked, and the one behind it none', async () => {
  const writer = await world.writer('waiting')
  const { answer } = await add(writer)
  const { answer: next } = await add(writer)
  await world.rpc('anvil_setBalance', writer.address, '0x7')
  for (let times = 0; times < 3; times++) await checked()
  const [event, ...more] = await lows(writer)
  assert.deepEqual(more, [])
  const { needed, ...data } = event!.data
  assert.deepEqual(data, { transactionId: answer.id, available: '7' })
  assert.ok(BigInt(needed as string) > 7n)
  await world.rpc('anvil_setBalance', writer.address, '0x8ac7230489e80000')
  await checked()
  await world.mine()
  await world.mine()
  const { rows } = await sql<{ state: string }>`select state from transactions where id in (${answer.id}, ${next.id})`.execute(world.db) // prettier-ignore
  assert.ok(rows.every(({ state }) => state === 'MINED' || state === 'FINALIZED'))
  assert.equal((await lows(writer)).length, 1)
})

test('a dry run, and an application without a feed, note nothing', async () => {
  const writer = await world.writer('dry')
  await hold(writer, 0n)
  const headers = { authorization: `Bearer ${writer.token}` }
  const payload = { to: `0x${'5e'.repeat(20)}`, value: '1', dryRun: true }
  const answer = await world.first.server.inject({ method: 'POST', url: '/v1/transactions', headers, payload })
  assert.equal(answer.json<{ code: string }>().code, 'insufficient_funds')
  await assert.rejects(add({ ...writer, clientId: 'other' }), isRejected)
  const { rows } = await sql`select 1 from low_balances where account_id = ${writer.accountId}::uuid`.execute(world.db)
  assert.equal(rows.length, 0)
})

test('what is stored of a low balance is deleted after as long as events are stored', async () => {
  await sql`update low_balances set at = now() - interval '31 days'`.execute(world.db)
  await deleteOldStates(world.db, 30)
  assert.equal((await sql`select 1 from low_balances`.execute(world.db)).rows.length, 0)
})
