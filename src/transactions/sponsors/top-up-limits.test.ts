// tier: default, because it moves money
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { encodeFunctionData, parseAbi } from 'viem'
import { hurried } from '../../../test/kit/hurried.ts'
import { COIN, AWAY, toppingUp, type ToppingUp } from '../../../test/topping-up.ts'
import { refusedWith } from '../../../test/kit/refused.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { AppError } from '../../errors.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import { fromHex } from '../../hex.ts'
import { speedUpTransaction } from '../lanes/change.ts'
import { rehearseTransaction, submitTransaction } from '../lanes/submit.ts'

/**
 * Writes that a sponsor does not fund: for contracts outside the budget, beyond a network's day, or refused by the
 * signer.
 */
let world: ToppingUp
before(async () => {
  world = await toppingUp()
})
afterEach(() => world.mine())
after(() => world?.close())

const sumOf = async (writer: Writer) => (await world.rowsOf(writer)).reduce((sum, { wei }) => sum + BigInt(wei), 0n)
const sentByHouse = () => world.db.selectFrom('transactions').select(['id', 'target']).where('sender', '=', fromHex(world.house.address)).orderBy('id').execute() // prettier-ignore

test('a budget that names contracts pays for their writes and for no other; those are refused saying why, unless the user has the funds', async () => {
  const ann = await world.poor('listed', 'one-contract')
  const notNamed = refusedWith('insufficient_funds', 'No sponsor pays')
  await assert.rejects(world.pay(ann), notNamed)
  await assert.rejects(world.rehearse(ann), notNamed)
  await world.assertNothingSent(ann)
  await world.write(ann)
  assert.equal(await world.countOf(ann), 1n)
  assert.equal((await world.rowsOf(ann)).length, 1)
  // Own funds are used as usual, for any address.
  const ben = await world.poor('own-funds', 'one-contract', COIN)
  assert.equal((await world.mining(world.pay(ben, 1n))).state, 'SUBMITTED')
  await world.assertNothingSent(ben)
  // A write that one application's budget does not cover may be covered by another's.
  await world.give(ann, 0n)
  await world.mining(world.pay(await world.at(ann, 'demo')))
  assert.equal((await world.rowsOf(ann)).length, 2)
})

test('gas of an open write that a budget does not pay for is not sent with the next one, nor when it is sped up', async () => {
  const ann = await world.poor('open-other', 'one-contract', COIN)
  const { id } = await world.pay(ann)
  // Without gas it is not mined.
  await world.give(ann, 0n)
  await assert.rejects(world.send(ann), refusedWith('insufficient_funds'))
  await assert.rejects(speedUpTransaction(world.first.app, ann, id), refusedWith('insufficient_funds'))
  await world.assertNothingSent(ann)
  await world.give(ann, COIN)
})

test('a network’s budget is told as the network’s, holds for every application, and nothing is paid beyond it', async () => {
  const cap = (wei: string | null) =>
    world.db.updateTable('networks').set({ sponsor_per_day: wei }).where('chain_id', '=', 31_337).execute()
  const exhausted = refusedWith('gas_not_sponsored', 'budget of the network')
  const ann = await world.poor('capped')
  await cap('1')
  try {
    for (const writer of [ann, await world.at(ann, 'one-contract')]) await assert.rejects(world.send(writer), exhausted)
    await assert.rejects(world.rehearse(ann), exhausted)
    await world.assertNothingSent(ann)
  } finally {
    await cap(null)
  }
  await world.write(ann)
})

test('a user at a limit of the signer takes no nonce of the sponsor and nothing of a budget', async () => {
  const ann = await world.poor('at-limit')
  const cause = new SignerRefused('policy_denied', '', {
    rule: 'top-up-per-user',
    resetsAt: '2031-01-01T00:00:00.000Z',
  })
  const denied = new AppError('policy_denied', 'It is used up.', { cause })
  const before = await sentByHouse()
  await world.withSigner(
    ({ check }) => ({
      check: (request) => (request.from === world.house.address ? Promise.reject(denied) : check(request)),
    }),
    async () => {
      for (let again = 0; again < 2; again++) await assert.rejects(world.send(ann), refusedWith('gas_budget_exhausted'))
    },
  )
  assert.deepEqual(await sentByHouse(), before)
  await world.assertNothingSent(ann)
  await world.write(ann)
})

test('that a top-up was sent is told once, by the request that sent it, and not by one that finds it', async () => {
  const told: string[] = []
  const { telemetry } = world.first.app
  const { log } = telemetry
  telemetry.log = { ...log, info: (event: string, { id }: { id: string }) => void (event === 'top_up_sent' && told.push(id)) } as never // prettier-ignore
  const ann = await world.poor('told')
  let other: Promise<unknown> | null = null
  try {
    await world.withSigner(
      ({ check }) => ({
        check: async (request) => {
          // This request has found no top-up. Before it sends one, another request does.
          if (other === null) {
            other = world.send(ann, 'other')
            await until('the other has sent it', () => told.length > 0)
          }
          return check(request)
        },
      }),
      () => world.mining(world.send(ann, 'key').then(() => other)),
    )
  } finally {
    telemetry.log = log
  }
  const ids = (await world.paidTo(ann)).map(async ({ ordinal }) => (await world.transferOf(ann, ordinal)).id)
  assert.deepEqual(told, await Promise.all(ids))
})

test('nothing is paid for a write that another process sent in the last moment before a top-up has a nonce', async () => {
  const ann = await world.poor('last-moment')
  const other = await world.replica()
  other.chain.gas = 'topup'
  let asked = 0
  await world.withSigner(
    ({ check }) => ({
      check: async (request) => {
        const checked = await check(request)
        if (request.from !== world.house.address || asked++ > 0) return checked
        // The user received own funds, and another process got the retry.
        await world.give(ann, COIN)
        await world.send(ann, 'once', other)
        return checked
      },
    }),
    () => world.send(ann, 'once').catch((error: unknown) => assert.ok(refusedWith('idempotency_in_flight')(error), String(error))), // prettier-ignore
  )
  assert.equal(asked, 1)
  await world.mine()
  assert.equal(await world.countOf(ann), 1n)
  assert.deepEqual((await sentByHouse()).filter(({ target }) => fromHex(ann.address).equals(target)), []) // prettier-ignore
})

/** Creates a user with a gas limit far above the gas of a write. @returns also the missing funds, wei */
async function withOwnLimit(name: string) {
  await world.rpc('anvil_setNextBlockBaseFeePerGas', '0x1')
  const writer = await world.poor(name)
  const data = encodeFunctionData({ abi: parseAbi(['function add(uint256)']), args: [1n] })
  const write = { to: world.probe, data, gas: '16777216' }
  const whole = await neededFor(submitTransaction(world.first.app, writer, write, {}))
  return { writer, write, whole }
}
async function neededFor(refused: Promise<unknown>): Promise<bigint> {
  const error = await refused.catch((reason: unknown) => reason)
  assert.ok(refusedWith('insufficient_funds')(error), String(error))
  return BigInt(error.funds!.needed)
}

test('a gas limit of the caller’s own, above what a write takes, is theirs to hold: a sponsor sends what the estimate says', async () => {
  const { writer, write, whole } = await withOwnLimit('own-limit')
  const { app } = world.first
  const judged = new Set<unknown>()
  const { answer } = await world.withSigner(
    ({ check }) => ({ check: (request) => (request.from === writer.address && judged.add(request.gas), check(request)) }), // prettier-ignore
    async () => {
      await neededFor(rehearseTransaction(app, writer, write))
      assert.equal(await world.countOf(writer), 0n)
      await world.assertNothingSent(writer)
      // All but the last wei of the extra amount: the rest is within the cost of the write itself.
      await world.give(writer, whole - 1n)
      return world.mining(submitTransaction(app, writer, write, {}))
    },
  )
  // Before anything is sent, the signer judges the whole gas limit, not the part that the sponsor pays.
  assert.deepEqual([...judged], [write.gas])
  assert.equal((await world.rowsOf(writer)).length, 1)
  const given = await sumOf(writer)
  // A quarter of the estimate’s gas, of which 16,777,216 is a hundred times as much.
  assert.ok(given > 1n && given < whole / 200n, `${given} of ${whole}`)
  await world.mining(speedUpTransaction(app, writer, answer.id).catch(() => {}))
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  assert.ok((await sumOf(writer)) < whole / 100n, `${await sumOf(writer)} of ${whole}`)
})

test('what is held for the limit of one open write is not there for another: no sponsor makes up for it', async () => {
  const { writer, write, whole } = await withOwnLimit('own-limit-open')
  const { app } = world.first
  await world.give(writer, whole)
  const { answer: open } = await submitTransaction(app, writer, write, {})
  const paying = { to: AWAY, value: String(whole / 2n) }
  for (const second of [write, paying])
    await assert.rejects(submitTransaction(app, writer, second, {}), refusedWith('insufficient_funds'))
  assert.deepEqual(await world.rowsOf(writer), [])
  // A fee bump of the whole amount would be 12.5 % of it.
  const raise = () => speedUpTransaction(app, writer, open.id)
  for (let time = 0; time < 2; time++) await hurried(world.clock, raise).catch(() => {})
  assert.ok((await sumOf(writer)) < whole / 50n, `${await sumOf(writer)} of ${whole}`)
  // The next write's own need is sent as usual.
  await world.mining(submitTransaction(app, writer, { to: world.probe, data: write.data }, {}))
  assert.ok((await sumOf(writer)) < whole / 50n, `${await sumOf(writer)} of ${whole}`)
  await world.mine()
  assert.equal(await world.countOf(writer), 2n)
})
