import { strict as assert } from 'node:assert'
import { after, before, beforeEach, test } from 'node:test'
import { sql } from 'kysely'
import { fakeApp, type FakeApp } from '../../../test/fake-app.ts'
import type { Caller } from '../../http/bearer.ts'
import { toHex } from '../../hex.ts'
import { toWord } from '../../store/bytes.ts'
import type { TransactionRow } from '../intent.ts'
import { startKeeper } from '../recovery/keeper.ts'
import { listTransactions, readTransaction } from '../read/read.ts'
import { revertToPending } from './states.ts'
import { dropBytes, startByteSweep } from './sweep.ts'
import { appLike } from '../../../test/opened.ts'
import { withWall } from '../../../test/kit/clock.ts'

/** Which bytes are dropped a week after their transaction is final. Nothing else is dropped. */
let world: FakeApp
before(async () => {
  world = await fakeApp()
})
after(() => world.close())
beforeEach(async () => {
  for (const table of ['transactions', 'attempts', 'swept'] as const) await world.db.deleteFrom(table).execute()
})

const DAY = 86_400_000
const MINUTE = 60_000
const ago = (milliseconds: number) => new Date(Date.now() - milliseconds)
const OTHER = 1

/** Returns the columns of a row that has been final for these milliseconds, by both clocks. */
const final = (block: number, age: number, more: Partial<TransactionRow> = {}): Partial<TransactionRow> => ({
  ...{ state: 'FINALIZED', is_final: true, block_number: block, block_hash: Buffer.alloc(32, 1), succeeded: true },
  ...{ gas_used: 21_000, effective_gas_price: toWord(7n), updated_at: ago(age), created_at: ago(age) },
  transitions: [
    { state: 'SUBMITTED', at: ago(age).toISOString(), hash: toHex(Buffer.alloc(32, 2)) },
    { state: 'FINALIZED', at: ago(age).toISOString() },
  ],
  ...more,
})
const sweepAll = async (chainId = world.chain.chainId) => {
  let batches = 1
  while (await dropBytes(world.app, chainId)) batches++
  return batches
}
const kept = async (): Promise<string[]> => {
  const rows = await world.db.selectFrom('attempts').select('transaction_id').where('raw', 'is not', null).execute()
  return rows.map(({ transaction_id }) => transaction_id)
}

test('bytes go a week after their transaction is final, whatever it ended as, and of nothing else', async () => {
  const writer = await world.account('week')
  const old = 7 * DAY + MINUTE
  const ended = {
    mined: final(1, old),
    reverted: final(2, old, { state: 'REVERTED', succeeded: false }),
    cancelled: final(3, old, { state: 'CANCELLED', is_cancel: true }),
    failed: final(4, old, { state: 'FAILED' }),
  }
  const others = {
    notYet: final(5, 7 * DAY - MINUTE),
    ...{ inBlock: final(1, old, { state: 'MINED', is_final: false }), waiting: { updated_at: ago(old) } },
    elsewhere: final(1, old, { chain_id: OTHER }),
  }
  const expected: string[] = []
  for (const [nonce, [what, given]] of Object.entries({ ...ended, ...others }).entries()) {
    const { id } = await world.row(writer, { nonce, ...given })
    if (what in others) expected.push(id)
  }
  assert.equal(await sweepAll(), 1)
  assert.deepEqual((await kept()).toSorted(), expected.toSorted())
  await sweepAll(OTHER)
  assert.deepEqual((await kept()).toSorted(), expected.slice(0, -1).toSorted())
})

test('every attempt of a transaction loses its bytes, and nothing that the API answers changes', async () => {
  const writer = await world.account('answers')
  const caller = writer as unknown as Caller
  const row = await world.row(writer, final(1, 8 * DAY))
  const raised = Buffer.alloc(32, 0xee)
  const terms = { gas_limit: 22_000, max_fee: toWord(200n), max_priority_fee: toWord(20n), created_at: ago(8 * DAY) }
  await world.db
    .insertInto('attempts')
    .values({
      chain_id: row.chain_id,
      hash: raised,
      transaction_id: row.id,
      raw: raised,
      created_block: null,
      ...terms,
    })
    .execute()
  const answers = () =>
    Promise.all([
      readTransaction(world.app, caller, row.id),
      readTransaction(world.app, caller, toHex(raised)),
      readTransaction(world.app, caller, toHex(row.hash!)),
      listTransactions(world.app, caller, { limit: 10 }),
    ])
  const before = await answers()
  assert.equal(before[0].hashes.length, 2)
  await sweepAll()
  assert.deepEqual(await kept(), [])
  assert.deepEqual(await answers(), before)
})

test('it goes on where it ended, and what is not due yet keeps its bytes until it is', async () => {
  const writer = await world.account('order')
  const rows = []
  for (const [nonce, days] of [9, 8, 7.5, 6].entries())
    rows.push(await world.row(writer, { nonce, ...final(nonce, days * DAY) }))
  const [first, , third, young] = rows.map(({ id }) => id) as [string, string, string, string]
  // The write is not due by its writer's clock.
  const at = JSON.stringify([{ state: 'FINALIZED', at: ago(6 * DAY).toISOString() }])
  await sql`update transactions set transitions = ${at}::jsonb where id = ${third}`.execute(world.db)
  await sweepAll()
  assert.deepEqual((await kept()).toSorted(), [third, young].toSorted())
  // Both clocks have to agree, including ours.
  assert.equal(
    await dropBytes(appLike(world.app, { clock: withWall(() => Date.now() + DAY - MINUTE) }), world.chain.chainId),
    false,
  )
  assert.equal((await kept()).length, 2)
  // Rows before the cursor are not checked again, so bytes that were restored there remain.
  await sql`update attempts set raw = '\\x01' where transaction_id = ${first}`.execute(world.db)
  await dropBytes(appLike(world.app, { clock: withWall(() => Date.now() + DAY + MINUTE) }), world.chain.chainId)
  assert.deepEqual((await kept()).toSorted(), [first, young].toSorted())
})

test('a rollback below what was swept has it swept again', async () => {
  const writer = await world.account('again')
  const ids = []
  for (let nonce = 0; nonce < 4; nonce++)
    ids.push((await world.row(writer, { nonce, ...final(10 + nonce, 8 * DAY) })).id)
  await sweepAll()
  await world.db.transaction().execute((db) => revertToPending(db, world.app, world.chain.chainId, 12))
  await sql`update attempts set raw = '\\x01'`.execute(world.db)
  for (const nonce of [2, 3]) {
    const { block_number, is_final, state, updated_at } = final(12, 8 * DAY)
    await world.db
      .updateTable('transactions')
      .set({ block_number, is_final, state, updated_at, transitions: '[]' })
      .where('id', '=', ids[nonce]!)
      .execute()
  }
  await sweepAll()
  // The sweep continues from the block below, without loss.
  assert.deepEqual(await kept(), [ids[0]!])
})

/** Creates this number of writes in one block. */
async function many(name: string, count: number): Promise<void> {
  const writer = await world.account(name)
  const row = await world.row(writer, final(20, 8 * DAY))
  await sql`insert into transactions (id, account_id, client_id, chain_id, sender, nonce, target, value, data, gas_limit, max_fee, abi, state, hash,
      block_number, is_final, transitions, created_at, updated_at)
    select 'tx_' || n, account_id, client_id, chain_id, sender, n, target, value, data, gas_limit, max_fee, abi, state, sha256(n::text::bytea),
      block_number, is_final, transitions, created_at, updated_at
    from transactions cross join generate_series(1, ${count - 1}::int) as n where id = ${row.id}`.execute(world.db)
  await sql`insert into attempts (chain_id, hash, transaction_id, raw, gas_limit, max_fee)
    select chain_id, hash, id, '\\x02', gas_limit, max_fee from transactions where id <> ${row.id}`.execute(world.db)
}

test('batches are bounded, also within one block, and all that is due goes in one round', async () => {
  await many('batches', 600)
  assert.equal(await dropBytes(world.app, world.chain.chainId), true)
  assert.equal((await kept()).length, 350)
  assert.equal(await sweepAll(), 2)
  assert.deepEqual(await kept(), [])
})

test('several replicas share it: each write is passed once, and a round ends when all is done', async () => {
  await many('replicas', 600)
  const sweeps = [startByteSweep(world.app), startByteSweep(world.app), startByteSweep(world.app)]
  await Promise.all(sweeps.map(({ round }) => round()))
  assert.deepEqual(await kept(), [])
  const { block_number } = await world.db.selectFrom('swept').select('block_number').executeTakeFirstOrThrow()
  assert.equal(block_number, 20)
  await Promise.all(sweeps.map(({ stop }) => stop()))
})

test('bytes that the ledger does not have either are told of, and nothing is sent for them', async () => {
  const writer = await world.account('lost')
  world.signer.recall = async () => ({ attempts: [], hasMore: false })
  const { id } = await world.row(writer, {}, { raw: null, broadcast_at: null })
  const keeper = startKeeper(world.app, world.chain)
  await keeper.round()
  await keeper.stop()
  const { fields } = world.told('bytes_lost')[0]!
  assert.deepEqual(fields, { chainId: world.chain.chainId, id, sender: writer.address, nonce: 0 })
  // The ledger is asked again whenever they are due, and the log reports them once.
  for (let turn = 0; turn < 2; turn++) {
    await world.db.updateTable('attempts').set({ broadcast_at: null }).execute()
    const again = startKeeper(world.app, world.chain)
    await again.round()
    await again.stop()
  }
  assert.equal(world.told('bytes_lost').length, 1)
  assert.deepEqual(world.asked('eth_sendRawTransaction'), [])
})

test('a round that fails is told, and the next one goes on', async () => {
  await many('failing', 3)
  await sql`alter table swept rename to elsewhere`.execute(world.db)
  const sweep = startByteSweep(world.app)
  await sweep.round()
  assert.equal(world.told('bytes_not_dropped').length, 1)
  assert.equal((await kept()).length, 3)
  await sql`alter table elsewhere rename to swept`.execute(world.db)
  await sweep.round()
  assert.deepEqual(await kept(), [])
  await sweep.stop()
})
