// tier: all, because it tries a contract that looks at the origin in every order of writes
import { refusedWith } from '../../../test/kit/refused.ts'
import { strict as assert } from 'node:assert'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { selectorOf, parseAbi } from '../../abi/parse.ts'
import { diesAt, whileMining } from '../../../test/interrupted.ts'
import { keep, remember } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { hurried } from '../../../test/kit/hurried.ts'
import { until } from '../../../test/kit/until.ts'
import type { Writer } from '../../../test/writing.ts'
import { RpcError } from '../../chain/rpc/failures.ts'
import { dryRunBatch, writeBatch } from '../../contracts/write-batch.ts'
import { writeContract } from '../../contracts/write.ts'
import { underDeadline } from '../../deadline.ts'
import { fromHex } from '../../hex.ts'
import { AppError } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import { spentOfBudget } from '../../store/sponsor-budget.ts'
import { cancelTransaction, speedUpTransaction } from '../lanes/change.ts'
import { interruptSteps, type Step } from '../crash-points.ts'
import { readTransaction } from '../read/read.ts'
import { rehearseTransaction, submitTransaction } from '../lanes/submit.ts'

/**
 * Contracts that check `tx.origin`, on a network where sponsors send. If the operator has named them, the user's own
 * account sends writes to them, with top-ups.
 */
let world: Sponsored
before(async () => {
  world = await sponsored()
})
beforeEach(() => {
  world.first.chain.topUpContracts = new Set([world.target])
})
afterEach(async () => {
  interruptSteps(world.first.app, null)
  world.first.misbehave(null)
  await world.mine()
})
after(() => world?.close())

const ONLY_ORIGIN_ABI = JSON.stringify([
  { type: 'function', name: 'onlyOrigin', stateMutability: 'nonpayable', inputs: [], outputs: [] },
])
const ONLY_ORIGIN = selectorOf(parseAbi(ONLY_ORIGIN_ABI).function)

/** Calls the function that only accounts may call that send their own transactions. */
const call = (writer: Writer, key?: string) =>
  writeContract(
    world.first.app,
    writer,
    { address: world.target, abi: ONLY_ORIGIN_ABI },
    key === undefined ? {} : { idempotencyKey: key },
  )
const add = (writer: Writer, amount = 1, key?: string) => world.add(world.first, writer, amount, key)
/** Returns the state, with MINED for both MINED and FINALIZED. */
const stateOf = async (writer: Writer, id: string) => {
  const { state } = await readTransaction(world.first.app, writer, id)
  return state === 'FINALIZED' ? 'MINED' : state
}
/** Gives the user own funds, so that no top-up is needed. */
async function withCoins(writer: Writer): Promise<Writer> {
  await world.rpc('anvil_setBalance', writer.address, '0xde0b6b3a7640000')
  await world.mine()
  return writer
}
const codeOf = ({ address }: Writer) => world.rpc<string>('eth_getCode', address, 'latest')
const countOfTarget = async () => BigInt(await world.rpc<string>('eth_call', { to: world.target, data: '0x06661abd' }, 'latest')) // prettier-ignore
const topUpsOf = ({ accountId }: Writer) =>
  world.db.selectFrom('top_ups').selectAll().where('account_id', '=', accountId).orderBy('ordinal').execute()

/** Fails the test if a write is rejected. */
const taken = <T>(work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => assert.fail(`it is refused: ${String(error)}`))

const mining = <T>(work: Promise<T>): Promise<T> => whileMining(world, work)

const dies = (step: Step, work: () => Promise<unknown>): Promise<void> =>
  diesAt(world.first.app, step, () => mining(work()))

test('a contract that looks at the origin refuses what a sponsor sends, and the refusal says how it is named', async () => {
  world.first.chain.topUpContracts = new Set()
  const writer = await world.poor('unnamed')
  const refused = (error: unknown) => {
    assert.ok(error instanceof AppError && error.code === 'execution_reverted')
    assert.match(error.message, /^no contracts/)
    assert.match(error.message, new RegExp(`network set devnet --topup-contract ${world.target}`, 'i'))
    assert.deepEqual(
      error.errors?.map(({ code }) => code),
      ['sent_by_sponsor'],
    )
    return true
  }
  await assert.rejects(call(writer), refused)
  await assert.rejects(rehearseTransaction(world.first.app, writer, { to: world.target, data: ONLY_ORIGIN }), refused)
  // A call that reverts whoever sends it is reported as usual.
  const fails = submitTransaction(world.first.app, writer, { to: world.target, data: '0xdeadbeef' }, {})
  await assert.rejects(fails, (error: unknown) => {
    assert.ok(error instanceof AppError && error.code === 'execution_reverted')
    assert.doesNotMatch(error.message, /topup-contract/)
    return error.errors === undefined
  })
})

test('named, a person with nothing writes to it: topped up, mined, and sent by their own account', async () => {
  const writer = await world.poor('first')
  const before = await countOfTarget()
  const { answer } = await taken(mining(call(writer)))
  await world.mine()
  assert.equal(await stateOf(writer, answer.id), 'MINED')
  assert.equal(await countOfTarget(), before + 1n)
  assert.deepEqual(
    [answer.tx.from.toLowerCase(), answer.tx.to?.toLowerCase(), answer.operation, answer.gas],
    [writer.address, world.target, undefined, undefined],
  )
  assert.equal((await topUpsOf(writer)).length, 1)
  assert.equal(await codeOf(writer), '0x')
  // The sponsor sends all other writes as before, and their account delegates.
  const { answer: carried } = await add(writer)
  await world.mine()
  assert.deepEqual([carried.gas?.strategy, await stateOf(writer, carried.id), await codeOf(writer)], ['sponsor', 'MINED', world.delegated]) // prettier-ignore
})

test('who has delegated sends to it as well: `msg.sender` is the origin, whatever sponsors carry for them at the same time', async () => {
  const writer = await world.poor('delegated')
  await add(writer)
  await world.mine()
  assert.equal(await codeOf(writer), world.delegated)
  const before = await countOfTarget()
  const own = await mining(call(writer))
  await withCoins(writer)
  // A second write is sent beside one that waits, because operations use no nonce of the account.
  const second = await call(writer)
  const { answer: carried } = await add(writer, 2)
  assert.deepEqual([Number(own.answer.tx.nonce), Number(second.answer.tx.nonce)], [1, 2])
  assert.equal(carried.gas?.strategy, 'sponsor')
  await world.mine()
  await until('all are mined', async () => {
    await keep(world)
    await world.mine()
    const states = await Promise.all([own, second, { answer: carried }].map(({ answer }) => stateOf(writer, answer.id)))
    return states.every((state) => state === 'MINED')
  })
  assert.deepEqual([await countOfTarget(), await world.countOf(writer)], [before + 2n, 3n])
})

test('a node that takes one transaction of a delegated account at a time has its writes one after another, in their order', async () => {
  const writer = await world.poor('one-at-a-time')
  await add(writer)
  await world.mine()
  await withCoins(writer)
  const before = await countOfTarget()
  const refused: string[] = []
  // go-ethereum core/txpool/legacypool, checkDelegationLimit: ErrInflightTxLimitReached, of a nonce that comes after another in its pool
  world.first.misbehave(async (method, params, next) => {
    if (method !== 'eth_sendRawTransaction') return next()
    const counts = ['latest', 'pending'].map((at) => world.rpc<string>('eth_getTransactionCount', writer.address, at))
    const [mined, pending] = await Promise.all(counts)
    if (mined === pending) return next()
    refused.push(String(params[0]))
    throw new RpcError(-32_000, 'in-flight transaction limit reached for delegated accounts', undefined)
  })
  const writes = [await call(writer), await call(writer), await call(writer)]
  assert.deepEqual(
    writes.map(({ answer }) => Number(answer.tx.nonce)),
    [1, 2, 3],
  )
  assert.ok(refused.length >= 2, `${refused.length} refused`)
  await until('all are mined', async () => {
    await keep(world)
    await world.mine()
    return (await countOfTarget()) === before + 3n
  })
  for (const { answer } of writes) assert.equal(await stateOf(writer, answer.id), 'MINED')
})

test('behind a first write that a sponsor carries it waits until its account has delegated', async () => {
  const writer = await world.poor('behind-first')
  const { answer: carried } = await add(writer)
  await assert.rejects(
    world.clock.still(() => underDeadline(world.clock.ticks() + 1_000, () => call(writer, 'behind'))),
    refusedWith('conflict'),
  )
  assert.deepEqual(await topUpsOf(writer), [])
  const { answer } = await mining(underDeadline(world.clock.ticks() + 120_000, () => call(writer, 'behind')))
  await world.mine()
  assert.deepEqual([await stateOf(writer, carried.id), await stateOf(writer, answer.id)], ['MINED', 'MINED'])
  // The write waited for that operation, and sent no other.
  const carriedIds = await world.db.selectFrom('operations').select('id').where('account_id', '=', writer.accountId).execute() // prettier-ignore
  assert.deepEqual(carriedIds, [{ id: carried.id }])
  // The nonce before belongs to the authorization.
  assert.deepEqual([Number(answer.tx.nonce), await codeOf(writer)], [1, world.delegated])
})

test('an authorization that nothing carries is brought by an operation that does nothing, and the write is done', async () => {
  const writer = await world.poor('left-behind')
  await dies('after-sign-operation', () => add(writer, 1, 'never carried'))
  await world.db.updateTable('operations').set({ updated_at: new Date(Date.now() - 60_000) }).where('account_id', '=', writer.accountId).execute() // prettier-ignore
  const before = await countOfTarget()
  const { answer } = await taken(mining(underDeadline(world.clock.ticks() + 120_000, () => call(writer))))
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await countOfTarget()], ['MINED', before + 1n])
  assert.deepEqual(
    [Number(answer.tx.nonce), await codeOf(writer), await world.countOf(writer)],
    [1, world.delegated, 0n],
  )
})

test('beside one that nothing carries, what is carried for the account and delegates nothing is not waited for', async () => {
  const writer = await world.poor('beside-left-behind')
  await dies('after-sign-operation', () => add(writer, 1, 'never carried'))
  await world.db.updateTable('operations').set({ updated_at: new Date(Date.now() - 60_000) }).where('account_id', '=', writer.accountId).execute() // prettier-ignore
  const row = await world.db.selectFrom('operations').selectAll().where('account_id', '=', writer.accountId).executeTakeFirstOrThrow() // prettier-ignore
  // Change the operation as if it had been sent while the account had delegated, before a reorganisation.
  const { outer_id } = await world.db.selectFrom('operations').select('outer_id').where('outer_id', 'is not', null).limit(1).executeTakeFirstOrThrow() // prettier-ignore
  const beside = { ...row, id: `${row.id}-beside`, sequence: row.sequence + 100_000, authorization_nonce: null, state: 'SUBMITTED' as const, outer_id } // prettier-ignore
  await world.db
    .insertInto('operations')
    .values({ ...beside, transitions: '[]', revert: null })
    .execute()
  // A delegation of another account does not count either.
  const { accountId, address } = await world.poor('delegates-beside')
  const anothers = {
    ...row,
    id: `${row.id}-another`,
    account_id: accountId,
    sender: fromHex(address),
    sequence: row.sequence + 200_000,
  }
  await world.db.insertInto('operations').values({ ...anothers, state: 'SUBMITTED', transitions: '[]', revert: null }).execute() // prettier-ignore
  const { answer } = await taken(mining(underDeadline(world.clock.ticks() + 120_000, () => call(writer))))
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await codeOf(writer)], ['MINED', world.delegated])
  await world.db.deleteFrom('operations').where('id', 'in', [beside.id, anothers.id]).execute()
})

/** Removes the newest blocks with their transactions, and mines one block more than that. */
async function reorganise(depth: number): Promise<void> {
  await world.rpc('anvil_reorg', depth, [])
  await world.mine()
}

/**
 * Prevents nodes from accepting the account's first transaction until the result is called, so that everything a
 * reorganisation returned is mined before it.
 */
async function withholdFirst({ accountId }: Writer): Promise<() => void> {
  const { raw } = await world.db.selectFrom('transactions as t').innerJoin('attempts as a', 'a.hash', 't.hash').select('a.raw').where('t.account_id', '=', accountId).where('t.nonce', '=', 0).executeTakeFirstOrThrow() // prettier-ignore
  const bytes = `0x${Buffer.from(raw!).toString('hex')}`
  world.first.misbehave((method, params, next) =>
    method === 'eth_sendRawTransaction' && params[0] === bytes ? Promise.reject(new Error('the node is away')) : next(),
  )
  return () => world.first.misbehave(null)
}

test('an account sends nothing itself above an authorization that a reorganisation put before its earlier write', async () => {
  const writer = await withCoins(await world.poor('reorganised-below'))
  const { answer: below } = await call(writer)
  await world.mine()
  // The authorization is signed for the next nonce, and mined too early: the chain ignores it.
  const { answer: carried } = await add(writer)
  const release = await withholdFirst(writer)
  await reorganise(1)
  await world.mine()
  assert.deepEqual([await stateOf(writer, below.id), await stateOf(writer, carried.id)], ['SUBMITTED', 'FAILED'])
  await assert.rejects(
    hurried(world.clock, () => call(writer, 'above')),
    refusedWith('conflict'),
  )
  release()
  await keep(world)
  await world.mine()
  const { answer } = await taken(mining(underDeadline(world.clock.ticks() + 60_000, () => call(writer, 'above'))))
  await world.mine()
  assert.deepEqual([await stateOf(writer, below.id), await stateOf(writer, answer.id)], ['MINED', 'MINED'])
  assert.deepEqual([Number(answer.tx.nonce), await codeOf(writer)], [2, world.delegated])
})

for (const [what, next] of [
  ['sends itself', (writer: Writer) => call(writer)],
  ['has carried', (writer: Writer) => add(writer)],
] as const)
  test(`what waits above an authorization that a reorganisation undid is mined after the next write that its account ${what}`, async () => {
    const writer = await withCoins(await world.poor(`reorganised-${what.slice(0, 3)}`))
    await call(writer)
    await world.mine()
    const { answer: carried } = await add(writer)
    await world.mine()
    const { answer: above } = await taken(call(writer))
    assert.equal(Number(above.tx.nonce), 2)
    const release = await withholdFirst(writer)
    await reorganise(2)
    await keep(world)
    await world.mine()
    assert.deepEqual([await stateOf(writer, carried.id), await stateOf(writer, above.id)], ['FAILED', 'SUBMITTED'])
    release()
    await keep(world)
    await world.mine()
    await taken(mining(underDeadline(world.clock.ticks() + 60_000, () => next(writer))))
    await world.mine()
    assert.equal(await codeOf(writer), world.delegated)
    // This node lets what came before its nonce was next wait for a transaction of the nonce below, which an authorization had.
    await world.rpc('anvil_dropAllTransactions')
    await keep(world)
    await world.mine()
    assert.equal(await stateOf(writer, above.id), 'MINED')
  })

test('what brings an authorization is paid for as the write that needs it is: by a budget that names its contract, and by no other', async () => {
  world.first.chain.topUpContracts = new Set()
  const [writer, other] = [
    await world.poor('brought-named', 'one-contract'),
    await world.poor('brought-unnamed', 'one-contract'),
  ]
  for (const one of [writer, other]) await dies('after-sign-operation', () => add(one, 1, 'never carried'))
  await world.db.updateTable('operations').set({ updated_at: new Date(Date.now() - 60_000) }).where('account_id', 'in', [writer.accountId, other.accountId]).execute() // prettier-ignore
  world.first.chain.topUpContracts = new Set([world.probe, world.target])
  const within = <T>(work: () => Promise<T>) => mining(underDeadline(world.clock.ticks() + 120_000, work))
  await assert.rejects(
    within(() => call(other)),
    refusedWith('gas_not_sponsored'),
  )
  const { answer } = await taken(within(() => add(writer, 2)))
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await world.countOf(writer), await codeOf(writer), await codeOf(other)], ['MINED', 2n, world.delegated, '0x']) // prettier-ignore
})

test('a first write that a sponsor is to carry waits behind one that the account sends itself', async () => {
  const writer = await world.poor('own-first')
  const { answer: own } = await mining(call(writer))
  await world.mine()
  const second = await call(await withCoins(writer))
  await assert.rejects(add(writer, 1, 'carried'), refusedWith('conflict'))
  await world.mine()
  const { answer: carried } = await add(writer, 1, 'carried')
  await world.mine()
  for (const { id } of [own, second.answer, carried]) assert.equal(await stateOf(writer, id), 'MINED')
})

test('several calls with such a contract among them are refused as a whole, and what was answered before it was named is told again', async () => {
  const writer = await world.poor('batch')
  const one = { address: world.probe, abi: 'add(uint256 amount)', args: ['1'] }
  const two = { address: world.target, abi: 'ping()' }
  const send = (key: string) => writeBatch(world.first.app, writer, { calls: [one, two] }, { idempotencyKey: key })
  const refused = (error: unknown) => {
    assert.ok(error instanceof AppError && error.code === 'atomic_unsupported' && error.statusCode === 422)
    assert.deepEqual(
      error.errors?.map(({ pointer, code }) => [pointer, code]),
      [['/calls/1/address', 'sent_by_account']],
    )
    return true
  }
  await assert.rejects(send('batch'), refused)
  await assert.rejects(dryRunBatch(world.first.app, writer, { calls: [one, two] }), refused)
  assert.deepEqual(await world.db.selectFrom('operations').select('id').where('account_id', '=', writer.accountId).execute(), []) // prettier-ignore
  world.first.chain.topUpContracts = new Set()
  const { answer } = await send('batch')
  world.first.chain.topUpContracts = new Set([world.target])
  const again = await send('batch')
  assert.deepEqual([again.isReplay, again.answer.id], [true, answer.id])
})

test('the same key gives the first answer, whichever was named when it came, and has one effect', async () => {
  const none = new Set<Hex>()
  const named = new Set([world.target])
  const ping = (writer: Writer, key: string) =>
    writeContract(world.first.app, writer, { address: world.target, abi: 'ping()' }, { idempotencyKey: key })
  for (const [name, before, then] of [
    ['carried-then-own', none, named],
    ['own-then-carried', named, none],
  ] as const) {
    const writer = await world.poor(name)
    const count = await countOfTarget()
    world.first.chain.topUpContracts = before
    const { answer } = await mining(ping(writer, 'once'))
    world.first.chain.topUpContracts = then
    const again = await mining(ping(writer, 'once'))
    assert.deepEqual([again.isReplay, again.answer.id, again.answer.hash], [true, answer.id, answer.hash])
    await world.mine()
    assert.deepEqual([await stateOf(writer, answer.id), await countOfTarget()], ['MINED', count + 1n])
  }
})

/**
 * The row is lost, and the ledger has it: a retry with the key gets the response, and nothing is sent a second time.
 */
test('what the database has lost of either kind is found under its key, whichever is named now', async () => {
  const ping = (writer: Writer, key: string) =>
    writeContract(world.first.app, writer, { address: world.target, abi: 'ping()' }, { idempotencyKey: key })
  const none = new Set<Hex>()
  const named = new Set([world.target])
  for (const [name, before, then] of [
    ['lost-carried', none, named],
    ['lost-own', named, none],
  ] as const) {
    const writer = await world.poor(name)
    await add(writer)
    await world.mine()
    // Users without funds get nothing, and users with funds are not blocked.
    if (name === 'lost-own') await withCoins(writer)
    const count = await countOfTarget()
    world.first.chain.topUpContracts = before
    const lose = await remember(world.first.app)
    const { answer } = await ping(writer, 'lost')
    await lose()
    world.first.chain.topUpContracts = then
    const again = await taken(underDeadline(world.clock.ticks() + 120_000, () => ping(writer, 'lost')))
    assert.deepEqual(await topUpsOf(writer), [])
    assert.equal(again.answer.id, answer.id)
    await world.mine()
    await until('it is settled', async () => {
      await keep(world)
      await world.mine()
      return (await stateOf(writer, answer.id)) === 'MINED'
    })
    assert.equal(await countOfTarget(), count + 1n)
  }
})

test('a rehearsal sends nothing, and tells what the account would send; a fee is raised, a nonce cancelled, as of every write of an account', async () => {
  const writer = await world.poor('changes-mind')
  const dry = await rehearseTransaction(world.first.app, writer, { to: world.target, data: ONLY_ORIGIN })
  assert.deepEqual([dry.tx.from.toLowerCase(), Number(dry.tx.nonce), dry.operation], [writer.address, 0, undefined])
  assert.deepEqual(await topUpsOf(writer), [])
  const before = await countOfTarget()
  await mining(call(writer))
  await withCoins(writer)
  const { answer: raised } = await call(writer)
  const { answer: cancelled } = await call(writer)
  const { hash } = await speedUpTransaction(world.first.app, writer, raised.id)
  assert.notEqual(hash, raised.hash)
  await cancelTransaction(world.first.app, writer, cancelled.id)
  await world.mine()
  assert.deepEqual([await stateOf(writer, raised.id), await stateOf(writer, cancelled.id)], ['MINED', 'CANCELLED'])
  assert.equal(await countOfTarget(), before + 2n)
})

test('what is sent for it counts in the budgets that operations count in, and none pays it where those are used up', async () => {
  const writer = await world.poor('counted')
  const before = await spentOfBudget(world.db, 'demo', writer.accountId)
  await add(writer)
  await world.mine()
  await keep(world)
  const carried = (await spentOfBudget(world.db, 'demo', writer.accountId)) - before
  await mining(call(writer))
  const [topUp] = await topUpsOf(writer)
  const all = (await spentOfBudget(world.db, 'demo', writer.accountId)) - before
  assert.ok(carried > 0n && all === carried + BigInt(topUp!.charged), `${carried} and ${topUp!.charged} are ${all}`)
  await assert.rejects(call(await world.poor('counted-small', 'small')), refusedWith('gas_not_sponsored'))
  // Without a budget, or with one for other contracts, the user's own funds are insufficient.
  for (const clientId of ['none', 'one-contract'])
    await assert.rejects(call(await world.poor(`counted-${clientId}`, clientId)), refusedWith('insufficient_funds'))
})

test('where the signer signs no top-ups, a write to it is refused as that, and all else is carried', async () => {
  const own = await sponsored({ SIGNER_TOPUP_PER_USER_WEI: '0', SIGNER_TOPUP_PER_SPONSOR_WEI: '0' })
  try {
    own.first.chain.topUpContracts = new Set([own.target])
    const writer = await own.poor('no-top-ups')
    const body = { address: own.target, abi: ONLY_ORIGIN_ABI }
    const refused = (error: unknown) =>
      error instanceof AppError && error.code === 'sponsor_empty' && /Top-ups are off/.test(error.message)
    await assert.rejects(writeContract(own.first.app, writer, body, {}), refused)
    const { answer } = await own.add(own.first, writer)
    await own.mine()
    assert.equal(answer.gas?.strategy, 'sponsor')
    assert.equal(await own.countOf(writer), 1n)
  } finally {
    await own.close()
  }
})
