import { refusedWith } from '../../../test/kit/refused.ts'
import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { age, keep, unseen, useElsewhere } from '../../../test/lost-tail.ts'
import { writing, type Writer, type Writing } from '../../../test/writing.ts'
import { currentFees } from '../../chain/current-fees.ts'
import type { Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { followTransactions } from '../settle/follow.ts'
import { readFees } from '../intent.ts'
import { stopLane } from './stop-lane.ts'
import { readTransaction } from '../read/read.ts'
import { askToResume, listStopped, resumeAsked } from './resume.ts'

/**
 * Another holder uses an account's key: the account is stopped, an operator examines it, and it continues without a
 * false response.
 */
let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

const rowsOf = ({ address }: Writer) =>
  world.db.selectFrom('transactions').selectAll().where('sender', '=', fromHex(address)).orderBy('nonce').execute()
const stoppedOf = async ({ userId }: Writer) => (await listStopped(world.db)).filter((lane) => lane.userId === userId)

/** The account's own key, in other hands. */

test('a stopped account is listed with what stopped it, and resumed it goes on behind every nonce that others used', async () => {
  const writer = await world.writer('resumed')
  await world.add(world.first, writer, 1)
  await world.mine()
  const newest = (await useElsewhere(world, writer, 3)).at(-1)
  await world.mine()
  await assert.rejects(world.add(world.first, writer, 10, 'k'), refusedWith('account_stopped'))
  const [lane, ...others] = await stoppedOf(writer)
  assert.deepEqual(
    [lane!.chainId, lane!.nonce, lane!.hash, lane!.reason, lane!.resumeAskedAt, others.length],
    [31_337, 3, newest, 'foreign_nonce', null, 0],
  )
  assert.equal(lane!.address.toLowerCase(), writer.address)
  await keep(world)
  assert.equal((await stoppedOf(writer)).length, 1, 'nobody asked')
  const [asked] = await askToResume(world.db, writer.userId)
  assert.notEqual(asked!.resumeAskedAt, null)
  assert.deepEqual(await askToResume(world.db, writer.userId), [asked], 'asked twice is asked once')
  await keep(world)
  assert.deepEqual(await stoppedOf(writer), [])
  assert.deepEqual(await askToResume(world.db, writer.userId), [])
  const { answer } = await world.add(world.first, writer, 10, 'k')
  assert.equal(answer.tx.nonce, 4)
  await world.mine()
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'MINED')
  assert.equal(await world.countOf(writer), 11n)
  assert.deepEqual(await stoppedOf(writer), [])
  await assert.rejects(askToResume(world.db, 'DEV-nobody-at-all'), refusedWith('not_found'))
})

test('an account whose key is known to be elsewhere goes on by itself, behind every nonce that was used there, however often', async () => {
  for (const how of ['exported_at', 'imported_at'] as const) {
    const writer = await world.writer(how)
    await world.db
      .updateTable('accounts')
      .set({ [how]: new Date() })
      .where('user_id', '=', writer.userId)
      .execute()
    await world.add(world.first, writer, 1)
    await world.mine()
    for (let time = 0; time < 2; time++) {
      await useElsewhere(world, writer, 2)
      await world.mine()
      await keep(world)
      assert.deepEqual(await stoppedOf(writer), [])
    }
    const { answer } = await world.add(world.first, writer, 10)
    assert.equal(answer.tx.nonce, 5)
    await world.mine()
    assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'MINED')
    assert.equal(await world.countOf(writer), 11n)
  }
})

test('a write whose nonce was used there says so, and is never sent under another; the account goes on', async () => {
  const writer = await world.writer('overtaken')
  await world.db.updateTable('accounts').set({ exported_at: new Date() }).where('user_id', '=', writer.userId).execute()
  await world.add(world.first, writer, 1)
  await world.mine()
  // The bytes reach no node before the foreign transaction is mined.
  world.first.misbehave(async (method, _params, next) => (method === 'eth_sendRawTransaction' ? '0x' : next()))
  const waiting = await world.add(world.first, writer, 5)
  await useElsewhere(world, writer, 1)
  await world.mine()
  world.first.misbehave(null)
  await keep(world)
  assert.equal((await readTransaction(world.first.app, writer, waiting.answer.id)).state, 'REPLACED')
  const { answer } = await world.add(world.first, writer, 10)
  assert.equal(answer.tx.nonce, 2)
  await world.mine()
  assert.equal(await world.countOf(writer), 11n)
})

test('used again by others, a resumed account is stopped again', async () => {
  const writer = await world.writer('again')
  await world.add(world.first, writer, 1)
  await world.mine()
  for (let time = 0; time < 2; time++) {
    await useElsewhere(world, writer, 1)
    await world.mine()
    assert.equal((await stoppedOf(writer)).length, 1)
    await askToResume(world.db, writer.userId)
    await keep(world)
    assert.equal((await stoppedOf(writer)).length, 0)
  }
  const { answer } = await world.add(world.first, writer, 10)
  assert.equal(answer.tx.nonce, 3)
  await world.mine()
  assert.equal(await world.countOf(writer), 11n)
})

test('a count above what the follower met is believed when it is proven: a node that counts too high locks no account', async () => {
  const writer = await world.writer('counted')
  await world.add(world.first, writer, 1)
  await world.mine()
  await useElsewhere(world, writer, 2)
  await world.mine()
  // Delete the rows, as if the transactions had been mined before this network was followed.
  await world.db
    .deleteFrom('transactions')
    .where('sender', '=', fromHex(writer.address))
    .where('nonce', '>', 0)
    .execute()
  await askToResume(world.db, writer.userId)
  await keep(world)
  assert.equal((await stoppedOf(writer)).length, 1, 'not proven yet')
  for (let block = 0; block < 4; block++) await world.mine()
  world.first.misbehave(async (method, _params, next) => (method === 'eth_getTransactionCount' ? '0x100' : next()))
  await keep(world)
  assert.equal((await stoppedOf(writer)).length, 1, 'a false count')
  world.first.misbehave(null)
  await keep(world)
  assert.equal((await stoppedOf(writer)).length, 0)
  const { answer } = await world.add(world.first, writer, 10)
  assert.equal(answer.tx.nonce, 3)
  await world.mine()
  assert.equal(await world.countOf(writer), 11n)
})

test('a foreign transaction that is reorganised away gives its nonce back', async () => {
  const writer = await world.writer('given-back')
  await world.add(world.first, writer, 1)
  await world.mine()
  await useElsewhere(world, writer, 1)
  await world.mine()
  const held = (await rowsOf(writer))[1]!
  assert.deepEqual([held.nonce, held.state, held.hash], [1, 'REPLACED', null])
  const { first } = world
  await world.db
    .transaction()
    .execute((db) => followTransactions.onRetract(db, first.app, first.chain, held.block_number!))
  assert.equal((await rowsOf(writer))[1]!.state, 'BOUND')
})

test('a nonce that the chain gives back is filled at what blocks want, though nobody offered anything for it', async () => {
  const writer = await world.writer('given-back-and-filled')
  await world.add(world.first, writer, 1)
  await world.mine()
  const snapshot = await world.rpc('evm_snapshot')
  await useElsewhere(world, writer, 1)
  await world.mine()
  assert.equal((await rowsOf(writer))[1]!.state, 'REPLACED')
  await world.rpc('evm_revert', snapshot)
  for (let block = 0; block < 2; block++) await world.mine()
  assert.equal((await rowsOf(writer))[1]!.state, 'BOUND')
  await age(world, 60)
  await keep(world)
  const [attempt] = await world.db
    .selectFrom('attempts')
    .selectAll()
    .where('transaction_id', '=', (await rowsOf(writer))[1]!.id)
    .execute()
  assert.deepEqual(readFees(attempt!), await currentFees(world.first.chain))
  await world.mine()
  assert.equal(BigInt(await world.rpc<Hex>('eth_getTransactionCount', writer.address, 'latest')), 2n)
})

test('an account that is stopped on two networks goes on where its keeper has looked, not on the other', async () => {
  const writer = await world.writer('two-networks')
  await world.add(world.first, writer, 1)
  await world.mine()
  await useElsewhere(world, writer, 1)
  await world.mine()
  const sender = fromHex(writer.address)
  await world.db
    .insertInto('stopped_lanes')
    .values({ chain_id: 1, sender, nonce: 0, hash: null, reason: 'foreign_nonce' })
    .execute()
  await askToResume(world.db, writer.userId)
  await keep(world)
  assert.deepEqual(
    (await stoppedOf(writer)).map(({ chainId }) => chainId),
    [1],
  )
})

test('an account that is resumed behind a node that counts too low is told no hash that is never mined', async () => {
  const writer = await world.writer('low')
  await world.add(world.first, writer, 1)
  await world.mine()
  // Two nonces were used elsewhere, in final blocks. The rows for them were lost together with the account's.
  await unseen(world, writer, async () => {
    await useElsewhere(world, writer, 2)
    await world.mine()
  })
  for (let block = 0; block < 4; block++) await world.mine()
  await world.db
    .insertInto('stopped_lanes')
    .values({ chain_id: 31_337, sender: fromHex(writer.address), nonce: 1, hash: null, reason: 'foreign_nonce' })
    .execute()
  await askToResume(world.db, writer.userId)
  world.first.misbehave(async (method, params, next) => (method === 'eth_getTransactionCount' ? '0x1' : next()))
  await keep(world)
  world.first.misbehave(null)
  assert.deepEqual(await stoppedOf(writer), [])
  const { answer } = await world.add(world.first, writer, 10)
  assert.equal(answer.tx.nonce, 3)
  await world.mine()
  const { state } = await readTransaction(world.first.app, writer, answer.id)
  assert.equal(state, 'MINED')
})

test('stopped accounts are listed the longest stopped first, whatever their network', async () => {
  const [sooner, later] = [await world.writer('stopped-sooner'), await world.writer('stopped-later')]
  const stop = (writer: Writer, chain_id: number, hour: number) => ({
    ...{ chain_id, sender: fromHex(writer.address), nonce: 0, hash: null, reason: 'foreign_nonce' },
    created_at: new Date(Date.UTC(2026, 0, 1, hour)),
  })
  await world.db
    .insertInto('stopped_lanes')
    .values([stop(later, 1, 5), stop(sooner, 31_337, 3), stop(later, 31_337, 4), stop(sooner, 1, 2)])
    .execute()
  const listed = (await listStopped(world.db)).filter((lane) => [sooner.userId, later.userId].includes(lane.userId))
  assert.deepEqual(
    listed.map(({ userId, chainId }) => [userId, chainId]),
    [
      [sooner.userId, 1],
      [sooner.userId, 31_337],
      [later.userId, 31_337],
      [later.userId, 1],
    ],
  )
})

test('used by others once more after its operator asked, an account stays stopped until somebody has seen that too', async () => {
  const writer = await world.writer('once-more')
  await world.add(world.first, writer, 1)
  await world.mine()
  await useElsewhere(world, writer, 1)
  await world.mine()
  await askToResume(world.db, writer.userId)
  const [again] = await useElsewhere(world, writer, 1)
  await world.mine()
  await keep(world)
  const [lane] = await stoppedOf(writer)
  assert.deepEqual([lane!.nonce, lane!.hash, lane!.resumeAskedAt], [2, again, null])
  await askToResume(world.db, writer.userId)
  // The key is used again while the keeper resumes, after it has read the operator's request.
  const { app, chain } = world.first
  const intrusion = { chainId: 31_337, sender: writer.address, nonce: 3, hash: null, reason: 'foreign_nonce' } as const
  world.first.misbehave(async (method, _params, next) => {
    if (method === 'eth_getTransactionCount') await stopLane(world.db, intrusion)
    return next()
  })
  await resumeAsked(app, chain)
  world.first.misbehave(null)
  assert.deepEqual(
    (await stoppedOf(writer)).map(({ nonce }) => nonce),
    [3],
  )
  await askToResume(world.db, writer.userId)
  // The same block is followed again.
  await stopLane(world.db, intrusion)
  await keep(world)
  assert.deepEqual(await stoppedOf(writer), [])
})

test('one nonce more than the follower met is proven too before an account goes on, however long those below are', async () => {
  const writer = await world.writer('one-more')
  await world.add(world.first, writer, 1)
  await world.mine()
  await useElsewhere(world, writer, 1)
  for (let block = 0; block < 4; block++) await world.mine()
  await useElsewhere(world, writer, 1)
  await world.mine()
  const unmet = world.db.deleteFrom('transactions').where('sender', '=', fromHex(writer.address)).where('nonce', '=', 2)
  await unmet.execute()
  await askToResume(world.db, writer.userId)
  await keep(world)
  assert.equal((await stoppedOf(writer)).length, 1, 'not proven yet')
  for (let block = 0; block < 4; block++) await world.mine()
  await keep(world)
  assert.deepEqual(await stoppedOf(writer), [])
  assert.equal((await world.add(world.first, writer, 10)).answer.tx.nonce, 3)
})

test('what a block says of a nonce that is mined already in another one stops nobody', async () => {
  const writer = await world.writer('mined-already')
  const { app, chain } = world.first
  await world.add(world.first, writer, 1)
  await world.mine()
  const [was] = await rowsOf(writer)
  const hash: Hex = `0x${'0c'.repeat(32)}`
  const block = {
    ...{ number: 1_000_000, hash, parentHash: hash, timestamp: 0, baseFee: 1n },
    receipts: [{ transactionHash: hash, from: writer.address }],
    prove: () => {
      const outcome = { status: true, gasUsed: 21_000, effectiveGasPrice: 1n }
      return Promise.resolve({ nonces: new Map([[hash, 0]]), receipts: new Map([[hash, outcome]]), doubt: null })
    },
  }
  await world.db.transaction().execute((db) => followTransactions.onBlock(db, app, chain, block))
  assert.deepEqual([await stoppedOf(writer), await rowsOf(writer)], [[], [was]])
})
