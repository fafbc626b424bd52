import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { writing, type Writing } from '../../test/writing.ts'
import { AppError } from '../errors.ts'
import { readIdempotencyKey, sweepKeys } from './key.ts'
import { waitUntilMined } from './wait.ts'

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

test('a key is forgotten after a day, but never before its transaction is final', async () => {
  const writer = await world.writer('sweep')
  const age = () => sql`update idempotency_keys set created_at = created_at - interval '25 hours'`.execute(world.db)
  await world.add(world.first, writer, 1, 'k')
  assert.equal(await sweepKeys(world.first.app), 0)
  await age()
  assert.equal(await sweepKeys(world.first.app), 0, 'not while it is pending')
  await world.mine()
  assert.equal(await sweepKeys(world.first.app), 0, 'not while its block may be retracted')
  assert.equal((await world.add(world.first, writer, 1, 'k')).isReplay, true)
  for (let block = 0; block < 4; block++) await world.mine()
  assert.equal(await sweepKeys(world.first.app), 1)
  assert.equal((await world.add(world.first, writer, 1, 'k')).isReplay, false)
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
  assert.ok('gasPrice' in answer.tx && !('maxFeePerGas' in answer.tx))
  const { speedUpTransaction } = await import('./change.ts')
  const faster = await speedUpTransaction(other.app, writer, answer.id)
  assert.ok(
    'gasPrice' in faster &&
      BigInt(faster.gasPrice.hex) * 8n >= BigInt((answer.tx as { gasPrice: { hex: string } }).gasPrice.hex) * 9n,
  )
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
