import { refusedWith } from '../../../test/kit/refused.ts'
import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { encodeFunctionData, parseAbi } from 'viem'
import { diesAt, packAgain } from '../../../test/interrupted.ts'
import { age, keep, remember, replay } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import { saveApplication } from '../../applications/registry.ts'
import { spentOfBudget } from '../../store/sponsor-budget.ts'
import { interruptSteps } from '../crash-points.ts'
import { AppError } from '../../errors.ts'
import { newTransactionId, type Hex } from '../../ids.ts'
import { toHex } from '../../hex.ts'
import { fromWord } from '../../store/bytes.ts'
import { linkOperations } from '../lanes/link.ts'
import { readTransaction } from '../read/read.ts'
import { reconcileIntent } from './reconcile-operation.ts'

let world: Sponsored
before(async () => {
  world = await sponsored()
})
after(() => world?.close())

test('an operation whose restore is broken off is restored whole, or not at all', async () => {
  const { first } = world
  const writer = await world.poor('broken-off')
  const goBack = await remember(world)
  const { answer } = await world.add(first, writer, 1, 'broken-off')
  await goBack()
  let isKilled = false
  interruptSteps(first.app, (step) => {
    if (step !== 'in-restore-operation' || isKilled) return
    isKilled = true
    throw new Error('killed')
  })
  await replay(first)
  interruptSteps(first.app, null)
  assert.ok(isKilled)
  await replay(first)
  const carried = await world.db.selectFrom('carried').selectAll().where('operation_id', '=', answer.id).execute()
  assert.equal(carried.length, 1)
  assert.equal((await readTransaction(first.app, writer, answer.hash)).id, answer.id)
  await world.mine()
  await until('it is done', async () => {
    await world.mine()
    return ['MINED', 'FINALIZED'].includes((await readTransaction(first.app, writer, answer.id)).state)
  })
  const again = await world.add(first, writer, 1, 'broken-off')
  assert.deepEqual([again.isReplay, again.answer.id], [true, answer.id])
  assert.equal(await world.countOf(writer), 1n)
})

test('what carried a lost operation is there before it is: while the signer does not say it, neither is', async () => {
  const { app, chain } = world.first
  const writer = await world.poor('carrier-first')
  const goBack = await remember(world)
  const { answer } = await world.add(world.first, writer)
  await goBack()
  const { signer } = app
  const away = new AppError('signer_unavailable', 'The signer is away.')
  app.signer = { ...signer, recall: (asked) => ('nonce' in asked ? Promise.reject(away) : signer.recall(asked)) }
  await assert.rejects(reconcileIntent(app, chain, answer.id), away)
  const rowsOf = () => world.db.selectFrom('operations').select('outer_id').where('id', '=', answer.id).execute()
  assert.deepEqual(await rowsOf(), [])
  app.signer = signer
  assert.equal(await reconcileIntent(app, chain, answer.id), 'operation')
  assert.notEqual((await rowsOf())[0]!.outer_id, null)
  await world.mine()
})

test('what was lost is told as it was signed, also where the network sends in another space by now', async () => {
  const { first, house, dispatcher } = world
  const writer = await world.poor('other-space')
  const goBack = await remember(world)
  const { answer } = await world.add(first, writer, 1, 'other-space')
  await world.mine()
  await goBack()
  const other = (await world.rpc<Hex[]>('eth_accounts'))[1]!
  const abi = parseAbi(['function setSponsor(address, bool)'])
  await world.rpc('eth_sendTransaction', { from: other, to: dispatcher, data: encodeFunctionData({ abi, args: [house.address, true] }) }) // prettier-ignore
  await world.mine()
  const before = first.chain.gasSpace!
  first.chain.gasSpace = other
  try {
    const again = await world.add(first, writer, 1, 'other-space').catch((error: unknown) => assert.fail(String(error)))
    assert.deepEqual([again.isReplay, again.answer.operation?.id], [true, answer.operation!.id])
  } finally {
    first.chain.gasSpace = before
  }
  await until('it is told as done', async () => {
    await keep(world)
    await world.mine()
    return ['MINED', 'FINALIZED'].includes((await readTransaction(first.app, writer, answer.id)).state)
  })
  assert.equal(await world.countOf(writer), 1n)
})

// All statements of a database transaction have the time of its beginning. Another process binds the operation after
// it.
const SOON = sql<Date>`date_trunc('milliseconds', now() + interval '1 hour')`
const read = (id: string) => world.db.selectFrom('operations').selectAll().where('id', '=', id).executeTakeFirstOrThrow() // prettier-ignore
const isOrderly = ({ created_at: made, updated_at: changed }: Awaited<ReturnType<typeof read>>) => changed >= made

test('an operation that was bound again while its restore waited was made when it was signed', async () => {
  const { app, chain } = world.first
  const writer = await world.poor('bound-again')
  await diesAt(app, 'after-sign-operation', () => world.add(world.first, writer))
  const { id } = await world.db.selectFrom('operations').select('id').where('account_id', '=', writer.accountId).executeTakeFirstOrThrow() // prettier-ignore
  const { operation } = await app.signer.recall({ intentId: id })
  await world.db.updateTable('operations').set({ created_at: SOON }).where('id', '=', id).execute()
  assert.equal(await reconcileIntent(app, chain, id), 'operation')
  const restored = await read(id)
  assert.deepEqual([restored.state, restored.created_at.getTime()], ['BOUND', operation!.signedAt])
  assert.ok(isOrderly(restored))
})

test('an operation is not changed before it was made by a transaction that began before it, which links or settles it', async () => {
  const writer = await world.poor('linked-late')
  const { answer } = await world.add(world.first, writer)
  const { outer_id: outerId } = await read(answer.id)
  const outer = await world.db.selectFrom('transactions').select(['data', 'hash']).where('id', '=', outerId).executeTakeFirstOrThrow() // prettier-ignore
  await world.db.updateTable('operations').set({ state: 'BOUND', outer_id: null, created_at: SOON }).where('id', '=', answer.id).execute() // prettier-ignore
  await linkOperations(world.db, world.first.app, { id: outerId!, chainId: 31_337, data: toHex(outer.data) }, toHex(outer.hash!)) // prettier-ignore
  const linked = await read(answer.id)
  assert.deepEqual([linked.state, isOrderly(linked)], ['SUBMITTED', true])
  await world.db
    .updateTable('operations')
    .set({ updated_at: sql`now()` })
    .where('id', '=', answer.id)
    .execute()
  await world.mine()
  const settled = await read(answer.id)
  assert.deepEqual([settled.state, isOrderly(settled)], ['MINED', true])
})

test('a write that was bound again under another number than it was signed for is found by its id and its hash after the next look', async () => {
  const { app } = world.first
  const writer = await world.poor('other-number')
  const goBack = await remember(world)
  const { answer } = await world.add(world.first, writer, 1, 'other-number')
  const signed = await read(answer.id)
  await goBack()
  const { signer } = app
  const away = new AppError('signer_unavailable', 'The signer is away.')
  app.signer = { ...signer, signOperation: () => Promise.reject(away) }
  await assert.rejects(world.add(world.first, writer, 1, 'other-number'), away)
  app.signer = signer
  const bound = await read(answer.id)
  assert.deepEqual([bound.state, bound.sequence === signed.sequence], ['BOUND', false])
  await replay(world.first)
  for (const name of [answer.id, answer.hash]) {
    const { id, hash, state } = await readTransaction(app, writer, name)
    assert.deepEqual([id, hash, state], [answer.id, answer.hash, 'SUBMITTED'])
  }
  await world.mine()
  const again = await world.add(world.first, writer, 1, 'other-number')
  assert.deepEqual([again.isReplay, again.answer.id, again.answer.hash], [true, answer.id, answer.hash])
  assert.deepEqual([(await read(answer.id)).state, await world.countOf(writer)], ['MINED', 1n])
})

test('what has the same number on another network is not what was lost, and keeps it', async () => {
  const { app, chain } = world.first
  const writer = await world.poor('other-network')
  const goBack = await remember(world)
  const { answer } = await world.add(world.first, writer)
  const row = await world.db.selectFrom('operations').selectAll().where('id', '=', answer.id).executeTakeFirstOrThrow()
  await goBack()
  const beside = { ...row, id: newTransactionId(), chain_id: 5, state: 'BOUND', outer_id: null, transitions: '[]', revert: null } as const // prettier-ignore
  await world.db.insertInto('operations').values(beside).execute()
  assert.equal(await reconcileIntent(app, chain, answer.id), 'operation')
  const { sequence } = await world.db.selectFrom('operations').select('sequence').where('id', '=', beside.id).executeTakeFirstOrThrow() // prettier-ignore
  assert.equal(sequence, row.sequence)
  await world.mine()
})

test('what was lost counts in its budgets as soon as the ledger is replayed, and what it did cost once it is settled', async () => {
  const { first, db } = world
  const clientId = 'restored-budget'
  const writer = await limited(clientId)
  const goBack = await remember(world)
  await world.add(first, writer)
  const reserved = await spentOfBudget(db, clientId, writer.accountId)
  assert.ok(reserved > 0n)
  await goBack()
  assert.equal(await spentOfBudget(db, clientId, writer.accountId), 0n)
  await replay(first)
  for (let time = 0; time < 2; time++) {
    for (const whose of [undefined, writer.accountId]) assert.equal(await spentOfBudget(db, clientId, whose), reserved)
    await assert.rejects(world.add(first, writer), refusedWith('gas_budget_exhausted'))
    await replay(first)
  }
  await until('it is counted', async () => {
    await world.mine()
    await keep(world)
    const { is_counted: isCounted } = await db.selectFrom('operations').select('is_counted').where('client_id', '=', clientId).executeTakeFirstOrThrow() // prettier-ignore
    return isCounted
  })
  const cost = await spentOfBudget(db, clientId, writer.accountId)
  assert.ok(cost > 0n && cost < reserved, `${cost} of ${reserved}`)
  assert.equal(await world.countOf(writer), 1n)
})

test('what was signed and never carried counts at the price of now: its key has it sent', async () => {
  const { first } = world
  const clientId = 'uncarried-budget'
  const writer = await limited(clientId)
  const goBack = await remember(world)
  await diesAt(first.app, 'after-sign-operation', () => world.add(first, writer, 1, 'uncarried'))
  await goBack()
  await replay(first)
  await assert.rejects(world.add(first, writer), refusedWith('gas_budget_exhausted'))
  await age(first.app, 40)
  assert.ok((await world.add(first, writer, 1, 'uncarried')).answer.operation !== undefined)
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

test('what was packed again at a higher price counts at that, whichever of its transactions was first', async () => {
  const { first, db } = world
  const clientId = 'dearer-budget'
  const writer = await limited(clientId)
  const goBack = await remember(world)
  const { answer } = await world.add(first, writer)
  const outers = await packAgain(world, answer.id, async () => {
    await world.rpc('anvil_setNextBlockBaseFeePerGas', '0x12a05f200')
    await world.mine()
  })
  const offers = await db.selectFrom('attempts').select(['transaction_id', 'max_fee']).where('transaction_id', 'in', outers).execute() // prettier-ignore
  const [before, then] = outers.map((id) => offers.filter((one) => one.transaction_id === id).map(({ max_fee: fee }) => fromWord(fee)).reduce((one, other) => (one > other ? one : other))) // prettier-ignore
  assert.ok(then! > before! * 3n, `${then} after ${before}`)
  const { charged } = await db.selectFrom('operations').select('charged').where('id', '=', answer.id).executeTakeFirstOrThrow() // prettier-ignore
  await goBack()
  await replay(first)
  const counted = await spentOfBudget(db, clientId, writer.accountId)
  assert.ok(
    counted >= (BigInt(charged) * then!) / before! / 2n,
    `${counted} for ${charged} at ${before}, and at ${then}`,
  )
  await world.rpc('anvil_setNextBlockBaseFeePerGas', '0x1')
  await world.mine()
})

/** Creates a user of an application whose budget covers one write, and not two. */
async function limited(clientId: string) {
  const like = await world.poor(`${clientId}-like`)
  await world.add(world.first, like)
  const { charged } = await world.db.selectFrom('operations').select('charged').where('account_id', '=', like.accountId).executeTakeFirstOrThrow() // prettier-ignore
  await world.mine()
  const perUser = (BigInt(charged) * 3n) / 2n
  await saveApplication(world.first.app, {
    ...{ clientId, name: clientId, chainId: 31_337, kind: 'public', redirectUris: ['http://127.0.0.1/*'] },
    ...{ permissions: ['wallet:read', 'contracts:read', 'contracts:write'], allowedOrigins: [], secretHashes: [] },
    ...{ logoUri: null, isSuspended: false, sponsor: { contracts: null, perUser, perApplication: perUser * 10n } },
  })
  return world.poor(clientId, clientId)
}
