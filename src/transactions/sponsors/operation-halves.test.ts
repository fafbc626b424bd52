import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { sql } from 'kysely'
import { encodeFunctionData, parseAbi } from 'viem'
import { age, keep } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { RpcError } from '../../chain/rpc/rpc.ts'
import { AppError } from '../../errors.ts'
import { quantityOf, type Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { interruptSteps } from '../crash-points.ts'
import { readTransaction } from '../read/read.ts'
import { tendOperations } from './tend-operations.ts'

/** Operations that are too expensive together, and operations of a space that the network no longer uses. */

/** wei: maximum fee of one transaction that the signer signs */
const MAX_FEE = 10n ** 16n

let world: Sponsored
before(async () => {
  world = await sponsored({ SIGNER_MAX_FEE_WEI: String(MAX_FEE) })
})
afterEach(async () => {
  interruptSteps(world.first.app, null)
  world.first.misbehave(null)
  await world.mine()
})
after(() => world?.close())

const add = (writer: Writer, amount = 1) => world.add(world.first, writer, amount)
const rowOf = (id: string) =>
  world.db.selectFrom('operations').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
const outerOf = async (id: string) => (await rowOf(id)).outer_id

async function delegated(name: string): Promise<Writer> {
  const writer = await world.poor(name)
  await add(writer)
  await world.mine()
  return writer
}

/** Sends several writes, each after the block of the previous one. */
async function several(name: string, many: number): Promise<Writer[]> {
  const people: Writer[] = []
  for (let index = 0; index < many; index++) people.push(await delegated(`${name}-${index}`))
  return people
}

/** Sets the gas price that transactions offer from now on, approximately. */
async function priced(wei: bigint): Promise<void> {
  world.first.misbehave(async (method, _params, next) =>
    method === 'eth_maxPriorityFeePerGas' ? quantityOf(wei) : next(),
  )
  await world.rpc('anvil_setNextBlockBaseFeePerGas', '0x1')
  await world.mine()
}

/** wei per gas at which one write needs 60 % of the signer's maximum, so that three together exceed it */
async function priceOfOne(): Promise<bigint> {
  const { answer } = await add(await delegated('alone'))
  const { charged } = await rowOf(answer.id)
  const price = BigInt(answer.tx.maxFeePerGas!.hex)
  await world.mine()
  return (MAX_FEE * 6n * price) / (10n * BigInt(charged))
}

test('writes of which the signer would sign for each, and not for all together, are all sent', async () => {
  const people = await several('dear', 3)
  await priced(await priceOfOne())
  const answers = await world.inOne(people.map((writer) => () => add(writer, 4)))
  assert.ok(new Set(await Promise.all(answers.map(({ answer }) => outerOf(answer.id)))).size > 1)
  await world.mine()
  for (const writer of people) assert.equal(await world.countOf(writer), 5n)
  assert.equal((await add(people[0]!)).answer.operation?.id.length, 66)
})

test('what was sent together while gas was cheap is sent apart when it is dear, and done', async () => {
  const people = await several('dearer', 3)
  const price = await priceOfOne()
  const answers = await world.inOne(people.map((writer) => () => add(writer, 4)))
  const outers = await Promise.all(answers.map(({ answer }) => outerOf(answer.id)))
  assert.equal(new Set(outers).size, 1)
  await world.cancelOuter(outers[0]!)
  await priced(price)
  await until('they are in others', async () => {
    await age(world.first.app, 20)
    await keep(world)
    const now = await Promise.all(answers.map(({ answer }) => outerOf(answer.id)))
    return new Set(now).size > 1 && !now.includes(outers[0]!)
  })
  world.first.misbehave(null)
  await until('they are done', async () => {
    await world.mine()
    await keep(world)
    const states = await Promise.all(people.map((writer, index) => readTransaction(world.first.app, writer, answers[index]!.answer.id))) // prettier-ignore
    return states.every(({ state }) => ['MINED', 'FINALIZED'].includes(state))
  })
  for (const writer of people) assert.equal(await world.countOf(writer), 5n)
})

test('one that takes all that a sponsor has does not keep others from being sent beside it', async () => {
  const [greedy, ...people] = await several('beside', 3)
  await priced(10n ** 9n)
  const send = async (writer: Writer) => rowOf((await add(writer, 4)).answer.id)
  const data = encodeFunctionData({ abi: parseAbi(['function add(uint256)']), args: [4n] })
  const sendDear = async () => rowOf((await world.submit(greedy!, { to: world.probe, data, gas: '6000000' })).answer.id)
  const most = BigInt((await sendDear()).charged)
  const least = BigInt((await send(people[0]!)).charged)
  await world.mine()
  const held = await world.balanceOf(world.house.address)
  const funded = Promise.withResolvers<void>()
  const ends = await world.inOne([
    async () => {
      // The balance covers each write alone. The open writes of two others exceed the rest after the first.
      await world.rpc('anvil_setBalance', world.house.address, quantityOf(most + least))
      await world.mine()
      funded.resolve()
      return sendDear().catch((error: unknown) => error)
    },
    ...people.map((writer) => async () => {
      await funded.promise
      return send(writer).catch((error: unknown) => error)
    }),
  ])
  await world.rpc('anvil_setBalance', world.house.address, quantityOf(held))
  assert.deepEqual(
    ends.map((end) => (end instanceof AppError ? end.code : 'sent')),
    ['sponsor_empty', 'sent', 'sent'],
  )
  await world.mine()
  assert.deepEqual(await Promise.all(people.map((writer) => world.countOf(writer))), [9n, 5n])
})

test('a write is packed again in the space that it was signed for, also when the network has another by now', async () => {
  const { first, house, dispatcher } = world
  const writer = await delegated('left-space')
  const { answer } = await add(writer, 4)
  const before = await outerOf(answer.id)
  const other = (await world.rpc<Hex[]>('eth_accounts'))[1]!
  const abi = parseAbi(['function setSponsor(address, bool)'])
  await world.rpc('eth_sendTransaction', { from: other, to: dispatcher, data: encodeFunctionData({ abi, args: [house.address, true] }) }) // prettier-ignore
  await world.cancelOuter(before!)
  const space = first.chain.gasSpace!
  first.chain.gasSpace = other
  try {
    await until('it is packed again', async () => {
      await age(first.app, 20)
      await keep(world)
      await world.mine()
      return (await outerOf(answer.id)) !== before
    })
    await until('it is done', async () => {
      await world.mine()
      return (await rowOf(answer.id)).state !== 'SUBMITTED'
    })
    assert.ok(['MINED', 'FINALIZED'].includes((await rowOf(answer.id)).state))
    assert.equal(await world.countOf(writer), 5n)
  } finally {
    first.chain.gasSpace = space
  }
})

test('once a day’s limit of the signer is used up each of many is not asked for over and over', async () => {
  const people = await several('used-up', 6)
  const { app } = world.first
  const { signer } = app
  /** those who are before them are signed for: as who delegates, and once more */
  let asked = -4
  const denied = new AppError('policy_denied', 'The rule sponsored-per-sponsor denies it.')
  app.signer = {
    ...signer,
    signOuter: (request) => (++asked > 0 ? Promise.reject(denied) : signer.signOuter(request)),
  }
  try {
    const ends = await world.inOne(people.map((writer) => () => add(writer).catch((error: unknown) => error)))
    assert.ok(ends.every((end) => end instanceof AppError && end.code === 'sponsor_empty'))
    // Six, three, two and one of them; the others cost as much as one of these.
    assert.ok(asked >= 4 && asked < 8, String(asked))
  } finally {
    app.signer = signer
  }
})

test('of a transaction that no node takes, in words that nobody knows, all are done but the one write that is the cause, which keeps nobody behind it', async () => {
  const { first, target } = world
  const mark = 'badbadbadbad'
  // The remembered cost has expired.
  await world.clock.advance(2_100)
  const people = await several('beside-refused', 3)
  const [cause, later] = [await delegated('refused'), await delegated('behind-refused')]
  let refusals = 0
  first.misbehave((method, params, next) => {
    if (method !== 'eth_sendRawTransaction' || !(params[0] as string).includes(mark)) return next()
    refusals++
    return Promise.reject(new RpcError(-32_000, 'this house takes no such thing', undefined))
  })
  const refused = () => world.submit(cause, { to: target, data: `0x5c36b186${mark}` })
  const answers = await world.inOne([refused, ...people.map((writer) => () => add(writer, 4))])
  const ids = answers.map(({ answer }) => answer.id)
  const together = await Promise.all(ids.map(outerOf))
  assert.equal(new Set(together).size, 1)
  const pass = async () => {
    // End the pause of its bytes, and make half a minute pass.
    await sql`update waits set resend_at = now(), since = since - interval '40 seconds'`.execute(world.db)
    await age(first.app, 1)
    await keep(world)
    await world.mine()
  }
  await until('the others are done', async () => {
    await pass()
    return (await Promise.all(people.map((writer) => world.countOf(writer)))).every((count) => count === 5n)
  })
  const { answer } = await add(later, 4)
  await until('what comes behind it is done', async () => {
    await pass()
    return (await world.countOf(later)) === 5n
  })
  await until('it is not sent any more', async () => {
    await pass()
    return (await rowOf(ids[0]!)).pack_limit === 0
  })
  const before = refusals
  for (let round = 0; round < 3; round++) await pass()
  assert.equal(refusals, before)
  assert.equal((await rowOf(answer.id)).pack_limit, null)
  assert.deepEqual((await readTransaction(first.app, cause, ids[0]!)).reason?.code, 'rejected_by_nodes')
  for (const [index, writer] of people.entries())
    assert.deepEqual([await world.countOf(writer), (await rowOf(ids[index + 1]!)).pack_limit! > 0], [5n, true])
  // The halves use no more nonces of the sponsor than needed: four.
  const { rows } = await sql`select distinct t.id from transactions t join attempts a on a.transaction_id = t.id where t.sender = ${fromHex(world.house.address)} and a.is_cancel and t.created_at > now() - interval '1 hour' and t.client_id = 'sponsor'`.execute(world.db) // prettier-ignore
  assert.ok(rows.length <= 5, String(rows.length))
})

test('one that is refused alone is tried once more, also where two replicas give it up at the same time', async () => {
  const { first, target } = world
  const second = await world.replica()
  for (const key of ['gas', 'delegate', 'gasSpace'] as const) Object.assign(second.chain, { [key]: first.chain[key] })
  const mark = 'badbadbadbad'
  await world.clock.advance(2_100)
  const [cause, later] = [await delegated('refused-alone'), await delegated('behind-alone')]
  for (const replica of [first, second])
    replica.misbehave((method, params, next) =>
      method === 'eth_sendRawTransaction' && (params[0] as string).includes(mark)
        ? Promise.reject(new RpcError(-32_000, 'intrinsic gas too low', undefined))
        : next(),
    )
  const { answer } = await world.submit(cause, { to: target, data: `0x5c36b186${mark}` })
  await add(later, 4)
  await sql`update waits set since = since - interval '40 seconds'`.execute(world.db)
  await age(first.app, 1)
  await Promise.all([first, second].map(({ app, chain }) => tendOperations(app, chain)))
  assert.equal((await rowOf(answer.id)).pack_limit, 1)
  await until('what is behind it is done', async () => {
    await age(first.app, 1)
    await keep(world)
    await world.mine()
    return (await world.countOf(later)) === 5n
  })
})
