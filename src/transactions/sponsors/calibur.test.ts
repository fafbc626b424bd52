import { operationsOf } from '../../../test/operation-reads.ts'
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { age, keep, remember, replay } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { writeBatch } from '../../contracts/write-batch.ts'
import { writeContract } from '../../contracts/write.ts'
import { allowSponsor } from '../../devnet/sponsor.ts'
import { AppError } from '../../errors.ts'
import { readGasContracts } from '../../gas/contracts.ts'
import { cancelData } from '../../gas/dispatch.ts'
import type { DelegateName, Hex } from '../../ids.ts'
import { toHex } from '../../hex.ts'
import { interruptSteps, type Step } from '../crash-points.ts'
import { delegatedCode, gasContracts } from './delegation.ts'
import { reconcileIntent } from '../recovery/reconcile-operation.ts'
import { rehearseTransaction } from '../lanes/submit.ts'

/**
 * Both dispatchers are on the network, and the sponsor has permission in both. Accounts delegate to Calibur, or to a
 * mock at its address.
 */
let world: Sponsored
before(async () => {
  world = await sponsored({}, 'calibur')
  const ours = readGasContracts()
  await world.rpc('anvil_setCode', ours.dispatcher, ours.dispatcherCode)
  await world.rpc('anvil_setCode', ours.delegate, ours.delegateCode)
  await allowSponsor(world.nodeUrl, world.house.address)
  await world.mine()
})
afterEach(async () => {
  interruptSteps(world.first.app, null)
  delegateTo('calibur')
  await world.mine()
})
after(() => world?.close())

/** Changes the delegate, as after a restart with another setting of the network. */
const delegateTo = (name: DelegateName) => void (world.first.chain.delegate = name)
const { add, shown, rowOf, stateOf, codeOf } = operationsOf(() => world)
const toOf = (answer: { tx: { to: string } }) => answer.tx.to.toLowerCase()
const REGISTER = 'register((uint8 keyType, bytes publicKey) key)'

test('a person with 0 coins writes through Calibur, and a batch that fails says why, though not which call', async () => {
  const writer = await world.poor('first')
  const { answer } = await add(writer, 3)
  await world.mine()
  assert.equal(toOf(answer), gasContracts('calibur').dispatcher)
  assert.equal(await codeOf(writer), delegatedCode('calibur'))
  assert.deepEqual([await stateOf(writer, answer.id), await world.countOf(writer)], ['MINED', 3n])
  await world.rpc('anvil_setBalance', writer.address, '0x5')
  const batch = {
    calls: [
      { address: world.probe, abi: 'add(uint256)', args: ['8'] },
      { address: world.target, abi: 'ping() payable', value: '5' },
    ],
  }
  const { answer: failing } = await writeBatch(world.first.app, writer, batch, {})
  await world.rpc('anvil_setBalance', writer.address, '0x0')
  await world.mine()
  const { state, revert } = await shown(writer, failing.id)
  assert.deepEqual([state, await world.countOf(writer)], ['REVERTED', 3n], 'all of it, or nothing')
  assert.ok(revert !== null && revert.reason.length > 0)
})

test('why a single call failed is told as where accounts delegate to our own code', async () => {
  const reverts = []
  for (const name of ['chatelaine', 'calibur'] as const) {
    delegateTo(name)
    const writer = await world.poor(`fails-for-${name}`)
    await world.rpc('anvil_setBalance', writer.address, '0x5')
    const { answer } = await writeContract(world.first.app, writer, { address: world.target, abi: 'ping() payable', value: '5' }, {}) // prettier-ignore
    await world.rpc('anvil_setBalance', writer.address, '0x0')
    await world.mine()
    const { state, revert } = await shown(writer, answer.id)
    reverts.push({ state, revert })
  }
  assert.equal(reverts[0]!.state, 'REVERTED')
  assert.deepEqual(reverts[1], reverts[0])
})

test('what an account would call in itself is refused before anything is stored or signed, of several calls with its place', async () => {
  const { app } = world.first
  const writer = await world.poor('own')
  await add(writer)
  await world.mine()
  const own = { address: writer.address, abi: REGISTER, args: ['["2", "0x00"]'] }
  const nobody = { address: `0x${'00'.repeat(20)}`, abi: REGISTER, args: ['["2", "0x00"]'] }
  const rows = () => world.db.selectFrom('operations').select('id').where('account_id', '=', writer.accountId).execute()
  const before = await rows()
  const refused = (pointer: string) => (error: unknown) =>
    error instanceof AppError && error.code === 'policy_denied' && error.errors![0]!.pointer === pointer
  for (const write of [own, nobody]) {
    await assert.rejects(writeContract(app, writer, write, {}), refused('/address'))
    const fine = { address: world.probe, abi: 'add(uint256)', args: ['1'] }
    await assert.rejects(writeBatch(app, writer, { calls: [fine, write] }, {}), refused('/calls/1/address'))
  }
  await assert.rejects(rehearseTransaction(app, writer, { to: writer.address, data: '0x12345678' }), refused('/address')) // prettier-ignore
  assert.deepEqual(await rows(), before)
  // A payment to oneself is not a call.
  const { answer } = await world.submit(writer, { to: writer.address, data: '0x' })
  await world.mine()
  assert.equal(await stateOf(writer, answer.id), 'MINED')
})

test('a write to what accounts send themselves is no way in either: the signer refuses a call of the account itself', async () => {
  const writer = await world.poor('own-by-itself')
  await add(writer)
  await world.mine()
  await world.rpc('anvil_setBalance', writer.address, `0x${(10n ** 18n).toString(16)}`)
  // The block's data about the account is fully proven.
  await world.mine()
  world.first.chain.gas = 'self'
  try {
    await assert.rejects(
      writeContract(world.first.app, writer, { address: writer.address, abi: REGISTER, args: ['["2", "0x00"]'] }, {}),
      (error: unknown) => error instanceof AppError && error.code === 'policy_denied' && error.message.includes('no-call-of-own-account'), // prettier-ignore
    )
  } finally {
    world.first.chain.gas = 'sponsor'
  }
})

test('where a network moves to Calibur, accounts delegate anew with their next write, and back again', async () => {
  const writer = await world.poor('moves')
  for (const [index, name] of (['chatelaine', 'calibur', 'calibur', 'chatelaine'] as const).entries()) {
    delegateTo(name)
    const { answer } = await add(writer)
    await world.mine()
    assert.equal(toOf(answer), gasContracts(name).dispatcher)
    assert.deepEqual([await stateOf(writer, answer.id), await codeOf(writer)], ['MINED', delegatedCode(name)])
    assert.equal(await world.countOf(writer), BigInt(index + 1))
  }
})

/** Makes a write whose process dies at a step. */
async function leave(writer: Writer, key: string, step: Step = 'after-sign-operation'): Promise<void> {
  interruptSteps(world.first.app, (reached) => {
    if (reached === step) throw new Error('killed')
  })
  await assert.rejects(add(writer, 1, key))
  interruptSteps(world.first.app, null)
  await age(world, 60)
}

test('what was signed before the move is sent to its own dispatcher, in a transaction of its own beside what comes after it', async () => {
  const [before, after] = [await world.poor('signed-before'), await world.poor('signed-after')]
  delegateTo('chatelaine')
  await leave(before, 'kept')
  delegateTo('calibur')
  const [kept, fresh] = await world.inOne([() => add(before, 1, 'kept'), () => add(after)], 1)
  await world.mine()
  assert.deepEqual([toOf(kept!.answer), toOf(fresh!.answer)], [gasContracts('chatelaine').dispatcher, gasContracts('calibur').dispatcher]) // prettier-ignore
  for (const [writer, one] of [
    [before, kept],
    [after, fresh],
  ] as const) {
    assert.equal(await stateOf(writer, one!.answer.id), 'MINED')
    assert.equal(await world.countOf(writer), 1n)
  }
})

test('an account that moved to Calibur meanwhile is not put back for what it had bound before: that fails, and its next write is done', async () => {
  const writer = await world.poor('moved-meanwhile')
  delegateTo('chatelaine')
  await add(writer)
  await world.mine()
  await leave(writer, 'bound', 'after-bind-operation')
  delegateTo('calibur')
  await add(writer)
  await world.mine()
  assert.equal(await codeOf(writer), delegatedCode('calibur'))
  const { answer } = await add(writer, 1, 'bound')
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await codeOf(writer)], ['FAILED', delegatedCode('calibur')])
  assert.equal(await world.countOf(writer), 2n)
  const { answer: next } = await add(writer)
  await world.mine()
  assert.deepEqual([await stateOf(writer, next.id), await codeOf(writer)], ['MINED', delegatedCode('calibur')])
})

test('a row that was bound for other code than the ledger has is what was signed', async () => {
  const writer = await world.poor('signed-as')
  await leave(writer, 'signed-as')
  const { id } = await world.db.selectFrom('operations').select('id').where('account_id', '=', writer.accountId).executeTakeFirstOrThrow() // prettier-ignore
  await world.db.updateTable('operations').set({ delegate: 'chatelaine' }).where('id', '=', id).execute()
  assert.equal(await reconcileIntent(world.first.app, world.first.chain, id), 'operation')
  assert.equal((await rowOf(id)).delegate, 'calibur')
})

test('what its transaction can not do any more is packed again, and expires, by its own dispatcher after the move', async () => {
  const writer = await world.poor('repacked')
  delegateTo('chatelaine')
  const { answer } = await add(writer)
  await world.cancelOuter((await outerOf(answer.id))!)
  delegateTo('calibur')
  await world.mine()
  await keep(world)
  await world.mine()
  await until('it is done', async () => {
    await world.mine()
    return ['MINED', 'FINALIZED'].includes(await stateOf(writer, answer.id))
  })
  assert.equal(await world.countOf(writer), 1n)
  assert.equal(await codeOf(writer), delegatedCode('chatelaine'))
})

test('an id that the other dispatcher has used is free here: what its transaction can not do any more is packed again', async () => {
  const writer = await world.poor('used-elsewhere')
  const { answer } = await add(writer)
  await world.cancelOuter((await outerOf(answer.id))!)
  await useUp('chatelaine', answer.id)
  await until('it is done', async () => {
    await keep(world)
    await world.mine()
    return ['MINED', 'FINALIZED'].includes(await stateOf(writer, answer.id))
  })
  assert.equal(await world.countOf(writer), 1n)
})

test('an operation for Calibur that the database lost is restored as that, and packed, mined and cancelled as that', async () => {
  const writer = await world.poor('lost')
  const goBack = await remember(world)
  const { answer } = await add(writer, 1, 'lost')
  await goBack()
  delegateTo('chatelaine')
  await replay(world.first)
  assert.equal((await rowOf(answer.id)).delegate, 'calibur')
  await world.mine()
  await until('it is done', async () => {
    await world.mine()
    return ['MINED', 'FINALIZED'].includes(await stateOf(writer, answer.id))
  })
  const again = await add(writer, 1, 'lost')
  assert.deepEqual([again.isReplay, again.answer.id, await world.countOf(writer)], [true, answer.id, 1n])
})

test('what our own dispatcher says of an id settles nothing that was signed for Calibur', async () => {
  const writer = await world.poor('ids')
  const { answer } = await add(writer)
  await world.mine()
  assert.equal(await stateOf(writer, answer.id), 'MINED')
  await useUp('chatelaine', answer.id)
  assert.match(await stateOf(writer, answer.id), /^(MINED|FINALIZED)$/)
  assert.equal(await world.countOf(writer), 1n)
})

/** Uses up an id by a sponsor of the space that sends nothing for us. */
async function useUp(name: DelegateName, id: string): Promise<void> {
  const { space, sequence } = await rowOf(id)
  const other = await world.sponsor(`USES-UP-${sequence}`)
  await world.db.deleteFrom('sponsors').where('account_id', '=', other.accountId).execute()
  await allowSponsor(world.nodeUrl, other.address, name)
  await world.rpc('anvil_impersonateAccount', other.address)
  const call = { to: gasContracts(name).dispatcher, data: toHex(cancelData(Buffer.from(space), [BigInt(sequence)])) }
  const hash = await world.rpc<Hex>('eth_sendTransaction', { from: other.address, ...call, gas: '0x30d40' })
  await world.mine()
  const { status } = await world.rpc<{ status: Hex }>('eth_getTransactionReceipt', hash)
  assert.equal(status, '0x1')
}

const outerOf = async (id: string) => (await rowOf(id)).outer_id
