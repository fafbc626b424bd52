// tier: default, because it moves money while nodes fail
import { refusedWith } from '../../../test/kit/refused.ts'
import { operationsOf } from '../../../test/operation-reads.ts'
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { sql } from 'kysely'
import { age, keep, useElsewhere } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import type { Fault, Writer } from '../../../test/writing.ts'
import { RpcError } from '../../chain/rpc/rpc.ts'
import type { Hex } from '../../ids.ts'
import { AppError } from '../../errors.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import { carriersOf } from '../sponsors/carriers.ts'
import { interruptSteps } from '../crash-points.ts'
import { newestBlock } from '../../chain/latest-block.ts'
import { delegationNonce } from '../sponsors/delegation.ts'
import { readTransaction } from '../read/read.ts'
import { sequencesOf } from './sequences.ts'
import { settleOperations } from '../settle/settle-operations.ts'
import { revertToPending } from '../settle/states.ts'
import { rehearseTransaction } from './submit.ts'
import { tendOperations } from '../sponsors/tend-operations.ts'
import { keccak } from '../../keccak.ts'
import { toHex } from '../../hex.ts'
import { spentOfBudget, spentOnNetwork } from '../../store/sponsor-budget.ts'

/** One thing around an operation is wrong: its number, its account's code, or its sponsor. */
let world: Sponsored
/** error that the signer returns once in place of a signature */
let refusal: SignerRefused | AppError | null = null
/** error that replaces the signer's answer once, after it has signed */
let lostAnswer: Error | null = null
/** sponsor that is also frozen in the signer */
let frozen: Hex | null = null
before(async () => {
  world = await sponsored()
  const { signer } = world.first.app
  world.first.app.signer = {
    ...signer,
    signOperation: async (request) => {
      const [said, lost] = [refusal, lostAnswer]
      refusal = lostAnswer = null
      if (said !== null) throw said
      const signed = await signer.signOperation(request)
      if (lost !== null) throw lost
      return signed
    },
    signOuter: (request) =>
      request.from.toLowerCase() === frozen
        ? Promise.reject(new AppError('account_frozen', 'The account is frozen.'))
        : signer.signOuter(request),
  }
})
afterEach(async () => {
  refusal = lostAnswer = null
  interruptSteps(world.first.app, null)
  world.first.misbehave(null)
  await world.mine()
})
after(() => world?.close())

const { add, rowOf, stateOf, codeOf } = operationsOf(() => world)

/** Makes the next numbers of a process those of an existing operation, as after a restore. */
async function occupy(id: string, numbers: number): Promise<void> {
  const { next } = await world.db.selectFrom('operation_sequences').select('next').executeTakeFirstOrThrow()
  const row = await rowOf(id)
  for (let number = 0; number < numbers; number++) {
    const copy = { ...row, id: `${id}-${number}`, sequence: next + number * 256, transitions: '[]', revert: null }
    await world.db.insertInto('operations').values(copy).execute()
  }
}

test('a number that the signer refuses is passed over, and so are those that a row has by then', async () => {
  const writer = await world.poor('numbers')
  const { answer: before } = await add(writer)
  await world.mine()
  await occupy(before.id, 2)
  refusal = new SignerRefused('sequence_conflict', 'This sequence belongs to another operation.')
  const { answer } = await add(writer, 2)
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await world.countOf(writer)], ['MINED', 3n])
  // Also with an operation that is resumed by its key and has no number of its own (reconcile-operation.ts).
  let isDead = false
  interruptSteps(world.first.app, (step) => {
    if (step !== 'after-bind-operation' || isDead) return
    isDead = true
    throw new Error('killed')
  })
  await assert.rejects(add(writer, 4, 'numberless'))
  await sql`update operations set sequence = -1 - sequence where account_id = ${writer.accountId} and state = 'BOUND'`.execute(world.db) // prettier-ignore
  await age(world.first.app, 5)
  const { answer: again } = await add(writer, 4, 'numberless')
  await world.mine()
  assert.deepEqual([await stateOf(writer, again.id), await world.countOf(writer)], ['MINED', 7n])
})

test('what the signer may have signed keeps its row though no answer came, and reserves nothing while nobody has it carried; its key reserves again and finishes it', async () => {
  const lost = [new AppError('signer_unavailable', 'It is away.'), new SignerRefused('ledger_damaged', 'It is damaged.')] // prettier-ignore
  for (const [index, error] of lost.entries()) {
    const writer = await world.poor(`no-answer-${index}`)
    lostAnswer = error
    await assert.rejects(add(writer, 1, 'no answer'))
    const row = await world.db.selectFrom('operations').selectAll().where('account_id', '=', writer.accountId).executeTakeFirstOrThrow() // prettier-ignore
    const reserved = await spentOfBudget(world.db, 'demo', writer.accountId)
    assert.deepEqual([row.state, row.charged, reserved], ['BOUND', '0', 0n])
    await age(world.first.app, 5)
    const { answer } = await add(writer, 1, 'no answer')
    const { charged } = await rowOf(answer.id)
    assert.equal(await spentOfBudget(world.db, 'demo', writer.accountId), BigInt(charged))
    assert.ok(BigInt(charged) > 0n)
    await world.mine()
    assert.deepEqual([answer.id, await stateOf(writer, answer.id), await world.countOf(writer)], [row.id, 'MINED', 1n])
  }
})

test('however often a write is refused while no sponsor can send it, nothing of a budget is used up; its key finishes it once one can', async () => {
  const writer = await world.poor('nobody-sends')
  const counted = async () => [await spentOfBudget(world.db, 'demo', writer.accountId), await spentOfBudget(world.db, 'demo'), await spentOnNetwork(world.db, 31_337)] // prettier-ignore
  const before = await counted()
  frozen = world.house.address
  try {
    for (const key of [undefined, undefined, 'kept', 'kept']) {
      await assert.rejects(add(writer, 1, key), refusedWith('sponsor_empty'))
      assert.deepEqual(await counted(), before)
      await age(world.first.app, 5)
    }
  } finally {
    frozen = null
  }
  const { answer } = await add(writer, 1, 'kept')
  const charged = BigInt((await rowOf(answer.id)).charged)
  assert.ok(charged > 0n)
  assert.deepEqual(
    await counted(),
    before.map((wei) => wei + charged),
  )
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await world.countOf(writer)], ['MINED', 1n])
})

test('what a transaction that may have been signed holds stays counted, though the write was refused', async () => {
  const writer = await world.poor('in-doubt')
  interruptSteps(world.first.app, (step) => {
    if (step === 'after-sign-outer') throw new AppError('database_unavailable', 'It is away.')
  })
  await assert.rejects(add(writer, 1, 'in doubt'), refusedWith('database_unavailable'))
  interruptSteps(world.first.app, null)
  const { charged } = await world.db.selectFrom('operations').select('charged').where('account_id', '=', writer.accountId).executeTakeFirstOrThrow() // prettier-ignore
  assert.deepEqual(
    [BigInt(charged) > 0n, await spentOfBudget(world.db, 'demo', writer.accountId)],
    [true, BigInt(charged)],
  )
  await until('what was signed is sent', async () => {
    await age(world.first.app, 40)
    await keep(world)
    await world.mine()
    return (await world.countOf(writer)) === 1n
  })
})

test('a node that fails when it is asked which sponsors carry is asked again by the next write', async () => {
  const { app, chain, misbehave } = await world.replica()
  Object.assign(chain, { gas: 'sponsor', gasSpace: world.first.chain.gasSpace, delegate: world.name })
  misbehave((method, _params, next) => (method === 'eth_getCode' ? Promise.reject(new Error('the node is away')) : next())) // prettier-ignore
  await assert.rejects(carriersOf(app, chain))
  misbehave(null)
  assert.ok((await carriersOf(app, chain)).length > 0)
})

test('a sponsor with code, or without a right to the space, carries nothing, and the log says which of the two', async () => {
  const { app, chain } = await world.replica()
  Object.assign(chain, { gas: 'sponsor', gasSpace: world.first.chain.gasSpace, delegate: world.name })
  const told: unknown[] = []
  app.telemetry.log = { ...app.telemetry.log, warn: (event: string, { sponsor, hasCode, isAllowed }: Record<string, unknown>) => void (event === 'sponsor_unusable' && told.push([sponsor, hasCode, isAllowed])) } as never // prettier-ignore
  const { accountId: strange } = await world.poor('without-right')
  const rows = await world.db.selectFrom('sponsors').selectAll().execute()
  await world.db.insertInto('sponsors').values({ account_id: strange, chain_id: 31_337, name: 'NO-RIGHT' }).execute()
  await world.rpc('anvil_setCode', world.house.address, '0x00')
  try {
    const carriers = await carriersOf(app, chain).catch(() => [])
    assert.deepEqual(carriers.map(({ name }) => name), rows.map(({ name }) => name).filter((name) => name !== 'HOUSE')) // prettier-ignore
    assert.deepEqual(
      told.toSorted((a, b) => (String(a) < String(b) ? -1 : 1)),
      [
        ['HOUSE', true, true],
        ['NO-RIGHT', false, false],
      ],
    )
  } finally {
    await world.rpc('anvil_setCode', world.house.address, '0x')
    await world.db.deleteFrom('sponsors').where('name', '=', 'NO-RIGHT').execute()
  }
})

test('a write and a dry run that the signer refuses for its clock are told every clock', async () => {
  const writer = await world.poor('clocks')
  const { signer } = world.first.app
  const apart = () => new AppError('clocks_apart', 'The signer’s clock reads noon.')
  const isTold = refusedWith('clocks_apart', 'The server’s clock reads ')
  refusal = apart()
  await assert.rejects(add(writer), isTold)
  world.first.app.signer = { ...signer, checkOperation: () => Promise.reject(apart()) }
  try {
    await assert.rejects(rehearseTransaction(world.first.app, writer, { to: world.target, data: '0x5c36b186' }), isTold)
  } finally {
    world.first.app.signer = signer
  }
  assert.equal(await spentOfBudget(world.db, 'demo', writer.accountId), 0n)
})

test('what the signer refuses takes nothing of a budget, and its key is free', async () => {
  const writer = await world.poor('refused')
  const counted = async () => [await spentOfBudget(world.db, 'demo', writer.accountId), await spentOfBudget(world.db, 'demo'), await spentOnNetwork(world.db, 31_337)] // prettier-ignore
  const before = await counted()
  refusal = new SignerRefused('policy_denied', 'The rule of-the-house rejects this transaction: a limit.')
  await assert.rejects(add(writer, 1, 'refused'))
  assert.deepEqual(await counted(), before)
  assert.deepEqual(await world.db.selectFrom('operations').select('id').where('account_id', '=', writer.accountId).execute(), []) // prettier-ignore
  await add(writer, 2, 'refused')
  await world.mine()
  assert.equal(await world.countOf(writer), 2n)
})

test('an account that is not delegated any more delegates again with the write after the one that failed by it', async () => {
  const writer = await world.poor('undelegated')
  for (let write = 0; write < 2; write++) {
    await add(writer)
    await world.mine()
  }
  await world.rpc('anvil_setCode', writer.address, '0x')
  const { answer: failing } = await add(writer, 4)
  await world.mine()
  assert.equal(await stateOf(writer, failing.id), 'FAILED')
  const { answer } = await add(writer, 8)
  await world.mine()
  assert.deepEqual([await stateOf(writer, answer.id), await world.countOf(writer), await codeOf(writer)], ['MINED', 10n, world.delegated]) // prettier-ignore
})

test('a process that did not follow the block in which a write failed believes in a delegation that is gone for a quarter of a minute', async () => {
  const writer = await world.poor('undelegated-elsewhere')
  await add(writer)
  await world.mine()
  const { chain } = await world.replica()
  Object.assign(chain, { gas: 'sponsor', gasSpace: world.first.chain.gasSpace, delegate: world.name })
  // Use whole milliseconds, because sums of fractions are not exact.
  let at = Math.ceil(chain.clock.ticks())
  chain.clock = { ...chain.clock, ticks: () => at }
  assert.equal(await delegationNonce(chain, writer.address), null)
  await world.rpc('anvil_setCode', writer.address, '0x')
  await world.rpc('evm_mine')
  // Read at this block, and at no earlier one.
  await newestBlock(chain, { maxAgeMs: 0 })
  at += 14_999
  assert.equal(await delegationNonce(chain, writer.address), null)
  at += 1
  assert.equal(await delegationNonce(chain, writer.address), 1)
})

test('behind a transaction that no node takes nobody waits while there is another sponsor: what is there goes by that, and what comes, too', async () => {
  const names = (await world.db.selectFrom('sponsors').select('name').execute()).map(({ name }) => name)
  if (names.length < 2) await world.sponsor('SECOND')
  await world.clock.advance(5_100)
  const mark = 'badbadbadbad'
  const refusing: Fault = (method, params, next) =>
    method === 'eth_sendRawTransaction' && (params[0] as string).includes(mark)
      ? Promise.reject(new RpcError(-32_000, 'oversized data', undefined))
      : next()
  world.first.misbehave(refusing)
  const refused = await world.poor('refused-by-nodes')
  const { answer: stuck } = await world.submit(refused, { to: world.target, data: `0x5c36b186${mark}` })
  const payer = stuck.tx.from.toLowerCase()
  const { outer_id: stuckBy } = await rowOf(stuck.id)
  // Continue until an operation would wait behind the stuck transaction.
  const behind: { writer: Writer; id: string; payer: string }[] = []
  for (let index = 0; behind.every((one) => one.payer !== payer) || index < 3; index++) {
    const writer = await world.poor(`behind-refused-${index}`)
    const { answer } = await add(writer)
    behind.push({ writer, id: answer.id, payer: answer.tx.from.toLowerCase() })
  }
  const passes = async () => {
    await sql`update waits set since = since - interval '40 seconds', due_at = due_at - interval '40 seconds'`.execute(
      world.db,
    )
    await age(world.first.app, 40)
    await keep(world)
    await world.mine()
  }
  const isDone = async ({ writer, id }: { writer: Writer; id: string }) => /MINED|FINALIZED/.test(await stateOf(writer, id)) // prettier-ignore
  await until('they are done', async () => {
    await passes()
    return (await Promise.all(behind.map(isDone))).every(Boolean)
  })
  for (const { writer } of behind) assert.equal(await world.countOf(writer), 1n)
  // Another sponsor's transaction would be rejected as well, and block that sponsor.
  const { state, outer_id: outer } = await rowOf(stuck.id)
  assert.deepEqual([state, outer], ['SUBMITTED', stuckBy])
  await world.clock.advance(5_100)
  for (const { writer } of behind) {
    const { answer } = await add(writer)
    assert.notEqual(answer.tx.from.toLowerCase(), payer)
  }
  // If every sponsor has a rejected transaction, all of them are used.
  const carriers = async () => {
    const { app, chain } = await world.replica()
    Object.assign(chain, { gas: 'sponsor', gasSpace: world.first.chain.gasSpace, delegate: world.name })
    return (await carriersOf(app, chain)).length
  }
  assert.equal(await carriers(), 1)
  const refusedToo = await world.poor('refused-too')
  const { answer: other } = await world.submit(refusedToo, { to: world.target, data: `0x5c36b186${mark}` }) // prettier-ignore
  assert.notEqual(other.tx.from.toLowerCase(), payer)
  await until('nodes refuse that one, too', async () => {
    await passes()
    return (await carriers()) === 2
  })
  // Nodes accept the transactions in the end, so these and the ones behind them are mined.
  world.first.misbehave(null)
  await until('they are done, too', async () => {
    await passes()
    return (await isDone({ writer: refused, id: stuck.id })) && isDone({ writer: refusedToo, id: other.id })
  })
  for (const { writer } of behind) assert.equal(await world.countOf(writer), 2n)
})

const freeze = async (accountId: string, address: Hex, isFrozen: boolean): Promise<void> => {
  frozen = isFrozen ? address : null
  await world.db.updateTable('accounts').set({ frozen_at: isFrozen ? new Date() : null }).where('account_id', '=', accountId).execute() // prettier-ignore
}
const empty = async (_accountId: string, address: Hex, isEmpty: boolean): Promise<void> =>
  void (await world.rpc('anvil_setBalance', address, isEmpty ? '0x1' : '0x56bc75e2d63100000'))

for (const [what, stop] of [
  ['is frozen', freeze],
  ['has no funds left', empty],
] as const)
  test(`what a sponsor sent that ${what} is sent by another, and done once`, async () => {
    if ((await world.db.selectFrom('sponsors').select('name').execute()).length < 2) await world.sponsor('SECOND')
    await world.clock.advance(5_100)
    const writer = await world.poor(`moved-${what.length}`)
    const { answer } = await add(writer)
    const first = await rowOf(answer.id)
    const payer = answer.tx.from.toLowerCase() as Hex
    const { account_id: accountId } = await world.db.selectFrom('transactions').select('account_id').where('id', '=', first.outer_id!).executeTakeFirstOrThrow() // prettier-ignore
    // The node lost the transaction, and no longer accepts it.
    await world.rpc('anvil_dropAllTransactions')
    await stop(accountId, payer, true)
    for (let block = 0; block < 4; block++) await world.mine()
    await world.clock.advance(5_100)
    const lost = await world.db
      .selectFrom('attempts')
      .select('raw')
      .where('transaction_id', '=', first.outer_id!)
      .execute()
    const bytes = new Set(lost.map(({ raw }) => `0x${Buffer.from(raw!).toString('hex')}`))
    world.first.misbehave((method, params, next) =>
      method === 'eth_sendRawTransaction' && bytes.has(params[0] as string)
        ? Promise.reject(new Error('the node is away'))
        : next(),
    )
    await until('another carries it into a block', async () => {
      await world.db.updateTable('attempts').set({ created_at: new Date(Date.now() - 60_000), created_block: 0 }).where('transaction_id', '=', first.outer_id!).execute() // prettier-ignore
      await age(world.first.app, 40)
      await keep(world)
      await world.mine()
      return /MINED|FINALIZED/.test(await stateOf(writer, answer.id))
    })
    const { gas, hash } = await readTransaction(world.first.app, writer, answer.id)
    assert.notEqual(gas!.payer.toLowerCase(), payer)
    assert.notEqual(hash, answer.hash)
    // The first transaction is mined in the end, without effect.
    await stop(accountId, payer, false)
    world.first.misbehave(null)
    await age(world.first.app, 400)
    await keep(world)
    await world.mine()
    await world.mine()
    assert.match(await stateOf(writer, answer.id), /MINED|FINALIZED/)
    assert.equal(await world.countOf(writer), 1n)
  })

test('what waits behind a nonce that its sponsor cannot pay is sent by another, too', async () => {
  if ((await world.db.selectFrom('sponsors').select('name').execute()).length < 2) await world.sponsor('SECOND')
  await world.clock.advance(5_100)
  const writer = await world.poor('behind')
  await add(writer)
  await world.mine()
  const ids = [(await add(writer, 2)).answer.id, (await add(writer, 4)).answer.id]
  const outersOf = async () => Promise.all(ids.map(async (id) => (await rowOf(id)).outer_id!))
  const [stuck, behind] = await outersOf()
  assert.notEqual(stuck, behind)
  const { chain_id, sender, nonce, hash } = await world.db.selectFrom('transactions').selectAll().where('id', '=', stuck!).executeTakeFirstOrThrow() // prettier-ignore
  await world.db.insertInto('waits').values({ ...{ chain_id, sender, nonce: nonce!, hash }, trouble: 'insufficient_funds' }).execute() // prettier-ignore
  await age(world.first.app, 40)
  const payer = world.first.app.signer
  world.first.app.signer = {
    ...payer,
    signOuter: (request) =>
      request.from.toLowerCase() === toHex(sender) ? Promise.reject(new AppError('account_frozen', 'The account is frozen.')) : payer.signOuter(request), // prettier-ignore
  }
  await tendOperations(world.first.app, world.first.chain)
  world.first.app.signer = payer
  const moved = await outersOf()
  assert.ok(moved[0] !== stuck && moved[1] !== behind, 'both go into another one')
  await world.db.deleteFrom('waits').where('sender', '=', sender).execute()
  await world.mine()
  assert.equal(await world.countOf(writer), 7n)
})

/** Reports in a block that an operation with the number of one of ours was executed, for any account. */
async function doneElsewhere(id: string): Promise<(number: number, account: Hex) => Promise<void>> {
  const { space, sequence } = await rowOf(id)
  const { app, chain } = world.first
  const topics = (account: Hex): [Hex, Hex, Hex] => [
    `0x${keccak(Buffer.from('Done(uint256,address)')).toString('hex')}`,
    `${toHex(space)}${sequence.toString(16).padStart(24, '0')}`,
    `0x${account.slice(2).toLowerCase().padStart(64, '0')}`,
  ]
  return (number, account) =>
    settleOperations(app.db, app, chain, { number, hash: `0x${number.toString(16).padStart(64, '0')}` }, [
      {
        hash: `0x${'5'.repeat(64)}`,
        status: true,
        logs: [{ address: world.dispatcher, topics: topics(account), data: '0x', logIndex: 3 }],
      },
    ])
}

test('an id that was used up for another account does nothing of the write: it has failed, and is never told as done', async () => {
  const writer = await world.poor('elsewhere')
  const { answer } = await add(writer, 1)
  const { app, chain } = world.first
  const settle = await doneElsewhere(answer.id)
  await settle(7_000_000, `0x${'0b'.repeat(20)}`)
  const told = await readTransaction(app, writer, answer.id)
  assert.deepEqual([told.state, told.revert?.name], ['FAILED', 'UsedElsewhere'])
  assert.match(told.revert!.reason!, /used up for another account/)
  assert.equal((await rowOf(answer.id)).transitions.at(-1)?.state, 'FAILED')
  // A reorganisation undoes that, like everything derived from a block.
  await revertToPending(app.db, app, chain.chainId, 7_000_000)
  assert.equal(await stateOf(writer, answer.id), 'SUBMITTED')
  await settle(7_000_001, writer.address.toLowerCase() as Hex)
  assert.equal(await stateOf(writer, answer.id), 'MINED')
  await revertToPending(app.db, app, chain.chainId, 7_000_000)
})

test('what nothing carries is not settled by its number, which may be that of one that the database lost: its key stays its own', async () => {
  const writer = await world.poor('lost-number')
  let isDead = false
  interruptSteps(world.first.app, (step) => {
    if (step !== 'after-bind-operation' || isDead) return
    isDead = true
    throw new Error('killed')
  })
  await assert.rejects(add(writer, 1, 'same'))
  const { id } = await world.db.selectFrom('operations').select('id').where('account_id', '=', writer.accountId).executeTakeFirstOrThrow() // prettier-ignore
  const settle = await doneElsewhere(id)
  await settle(7_000_000, `0x${'0b'.repeat(20)}`)
  await settle(7_000_001, writer.address)
  assert.equal((await rowOf(id)).state, 'BOUND')
  await age(world.first.app, 5)
  const { answer } = await add(writer, 1, 'same')
  await world.mine()
  assert.deepEqual([answer.id, await stateOf(writer, id), await world.countOf(writer)], [id, 'MINED', 1n])
})

test('a database that knows none of a space begins above what one before it has used', async () => {
  const replica = await world.replica()
  Object.assign(replica.chain, { gas: 'sponsor', gasSpace: `0x${'0c'.repeat(20)}` })
  const first = await sequencesOf(replica.app, replica.chain).take()
  assert.ok(first >= (Date.now() - 60_000) * 4_096 && Number.isSafeInteger(first), String(first))
})

test('what rode on a nonce that someone else with the sponsor’s key used is done by another sponsor', async () => {
  if ((await world.db.selectFrom('sponsors').select('name').execute()).length < 2) await world.sponsor('SECOND')
  await world.clock.advance(5_100)
  const writer = await world.poor('rides-on-it')
  await add(writer)
  await world.mine()
  world.first.misbehave((method, _params, next) => (method === 'eth_sendRawTransaction' ? Promise.reject(new Error('the node is away')) : next())) // prettier-ignore
  const { answer } = await add(writer, 2)
  const payer = answer.tx.from.toLowerCase() as Hex
  const outer = (await rowOf(answer.id)).outer_id!
  await useElsewhere(world, { address: payer } as Writer)
  await world.mine()
  const stateOfOuter = async () => (await world.db.selectFrom('transactions').select('state').where('id', '=', outer).executeTakeFirstOrThrow()).state // prettier-ignore
  assert.equal(await stateOfOuter(), 'REPLACED')
  world.first.misbehave(null)
  await until('it is done', async () => {
    await age(world.first.app, 40)
    await keep(world)
    await world.mine()
    return /MINED|FINALIZED/.test(await stateOf(writer, answer.id))
  })
  const { gas } = await readTransaction(world.first.app, writer, answer.id)
  assert.notEqual(gas!.payer.toLowerCase(), payer)
  assert.equal(await world.countOf(writer), 3n)
  await world.db.deleteFrom('stopped_lanes').execute()
})
