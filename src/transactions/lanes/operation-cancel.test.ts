// tier: default, because it moves money
import { refusedWith } from '../../../test/kit/refused.ts'
import { operationsOf } from '../../../test/operation-reads.ts'
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { age, keep, rememberWithBlocks, replay } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { AppError } from '../../errors.ts'
import { allowSponsor } from '../../devnet/sponsor.ts'
import { isUsed, usedData } from '../../gas/dispatch.ts'
import type { Hex } from '../../ids.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import { fromHex, toHex } from '../../hex.ts'
import { cancelTransaction } from './change.ts'
import { interruptSteps, type Step } from '../crash-points.ts'

/** A cancellation uses up the id at the nonce of the operation's transaction: one of the two is mined, and decides. */
let world: Sponsored
/** error of the signer for further fee bumps; false: none */
let refuseRaises: boolean | AppError = false
before(async () => {
  world = await sponsored()
  const { signer } = world.first.app
  world.first.app.signer = {
    ...signer,
    signOuter: (request) =>
      refuseRaises !== false && request.kind === 'replace'
        ? Promise.reject(
            refuseRaises === true
              ? new SignerRefused('operation_refused', 'The person is frozen.', {
                  operation: 0,
                  because: 'account_frozen',
                })
              : refuseRaises,
          )
        : signer.signOuter(request),
  }
})
afterEach(async () => {
  refuseRaises = false
  interruptSteps(world.first.app, null)
  world.first.misbehave(null)
  await world.mine()
})
after(() => world?.close())

const { add, rowOf, stateOf, codeOf } = operationsOf(() => world)
const cancel = (writer: Writer, id: string) => cancelTransaction(world.first.app, writer, id)
const outerOf = (id: string) =>
  world.db.selectFrom('transactions').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
const attemptsOf = async (outer: string) =>
  (
    await world.db
      .selectFrom('attempts')
      .select(['raw', 'is_cancel'])
      .where('transaction_id', '=', outer)
      .orderBy('max_fee')
      .execute()
  ) // prettier-ignore
    .map(({ raw, is_cancel }) => ({ raw: toHex(raw!), isCancel: is_cancel }))

async function isIdUsed(id: string): Promise<boolean> {
  const { space, sequence } = await rowOf(id)
  const data = toHex(usedData(Buffer.from(space), BigInt(sequence)))
  return isUsed(fromHex(await world.rpc<Hex>('eth_call', { to: world.dispatcher, data }, 'latest')), BigInt(sequence))
}

async function delegated(name: string): Promise<Writer> {
  const writer = await world.poor(name)
  await add(writer)
  await world.mine()
  return writer
}

/** Lets only these bytes reach the node. */
const only = (raw: Hex) =>
  world.first.misbehave((method, params, next) =>
    method === 'eth_sendRawTransaction' && params[0] !== raw ? Promise.reject(new Error('the node is away')) : next(),
  )

/** Runs the keeper's rounds, each after ten minutes without a mined transaction. */
const untilCancelled = (outer: string): Promise<unknown> =>
  until('its nonce is cancelled', async () => {
    await world.db.updateTable('attempts').set({ created_at: new Date(Date.now() - 600_000), created_block: 0 }).where('transaction_id', '=', outer).execute() // prettier-ignore
    await age(world.first.app, 40)
    await keep(world)
    return (await outerOf(outer)).is_cancel
  })

test('a cancel that is mined uses the id up: nothing does the operation any more, whoever sends it once more', async () => {
  const writer = await delegated('cancels')
  const { answer } = await add(writer, 2)
  const { outer_id: outer } = await rowOf(answer.id)
  assert.equal((await cancel(writer, answer.id)).isCancel, true)
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await isIdUsed(answer.id)], ['CANCELLED', true])
  const { transitions, outer_id: after } = await rowOf(answer.id)
  assert.deepEqual([after, transitions.at(-1)!.state], [outer, 'CANCELLED'])
  assert.ok(transitions.at(-1)!.hash !== undefined)
  // Another sender with permission for the space sends the same bytes.
  const [, other] = await world.rpc<Hex[]>('eth_accounts')
  await allowSponsor(world.nodeUrl, other!, world.name)
  const { data } = await outerOf(outer!)
  const again = await world.rpc<Hex>('eth_sendTransaction', { from: other, to: world.dispatcher, data: toHex(data), gas: '0x7a120' }) // prettier-ignore
  await world.mine()
  const receipt = await world.rpc<{ status: Hex }>('eth_getTransactionReceipt', again)
  assert.equal(receipt.status, '0x1')
  assert.equal(await world.countOf(writer), 1n)
  assert.equal(await stateOf(writer, answer.id), 'CANCELLED')
  await assert.rejects(cancel(writer, answer.id), refusedWith('not_cancellable'))
  await until('what it cost is counted', async () => {
    await keep(world)
    return (await rowOf(answer.id)).is_counted
  })
  assert.ok(BigInt((await rowOf(answer.id)).charged) > 0n)
})

test('a cancel that comes too late changes nothing: what carried the operation was mined, and it is done', async () => {
  const writer = await delegated('too-late')
  const { answer } = await add(writer, 2)
  const { outer_id: outer } = await rowOf(answer.id)
  await world.rpc('anvil_dropAllTransactions')
  const [original] = await attemptsOf(outer!)
  only(original!.raw)
  await cancel(writer, answer.id)
  assert.equal((await attemptsOf(outer!)).length, 2)
  await world.rpc('eth_sendRawTransaction', original!.raw)
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await world.countOf(writer)], ['MINED', 3n])
  world.first.misbehave(null)
  await age(world.first.app, 60)
  await keep(world)
  await world.mine()
  assert.match(await stateOf(writer, answer.id), /MINED|FINALIZED/)
  await assert.rejects(cancel(writer, answer.id), refusedWith('not_cancellable'))
})

test('a cancel of what a block has, which this server has not seen yet, is refused as too late', async () => {
  const writer = await delegated('just-mined')
  const { answer } = await add(writer, 2)
  await world.rpc('evm_mine')
  await assert.rejects(cancel(writer, answer.id), refusedWith('not_cancellable'))
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await world.countOf(writer)], ['MINED', 3n])
})

test('a person who cancels the write in which they delegate has delegated all the same, and what relies on it is done', async () => {
  const writer = await world.poor('cancels-delegation')
  const first = await add(writer)
  const second = await add(writer, 2)
  assert.notEqual((await rowOf(first.answer.id)).outer_id, (await rowOf(second.answer.id)).outer_id)
  await cancel(writer, first.answer.id)
  await world.mine()
  await world.mine()
  assert.match(await stateOf(writer, second.answer.id), /MINED|FINALIZED/)
  assert.deepEqual([await stateOf(writer, first.answer.id), await world.countOf(writer), await codeOf(writer)], ['CANCELLED', 2n, world.delegated]) // prettier-ignore
})

test('what the signer raises no more, since one person in it is frozen, is cancelled without the delegations of the others', async () => {
  const [frozen, other] = [await delegated('frozen'), await world.poor('delegates-beside')]
  const [held, first] = await world.inOne([() => add(frozen, 2), () => add(other, 1)])
  const outer = (await rowOf(first!.answer.id)).outer_id!
  assert.equal((await rowOf(held!.answer.id)).outer_id, outer)
  const second = await add(other, 2)
  // The node loses both; earlier transactions are mined.
  for (const { answer } of [first!, second]) await world.rpc('anvil_dropTransaction', answer.hash)
  refuseRaises = true
  for (let block = 0; block < 5; block++) await world.mine()
  await untilCancelled(outer)
  refuseRaises = false
  await until('the others are done', async () => {
    await age(world.first.app, 40)
    await keep(world)
    await world.mine()
    const states = await Promise.all([stateOf(other, first!.answer.id), stateOf(other, second.answer.id)])
    return states.every((state) => state !== 'SUBMITTED')
  })
  assert.match(await stateOf(other, first!.answer.id), /MINED|FINALIZED/)
  assert.match(await stateOf(other, second.answer.id), /MINED|FINALIZED/)
  assert.equal(await world.countOf(other), 3n)
})

test('asking twice for a cancel is asking once: one is signed', async () => {
  const writer = await delegated('asks-twice')
  const { answer } = await add(writer, 2)
  const outer = (await rowOf(answer.id)).outer_id!
  for (let time = 0; time < 2; time++) assert.equal((await cancel(writer, answer.id)).isCancel, true)
  assert.deepEqual((await attemptsOf(outer)).map(({ isCancel }) => isCancel), [false, true]) // prettier-ignore
  await world.mine()
  assert.equal(await stateOf(writer, answer.id), 'CANCELLED')
})

test('what a limit of the signer keeps from being raised frees its nonce, and is done by another transaction', async () => {
  const writer = await delegated('limit-of-raises')
  const { answer } = await add(writer, 2)
  const outer = (await rowOf(answer.id)).outer_id!
  await world.rpc('anvil_dropAllTransactions')
  refuseRaises = new AppError('policy_denied', 'The rule sponsored-per-sponsor rejects this transaction: a limit.')
  for (let block = 0; block < 5; block++) await world.mine()
  await untilCancelled(outer)
  refuseRaises = false
  await until('it is done', async () => {
    await age(world.first.app, 40)
    await keep(world)
    await world.mine()
    return /MINED|FINALIZED/.test(await stateOf(writer, answer.id))
  })
  assert.equal(await world.countOf(writer), 3n)
})

const STEPS: Step[] = ['before-replace', 'after-replace-sign', 'after-replace-store', 'after-replace-broadcast']
for (const step of STEPS)
  test(`a cancel that dies at ${step} is finished by who asks again, or by the keeper`, async () => {
    const writer = await delegated(`dies-${step}`)
    const { answer } = await add(writer, 2)
    let isDead = false
    interruptSteps(world.first.app, (reached) => {
      if (reached !== step || isDead) return
      isDead = true
      throw new Error('killed')
    })
    await assert.rejects(cancel(writer, answer.id))
    assert.ok(isDead)
    interruptSteps(world.first.app, null)
    await cancel(writer, answer.id)
    await keep(world)
    await until('it is one of the two', async () => {
      await age(world.first.app, 40)
      await keep(world)
      await world.mine()
      return (await stateOf(writer, answer.id)) !== 'SUBMITTED'
    })
    assert.deepEqual([await stateOf(writer, answer.id), await isIdUsed(answer.id), await world.countOf(writer)], ['CANCELLED', true, 1n]) // prettier-ignore
  })

test('a cancel that waits is raised without its person, and uses the same id up', async () => {
  const writer = await delegated('raised-cancel')
  const { answer } = await add(writer, 2)
  const outer = (await rowOf(answer.id)).outer_id!
  await cancel(writer, answer.id)
  await world.rpc('anvil_dropAllTransactions')
  for (let block = 0; block < 5; block++) await world.mine()
  await until('it is raised', async () => {
    await world.db.updateTable('attempts').set({ created_at: new Date(Date.now() - 600_000), created_block: 0 }).where('transaction_id', '=', outer).execute() // prettier-ignore
    await age(world.first.app, 40)
    await keep(world)
    return (await attemptsOf(outer)).filter(({ isCancel }) => isCancel).length > 1
  })
  const last = (await attemptsOf(outer)).at(-1)!
  only(last.raw)
  await age(world.first.app, 400)
  await keep(world)
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await isIdUsed(answer.id)], ['CANCELLED', true])
})

test('a reorganisation takes a cancel back, and it comes again', async () => {
  const writer = await delegated('reorged-cancel')
  const kept = await world.rpc<Hex>('evm_snapshot')
  const { answer } = await add(writer, 2)
  await cancel(writer, answer.id)
  await world.mine()
  assert.equal(await stateOf(writer, answer.id), 'CANCELLED')
  await world.rpc('evm_revert', kept)
  await world.mine()
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await isIdUsed(answer.id)], ['SUBMITTED', false])
  await age(world.first.app, 40)
  await keep(world)
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await isIdUsed(answer.id), await world.countOf(writer)], ['CANCELLED', true, 1n]) // prettier-ignore
})

test('a cancel that the database lost is one all the same: the ledger has it', async () => {
  const writer = await delegated('lost-cancel')
  const { answer } = await add(writer, 2, 'kept')
  const goBack = await rememberWithBlocks(world)
  await cancel(writer, answer.id)
  await goBack()
  await replay(world.first)
  await until('it is cancelled', async () => {
    await age(world.first.app, 40)
    await keep(world)
    await world.mine()
    return (await stateOf(writer, answer.id)) !== 'SUBMITTED'
  })
  assert.deepEqual([await stateOf(writer, answer.id), await world.countOf(writer)], ['CANCELLED', 1n])
})
