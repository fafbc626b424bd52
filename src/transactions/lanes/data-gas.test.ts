import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { fakeChain } from '../../../test/fake-chain.ts'
import { age, keep } from '../../../test/lost-tail.ts'
import { refusedWith } from '../../../test/kit/refused.ts'
import { sponsored } from '../../../test/sponsored.ts'
import { RpcError, RpcUnavailable } from '../../chain/rpc/rpc.ts'
import { quantityOf } from '../../ids.ts'
import { spentOfBudget } from '../../store/sponsor-budget.ts'
import { dataGas, knownDataGas } from './data-gas.ts'
import { aloneGas } from './operation-gas.ts'
import { toOperation } from '../operation.ts'

const OPERATION = { calls: [{ to: Buffer.alloc(20), value: 0n, data: Buffer.alloc(68) }] }
/** bytes of an operation's header, its call, and the transaction around it */
const BYTES = BigInt(108 + 24 + 32 + 68 + 400)

function network(answer: () => bigint | Error) {
  const { chain, asked } = fakeChain({
    eth_estimateGas: () => {
      const said = answer()
      return said instanceof Error ? said : quantityOf(said)
    },
  })
  return { chain, times: () => asked('eth_estimateGas').length, asked }
}

test('a network that takes no more for data than Ethereum adds nothing, and is asked once', async () => {
  const { chain, times, asked } = network(() => 21_000n + 512n * 40n)
  assert.deepEqual(await Promise.all([dataGas(chain, OPERATION), dataGas(chain, OPERATION)]), [0n, 0n])
  assert.equal(await dataGas(chain, OPERATION), 0n)
  assert.equal(times(), 1)
  const [{ data }] = asked('eth_estimateGas')[0] as [{ data: string }]
  assert.equal(data.length, 2 + 2 * 512)
  assert.equal(data.match(/00000000/), null)
})

test('what a network bills as gas for the layer below is reckoned by the byte, rounded up', async () => {
  const { chain } = network(() => 21_000n + 512n * 40n + 512n * 30n + 1n)
  assert.equal(knownDataGas(chain, OPERATION), 0n)
  assert.equal(await dataGas(chain, OPERATION), 31n * BYTES)
  assert.equal(knownDataGas(chain, OPERATION), 31n * BYTES)
  assert.equal(await dataGas(chain, { calls: [] }), 31n * (108n + 400n))
})

test('a node that refuses to say adds nothing; one that is away is asked again by the next', async () => {
  const refusing = network(() => new RpcError(-32_000, 'no estimates here', undefined))
  assert.equal(await dataGas(refusing.chain, OPERATION), 0n)
  let said: bigint | Error = new RpcUnavailable('away', { timedOut: false })
  const { chain, times } = network(() => said)
  await assert.rejects(dataGas(chain, OPERATION), RpcUnavailable)
  said = 21_000n + 512n * 50n
  assert.equal(await dataGas(chain, OPERATION), 10n * BYTES)
  assert.equal(times(), 2)
})

test('it is asked again after a minute, while what is known is used; a node that will not say then changes nothing', async (t) => {
  let said: bigint | Error = 21_000n + 512n * 50n
  const { chain, times } = network(() => said)
  let now = 1_000
  t.mock.method(performance, 'now', () => now)
  const perByte = async () => {
    const known = (await dataGas(chain, OPERATION)) / BYTES
    await new Promise((resolve) => setImmediate(resolve))
    return known
  }
  assert.deepEqual([await perByte(), await perByte(), times()], [10n, 10n, 1])
  now += 60_001
  said = new RpcError(-32_005, 'too many requests', undefined)
  assert.deepEqual([await perByte(), await perByte(), times()], [10n, 10n, 2])
  now += 60_001
  said = 21_000n + 512n * 60n
  assert.deepEqual([await perByte(), await perByte(), times()], [10n, 20n, 3])
})

test('what it takes for data is reserved of budgets', async () => {
  const world = await sponsored()
  try {
    world.first.misbehave(async (method, params, next) => {
      const data = (params[0] as { data?: string } | undefined)?.data
      return method === 'eth_estimateGas' && data?.length === 2 + 2 * 512 ? quantityOf(21_000n + 512n * 140n) : next()
    })
    const { answer } = await world.add(world.first, await world.poor('data-gas'))
    const row = await world.db.selectFrom('operations').selectAll().where('id', '=', answer.id).executeTakeFirstOrThrow() // prettier-ignore
    const operation = toOperation(row)
    const bytes = BigInt(108 + 24 + 32 + operation.calls[0]!.data.length + 400)
    const price = BigInt(answer.tx.maxFeePerGas!.hex)
    assert.equal(BigInt(row.charged), (aloneGas(operation) + 100n * bytes) * price)
    assert.equal(await spentOfBudget(world.db, 'demo', row.account_id), BigInt(row.charged))
  } finally {
    await world.close()
  }
})

test('no transaction with operations has more gas than a block takes: what does not fit goes into the next', async () => {
  const world = await sponsored()
  try {
    const limit = 1_500_000n
    await world.rpc('evm_setBlockGasLimit', quantityOf(limit))
    await world.mine()
    const people = []
    for (let index = 0; index < 12; index++) people.push(await world.poor(`fits-${index}`))
    const told = await world.inOne(people.map((writer) => () => world.add(world.first, writer)))
    for (let block = 0; block < 4; block++) {
      await age(world.first.app, 20)
      await keep(world)
      await world.mine()
    }
    for (const writer of people) assert.equal(await world.countOf(writer), 1n)
    for (const { answer } of told) assert.ok(BigInt(answer.tx.gasLimit.hex) <= limit, answer.tx.gasLimit.hex)
    const huge = world.submit(people[0]!, { to: world.target, data: '0x5c36b186', gas: '1400000' })
    await assert.rejects(huge, refusedWith('invalid_gas'))
  } finally {
    await world.close()
  }
})
