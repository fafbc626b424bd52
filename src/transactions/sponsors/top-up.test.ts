// tier: default, because it moves money
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { sql } from 'kysely'
import { diesAt } from '../../../test/interrupted.ts'
import { COIN, mostOf, toppingUp, type ToppingUp } from '../../../test/topping-up.ts'
import { refusedWith } from '../../../test/kit/refused.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { readUsage } from '../../applications/usage.ts'
import { underDeadline } from '../../deadline.ts'
import { AppError } from '../../errors.ts'
import { transactionIdOf, type Hex } from '../../ids.ts'
import { SignerRefused, type Signer } from '../../signer-wire/client.ts'
import { sponsorsOf } from '../../sponsors/sponsors.ts'
import { fromHex, toHex } from '../../hex.ts'
import { spentOfBudget } from '../../store/sponsor-budget.ts'
import { freezeAccount, unfreezeAccount } from '../../users/freeze.ts'
import { cancelTransaction } from '../lanes/change.ts'
import { interruptSteps } from '../crash-points.ts'
import { submitTransaction } from '../lanes/submit.ts'
import { startByteSweep } from '../settle/sweep.ts'

/**
 * Users without funds write, and a sponsor pays once and within budgets. The assertions read payments on the chain.
 * More crash points: top-up-faults.test.ts.
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

const spentOn = ({ accountId }: Writer, clientId = 'demo') => spentOfBudget(world.db, clientId, accountId)
const transfersTo = ({ address }: Writer) =>
  world.db.selectFrom('transactions').selectAll().where('target', '=', fromHex(address)).execute()

test('a user without a coin writes: a sponsor’s account first sends what the gas costs and a quarter more, once', async () => {
  const writer = await world.poor('first')
  const answer = await world.write(writer)
  const { tx } = answer
  assert.equal(await world.countOf(writer), 1n)
  const [row, ...others] = await world.paidTo(writer)
  assert.deepEqual([others.length, row!.settled_at !== null, row!.block_number !== null], [0, true, true])
  const [gas, paid, cost] = [BigInt(tx.gasLimit.hex), BigInt(row!.wei), mostOf(answer)]
  // The amount is the gas at the price of that time plus 25 %, rounded down.
  const price = (paid * 4n + 4n) / (5n * gas)
  assert.equal(gas * price + (gas * price) / 4n, paid)
  // The fees may have changed in the block between.
  assert.ok(paid >= cost && paid <= cost * 3n, `${paid} for ${cost}`)
  assert.equal(tx.from.toLowerCase(), writer.address)
  // The transfer belongs neither to the user nor to the application.
  assert.deepEqual((await transfersTo(writer)).map((one) => one.account_id), [world.house.accountId]) // prettier-ignore
})

test('a user who has enough is sent nothing, and one who has some only the rest', async () => {
  const rich = await world.poor('rich', 'demo', COIN)
  const cost = mostOf(await world.write(rich))
  await world.assertNothingSent(rich)
  const some = await world.poor('some', 'demo', cost / 2n)
  await world.write(some)
  const [paid] = await world.sentTo(some)
  assert.ok(paid! < cost, `${paid} of ${cost}`)
})

test('values are paid by the user: what is lacking beyond gas is refused, and nothing is sent', async () => {
  const writer = await world.poor('value', 'demo', COIN)
  await assert.rejects(world.pay(writer, COIN + 1n), refusedWith('insufficient_funds'))
  await world.assertNothingSent(writer)
  assert.equal((await world.mining(world.pay(writer, COIN))).state, 'SUBMITTED')
  assert.equal((await world.sentTo(writer)).length, 1)
})

test('a sponsor does not pay the value of an open write', async () => {
  const writer = await world.poor('value-open', 'demo', 2n * COIN)
  await world.pay(writer, COIN)
  await world.give(writer, COIN / 2n)
  await assert.rejects(world.send(writer), refusedWith('insufficient_funds'))
  await world.assertNothingSent(writer)
  await world.give(writer, 2n * COIN)
})

test('the value of a write that its user cancels is theirs again: gas alone is lacking, and that is sent', async () => {
  const writer = await world.poor('value-cancelled', 'demo', 2n * COIN)
  const { id } = await world.pay(writer, COIN)
  await cancelTransaction(world.first.app, writer, id)
  await world.rpc('anvil_dropAllTransactions')
  await world.give(writer, 1n)
  await world.write(writer)
  assert.equal((await world.sentTo(writer)).length, 1)
})

test('writes of one user at once are all sent, and what was open is not paid for twice', async () => {
  const writer = await world.poor('both')
  await world.mining(Promise.all(['one', 'two', 'three'].map((key) => world.send(writer, key))))
  await world.mine()
  assert.equal(await world.countOf(writer), 3n)
  const rows = await world.paidTo(writer)
  assert.ok(rows.length <= 3 && rows.every(({ settled_at: settledAt }) => settledAt !== null))
})

test('a top-up that is not mined in time is told; the repeat goes on with it', async () => {
  const writer = await world.poor('slow')
  await world.begun(writer)
  const [open, ...others] = await world.rowsOf(writer)
  assert.deepEqual([others.length, open!.settled_at], [0, null])
  // Until it is mined, its highest fee counts. Its transaction id is derived from network, user and ordinal.
  const id = transactionIdOf({ accountId: writer.accountId, clientId: 'top-up', route: 'top-up', key: '31337 0' }, 0)
  const sent = await world.db.selectFrom('transactions').select('reserved').where('id', '=', id).executeTakeFirstOrThrow() // prettier-ignore
  assert.deepEqual([open!.charged, BigInt(open!.charged) > BigInt(open!.wei)], [sent.reserved, true])
  await world.mine()
  await world.send(writer, 'key')
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  assert.equal((await world.sentTo(writer)).length, 1)
})

test('a client that may not wait for blocks is told so at once', async () => {
  const writer = await world.poor('crowded')
  await assert.rejects(
    underDeadline(world.clock.ticks() + 30_000, () => world.send(writer, 'key'), () => false), // prettier-ignore
    refusedWith('top_up_pending'),
  )
})

test('a client that hardly waits has its top-up sent all the same', async () => {
  const writer = await world.poor('hurried')
  const { clock } = world
  const brief = () => clock.still(() => underDeadline(clock.ticks() + 900, () => world.send(writer, 'key')))
  await assert.rejects(brief(), refusedWith('top_up_pending'))
  assert.equal((await world.rowsOf(writer)).length, 1)
  await world.mine()
  await brief().catch(() => world.send(writer, 'key'))
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  assert.equal((await world.sentTo(writer)).length, 1)
})

for (const step of ['after-bind', 'after-sign', 'after-broadcast'] as const)
  test(`killed at ${step}, a repeat of the request pays once and writes once`, () =>
    world.paysOnceThoughKilled(step, 1))

test('a database that lost what a top-up wrote, and does not know the ledger yet, does not pay it again', () =>
  world.paysOnceThoughLost({ isReplayed: false }))

test('a top-up that a reorganisation took out is not paid a second time, and counts what it cost in the dearer block that it came to', async () => {
  const writer = await world.poor('reorganised')
  await world.toppedUp(writer)
  const [before] = await world.rowsOf(writer)
  const block = before!.block_number!
  const { baseFeePerGas } = await world.rpc<{ baseFeePerGas: Hex }>('eth_getBlockByNumber', `0x${block.toString(16)}`, false) // prettier-ignore
  await world.rpc('anvil_reorg', (await world.newestBlock()) - block + 1, [])
  await world.followed()
  // Out of the chain, it counts as before, so nobody can spend the amount twice.
  const [open] = await world.rowsOf(writer)
  assert.deepEqual([open!.settled_at, open!.charged], [null, before!.charged])
  await world.begun(writer)
  // The base fee falls by 12.5 % per empty block, and the first blocks include nothing that was sent again.
  await world.rpc('anvil_setNextBlockBaseFeePerGas', `0x${((BigInt(baseFeePerGas) * 19n) / 10n).toString(16)}`)
  await world.recover(writer, 'key')
  assert.equal(await world.countOf(writer), 1n)
  const { hash } = await world.transferOf(writer)
  const receipt = await world.rpc<Record<'gasUsed' | 'effectiveGasPrice', Hex>>('eth_getTransactionReceipt', toHex(hash!)) // prettier-ignore
  const cost = BigInt(before!.wei) + BigInt(receipt.gasUsed) * BigInt(receipt.effectiveGasPrice)
  const [moved, ...others] = await world.paidTo(writer)
  assert.deepEqual([others.length, BigInt(moved!.charged), await spentOn(writer)], [0, cost, cost])
  assert.ok(cost > BigInt(before!.charged), `${cost} after ${before!.charged}`)
})

test('the budget of a user and of an application is never exceeded, and says when there is room', async () => {
  const cost = mostOf(await world.write(await world.poor('price')))
  const [perUser, perApplication] = [cost * 4n, cost * 6n]
  await world.application('thrifty', { perUser, perApplication })
  const ann = await world.poor('ann', 'thrifty')
  const others = [await world.poor('ben', 'thrifty'), await world.poor('eve', 'thrifty')]
  let refused = 0
  /** Each user writes at once, and spends the received funds elsewhere, until a budget is exhausted. */
  async function spend(writers: Writer[], of: 'person' | 'application'): Promise<void> {
    const before = refused
    const orRefused = (error: unknown) => {
      assert.ok(refusedWith('gas_budget_exhausted', `budget of the ${of}`)(error), String(error))
      const left = (Date.parse(error.resetsAt!) - Date.now()) / 3_600_000
      assert.ok(left > 23 && left <= 25 && error.retryAfter! > 23 * 3_600)
      refused++
    }
    for (let round = 0; round < 10 && refused === before; round++) {
      await world.mining(Promise.all(writers.map((writer) => world.send(writer).catch(orRefused))))
      await world.mine()
      await world.give(writers, 0n)
    }
    assert.ok(refused > before)
  }
  await spend([ann], 'person')
  await spend(others, 'application')
  const { values } = await world.first.app.telemetry.topUps.get()
  const toldOf = values.find(({ labels }) => labels.outcome === 'gas_budget_exhausted')?.value ?? 0
  assert.ok(toldOf >= refused, `${toldOf} in the metric, ${refused} told`)
  let all = 0n
  for (const writer of [ann, ...others]) {
    const own = await spentOn(writer, 'thrifty')
    const onChain = (await world.sentTo(writer)).reduce((sum, wei) => sum + wei, 0n)
    assert.ok(own <= perUser && onChain <= own, `${onChain} of ${own}`)
    all += own
  }
  assert.equal(await spentOfBudget(world.db, 'thrifty'), all)
  assert.ok(all <= perApplication)
  const { sponsored } = await readUsage(world.db, 'thrifty')
  assert.deepEqual(sponsored, { perApplication: String(perApplication), used: String(all) })
  // After a day it counts nothing.
  await world.db.updateTable('gas_spent').set({ hour: sql<Date>`hour - interval '26 hours'` }).where('client_id', '=', 'thrifty').execute() // prettier-ignore
  await world.write(ann)
})

test('a write that costs more than a day is told that it never will be paid; without a budget an application’s users pay themselves', async () => {
  const never = (error: unknown) =>
    refusedWith('gas_not_sponsored')(error) && error.retryAfter === undefined && error.resetsAt === undefined
  await assert.rejects(world.send(await world.poor('small', 'small')), never)
  assert.equal((await readUsage(world.db, 'none')).sponsored, null)
  await assert.rejects(world.send(await world.poor('none', 'none')), refusedWith('insufficient_funds'))
})

test('a dry run says what would happen, and pays nothing', async () => {
  const writer = await world.poor('dry')
  const at = (clientId: string) => world.at(writer, clientId)
  assert.equal((await world.rehearse(writer)).status, 'SUCCESS')
  await assert.rejects(world.rehearse(await at('small')), refusedWith('gas_not_sponsored'))
  await assert.rejects(world.rehearse(await at('none')), refusedWith('insufficient_funds'))
  // The budgets also count the cost of the transfer itself.
  const like = await world.poor('dry-like')
  await world.mining(world.pay(like))
  const [row] = await world.rowsOf(like)
  const [transfer] = await transfersTo(like)
  await world.application('without-fee', { perUser: (BigInt(row!.wei) + BigInt(transfer!.reserved!)) / 2n })
  await assert.rejects(world.rehearse(await at('without-fee')), refusedWith('gas_not_sponsored'))
  const rows = await world.db.deleteFrom('sponsors').returningAll().execute()
  try {
    await assert.rejects(world.rehearse(writer), refusedWith('sponsor_empty'))
  } finally {
    await world.db.insertInto('sponsors').values(rows).execute()
  }
  await world.assertNothingSent(writer)
})

test('what the contract or the signer refuses is refused before anything is paid', async () => {
  const writer = await world.poor('refused')
  const nonsense = { to: world.probe, data: '0xdeadbeef' } as const
  await assert.rejects(submitTransaction(world.first.app, writer, nonsense, {}), refusedWith('execution_reverted')) // prettier-ignore
  const check = () => Promise.reject(new AppError('policy_denied', 'The rule of a test.'))
  await world.withSigner(() => ({ check }), () => assert.rejects(world.send(writer), refusedWith('policy_denied'))) // prettier-ignore
  await world.assertNothingSent(writer)
})

test('what one application left open, another finishes at its own budget; it is counted where it was last asked for', async () => {
  const writer = await world.poor('two-applications')
  const [leaving, small] = [await world.at(writer, 'one-contract'), await world.at(writer, 'small')]
  await diesAt(world.first.app, 'before-bind', () => world.mining(world.send(leaving)))
  await assert.rejects(world.send(small), refusedWith('gas_not_sponsored'))
  await world.recover(writer, 'key')
  assert.equal((await world.sentTo(writer)).length, 1)
  assert.deepEqual((await world.rowsOf(writer)).map((row) => row.client_id), ['demo']) // prettier-ignore
  assert.ok((await spentOn(writer)) > 0n)
})

test('what no budget counts is dropped after a month; the newest top-up of a user stays', async () => {
  const writer = await world.poor('swept')
  for (let times = 0; times < 2; times++) {
    await world.write(writer)
    await world.give(writer, 0n)
  }
  assert.equal((await world.rowsOf(writer)).length, 2)
  const old = new Date(Date.now() - 31 * 86_400_000)
  await world.db.updateTable('top_ups').set({ settled_at: old }).where('account_id', '=', writer.accountId).execute()
  await world.db.updateTable('gas_spent').set({ hour: sql<Date>`hour - interval '31 days'` }).where('account_id', '=', writer.accountId).execute() // prettier-ignore
  const sweep = startByteSweep(world.first.app)
  await sweep.round()
  await sweep.stop()
  assert.deepEqual((await world.rowsOf(writer)).map(({ ordinal }) => ordinal), [1]) // prettier-ignore
  const left = await world.db.selectFrom('gas_spent').selectAll().where('account_id', '=', writer.accountId).execute()
  assert.deepEqual(left, [])
})

/** Makes the signer refuse the sponsor that is tried first. */
const refusingFirst =
  (error: Error, asked: Set<Hex> = new Set()) =>
  ({ sign }: Signer): Partial<Signer> => ({
    sign: (request) => {
      if (request.to !== world.probe) asked.add(request.from)
      return request.from === [...asked][0] ? Promise.reject(error) : sign(request)
    },
  })
const denied = (facts: { rule: string; resetsAt?: string }) =>
  new AppError('policy_denied', 'The rule top-up-per-user, top-up-off.', { cause: new SignerRefused('policy_denied', '', facts) }) // prettier-ignore

test('limits of the signer hold whatever the server says', async () => {
  const writer = await world.poor('signer-limits')
  const send = () => world.send(writer)
  const usedUp = (error: unknown) => refusedWith('gas_budget_exhausted')(error) && error.resetsAt === '2031-01-01T00:00:00.000Z' // prettier-ignore
  const perUser = denied({ rule: 'top-up-per-user', resetsAt: '2031-01-01T00:00:00.000Z' })
  await world.withSigner(refusingFirst(perUser), () => assert.rejects(send(), usedUp))
  await world.withSigner(refusingFirst(denied({ rule: 'top-up-off' })), () => assert.rejects(send(), refusedWith('sponsor_empty'))) // prettier-ignore
  await world.withSigner(refusingFirst(denied({ rule: 'of-the-house' })), () => assert.rejects(send(), refusedWith('policy_denied'))) // prettier-ignore
  const before = await spentOn(writer)
  await world.write(writer)
  // The retry was counted once.
  assert.ok((await spentOn(writer)) <= (before * 3n) / 2n)
  assert.equal((await world.rowsOf(writer)).length, 1)
})

test('sponsors take turns', async () => {
  const other = await world.sponsor('TURNS')
  const payers = new Set<string>()
  for (let number = 0; payers.size < 2 && number < 20; number++) {
    const writer = await world.poor(`turns-${number}`)
    await world.write(writer)
    payers.add((await world.rowsOf(writer))[0]!.sponsor_id)
  }
  await world.dropSponsor(other)
  assert.equal(payers.size, 2)
})

test('a sponsor without coins is passed over; when none has any, that is said', async () => {
  const sponsors = [world.house, await world.sponsor('SECOND')]
  const writer = await world.poor('none-left')
  await world.give(sponsors, 0n)
  await assert.rejects(world.send(writer, 'key'), refusedWith('sponsor_empty'))
  await world.assertNothingSent(writer)
  await world.give(sponsors, COIN)
  const asked: Hex[] = []
  await world.withSigner(({ check }) => ({ check: (request) => check((asked.push(request.from), request)) }), () => world.rehearse(writer)) // prettier-ignore
  const [first] = sponsors.filter(({ address }) => asked.includes(address))
  await world.give(first!, 0n)
  await world.write(writer, 'key')
  const [row, ...others] = await world.paidTo(writer)
  assert.deepEqual([others.length, row!.sponsor_id === first!.accountId], [0, false])
  await world.dropSponsor(sponsors[1]!)
  await world.give(world.house, 100n * COIN)
})

test('a sponsor that may not or cannot send is passed over, and what is wrong with it is not told as the user’s', async () => {
  const other = await world.sponsor('OTHER')
  const { cause } = denied({ rule: 'top-up-per-sponsor', resetsAt: '2031-01-01T00:00:00.000Z' })
  const codes = ['account_frozen', 'too_many_pending', 'account_stopped', 'policy_denied'] as const
  for (const error of [
    ...codes.map((code) => new AppError(code, 'Told by the signer.', { cause })),
    new SignerRefused('unknown_account', 'none'),
  ]) {
    const asked = new Set<Hex>()
    const writer = await world.poor(`passed-${error.code}`)
    await world.withSigner(refusingFirst(error, asked), () => world.write(writer, 'key'))
    assert.deepEqual([asked.size, (await world.paidTo(writer)).length], [2, 1])
  }
  await freezeAccount(world.db, 'SPONSOR-HOUSE')
  try {
    assert.deepEqual((await sponsorsOf(world.db, 31_337)).map(({ name }) => name), ['OTHER']) // prettier-ignore
  } finally {
    await unfreezeAccount(world.db, 'SPONSOR-HOUSE')
  }
  await world.dropSponsor(other)
  for (const [code, told] of [
    ['account_frozen', 'sponsor_empty'],
    ['too_many_pending', 'overloaded'],
    ['account_stopped', 'sponsor_stopped'],
    ['policy_denied', 'gas_budget_exhausted'],
  ] as const) {
    // prettier-ignore
    const writer = await world.poor(`only-${code}`)
    await world.withSigner(refusingFirst(new AppError(code, 'Told by the signer.', { cause })), () => assert.rejects(world.send(writer), refusedWith(told))) // prettier-ignore
  }
})

test('a sponsor whose coins are on their way to others is empty, and its funds are told to nobody', async () => {
  const cost = mostOf(await world.write(await world.poor('what-it-costs')))
  await world.give(world.house, cost * 3n)
  const writers: Writer[] = []
  for (const name of ['a', 'b', 'c']) writers.push(await world.poor(`beside-${name}`))
  try {
    const refused: AppError[] = []
    const waiting = new Set<Writer>()
    const { clock } = world
    const asked = writers.map((writer) =>
      underDeadline(clock.ticks() + 30_000, () => world.send(writer), () => waiting.add(writer) !== null) // prettier-ignore
        .catch((error: unknown) => refused.push(error as AppError)),
    )
    await until('each waits for a block or is refused', () => waiting.size + refused.length >= writers.length)
    await clock.advance(30_000)
    await Promise.all(asked)
    assert.ok(refused.some(({ code }) => code === 'sponsor_empty'))
    for (const { code, funds } of refused) assert.ok(['sponsor_empty', 'top_up_pending'].includes(code) && funds === undefined, code) // prettier-ignore
  } finally {
    await world.give(world.house, 100n * COIN)
  }
})
