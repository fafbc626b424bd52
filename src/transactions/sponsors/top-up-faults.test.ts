// tier: all, because it kills a top-up at each of its steps
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { sql } from 'kysely'
import { diesAt } from '../../../test/interrupted.ts'
import { hurriedUntil } from '../../../test/kit/hurried.ts'
import { remember, replay } from '../../../test/lost-tail.ts'
import { COIN, toppingUp, type ToppingUp } from '../../../test/topping-up.ts'
import { refusedWith } from '../../../test/kit/refused.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { underDeadline } from '../../deadline.ts'
import { startFollower } from '../../follower/follow.ts'
import { spentOfBudget } from '../../store/sponsor-budget.ts'
import { speedUpTransaction } from '../lanes/change.ts'
import { interruptSteps } from '../crash-points.ts'
import { followTransactions } from '../settle/follow.ts'

/**
 * Whatever dies, lags or is lost, a user gets one top-up per write. The assertions read payments on the chain.
 * top-up.test.ts has the other cases.
 */
let world: ToppingUp
before(async () => {
  world = await toppingUp()
})
afterEach(async () => {
  interruptSteps(world.first.app, null)
  world.first.misbehave(null)
  await world.mine()
})
after(() => world?.close())

const spentOn = ({ accountId }: Writer) => spentOfBudget(world.db, 'demo', accountId)
const setTransfer = async (
  writer: Writer,
  row: { state: 'SUBMITTED' | 'FAILED' | 'MINED'; block_number?: number | null; block_hash?: Uint8Array | null },
) =>
  // prettier-ignore
  world.db.updateTable('transactions').set(row).where('id', '=', (await world.transferOf(writer)).id).execute()
const stateOf = async (id: string) =>
  (await world.db.selectFrom('transactions').select('state').where('id', '=', id).executeTakeFirstOrThrow()).state
/** Checks that the chain has the user's write, and one transfer for it. */
const assertOnce = async (writer: Writer) =>
  assert.deepEqual([await world.countOf(writer), (await world.sentTo(writer)).length], [1n, 1])

for (const [step, time] of [
  ['before-bind', 1],
  ['after-store', 1],
  ['before-answer', 1],
  ['before-bind', 2],
  ['after-bind', 2],
  ['after-sign', 2],
  ['after-broadcast', 2],
] as const)
  test(`killed at ${step} for the ${time}. time, a repeat of the request pays once and writes once`, () =>
    world.paysOnceThoughKilled(step, time))

test('a database that lost what a top-up wrote, and knows the ledger again, does not pay it again', () =>
  world.paysOnceThoughLost({ isReplayed: true }))

test('top-ups that the database has lost and the ledger knows are counted again, and the next is paid', async () => {
  const writer = await world.poor('lost-and-spent')
  const goBack = await remember(world.first.app)
  await world.write(writer, 'one')
  await world.give(writer, 0n)
  await world.write(writer, 'two')
  assert.equal((await world.rowsOf(writer)).length, 2)
  const spent = await spentOn(writer)
  await goBack()
  await replay(world.first)
  await world.give(writer, 0n)
  await world.recover(writer, 'three')
  assert.equal(await world.countOf(writer), 3n)
  assert.equal((await world.paidTo(writer)).length, 3)
  assert.ok((await spentOn(writer)) > spent)
})

test('a write that the ledger knows and the database has lost is paid for once', async () => {
  const writer = await world.poor('lost-whole')
  const goBack = await remember(world.first.app)
  await world.write(writer, 'key')
  await world.give(writer, 0n)
  await goBack()
  await world.recover(writer, 'key')
  await assertOnce(writer)
})

test('a top-up that failed is no lack of funds: the repeat begins another', async () => {
  const writer = await world.poor('in-vain')
  await world.begun(writer)
  await setTransfer(writer, { state: 'FAILED' })
  await world.begun(writer)
  const [failed] = await world.rowsOf(writer)
  assert.deepEqual([failed!.settled_at === null, failed!.wei, failed!.charged], [false, '0', '0'])
  assert.equal(await spentOn(writer), 0n)
  await setTransfer(writer, { state: 'SUBMITTED' })
  await world.recover(writer, 'key')
  assert.equal(await world.countOf(writer), 1n)
})

test('a node that lags does not have a user paid twice', async () => {
  const writer = await world.poor('lag')
  await world.write(writer, 'one')
  const paid = (await world.sentTo(writer)).length
  await world.give(writer, COIN)
  // The node answers for the newest block with old state.
  world.first.misbehave(async (method, params, next) =>
    method === 'eth_getBalance' && params[0] === writer.address && params[1] === 'latest' ? '0x0' : next(),
  )
  await world.write(writer, 'two')
  assert.equal((await world.sentTo(writer)).length, paid)
})

for (const isFollowed of [false, true])
  test(`a node whose chain is without the last top-up has no second one sent ${isFollowed ? 'while' : 'before'} that is followed`, async () => {
    const writer = await world.poor(`not-there-${isFollowed}`)
    await world.toppedUp(writer)
    await world.mine()
    const { state, block_number: number, block_hash: hash } = await world.transferOf(writer)
    world.first.misbehave(async (method, params, next) => {
      if (method === 'eth_getBalance' && params[0] === writer.address) {
        // This is after the last top-up was read, and before the missing funds are sent.
        if (isFollowed && typeof params[1] === 'object')
          await setTransfer(writer, { state: 'SUBMITTED', block_number: null, block_hash: null })
        return '0x0'
      }
      const answer = await next()
      const isOther = method === 'eth_getBlockByNumber' && params[0] === `0x${number!.toString(16)}`
      return isOther ? { ...(answer as object), hash: `0x${'0f'.repeat(32)}` } : answer
    })
    await world.begun(writer)
    world.first.misbehave(null)
    await setTransfer(writer, { state: state as 'MINED', block_number: number, block_hash: hash })
    assert.equal((await world.rowsOf(writer)).length, 1)
    await world.recover(writer, 'key')
    await assertOnce(writer)
  })

for (const how of ['speed-up', 'write'] as const)
  test(`what a raise or a reorganisation took from a write that was told is sent by the user’s next ${how}`, async () => {
    const writer = await world.poor(`relieved-by-${how}`, 'demo', COIN)
    const { id } = (await world.send(writer)).answer
    await world.give(writer, 0n)
    assert.equal(await stateOf(id), 'SUBMITTED')
    // Once it is funded, a block may include it before the fee bump is signed.
    const orMined = (error: unknown) => assert.ok(refusedWith('not_cancellable')(error), String(error))
    if (how === 'write') await world.write(writer)
    else await world.mining(speedUpTransaction(world.first.app, writer, id)).catch(orMined)
    await world.recovering(until('it is mined', async () => (await stateOf(id)) !== 'SUBMITTED'))
    await world.mine()
    assert.equal((await world.sentTo(writer)).length, 1)
    assert.equal(await world.countOf(writer), how === 'write' ? 2n : 1n)
  })

/** Starts another write, whose client does not wait until its top-up is mined. */
const secondBegun = (writer: Writer) => {
  const onItsWay = async () =>
    (await world.rowsOf(writer)).length === 2 && (await world.transferOf(writer, 1).catch(() => null))?.state === 'SUBMITTED' // prettier-ignore
  const work = () => world.send(writer, 'two')
  return assert.rejects(hurriedUntil(world.clock, work, 'its funds are sent', onItsWay), refusedWith('top_up_pending'))
}

test('gas of a write under way that became dearer is paid, too: it is no value', async () => {
  const writer = await world.poor('dearer')
  await world.begun(writer, 'one')
  await world.mine()
  await world.send(writer, 'one')
  const raised = { reserved: sql<string>`reserved * 3` }
  const open = await world.db.updateTable('transactions').set(raised).where('account_id', '=', writer.accountId).where('state', '=', 'SUBMITTED').returning('id').execute() // prettier-ignore
  assert.equal(open.length, 1)
  await secondBegun(writer)
  await world.recover(writer, 'two')
  assert.equal(await world.countOf(writer), 2n)
})

test('beside a write that has a nonce and no bytes yet, the next is given its own gas', async () => {
  const writer = await world.poor('bound')
  await world.begun(writer, 'one')
  await world.mine()
  await diesAt(world.first.app, 'after-bind', () => world.send(writer, 'one'))
  await secondBegun(writer)
  assert.equal((await world.rowsOf(writer)).length, 2)
})

test('a request that waits for a block that this process has not seen, or for another request, takes no place from others', async () => {
  const writer = await world.poor('behind')
  await world.write(writer)
  await world.give(writer, 0n)
  const setRow = (row: { block_number: number } | { settled_at: Date }) =>
    world.db.updateTable('top_ups').set(row).where('account_id', '=', writer.accountId).execute()
  await setRow({ block_number: 1_000_000_000 })
  let aside = 0
  const { clock } = world
  const pending = (mayWait: boolean) => {
    const request = underDeadline(clock.ticks() + 30_000, () => world.send(writer, 'key'), () => {
      aside++
      if (mayWait) setImmediate(() => void clock.advance(30_000))
      return mayWait
    }) // prettier-ignore
    return assert.rejects(request, refusedWith('top_up_pending'))
  }
  // Its deadline is never reached.
  await clock.still(() => pending(false))
  await pending(true)
  assert.ok(aside >= 2)
  // A restarted chain does not reach that block for long. A top-up that was settled long ago needs no wait.
  await setRow({ settled_at: new Date(Date.now() - 180_000) })
  await diesAt(world.first.app, 'after-bind', () => world.send(writer, 'key'))
  await pending(false)
})

test('two replicas pay once for what they are asked at once, also the one that does not follow the chain', async () => {
  const second = await world.replica()
  second.chain.gas = 'topup'
  const follower = startFollower(second.app, second.chain, [followTransactions])
  try {
    const writer = await world.poor('elsewhere')
    const there = await world.at(writer, 'demo', second.app)
    const both = (key: string) => [world.send(writer, key), world.send(there, key, second)]
    const settled = await world.recovering(Promise.allSettled([...both('one'), ...both('two')]))
    for (const one of settled) if (one.status === 'rejected') assert.ok(refusedWith('idempotency_in_flight')(one.reason), String(one.reason)) // prettier-ignore
    await world.mine()
    assert.equal(await world.countOf(writer), 2n)
    assert.ok((await world.paidTo(writer)).length <= 2)
    await world.give(writer, 0n)
    await world.recovering(world.send(there, 'three', second))
    await world.mine()
    assert.equal(await world.countOf(writer), 3n)
  } finally {
    await follower.stop()
  }
})
