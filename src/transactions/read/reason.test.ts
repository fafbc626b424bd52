import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { fakeApp, type FakeApp } from '../../../test/fake-app.ts'
import type { Caller } from '../../http/bearer.ts'
import { fromHex } from '../../hex.ts'
import { toWord } from '../../store/bytes.ts'
import { listTransactions, readTransaction } from './read.ts'
import { noteTroubles, type Trouble } from '../recovery/trouble.ts'

/** Reasons for which a write waits. */
let world: FakeApp
before(async () => {
  world = await fakeApp({ MAX_PENDING_WRITES: '4' })
})
afterEach(async () => {
  for (const table of ['attempts', 'transactions', 'waits', 'stopped_lanes'] as const)
    await world.db.deleteFrom(table).execute()
  world.mine(100)
})
after(() => world.close())

const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000)
const late = { created_at: ago(65) }
const sent = { broadcast_at: ago(5) }
type Account = Awaited<ReturnType<FakeApp['account']>>
const callerOf = (account: Account) => account as unknown as Caller
const codeOf = async (account: Account, id: string) => (await readTransaction(world.app, callerOf(account), id)).reason?.code // prettier-ignore
const reasonOf = async (account: Account, id: string) =>
  (await readTransaction(world.app, callerOf(account), id)).reason

test('after a minute a write says why it waits; before, and once it is mined, there is nothing to say', async () => {
  const account = await world.account('minute')
  const young = await world.row(account, { nonce: 0, created_at: ago(55) }, sent)
  assert.equal(await reasonOf(account, young.id), null)
  await world.db.updateTable('transactions').set(late).execute()
  assert.deepEqual(await reasonOf(account, young.id), {
    code: 'waiting_for_block',
    detail: 'Nodes have the transaction, and its fee is sufficient. The transaction waits for a block.',
  })
  for (const state of ['MINED', 'REVERTED', 'FAILED', 'CANCELLED', 'REPLACED', 'FINALIZED'] as const) {
    await world.db.updateTable('transactions').set({ state }).execute()
    assert.equal(await reasonOf(account, young.id), null)
  }
  assert.deepEqual(world.calls, [])
})

test('below the base fee a write waits for its fee to be raised, above the cap for the network', async () => {
  const account = await world.account('fee')
  const { id } = await world.row(account, late, { ...sent, max_fee: toWord(100n) })
  for (const [baseFee, code] of [
    [100n, 'waiting_for_block'],
    [101n, 'fee_too_low_for_market'],
    [1_000n, 'fee_too_low_for_market'],
    [1_001n, 'fee_cap_reached'],
    [null, 'waiting_for_block'],
  ] as const) {
    world.mine(Number(baseFee ?? 0) + 200, baseFee)
    assert.equal(await codeOf(account, id), code, String(baseFee))
  }
  world.mine(1_500, 101n)
  assert.equal((await reasonOf(account, id))!.detail, 'The base fee is 101 wei per gas, and the transaction offers 100. A fee bump is in progress.') // prettier-ignore
})

test('that no node has confirmed it is a reason', async () => {
  const account = await world.account('unconfirmed')
  const { id } = await world.row(account, late, { broadcast_at: null })
  assert.equal(await codeOf(account, id), 'node_unreachable')
})

test('what a keeper has noted of the lowest open nonce is its reason, with its words', async () => {
  const account = await world.account('noted')
  const { id } = await world.row(account, late, { broadcast_at: null })
  const trouble: Trouble = { code: 'insufficient_funds', detail: 'The account needs 7 wei.' }
  await noteTroubles(world.db, 31_337, [{ from: account.address, nonce: 0, trouble }])
  assert.deepEqual(await reasonOf(account, id), trouble)
  await noteTroubles(world.db, 31_337, [{ from: account.address, nonce: 0, trouble: null }])
  assert.equal(await codeOf(account, id), 'node_unreachable')
})

test('behind an earlier write it is named, with what that waits for; beyond the sixteen it is queued', async () => {
  const account = await world.account('behind')
  const first = await world.row(account, { nonce: 7, ...late }, sent)
  const others = []
  for (const nonce of [8, 10, 11, 12]) {
    // A transaction that a node has was never queued, however far it is from the first nonce.
    const queued = nonce === 12 ? { queued_sender: fromHex(account.address), queued_nonce: nonce } : {}
    others.push(await world.row(account, { nonce, ...late }, { broadcast_at: null, ...queued }))
  }
  await noteTroubles(world.db, 31_337, [
    { from: account.address, nonce: 7, trouble: { code: 'fee_cap_reached', detail: 'too dear' } },
    // This is no reason for a write with a later nonce.
    { from: account.address, nonce: 8, trouble: { code: 'insufficient_funds', detail: 'too poor' } },
  ])
  assert.deepEqual(await reasonOf(account, others[0]!.id), {
    code: 'behind_earlier',
    detail: `Writes of an account are mined in order. Transaction ${first.id} waits (fee_cap_reached).`,
  })
  const codes = []
  for (const { id } of others) codes.push(await codeOf(account, id))
  assert.deepEqual(codes, ['behind_earlier', 'behind_earlier', 'behind_earlier', 'queued'])
  assert.equal((await reasonOf(account, others[3]!.id))!.detail, 'The write is sent when fewer than 4 earlier writes of the account are open.') // prettier-ignore
})

test('an application is not told the id of another application’s write, nor of one without bytes', async () => {
  const account = await world.account('private')
  const first = await world.row(account, { nonce: 0, client_id: 'other', ...late }, sent)
  const { id } = await world.row(account, { nonce: 1, ...late }, sent)
  const told = async () => (await reasonOf(account, id))!.detail
  assert.equal(
    await told(),
    'Writes of an account are mined in order. An earlier transaction of another application waits.',
  )
  await world.db.updateTable('transactions').set({ client_id: '' }).where('id', '=', first.id).execute()
  assert.equal(await told(), `Writes of an account are mined in order. Transaction ${first.id} waits.`)
  for (const state of ['BOUND', 'VACANT'] as const) {
    await world.db.updateTable('transactions').set({ client_id: 'demo', hash: null, state }).where('id', '=', first.id).execute() // prettier-ignore
    assert.equal(await told(), 'Writes of an account are mined in order. An earlier write was never signed. A gap-filling transaction for its nonce follows automatically.') // prettier-ignore
  }
})

test('of a stopped account that is the reason, where nothing else is known', async () => {
  const account = await world.account('stopped')
  const { id } = await world.row(account, late, sent)
  const lane = { sender: fromHex(account.address), nonce: 3, hash: null, reason: 'foreign_nonce' }
  await world.db.insertInto('stopped_lanes').values({ chain_id: 1, ...lane }).execute() // prettier-ignore
  assert.equal(await codeOf(account, id), 'waiting_for_block')
  await world.db.insertInto('stopped_lanes').values({ chain_id: 31_337, ...lane }).execute() // prettier-ignore
  assert.equal(await codeOf(account, id), 'account_stopped')
})

test('of a network that is not followed every write says so, at which block and why', async () => {
  const account = await world.account('halted')
  const ids: string[] = []
  for (const nonce of [0, 1]) ids.push((await world.row(account, { nonce, ...late }, sent)).id)
  const told = async () => [await reasonOf(account, ids[0]!), await reasonOf(account, ids[1]!)]
  const cursor = { chain_id: 31_337, block_number: 7, block_hash: Buffer.alloc(32), finalized_number: 0, epoch: 1 }
  const nobody = { lease_owner: null, lease_until: null, halted: null }
  await world.db.insertInto('cursors').values({ ...cursor, ...nobody }).execute() // prettier-ignore
  assert.deepEqual((await told()).map((one) => one?.code), ['waiting_for_block', 'behind_earlier']) // prettier-ignore
  const before = 'The server has not read the network beyond block 7, so the result of the transaction is unknown.'
  for (const [stop, why] of [
    [{ blocked_by: 'the node lacks receipts' }, 'Block 8 cannot be read: the node lacks receipts. The server retries.'],
    [{ halted: 'The node’s chain diverges.' }, 'The node’s chain diverges. An operator must check the network.'],
  ] as const) {
    await world.db.updateTable('cursors').set(stop).execute()
    const reason = { code: 'network_stopped', detail: `${before} ${why}` }
    assert.deepEqual(await told(), [reason, reason])
  }
  await world.db.deleteFrom('cursors').execute()
})

test('a list has the reasons of its writes; those of other accounts and networks change nothing', async () => {
  const account = await world.account('list')
  const other = await world.account('list-other')
  await world.row(other, { nonce: 0, ...late }, sent)
  await world.row(account, { nonce: 0, chain_id: 1, ...late }, sent)
  await world.row(account, { nonce: 3, state: 'MINED', ...late }, sent)
  await world.row(account, { nonce: 4, ...late }, sent)
  await world.row(account, { nonce: 5, ...late }, sent)
  await world.row(account, { nonce: 6 }, sent)
  const { transactions } = await listTransactions(world.app, callerOf(account), { limit: 10 })
  const byNonce = transactions.map(({ nonce, reason }) => [nonce, reason?.code ?? null])
  assert.deepEqual(byNonce.toSorted(([a], [b]) => Number(a) - Number(b)), [[3, null], [4, 'waiting_for_block'], [5, 'behind_earlier'], [6, null]]) // prettier-ignore
})
