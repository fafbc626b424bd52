import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import { writeBatch } from '../../contracts/write-batch.ts'
import { readTransaction } from '../read/read.ts'
import { sequencesOf } from '../lanes/sequences.ts'

let world: Sponsored
before(async () => void (world = await sponsored()))
after(() => world?.close())

const followed = () =>
  until('every block is followed', async () => {
    const newest = Number(await world.rpc('eth_blockNumber'))
    const cursor = await world.db.selectFrom('cursors').select('block_number').executeTakeFirstOrThrow()
    return cursor.block_number === newest
  })

test('numbers of a stranger’s own space, whatever size they have, stop nobody', async () => {
  const { app } = world.first
  const [stranger, other] = [await world.poor('stranger'), await world.poor('other')]
  await world.add(world.first, other)
  await world.mine()
  for (const [index, number] of [2n ** 53n, 2n ** 63n, 2n ** 96n - 1n].entries()) {
    const { answer } = await writeBatch(
      app,
      stranger,
      {
        calls: [
          { address: world.dispatcher, abi: 'setSponsor(address sponsor, bool allowed)', args: [stranger.address, 'true'] }, // prettier-ignore
          { address: world.dispatcher, abi: 'cancel(address space, uint96[] sequences)', args: [stranger.address, JSON.stringify([String(number)])] }, // prettier-ignore
        ],
      } as never,
      { idempotencyKey: `stranger-${index}` },
    )
    await world.rpc('evm_mine')
    await followed()
    await until('it is mined', async () => (await readTransaction(app, stranger, answer.id)).state === 'MINED')
  }
  const { answer } = await world.add(world.first, other)
  await world.mine()
  await until('the next is mined, too', async () => (await readTransaction(app, other, answer.id)).state === 'MINED')
})

test('a restored signer’s numbers are numbers here, counted up from where it says; beyond what a number holds none is taken', async () => {
  const replica = await world.replica()
  Object.assign(replica.chain, { gas: 'sponsor', gasSpace: world.first.chain.gasSpace })
  const { signer } = replica.app
  // Sequence floor as the signer reports it after a restore: milliseconds times 4,096.
  let sequenceFloor = BigInt(Date.now()) << 12n
  const health = async () => {
    const said = await signer.health()
    return { ...said, operations: { ...said.operations!, sequenceFloor: String(sequenceFloor) } }
  }
  replica.app.signer = { ...signer, health }
  const numbers = sequencesOf(replica.app, replica.chain)
  const first = await numbers.take()
  assert.ok(BigInt(first) >= sequenceFloor && Number.isSafeInteger(first))
  assert.equal(await numbers.take(), first + 1)
  sequenceFloor = 2n ** 60n
  numbers.skip(first + 1)
  await assert.rejects(numbers.take(), /none here/)
})
