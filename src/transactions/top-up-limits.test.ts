// tier: default, because it moves money
import { strict as assert } from 'node:assert'
import { after, before, beforeEach, test } from 'node:test'
import { encodeFunctionData, parseAbi } from 'viem'
import { whileMining } from '../../test/interrupted.ts'
import { writing, type Writer, type Writing } from '../../test/writing.ts'
import { saveApplication } from '../applications/registry.ts'
import { AppError, type ErrorCode } from '../errors.ts'
import { assertUser, verifyAccessToken } from '../http/bearer.ts'
import type { Hex } from '../ids.ts'
import type { SponsorBudget } from '../store/sponsor-budget.ts'
import { fromHex } from '../store/bytes.ts'
import { restoreAccount } from '../users/pregenerate.ts'
import { speedUpTransaction } from './change.ts'
import { rehearseTransaction, submitTransaction } from './submit.ts'
import { hurried } from '../../test/kit/hurried.ts'

/** What a sponsor does not pay: writes that a budget does not name, more than a network's day, and what the signer would refuse. */
let world: Writing
let house: Hex
const COIN = 10n ** 18n
const RICH = { perUser: COIN, perApplication: 1_000n * COIN }
const AWAY: Hex = `0x${'b2'.repeat(20)}`

before(async () => {
  world = await writing()
  world.first.chain.gas = 'topup'
  await world.db.insertInto('networks').values({ chain_id: 31_337, name: 'devnet', genesis_hash: Buffer.alloc(32) }).onConflict((on) => on.doNothing()).execute() // prettier-ignore
  const userId = 'SPONSOR-HOUSE'
  const { address } = await world.signer.createAccount({ userId })
  await restoreAccount(world.db, { userId, address })
  const { account_id } = await world.db.selectFrom('accounts').select('account_id').where('user_id', '=', userId).executeTakeFirstOrThrow() // prettier-ignore
  await world.db.insertInto('sponsors').values({ account_id, chain_id: 31_337, name: 'HOUSE' }).execute()
  house = address.toLowerCase() as Hex
  await application('demo', null)
  await application('listed', [world.probe])
})
beforeEach(async () => {
  await give(house, 100n * COIN)
  await world.mine()
})
after(() => world.close())

const application = (clientId: string, contracts: SponsorBudget['contracts']) =>
  saveApplication(
    { db: world.db, rowKeys: null },
    {
      ...{ clientId, name: clientId, chainId: 31_337, kind: 'public', redirectUris: ['http://127.0.0.1/*'] },
      ...{ permissions: ['wallet:read', 'contracts:read', 'contracts:write'], allowedOrigins: [], secretHashes: [] },
      ...{ logoUri: null, isSuspended: false, sponsor: { ...RICH, contracts } },
    },
  )
const give = (address: Hex, wei: bigint) => world.rpc('anvil_setBalance', address, `0x${wei.toString(16)}`)
async function person(name: string, clientId = 'listed', wei = 0n): Promise<Writer> {
  const writer = await world.writer(name)
  await give(writer.address, wei)
  await world.mine()
  const token = await world.place.token(writer.userId, { client_id: clientId, scope: 'openid wallet:read contracts:write', gid: 'grant' }) // prettier-ignore
  const caller = await verifyAccessToken(world.first.app, token)
  assertUser(caller)
  return { ...caller, name: writer.name }
}
const mining = <T>(work: Promise<T>): Promise<T> => whileMining(world, work)
const add = (writer: Writer) => world.add(world.first, writer, 1)
const pay = (writer: Writer, value = '0') => submitTransaction(world.first.app, writer, { to: AWAY, value }, {})
const topUpsOf = ({ accountId }: Writer) =>
  world.db.selectFrom('top_ups').selectAll().where('account_id', '=', accountId).execute()
const refused =
  (code: ErrorCode, text: RegExp | string = '') =>
  (error: unknown) =>
    error instanceof AppError && error.code === code && new RegExp(text).test(error.message)

test('a budget that names contracts pays for their writes and for no other; those are refused saying why, unless the person has the funds', async () => {
  const ann = await person('listed')
  const notNamed = refused('insufficient_funds', 'no sponsor pays for this address')
  await assert.rejects(mining(pay(ann)), notNamed)
  await assert.rejects(rehearseTransaction(world.first.app, ann, { to: AWAY, value: '0' }), notNamed)
  assert.deepEqual(await topUpsOf(ann), [])
  await mining(add(ann))
  await world.mine()
  assert.equal(await world.countOf(ann), 1n)
  assert.equal((await topUpsOf(ann)).length, 1)
  // Own funds are used as ever, for whatever address.
  const ben = await person('own-funds', 'listed', COIN)
  assert.equal((await mining(pay(ben, '1'))).answer.state, 'SUBMITTED')
  assert.deepEqual(await topUpsOf(ben), [])
  // What the application may not pay, another one may.
  const same = await person('listed', 'demo')
  await mining(pay(same))
  assert.equal((await topUpsOf(same)).length, 2)
})

test('gas of an open write that a budget does not pay for is not sent with the next one, nor when it is sped up', async () => {
  const ann = await person('open-other', 'listed', COIN)
  const { answer } = await pay(ann)
  await give(ann.address, 0n)
  // Not mined any more, for want of gas.
  await world.mine()
  const before = await topUpsOf(ann)
  await assert.rejects(add(ann), refused('insufficient_funds'))
  await assert.rejects(speedUpTransaction(world.first.app, ann, answer.id), refused('insufficient_funds'))
  assert.deepEqual(await topUpsOf(ann), before)
  await give(ann.address, COIN)
  await world.mine()
})

test('a network’s budget is told as the network’s, holds for every application, and nothing is paid beyond it', async () => {
  const cap = (wei: string | null) =>
    world.db.updateTable('networks').set({ sponsor_per_day: wei }).where('chain_id', '=', 31_337).execute()
  await cap('1')
  try {
    for (const clientId of ['demo', 'listed']) {
      const ann = await person(`capped-${clientId}`, clientId)
      const exhausted = refused('gas_budget_exhausted', 'budget of the network')
      await assert.rejects(mining(add(ann)), exhausted)
      if (clientId === 'demo') await assert.rejects(rehearseTransaction(world.first.app, ann, { to: AWAY }), exhausted)
      assert.deepEqual(await topUpsOf(ann), [])
    }
  } finally {
    await cap(null)
  }
  await mining(add(await person('uncapped')))
})

test('who is at a limit of the signer takes no nonce of the sponsor and nothing of a budget', async () => {
  const ann = await person('at-limit')
  const { signer } = world.first.app
  const rowsOfHouse = () => world.db.selectFrom('transactions').select('id').where('sender', '=', fromHex(house)).orderBy('id').execute() // prettier-ignore
  const before = await rowsOfHouse()
  const sign = { ...signer, check: (request: Parameters<typeof signer.check>[0]) =>
    request.from.toLowerCase() === house
      ? Promise.reject(new AppError('policy_denied', 'The rule top-up-per-user rejects this transaction: it is used up until 2031-01-01T00:00:00.000Z.'))
      : signer.check(request) } // prettier-ignore
  world.first.app.signer = sign
  try {
    for (let again = 0; again < 3; again++) await assert.rejects(mining(add(ann)), refused('gas_budget_exhausted'))
  } finally {
    world.first.app.signer = signer
  }
  assert.deepEqual(await rowsOfHouse(), before)
  assert.deepEqual(await topUpsOf(ann), [])
  await mining(add(ann))
})

test('that a top-up was sent is told once, by who sent it, and not by who finds it', async () => {
  const told: string[] = []
  const { log } = world.first.app.telemetry
  world.first.app.telemetry.log = { ...log, info: (event: string, { id }: { id: string }) => void (event === 'top_up_sent' && told.push(id)) } as never // prettier-ignore
  try {
    for (let round = 0; round < 4; round++) {
      const ann = await person(`told-${round}`)
      // In the time of one request: who takes over what another is at, two seconds later, tells of it, too.
      await whileMining(world, Promise.all(Array.from({ length: 6 }, () => add(ann))), 0)
    }
  } finally {
    world.first.app.telemetry.log = log
  }
  assert.ok(told.length >= 4)
  assert.equal(new Set(told).size, told.length)
})

test('nothing is paid for a write that another process sent in the last moment before a top-up has a nonce', async () => {
  const ann = await person('last-moment')
  const other = await world.replica()
  other.chain.gas = 'topup'
  const { signer } = world.first.app
  let asked = 0
  const check: typeof signer.check = async (request) => {
    const checked = await signer.check(request)
    if (request.from.toLowerCase() !== house || asked++ > 0) return checked
    // Funds of their own have come, and the repeat of the request met another process.
    await give(ann.address, COIN)
    await world.mine()
    await world.add(other, ann, 1, 'once')
    return checked
  }
  world.first.app.signer = { ...signer, check }
  try {
    await world.add(world.first, ann, 1, 'once').catch((error: unknown) => assert.ok(refused('idempotency_in_flight')(error), String(error))) // prettier-ignore
  } finally {
    world.first.app.signer = signer
  }
  assert.equal(asked, 1)
  await world.mine()
  assert.equal(await world.countOf(ann), 1n)
  const sent = await world.db.selectFrom('transactions').select('id').where('sender', '=', fromHex(house)).where('target', '=', fromHex(ann.address)).execute() // prettier-ignore
  assert.deepEqual(sent, [])
})

test('a gas limit of the caller’s own, above what a write takes, is theirs to hold: a sponsor sends what the estimate says', async () => {
  await world.rpc('anvil_setNextBlockBaseFeePerGas', '0x1')
  await world.mine()
  const writer = await person('own-limit', 'demo')
  const data = encodeFunctionData({ abi: parseAbi(['function add(uint256)']), args: [1n] })
  const write = { to: world.probe, data, gas: '16777216' }
  const needs: bigint[] = []
  const { app } = world.first
  const { signer } = app
  const judged = new Set<unknown>()
  app.signer = {
    ...signer,
    check: (request) => {
      if (request.from === writer.address) judged.add(request.gas)
      return signer.check(request)
    },
  }
  for (const ask of [submitTransaction, rehearseTransaction])
    await assert.rejects(mining<unknown>(ask(world.first.app, writer, write, {})), (error) => {
      assert.ok(error instanceof AppError && error.code === 'insufficient_funds')
      needs.push(BigInt(error.funds!.needed))
      return true
    })
  assert.equal(await world.countOf(writer), 0n)
  assert.deepEqual(await topUpsOf(writer), [])
  // All but the last of it: that is within what the write itself takes.
  const whole = needs[0]!
  await give(writer.address, whole - 1n)
  await world.mine()
  const { answer } = await mining(submitTransaction(world.first.app, writer, write, {}))
  app.signer = signer
  // The signer says what it would sign, not what is paid of it, before anything is sent.
  assert.deepEqual([...judged], [write.gas])
  const rows = await topUpsOf(writer)
  assert.equal(rows.length, 1)
  const given = BigInt(rows[0]!.wei)
  // A quarter of the estimate’s gas, of which 16,777,216 is a hundred times as much.
  assert.ok(given > 1n && given < whole / 200n, `${given} of ${whole}`)
  await mining(speedUpTransaction(world.first.app, writer, answer.id).catch(() => {}))
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  const all = (await topUpsOf(writer)).reduce((sum, { wei }) => sum + BigInt(wei), 0n)
  assert.ok(all < whole / 100n, `${all} of ${whole}`)
})

test('what is held for the limit of one open write is not there for another: no sponsor makes up for it', async () => {
  await world.rpc('anvil_setNextBlockBaseFeePerGas', '0x1')
  await world.mine()
  const writer = await person('own-limit-open', 'demo')
  const data = encodeFunctionData({ abi: parseAbi(['function add(uint256)']), args: [1n] })
  const write = { to: world.probe, data, gas: '16777216' }
  let whole = 0n
  await assert.rejects(submitTransaction(world.first.app, writer, write, {}), (error) => {
    whole = BigInt((error as AppError).funds!.needed)
    return true
  })
  await give(writer.address, whole)
  await world.mine()
  const { answer: open } = await submitTransaction(world.first.app, writer, write, {})
  const paying = { to: AWAY, value: String(whole / 2n) }
  for (const second of [write, paying])
    await assert.rejects(submitTransaction(world.first.app, writer, second, {}), refused('insufficient_funds'))
  assert.deepEqual(await topUpsOf(writer), [])
  const sum = async () => (await topUpsOf(writer)).reduce((all, { wei }) => all + BigInt(wei), 0n)
  // A raise of all of that is an eighth of it.
  const raise = () => speedUpTransaction(world.first.app, writer, open.id)
  for (let time = 0; time < 2; time++) await hurried(world.clock, raise).catch(() => {})
  assert.ok((await sum()) < whole / 50n, `${await sum()} of ${whole}`)
  // What the next one takes itself is sent, as ever.
  await mining(submitTransaction(world.first.app, writer, { to: world.probe, data }, {}))
  assert.ok((await sum()) < whole / 50n, `${await sum()} of ${whole}`)
  await world.mine()
  assert.equal(await world.countOf(writer), 2n)
})
