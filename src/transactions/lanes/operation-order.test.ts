import { refusedWith } from '../../../test/kit/refused.ts'
import { operationsOf } from '../../../test/operation-reads.ts'
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { diesAt, loseAllButFirst } from '../../../test/interrupted.ts'
import { age, keep, remember } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { RpcError } from '../../chain/rpc/failures.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import type { Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { fromWord, toWord } from '../../store/bytes.ts'
import { spentOfBudget } from '../../store/sponsor-budget.ts'
import { cancelTransaction } from './change.ts'
import { interruptSteps, type Step } from '../crash-points.ts'

/**
 * Outcomes of an operation that depend on others: a repeat of it, an earlier one of the same account, or a freed nonce.
 */
let world: Sponsored
/** delays requests to the signer, and may reject them */
let meets: (() => Promise<void>) | null = null
before(async () => {
  world = await sponsored()
  const { signer } = world.first.app
  world.first.app.signer = {
    ...signer,
    signOuter: async (request) => {
      const meet = meets
      meets = null
      await meet?.()
      return signer.signOuter(request)
    },
  }
})
afterEach(async () => {
  meets = null
  interruptSteps(world.first.app, null)
  world.first.misbehave(null)
  await world.mine()
})
after(() => world?.close())

const { add, shown, rowOf } = operationsOf(() => world)

/** Retries until no other request handles the operation. */
const finished = (writer: Writer, amount: number, key: string) =>
  until('the key answers', async () => {
    await age(world.first.app, 5)
    return add(writer, amount, key).catch((error: unknown) => {
      if (refusedWith('idempotency_in_flight')(error)) return null
      throw error
    })
  })

const dies = (step: Step, work: () => Promise<unknown>): Promise<void> => diesAt(world.first.app, step, work)

/** Holds the node's estimates for the dispatcher until `let` is called. */
function holdEstimates(): { let: () => void; held: () => number } {
  const { promise, resolve } = Promise.withResolvers<void>()
  let held = 0
  world.first.misbehave(async (method, params, next) => {
    const to = (params[0] as { to?: string } | undefined)?.to
    if (method === 'eth_estimateGas' && to?.toLowerCase() === world.dispatcher) {
      held++
      await promise
    }
    return next()
  })
  return { let: resolve, held: () => held }
}

test('a write that is repeated while it waits is packed once, and nobody beside it is refused', async () => {
  const [one, two, same, beside] = [await world.poor('one'), await world.poor('two'), await world.poor('same'), await world.poor('beside')] // prettier-ignore
  const estimates = holdEstimates()
  const first = add(one)
  await until('the first is under way', async () => estimates.held() === 1)
  const second = add(two)
  await until('the second is under way', async () => estimates.held() === 2)
  const asked = add(same, 1, 'again')
  await until('it waits', async () =>
    (await world.db.selectFrom('operations').select('id').where('account_id', '=', same.accountId).execute()).length === 1) // prettier-ignore
  await new Promise((resolve) => setTimeout(resolve, 200))
  await age(world.first.app, 5)
  const repeated = add(same, 1, 'again')
  const other = add(beside)
  await new Promise((resolve) => setTimeout(resolve, 500))
  estimates.let()
  const all = await Promise.allSettled([first, second, asked, repeated, other])
  for (const each of all) assert.equal(each.status, 'fulfilled', each.status === 'rejected' ? String(each.reason) : '')
  await world.mine()
  const { id } = await world.db.selectFrom('operations').select('id').where('account_id', '=', same.accountId).executeTakeFirstOrThrow() // prettier-ignore
  assert.equal((await world.db.selectFrom('carried').selectAll().where('operation_id', '=', id).execute()).length, 1)
  for (const writer of [one, two, same, beside]) assert.equal(await world.countOf(writer), 1n)
})

test('no node is given what is not stored, with all that it carries', async () => {
  const writer = await world.poor('stored-first')
  const stored: number[] = []
  world.first.misbehave(async (method, params, next) => {
    if (method === 'eth_sendRawTransaction') {
      const rows = await world.db
        .selectFrom('attempts as a')
        .innerJoin('carried as c', 'c.transaction_id', 'a.transaction_id')
        .innerJoin('operations as o', 'o.outer_id', 'a.transaction_id')
        .select('o.id')
        .where('a.raw', '=', fromHex(params[0] as Hex))
        .where('o.account_id', '=', writer.accountId)
        .execute()
      stored.push(rows.length)
    }
    return next()
  })
  const { answer } = await add(writer)
  assert.deepEqual([...new Set(stored)], [1])
  await world.mine()
  assert.equal((await shown(writer, answer.id)).state, 'MINED')
})

test('a restored operation delegates where its account did not, also by the authorization of another that was never sent', async () => {
  const writer = await world.poor('restored-second')
  const goBack = await remember(world.first.app)
  await dies('after-sign-operation', () => add(writer, 1, 'one'))
  await dies('after-sign-operation', () => add(writer, 2, 'two'))
  await goBack()
  const { answer } = await finished(writer, 2, 'two')
  await world.mine()
  assert.equal((await shown(writer, answer.id)).state, 'MINED')
  assert.equal(await world.countOf(writer), 2n)
})

test('what was to delegate before it and is cancelled is not relied on', async () => {
  const writer = await world.poor('cancelled-before')
  const { answer } = await add(writer)
  await world.cancelOuter((await rowOf(answer.id)).outer_id!)
  const second = await add(writer, 2)
  await world.mine()
  assert.equal((await shown(writer, second.answer.id)).state, 'MINED')
})

test('what was to delegate before it and was reverted whole is not relied on', async () => {
  const writer = await world.poor('reverted-before')
  const { answer } = await add(writer)
  const outer = (await rowOf(answer.id)).outer_id!
  const set = (state: 'REVERTED' | 'SUBMITTED') => world.db.updateTable('transactions').set({ state }).where('id', '=', outer).execute() // prettier-ignore
  await set('REVERTED')
  const second = await add(writer, 2)
  const { authorizations } = await world.db.selectFrom('transactions').select('authorizations').where('id', '=', (await rowOf(second.answer.id)).outer_id!).executeTakeFirstOrThrow() // prettier-ignore
  assert.deepEqual(authorizations?.map(({ from }) => from), [writer.address]) // prettier-ignore
  await set('SUBMITTED')
  await world.mine()
  await world.mine()
  assert.equal(await world.countOf(writer), 3n)
})

test('a nonce that was given back below the delegation is not taken without it', async () => {
  const [writer, refused] = [await world.poor('below'), await world.poor('below-refused')]
  const gate = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  meets = async () => {
    reached.resolve()
    await gate.promise
    throw new SignerRefused('operation_refused', 'The person is frozen.', { operation: 0, because: 'account_frozen' })
  }
  const refusal = assert.rejects(add(refused))
  await reached.promise
  const { answer } = await add(writer)
  gate.resolve()
  await refusal
  const second = await add(writer, 2)
  assert.ok(Number(second.answer.tx.nonce) < Number(answer.tx.nonce), `${second.answer.tx.nonce} ${answer.tx.nonce}`)
  await world.mine()
  await world.mine()
  assert.equal((await shown(writer, answer.id)).state, 'MINED')
  assert.equal((await shown(writer, second.answer.id)).state, 'MINED')
})

test('what is counted of those in one transaction is together no less than its fee', async () => {
  const [one, other] = [await world.poor('shares-fee'), await world.poor('shares-fee-with')]
  for (const writer of [one, other]) await add(writer)
  await world.mine()
  const ends = await world.inOne([() => add(one, 2), () => add(other, 3)])
  const rows = () => Promise.all(ends.map(({ answer }) => rowOf(answer.id)))
  const outers = new Set((await rows()).map(({ outer_id: outer }) => outer!))
  assert.equal(outers.size, 1)
  await world.mine()
  // Use a fee that is not divisible.
  await world.db.updateTable('transactions').set({ gas_used: 100_001, effective_gas_price: toWord(1n) }).where('id', 'in', [...outers]).execute() // prettier-ignore
  await keep(world)
  const counted = await rows()
  assert.deepEqual(counted.map(({ is_counted: isCounted }) => isCounted), [true, true]) // prettier-ignore
  const sum = counted.reduce((all, { charged }) => all + BigInt(charged), 0n)
  assert.ok(sum >= 100_001n && sum <= 100_003n, `${sum}`)
})

/** Checks a transaction that waits while another executes the operation of both. */
async function loseCancel(id: string): Promise<void> {
  const goBack = await remember(world.first.app)
  await world.cancelOuter(id)
  await goBack()
}

for (const [what, key, end] of [
  ['a transaction that carried it for nothing', 'sent', sendAgain],
  ['a cancel of what would have carried it once more', 'cancelled', (id: string) => world.cancelOuter(id)],
  ['a cancel that the database lost', 'lost-cancel', loseCancel],
] as const)
  test(`${what} is counted, however late it is mined`, async () => {
    const writer = await world.poor(`carried-twice-${key}`)
    await add(writer)
    await world.mine()
    await dies('after-sign-outer', () => add(writer, 2, key))
    let isLossy = true
    world.first.misbehave(async (method, _params, next) => {
      if (isLossy && method === 'eth_sendRawTransaction') throw new Error('the node is away')
      return next()
    })
    const { answer } = await finished(writer, 2, key)
    const second = (await rowOf(answer.id)).outer_id
    isLossy = false
    // Only the first transaction is sent, and mined.
    loseAllButFirst(world.first)
    await age(world.first.app, 40)
    await keep(world)
    await world.mine()
    await keep(world)
    const before = await rowOf(answer.id)
    assert.deepEqual([before.state, before.is_counted], ['MINED', true])
    assert.notEqual(before.outer_id, second)
    world.first.misbehave(null)
    const spent = await spentOfBudget(world.db, 'demo', writer.accountId)
    await end(second!)
    await world.mine()
    await keep(world)
    const outers = await world.db
      .selectFrom('transactions as t')
      .innerJoin('carried as c', 'c.transaction_id', 't.id')
      .select(['t.id', 't.gas_used', 't.effective_gas_price'])
      .where('c.operation_id', '=', answer.id)
      .execute()
    assert.equal(outers.filter((one) => one.gas_used !== null).length, 2)
    const feeOf = (one: (typeof outers)[number]) => BigInt(one.gas_used!) * fromWord(one.effective_gas_price!)
    const paid = outers.reduce((sum, one) => sum + feeOf(one), 0n)
    const row = await rowOf(answer.id)
    assert.ok(BigInt(row.charged) >= paid, `${row.charged} for ${paid}`)
    const more = (await spentOfBudget(world.db, 'demo', writer.accountId)) - spent
    assert.ok(more >= feeOf(outers.find(({ id }) => id === second)!), `${more} more in the budget`)
    assert.equal(await world.countOf(writer), 3n)
  })

async function sendAgain(): Promise<void> {
  await age(world.first.app, 40)
  await keep(world)
}

/** How what carries it is cancelled, and what the operation is then, while something else that was signed and not stored carries it, too. */
for (const [how, cancel, after, end, count] of [
  ['which uses its id up', (writer: Writer, id: string) => cancelTransaction(world.first.app, writer, id), 'CANCELLED', 'CANCELLED', 1n], // prettier-ignore
  ['of the nonce alone', cancelNonce, null, 'MINED', 3n],
] as const)
  test(`a write that is carried twice is what the chain says after a cancel ${how}`, async () => {
    if ((await world.db.selectFrom('sponsors').select('name').execute()).length < 2) await world.sponsor('SECOND')
    await world.clock.advance(5_100)
    const writer = await world.poor(`cancelled-beside-${count}`)
    await add(writer)
    await world.mine()
    const keeper = world.first.keeper()
    try {
      await keeper.round()
      await dies('after-sign-outer', () => add(writer, 2, 'beside'))
      const bound = world.db.selectFrom('transactions').select(['id', 'sender', 'state'])
      const unstored = await bound.where('state', '=', 'BOUND').executeTakeFirstOrThrow()
      const dead = `0x${Buffer.from(unstored.sender).toString('hex')}` as const
      // The other sponsor's transaction includes the operation, and is cancelled.
      const held = await world.balanceOf(dead)
      await world.rpc('anvil_setBalance', dead, '0x1')
      await world.mine()
      await world.db.updateTable('operations').set({ updated_at: new Date(Date.now() - 5_000) }).where('account_id', '=', writer.accountId).execute() // prettier-ignore
      const { answer } = await add(writer, 2, 'beside')
      assert.notEqual(answer.tx.from.toLowerCase(), dead)
      await cancel(writer, answer.id)
      await world.rpc('anvil_setBalance', dead, `0x${held.toString(16)}`)
      await world.mine()
      await keeper.round()
      // On a slow machine, the other transaction may be sent by now. It is not abandoned because of this cancellation.
      if (after === null) assert.notEqual((await shown(writer, answer.id)).state, 'CANCELLED')
      else assert.equal((await shown(writer, answer.id)).state, after)
      await age(world.first.app, 60)
      await keeper.round()
      await world.mine()
      assert.equal((await shown(writer, answer.id)).state.replace('FINALIZED', 'MINED'), end)
      assert.equal(await world.countOf(writer), count)
    } finally {
      await keeper.stop()
    }
  })

/** Cancels an operation of its user, whose transaction gets no further fee bump from the signer. */
async function cancelNonce(_: Writer, id: string): Promise<void> {
  await world.db.updateTable('operations').set({ is_cancel: true }).where('id', '=', id).execute()
  await world.cancelOuter((await rowOf(id)).outer_id!)
}

test('a write that was done and that the database lost is told, also where no budget pays it any more', async () => {
  const writer = await world.poor('lost-and-exhausted')
  const goBack = await remember(world.first.app)
  const { answer } = await add(writer, 1, 'done')
  await world.mine()
  await goBack()
  await world.db.updateTable('networks').set({ sponsor_per_day: '1' }).execute()
  try {
    const again = await add(writer, 1, 'done')
    assert.deepEqual([again.isReplay, again.answer.id, again.answer.hash], [true, answer.id, answer.hash])
    await assert.rejects(add(writer, 1, 'new'), refusedWith('gas_not_sponsored'))
  } finally {
    await world.db.updateTable('networks').set({ sponsor_per_day: null }).execute()
  }
  assert.equal(await world.countOf(writer), 1n)
})

test('what reverts at the newest block and would not behind a write that is not mined yet is taken; what reverts there, too, is told by the newest', async () => {
  const writer = await world.poor('rests-on')
  const asked: string[] = []
  const reverts = (at: string) =>
    world.first.misbehave(async (method, params, next) => {
      if (method !== 'eth_estimateGas' || (params[0] as { to: Hex }).to !== writer.address) return next()
      asked.push(String(params[1]))
      if (params[1] !== 'latest' && at === 'latest') return next()
      throw new RpcError(3, 'execution reverted', `0x0008c379a0${'20'.padStart(64, '0')}${'6'.padStart(64, '0')}${Buffer.from(String(params[1]).slice(0, 6)).toString('hex').padEnd(64, '0')}`) // prettier-ignore
    })
  reverts('latest')
  const { answer } = await add(writer)
  assert.deepEqual(asked, ['latest', 'pending'])
  reverts('both')
  await assert.rejects(add(writer), (error: unknown) => {
    assert.ok(refusedWith('execution_reverted')(error))
    return /latest/.test((error as Error).message)
  })
  world.first.misbehave(null)
  await world.mine()
  assert.deepEqual([(await shown(writer, answer.id)).state, await world.countOf(writer)], ['MINED', 1n])
})
