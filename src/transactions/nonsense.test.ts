import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { until } from '../../test/until.ts'
import { writing, type Fault, type Replica, type Writing } from '../../test/writing.ts'
import { RpcUnavailable } from '../chain/rpc.ts'
import { AppError } from '../errors.ts'
import { fromHex } from '../store/bytes.ts'
import { readTransaction } from './read.ts'

// A node that answers, and answers nonsense: it is away, as far as money is concerned.

let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

const NONSENSE: unknown[] = [null, '', 'no', '0x', 5, {}, [], true, '-0x1', `0x${'f'.repeat(65)}`]
const saying =
  (wrong: string, answer: unknown): Fault =>
  (method, _params, next) =>
    method === wrong ? Promise.resolve(answer) : next()
const isAway = (error: unknown) => error instanceof AppError && error.code === 'chain_unavailable'
const rowsOf = (address: `0x${string}`) =>
  world.db.selectFrom('transactions').select('id').where('sender', '=', fromHex(address)).execute()

for (const method of ['eth_estimateGas', 'eth_getBalance']) {
  test(`nothing is bound on what is no answer to ${method}`, async () => {
    const writer = await world.writer(`nonsense-${method}`)
    for (const answer of NONSENSE) {
      world.first.misbehave(saying(method, answer))
      await assert.rejects(world.add(world.first, writer, 1, 'k'), isAway, `${method}: ${JSON.stringify(answer)}`)
      world.first.misbehave(null)
      await world.mine()
    }
    assert.equal((await rowsOf(writer.address)).length, 0)
    assert.equal((await world.add(world.first, writer, 1, 'k')).isReplay, false)
  })
}

test('a dry run on what is no answer is refused, whichever question it was', async () => {
  const writer = await world.writer('nonsense-dry')
  const dryRun = async () => {
    const answer = await world.first.server.inject({
      method: 'POST',
      url: '/v1/contracts/method/write',
      headers: { authorization: `Bearer ${writer.token}` },
      payload: { address: world.probe, abi: 'add(uint256) public', args: ['1'], dryRun: true },
    })
    return [answer.statusCode, answer.json().code]
  }
  for (const method of ['eth_call', 'eth_getTransactionCount']) {
    for (const answer of NONSENSE.filter((one) => method !== 'eth_call' || !String(one).startsWith('0x'))) {
      world.first.misbehave(saying(method, answer))
      assert.deepEqual(await dryRun(), [502, 'chain_unavailable'], `${method}: ${JSON.stringify(answer)}`)
    }
  }
  world.first.misbehave(null)
  assert.deepEqual(await dryRun(), [200, undefined])
  assert.equal((await rowsOf(writer.address)).length, 0)
})

/** A round of a keeper on another replica, which sees the node through a fault. */
async function roundOf(beside: Replica, fault: Fault): Promise<void> {
  await sql`update attempts set broadcast_at = null`.execute(world.db)
  beside.misbehave(fault)
  const keeper = beside.keeper()
  await keeper.round()
  await keeper.stop()
  beside.misbehave(null)
}

test('a receipt that is none, of another transaction or not whole marks nothing mined and gives nothing up', async () => {
  const writer = await world.writer('nonsense-receipt')
  const { answer } = await world.add(world.first, writer)
  const other = await world.add(world.first, await world.writer('nonsense-other'))
  world.first.misbehave((method, _params, next) =>
    method === 'eth_getBlockByNumber' ? Promise.reject(new RpcUnavailable('away', { timedOut: false })) : next(),
  )
  for (let block = 0; block < 3; block++) await world.rpc('evm_mine')
  const right = await world.rpc<Record<string, unknown>>('eth_getTransactionReceipt', answer.hash)
  const anothers = await world.rpc('eth_getTransactionReceipt', other.answer.hash)
  const beside = await world.replica()
  const wrong = [5, 'no', {}, [], anothers, { ...right, status: 'yes' }, { ...right, blockHash: null }]
  for (const receipt of [...wrong, { ...right, gasUsed: '0x' }]) {
    const before = beside.calls.length
    await roundOf(beside, saying('eth_getTransactionReceipt', receipt))
    assert.ok(beside.calls.slice(before).some(({ method }) => method === 'eth_getTransactionReceipt'))
    const { state } = await readTransaction(world.first.app, writer, answer.id)
    assert.equal(state, 'SUBMITTED', JSON.stringify(receipt))
  }
  for (const count of NONSENSE) {
    await roundOf(beside, (method, _params, next) =>
      method === 'eth_getTransactionReceipt'
        ? Promise.resolve(null)
        : method === 'eth_getTransactionCount'
          ? Promise.resolve(count)
          : next(),
    )
    const { state } = await readTransaction(world.first.app, writer, answer.id)
    assert.equal(state, 'SUBMITTED', JSON.stringify(count))
  }
  world.first.misbehave(null)
  await until('the follower has read its block', async () => {
    const { receipt } = await readTransaction(world.first.app, writer, answer.id)
    return receipt !== null
  })
  await world.add(world.first, writer)
})
