import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { keccak256 } from 'viem/utils'
import { until } from '../../../test/kit/until.ts'
import { writing, type Fault, type Replica, type Writing } from '../../../test/writing.ts'
import { readHeader } from '../../chain/rpc/answers.ts'
import { RpcUnavailable } from '../../chain/rpc/rpc.ts'
import { AppError } from '../../errors.ts'
import { fromHex } from '../../hex.ts'
import { cancelTransaction } from './change.ts'
import { readTransaction } from '../read/read.ts'

// A node with invalid responses counts as unavailable wherever money is concerned.

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

for (const method of ['eth_estimateGas', 'eth_getBalance', 'eth_getTransactionCount']) {
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

test('gas that no transaction costs, or that is no exact number, is no estimate', async () => {
  const writer = await world.writer('nonsense-gas')
  for (const gas of ['0x0', '0x1', '0x5207', `0x8${'0'.repeat(63)}`, '0x20000000000000']) {
    world.first.misbehave(saying('eth_estimateGas', gas))
    await assert.rejects(world.add(world.first, writer), isAway, gas)
  }
  world.first.misbehave(null)
  assert.equal((await rowsOf(writer.address)).length, 0)
  await world.add(world.first, writer)
})

test('a broadcast that is answered with anything but its hash is sent again at once', async () => {
  const writer = await world.writer('nonsense-hash')
  const other = `0x${'ab'.repeat(32)}`
  for (const said of [null, '0x', true, {}, other]) {
    world.first.misbehave(saying('eth_sendRawTransaction', said))
    const { answer } = await world.add(world.first, writer)
    const attempts = () =>
      world.db.selectFrom('attempts').select('broadcast_at').where('hash', '=', fromHex(answer.hash)).execute()
    assert.deepEqual(await attempts(), [{ broadcast_at: null }], JSON.stringify(said))
    assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'SUBMITTED')
  }
  world.first.misbehave(null)
  const beside = await world.replica()
  const keeper = beside.keeper()
  await keeper.round()
  await keeper.stop()
  await world.mine()
  assert.equal(await world.countOf(writer), 5n)
})

test('a cancel costs what a transfer is known to cost, however much the node says; not known, it is not signed', async () => {
  const writer = await world.writer('nonsense-cancel')
  for (const gas of ['0x0', `0x8${'0'.repeat(63)}`, '0x10000000000000', null]) {
    world.first.misbehave((method, params, next) =>
      method === 'eth_sendRawTransaction' ? Promise.resolve(keccak256(params[0] as `0x${string}`)) : next(),
    )
    const { answer } = await world.add(world.first, writer)
    world.first.misbehave(saying('eth_estimateGas', gas))
    if (gas === '0x0') {
      await assert.rejects(cancelTransaction(world.first.app, writer, answer.id), { code: 'chain_unavailable' })
      assert.equal((await readTransaction(world.first.app, writer, answer.id)).hashes.length, 1)
      world.first.misbehave(null)
    }
    assert.equal((await cancelTransaction(world.first.app, writer, answer.id)).state, 'SUBMITTED', String(gas))
    world.first.misbehave(null)
    await world.mine()
    const mined = await readTransaction(world.first.app, writer, answer.id)
    assert.equal(mined.state, 'CANCELLED', String(gas))
  }
  assert.equal(await world.countOf(writer), 0n)
})

test('a write that was stored at a head that is far above the chain has its fee raised all the same', async () => {
  const writer = await world.writer('nonsense-head')
  world.first.misbehave((method, params, next) =>
    method === 'eth_sendRawTransaction' ? Promise.resolve(keccak256(params[0] as `0x${string}`)) : next(),
  )
  const { answer } = await world.add(world.first, writer)
  await sql`update attempts set created_block = 9007199254740991, created_at = created_at - interval '25 seconds'
    where hash = ${fromHex(answer.hash)}`.execute(world.db)
  const keeper = world.first.keeper()
  await keeper.round()
  await keeper.stop()
  world.first.misbehave(null)
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).hashes.length, 2)
})

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

/** Runs a round of a keeper on another replica, which sees the node through a fault. */
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
  /** A write may be answered a moment before the node has the transaction. */
  const mined = async (hash: string): Promise<Record<string, unknown>> => {
    let receipt: Record<string, unknown> | null = null
    await until('it is mined', async () => {
      await world.rpc('evm_mine')
      receipt = await world.rpc('eth_getTransactionReceipt', hash)
      return receipt !== null
    })
    return receipt!
  }
  const [right, anothers] = [await mined(answer.hash), await mined(other.answer.hash)]
  const beside = await world.replica()
  const wrong = [
    5,
    'no',
    {},
    [],
    anothers,
    { ...right, status: 'yes' },
    { ...right, blockHash: null },
    { ...right, status: '0x2' },
    { ...right, status: null },
  ]
  for (const receipt of [...wrong, { ...right, gasUsed: '0x' }]) {
    // For a moment, a node may report a mined transaction as known instead of its nonce as used. Then no receipt is
    // requested.
    await until('the receipt is asked for', async () => {
      const before = beside.calls.length
      await roundOf(beside, saying('eth_getTransactionReceipt', receipt))
      return beside.calls.slice(before).some(({ method }) => method === 'eth_getTransactionReceipt')
    })
    const { state } = await readTransaction(world.first.app, writer, answer.id)
    assert.equal(state, 'SUBMITTED', JSON.stringify(receipt))
  }
  // The last count is higher at a final block than at the newest.
  for (const count of [...NONSENSE, '0xffff']) {
    await roundOf(beside, (method, params, next) =>
      method === 'eth_getTransactionReceipt'
        ? Promise.resolve(null)
        : method === 'eth_getTransactionCount' && !(count === '0xffff' && params[1] === 'latest')
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

test('a receipt that names one of our accounts for somebody else’s transaction replaces nothing and stops no account', async () => {
  const writer = await world.writer('nonsense-sender')
  const [, stranger] = await world.rpc<string[]>('eth_accounts')
  const { rpc } = world.first.chain
  world.first.misbehave((method, params, next) =>
    method === 'eth_sendRawTransaction' ? Promise.resolve(keccak256(params[0] as `0x${string}`)) : next(),
  )
  const { answer } = await world.add(world.first, writer)
  let wasWrong = false
  world.first.chain.rpc = {
    ...rpc,
    batch: async (calls, options) =>
      (await rpc.batch(calls, options)).map((one, index) => {
        if (calls[index]!.method !== 'eth_getBlockReceipts' || !Array.isArray(one) || wasWrong) return one
        wasWrong = one.length > 0
        return one.map((receipt: object) => ({ ...receipt, from: writer.address }))
      }),
  }
  await world.rpc('eth_sendTransaction', { from: stranger, to: stranger, value: '0x1' })
  await world.mine()
  world.first.chain.rpc = rpc
  world.first.misbehave(null)
  assert.ok(wasWrong)
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'SUBMITTED')
  await world.add(world.first, writer)
})

test('what a node says wrongly of one transaction keeps no other from its fee', async () => {
  const [one, other] = [await world.writer('nonsense-one'), await world.writer('nonsense-another')]
  const { answer } = await world.add(world.first, one)
  world.first.misbehave((method, params, next) =>
    method === 'eth_sendRawTransaction'
      ? Promise.resolve(keccak256(params[0] as `0x${string}`))
      : method === 'eth_getBlockByNumber'
        ? Promise.reject(new RpcUnavailable('away', { timedOut: false }))
        : next(),
  )
  const { answer: waiting } = await world.add(world.first, other)
  await world.rpc('evm_mine')
  const beside = await world.replica()
  beside.chain.head.set(readHeader(await world.rpc('eth_getBlockByNumber', 'latest', false)))
  await sql`update attempts set created_block = null, created_at = created_at - interval '25 seconds'
    where hash = ${fromHex(waiting.hash)}`.execute(world.db)
  await roundOf(beside, saying('eth_getTransactionReceipt', 5))
  assert.ok(beside.calls.some(({ method }) => method === 'eth_getTransactionReceipt'))
  assert.equal((await readTransaction(world.first.app, one, answer.id)).state, 'SUBMITTED')
  assert.equal((await readTransaction(world.first.app, other, waiting.id)).hashes.length, 2)
  world.first.misbehave(null)
})
