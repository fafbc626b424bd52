import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { age as ageRows } from '../../test/lost-tail.ts'
import { writing, type Writer, type Writing } from '../../test/writing.ts'
import { AppError } from '../errors.ts'
import { transactionIdOf } from '../ids.ts'
import { readIdempotencyKey } from '../http/idempotency-key.ts'
import { readTransaction } from './read/read.ts'
import { waitUntilMined } from './read/wait.ts'

let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

test('a key has 1 to 255 printable ASCII characters, the same in both headers', () => {
  assert.equal(readIdempotencyKey({}), undefined)
  assert.equal(readIdempotencyKey({ 'idempotency-key': 'a' }), 'a')
  assert.equal(readIdempotencyKey({ 'x-idempotency-key': '~'.repeat(255) }), '~'.repeat(255))
  assert.equal(readIdempotencyKey({ 'idempotency-key': 'a', 'x-idempotency-key': 'a' }), 'a')
  for (const headers of [
    { 'idempotency-key': '' },
    { 'idempotency-key': 'a'.repeat(256) },
    { 'idempotency-key': 'ä' },
    { 'idempotency-key': 'a', 'x-idempotency-key': 'b' },
    { 'idempotency-key': ['a', 'b'] },
  ]) {
    assert.throws(
      () => readIdempotencyKey(headers),
      (error: unknown) => error instanceof AppError && error.code === 'idempotency_key_invalid',
    )
  }
})

const scopeOf = ({ accountId, clientId }: Writer) => ({ accountId, clientId, route: '/v1/contracts/method/write' })

test('a key is free again a day after its transaction became final, never before', async () => {
  const writer = await world.writer('a-day')
  const age = (hours: number) => ageRows(world, hours * 3_600)
  const repeat = () => world.add(world.first, writer, 1, 'k')
  const isReplay = async () => (await repeat()).isReplay
  assert.equal(await isReplay(), false)
  await age(25)
  assert.equal(await isReplay(), true, 'not while it is pending')
  await world.mine()
  await age(25)
  assert.equal(await isReplay(), true, 'not while its block may be reorganised away')
  for (let block = 0; block < 4; block++) await world.mine()
  await age(23)
  assert.equal(await isReplay(), true, 'not within the day')
  await age(2)
  // Each use of a key frees it for the next one, even beyond the uses of one read.
  for (let use = 1; use < 6; use++) {
    const { isReplay: isOld, answer } = await repeat()
    assert.equal(isOld, false, `use ${use}`)
    // Uses are numbered without gaps, so the ledger can restore all uses that a database has lost.
    assert.equal(answer.id, transactionIdOf({ ...scopeOf(writer), key: 'k' }, use))
    assert.equal(await isReplay(), true)
    for (let block = 0; block < 5; block++) await world.mine()
    await age(25)
  }
  assert.equal(await world.countOf(writer), 6n)
})

test('a database whose clock jumped a day ahead frees no key that has been final for a minute', async () => {
  const writer = await world.writer('ahead')
  const { answer } = await world.add(world.first, writer, 1, 'k')
  for (let block = 0; block < 5; block++) await world.mine()
  const { isFinal, transitions } = await readTransaction(world.first.app, writer, answer.id)
  assert.equal(isFinal, true)
  assert.ok(Date.now() - Date.parse(transitions.at(-1)!.at) < 60_000, 'by our own clock it has been final for seconds')
  // Move the clock by 25 hours: make all stored times older.
  await sql`update transactions set created_at = created_at - interval '25 hours', updated_at = updated_at - interval '25 hours' where id = ${answer.id}`.execute(
    world.db,
  )
  await sql`update attempts set created_at = created_at - interval '25 hours', broadcast_at = broadcast_at - interval '25 hours' where transaction_id = ${answer.id}`.execute(
    world.db,
  )
  const again = await world.add(world.first, writer, 1, 'k')
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  assert.equal(again.answer.hash, answer.hash)
})

test('waiting in vain ends at its limit, and tells the state', async () => {
  const writer = await world.writer('waiter')
  const { answer } = await world.add(world.first, writer)
  assert.equal(await waitUntilMined(world.first.app, world.first.chain, answer.id, 30), 'SUBMITTED')
  const waiting = waitUntilMined(world.first.app, world.first.chain, answer.id)
  await world.mine()
  assert.equal(await waiting, 'MINED')
})

test('a network with legacy fees gets transactions of type 0, raised by their price', async () => {
  const writer = await world.writer('legacy')
  const other = await world.replica()
  const { number, hash, parentHash, timestamp } = world.first.chain.head.current()!
  other.chain.head.set({ number, hash, parentHash, timestamp, baseFee: null })
  const { answer } = await world.add(other, writer)
  assert.equal(answer.tx.type, 0)
  assert.ok(answer.tx.gasPrice !== undefined && !('maxFeePerGas' in answer.tx))
  const { speedUpTransaction } = await import('./lanes/change.ts')
  const faster = await speedUpTransaction(other.app, writer, answer.id)
  assert.ok(faster.gasPrice !== undefined)
  assert.ok(BigInt(faster.gasPrice.hex) * 8n >= BigInt(answer.tx.gasPrice.hex) * 9n)
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

test('on a development chain an account that is short is given coins, and its first write works', async () => {
  const writer = await world.writer('poor')
  await world.rpc('anvil_setBalance', writer.address, '0x0')
  await assert.rejects(
    world.add(world.first, writer),
    (error: unknown) => error instanceof AppError && error.code === 'insufficient_funds',
  )
  const other = await world.replica()
  const given: string[] = []
  other.chain.faucet = async (address) => {
    given.push(address)
    await world.rpc('anvil_setBalance', address, '0x8ac7230489e80000')
  }
  await world.add(other, writer)
  await world.add(other, writer)
  assert.deepEqual(given, [writer.address])
})
