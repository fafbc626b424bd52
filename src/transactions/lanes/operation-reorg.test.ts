import { operationsOf } from '../../../test/operation-reads.ts'
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { age, keep, rememberWithBlocks } from '../../../test/lost-tail.ts'
import { loseAllButFirst, packAgain } from '../../../test/interrupted.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { writeContract } from '../../contracts/write.ts'
import type { Hex } from '../../ids.ts'
import { delegationNonce } from '../sponsors/delegation.ts'

/**
 * The canonical chain decides about an operation: cases with another order of blocks, or of transactions in blocks. The
 * assertions read the chain.
 */
let world: Sponsored
before(async () => {
  world = await sponsored()
})
afterEach(async () => {
  world.first.misbehave(null)
  await world.mine()
})
after(() => world?.close())

const { add, shown, rowOf, stateOf } = operationsOf(() => world)
const snapshot = () => world.rpc<Hex>('evm_snapshot')

/** Restores an earlier chain and mines other blocks above it, without the transactions of the removed blocks. */
async function goBackTo(kept: Hex): Promise<void> {
  await world.rpc('evm_revert', kept)
  await world.mine()
  await world.mine()
}

/** Sends everything again. */
async function sendAgain(): Promise<void> {
  await age(world.first.app, 40)
  await keep(world)
}

/** Waits until the operation's block is final, and returns the state. */
async function finality(writer: Writer, id: string): Promise<string> {
  await until('its block is final', async () => {
    await world.mine()
    return (await rowOf(id)).is_final
  })
  return stateOf(writer, id)
}

test('what was done in a block that is gone is not said to be done, whatever else the database forgot with it', async () => {
  const writer = await world.poor('back')
  const { answer } = await add(writer)
  await world.mine()
  assert.equal(await stateOf(writer, answer.id), 'MINED')
  const goBack = await rememberWithBlocks(world)
  await world.rpc('anvil_reorg', 1, [])
  await world.mine()
  // Restore the chain from before the reorganisation.
  await goBack()
  for (let block = 0; block < 4; block++) await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await world.countOf(writer)], ['SUBMITTED', 0n])
  await sendAgain()
  await world.mine()
  assert.deepEqual([await finality(writer, answer.id), await world.countOf(writer)], ['FINALIZED', 1n])
})

test('who has delegated in a block that is gone is not believed to have', async () => {
  const { chain } = world.first
  const writer = await world.poor('delegated-no-more')
  const kept = await snapshot()
  await add(writer)
  await world.mine()
  assert.equal(await delegationNonce(chain, writer.address), null)
  await goBackTo(kept)
  assert.equal(await delegationNonce(chain, writer.address), 0)
  await sendAgain()
  await world.mine()
  assert.equal(await delegationNonce(chain, writer.address), null)
})

test('the same transaction in another block may end otherwise: done first, failed then', async () => {
  const writer = await world.poor('done-then-failed')
  await add(writer)
  await world.mine()
  const kept = await snapshot()
  const { answer } = await add(writer, 2)
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await world.countOf(writer)], ['MINED', 3n])
  await goBackTo(kept)
  await world.rpc('anvil_setCode', writer.address, '0x')
  await sendAgain()
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), (await shown(writer, answer.id)).revert?.name], ['FAILED', 'NotDelegated']) // prettier-ignore
  assert.deepEqual([await finality(writer, answer.id), await world.countOf(writer)], ['FAILED', 1n])
})

test('the same transaction in another block may end otherwise: failed first, done then', async () => {
  const writer = await world.poor('failed-then-done')
  await world.rpc('anvil_setBalance', writer.address, '0x5')
  await add(writer)
  await world.mine()
  const kept = await snapshot()
  const paying = { address: world.target, abi: 'ping() payable', args: [], value: '5' }
  const { answer } = await writeContract(world.first.app, writer, paying, {})
  await world.rpc('anvil_setBalance', writer.address, '0x0')
  await world.mine()
  const ended = await shown(writer, answer.id)
  assert.deepEqual([ended.state, ended.revert === null], ['REVERTED', false])
  await goBackTo(kept)
  await until('its block is gone', async () => (await stateOf(writer, answer.id)) === 'SUBMITTED')
  assert.equal((await shown(writer, answer.id)).revert, null)
  await sendAgain()
  await world.mine()
  assert.equal(await stateOf(writer, answer.id), 'MINED')
  assert.equal((await shown(writer, answer.id)).revert, null)
  assert.deepEqual([await finality(writer, answer.id), await world.balanceOf(writer.address)], ['FINALIZED', 0n])
})

/** Creates two transactions with one operation. @returns its id, and the transactions to send later */
async function carriedTwice(writer: Writer): Promise<{ id: string; outers: string[] }> {
  const { answer } = await add(writer, 2)
  return { id: answer.id, outers: await packAgain(world, answer.id) }
}

test('of two transactions that carry one operation the first does it, the second passes it over, and nothing is taken back', async () => {
  const writer = await world.poor('twice')
  await add(writer)
  await world.mine()
  const { id, outers } = await carriedTwice(writer)
  await sendAgain()
  await world.mine()
  const mined = await world.db.selectFrom('transactions').select('state').where('id', 'in', outers).execute()
  assert.deepEqual(mined, [{ state: 'MINED' }, { state: 'MINED' }])
  assert.deepEqual([await stateOf(writer, id), (await rowOf(id)).outer_id, await world.countOf(writer)], ['MINED', outers[0], 3n]) // prettier-ignore
  assert.deepEqual([await finality(writer, id), await world.countOf(writer)], ['FINALIZED', 3n])
})

test('what the first of two transactions failed at, the second does not do: the id is used up, and FAILED is the end', async () => {
  const writer = await world.poor('fails-then-skipped')
  await add(writer)
  await world.mine()
  const { id, outers } = await carriedTwice(writer)
  await world.rpc('anvil_setCode', writer.address, '0x')
  // Only the first transaction reaches the node. The second one is mined when the account has its code again.
  loseAllButFirst(world.first)
  await sendAgain()
  await world.mine()
  assert.equal(await stateOf(writer, id), 'FAILED')
  await world.rpc('anvil_setCode', writer.address, world.delegated)
  world.first.misbehave(null)
  await sendAgain()
  await world.mine()
  const second = await world.db.selectFrom('transactions').select('state').where('id', '=', outers[1]!).executeTakeFirstOrThrow() // prettier-ignore
  assert.equal(second.state, 'MINED')
  assert.deepEqual([await stateOf(writer, id), await world.countOf(writer)], ['FAILED', 1n])
  assert.deepEqual([await finality(writer, id), await world.countOf(writer)], ['FAILED', 1n])
})

test('a write of another sponsor than that of the delegation is done before it, where a reorganisation has them so', async () => {
  const second = await world.sponsor('SECOND')
  await world.clock.advance(5_100)
  const writer = await world.poor('other-sponsor')
  await world.mine()
  const kept = await snapshot()
  const { answer: first } = await add(writer)
  const payer = first.tx.from.toLowerCase() as Hex
  await world.mine()
  const held = await world.balanceOf(payer)
  await world.rpc('anvil_setBalance', payer, '0x1')
  await world.mine()
  const { answer } = await add(writer, 2)
  assert.notEqual(answer.tx.from.toLowerCase(), payer)
  assert.ok([second.address, world.house.address].includes(answer.tx.from.toLowerCase() as Hex))
  await goBackTo(kept)
  await world.rpc('anvil_setBalance', payer, `0x${held.toString(16)}`)
  await until('both are open', async () => (await stateOf(writer, first.id)) === 'SUBMITTED')
  // The first sponsor's transaction is lost for a while.
  const { raw } = await world.db.selectFrom('attempts').select('raw').where('transaction_id', '=', (await rowOf(first.id)).outer_id!).executeTakeFirstOrThrow() // prettier-ignore
  world.first.misbehave((method, params, next) =>
    method === 'eth_sendRawTransaction' && params[0] === `0x${Buffer.from(raw!).toString('hex')}`
      ? Promise.reject(new Error('the node is away'))
      : next(),
  )
  await sendAgain()
  await world.mine()
  assert.match(await stateOf(writer, answer.id), /MINED|FINALIZED/)
  assert.deepEqual([await stateOf(writer, first.id), await world.countOf(writer)], ['SUBMITTED', 2n])
  world.first.misbehave(null)
  await sendAgain()
  await world.mine()
  assert.deepEqual([await finality(writer, first.id), await world.countOf(writer)], ['FINALIZED', 3n])
  // Once that block is final, no authorization is included without need.
  await world.rpc('anvil_setBalance', payer, '0x1')
  await world.mine()
  const { answer: third } = await add(writer, 4)
  const { type } = await world.rpc<{ type: Hex }>('eth_getTransactionByHash', third.hash)
  assert.deepEqual([third.tx.from, type], [answer.tx.from, '0x2'])
  await world.mine()
  await world.rpc('anvil_setBalance', payer, `0x${held.toString(16)}`)
})
