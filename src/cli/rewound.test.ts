// tier: all, because it rewinds databases
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { age, keep, unseen, useElsewhere } from '../../test/lost-tail.ts'
import { until } from '../../test/kit/until.ts'
import { writing, type Writing } from '../../test/writing.ts'
import { rewindTo } from '../follower/rewind.ts'
import { indexedTo } from '../follower/history-cursor.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { followTransactions } from '../transactions/settle/follow.ts'
import { readTransaction } from '../transactions/read/read.ts'
import { askToResume } from '../transactions/recovery/resume.ts'
import { dropBytes } from '../transactions/settle/sweep.ts'
import { rewind } from './rewind.ts'

/** What was given up or held because of blocks that a rewind takes back. */
let world: Writing
before(async () => {
  world = await writing()
})
after(() => world.close())

const actor = { name: 'mira', via: 'command' } as const
const mine = async (blocks: number) => {
  for (let block = 0; block < blocks; block++) await world.mine()
}

/** The chain loses so many blocks, more than are final, and the network is rewound. */
async function rewoundBelow(blocks: number): Promise<void> {
  await world.rpc('anvil_reorg', blocks, [])
  await until('the follower halted', async () => (await indexedTo(world.db, 31_337)).halted !== null)
  await rewind(world.first, actor, null)
  await world.followed()
}

async function kept(rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    await keep(world)
    await world.mine()
  }
}

/** A told write whose nonce someone else used for good in a block that was passed while the database lacked the account. */
async function failed(name: string) {
  const writer = await world.writer(name)
  await mine(4)
  const { answer } = await world.add(world.first, writer, 1)
  await world.rpc('anvil_dropAllTransactions')
  await unseen(world, writer, async () => {
    await useElsewhere(world, writer)
    await world.mine()
  })
  await mine(4)
  await sql`update attempts set broadcast_at = null where transaction_id = ${answer.id}`.execute(world.db)
  await keep(world)
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'FAILED')
  return { writer, failedId: answer.id }
}

test('after a rewind below a FAILED write the later writes of its account are mined: no nonce stays open', async () => {
  const { writer } = await failed('hole')
  await askToResume(world.db, writer.userId)
  await keep(world)
  const { answer: next } = await world.add(world.first, writer, 10)
  assert.equal(next.tx.nonce, 1)
  await mine(4)
  assert.equal((await readTransaction(world.first.app, writer, next.id)).state, 'FINALIZED')
  await rewoundBelow(9)
  assert.equal(await world.rpc('eth_getTransactionCount', writer.address, 'latest'), '0x0', 'the foreign one is gone')
  await age(world, 60)
  await kept(4)
  assert.equal((await readTransaction(world.first.app, writer, next.id)).state, 'FINALIZED')
})

test('a nonce that was held for a proven count is given back by a rewind: the later writes are mined', async () => {
  const writer = await world.writer('held')
  await mine(4)
  // The first write's row exists; two foreign nonces were passed while the account was unknown.
  await world.add(world.first, writer, 1)
  await mine(5)
  await unseen(world, writer, async () => {
    await useElsewhere(world, writer)
    await world.mine()
  })
  await useElsewhere(world, writer)
  await world.mine()
  await world.db
    .deleteFrom('transactions')
    .where('sender', '=', fromHex(writer.address))
    .where('nonce', '>', 0)
    .execute()
  await mine(4)
  await askToResume(world.db, writer.userId)
  await keep(world)
  const { answer: next } = await world.add(world.first, writer, 10)
  assert.equal(next.tx.nonce, 3)
  await mine(4)
  await rewoundBelow(11)
  assert.equal(await world.rpc('eth_getTransactionCount', writer.address, 'latest'), '0x1')
  await age(world, 60)
  await kept(4)
  assert.equal((await readTransaction(world.first.app, writer, next.id)).state, 'FINALIZED')
})

test('what was FAILED and is replaced by a new block is not final before that block is', async () => {
  const { writer, failedId } = await failed('early-final')
  await rewoundBelow(6)
  await useElsewhere(world, writer)
  await world.mine()
  const { state, isFinal } = await readTransaction(world.first.app, writer, failedId)
  assert.deepEqual([state, isFinal], ['REPLACED', false])
})

/** A write that has been final for more than a week, by the tables, and whose bytes are dropped. */
async function longFinal(name: string) {
  const writer = await world.writer(name)
  await mine(1)
  const { answer } = await world.add(world.first, writer, 3)
  await mine(5)
  assert.equal((await readTransaction(world.first.app, writer, answer.id)).state, 'FINALIZED')
  await age(world, 8 * 86_400)
  while (await dropBytes(world.first.app, 31_337));
  assert.deepEqual(await bytesOf(answer.id), [null])
  return { writer, answer }
}
const bytesOf = async (id: string) =>
  (await world.db.selectFrom('attempts').select('raw').where('transaction_id', '=', id).execute()).map(({ raw }) => raw)

test('a rewind below a write whose bytes were dropped: the ledger has them, and it is mined again under its hash', async () => {
  const { writer, answer } = await longFinal('dropped')
  await rewoundBelow(5)
  await world.rpc('anvil_dropAllTransactions')
  const back = await readTransaction(world.first.app, writer, answer.id)
  assert.deepEqual([back.state, back.hash, back.hashes], ['SUBMITTED', answer.hash, [answer.hash]])
  await kept(4)
  const again = await readTransaction(world.first.app, writer, answer.id)
  assert.deepEqual([again.state, again.hash], ['FINALIZED', answer.hash])
  assert.notDeepEqual(await bytesOf(answer.id), [null])
  assert.equal(await world.countOf(writer), 3n)
})

test('of many writes of one account all bytes come back, also of those that are queued behind the first sixteen', async () => {
  const writer = await world.writer('many-dropped')
  await mine(1)
  const ids = []
  for (let nonce = 0; nonce < 18; nonce++) ids.push((await world.add(world.first, writer, 1)).answer.id)
  await kept(6)
  await age(world, 8 * 86_400)
  while (await dropBytes(world.first.app, 31_337));
  await rewoundBelow(7)
  await world.rpc('anvil_dropAllTransactions')
  await kept(8)
  for (const id of ids) {
    assert.equal((await readTransaction(world.first.app, writer, id)).state, 'FINALIZED')
    assert.notDeepEqual(await bytesOf(id), [null])
  }
  assert.equal(await world.countOf(writer), 18n)
})

test('blocks that are followed again prove a write whose bytes were dropped', async () => {
  const { writer, answer } = await longFinal('followed-again')
  const { receipt } = await readTransaction(world.first.app, writer, answer.id)
  await rewind(world.first, actor, receipt!.blockNumber - 1)
  await mine(1)
  const read = () => readTransaction(world.first.app, writer, answer.id)
  await until('its block is followed again, and final', async () => (await read()).isFinal)
  const again = await read()
  assert.deepEqual([again.state, again.hash, again.receipt], ['FINALIZED', answer.hash, receipt])
  assert.equal(await world.countOf(writer), 3n)
})

test('a rewind to a block that was reorganised away meanwhile is refused, and the follower follows on', async () => {
  await mine(4)
  await mine(2)
  const { block_number: newest } = await world.db.selectFrom('cursors').select('block_number').executeTakeFirstOrThrow()
  const block = await world.rpc<{ hash: Hex; parentHash: Hex; timestamp: Hex }>(
    'eth_getBlockByNumber',
    `0x${(newest - 1).toString(16)}`,
    false,
  )
  const target = {
    number: newest - 1,
    hash: block.hash,
    parentHash: block.parentHash,
    timestamp: Number(block.timestamp),
    baseFee: 1n,
  }
  // Between the look and the change the chain is reorganised, and the follower follows that.
  await world.rpc('anvil_reorg', 2, [])
  await world.followed()
  const { app, chain } = world.first
  await assert.rejects(
    world.db.transaction().execute((db) => rewindTo(db, app, chain, { listeners: [followTransactions], to: target })),
    /reorganised away in the meantime/,
  )
  await world.rpc('evm_mine')
  await until('the follower has the newest block', async () => {
    const { hash } = await world.rpc<{ hash: Hex }>('eth_getBlockByNumber', 'latest', false)
    const row = await world.db.selectFrom('cursors').select('block_hash').executeTakeFirstOrThrow()
    return `0x${Buffer.from(row.block_hash).toString('hex')}` === hash
  })
})
