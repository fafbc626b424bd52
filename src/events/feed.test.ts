import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { age } from '../../test/lost-tail.ts'
import { writing, type Writer, type Writing } from '../../test/writing.ts'
import { writeContract } from '../contracts/write.ts'
import { noteUser } from '../applications/registry.ts'
import { toHex } from '../hex.ts'
import { interruptSteps } from '../transactions/crash-points.ts'
import { cancelTransaction, speedUpTransaction } from '../transactions/lanes/change.ts'
import { reconcileNonce } from '../transactions/recovery/reconcile.ts'
import { markFinal, markReplaced } from '../transactions/settle/states.ts'
import { freezeAccount, unfreezeAccount } from '../users/freeze.ts'
import { readTransaction } from '../transactions/read/read.ts'
import { readEvents, type Feed } from './read.ts'
import { sequence } from './sequence.ts'
import { deleteOldEvents } from './sweep.ts'
import type { WireEvent } from './wire.ts'

let world: Writing
before(async () => {
  world = await writing()
  await sql`update applications set permissions = permissions || '["events:read"]'`.execute(world.db)
})
after(() => world.close())

const MACHINE: Feed = { clientId: 'demo', accountId: null }

/** Moves all facts into feeds, and reads a whole feed. */
async function feed(of: Feed = MACHINE, after: number | null = null): Promise<WireEvent[]> {
  while ((await sequence(world.db)) > 0);
  const { events } = await readEvents(world.first.app, of, { after, types: null, limit: 1_000 })
  return events
}
const about = (events: WireEvent[], id: string) => events.filter(({ subject }) => subject === `transaction:${id}`)
const typesOf = (events: WireEvent[]) => events.map(({ type }) => type.split('.')[1])
const transitionsOf = async (writer: Writer, id: string) =>
  (await readTransaction(world.first.app, writer, id)).transitions

const addConsentTo = ({ accountId }: Writer) =>
  sql`insert into consents (account_id, client_id, permissions) values (${accountId}::uuid, 'demo', '["users:read"]')`.execute(
    world.db,
  )

/** The name of each transition in the feed. */
const NAMES: Record<string, string> = { MINED: 'mined', FINALIZED: 'finalized', REVERTED: 'reverted', CANCELLED: 'cancelled', REPLACED: 'replaced', FAILED: 'failed' } // prettier-ignore

test('the feed has an event for each transition of a transaction, in their order, with the hash and block of each', async () => {
  const writer = await world.writer('each')
  const { answer } = await world.add(world.first, writer)
  await world.mine()
  await world.mine()
  await world.mine()
  const found = about(await feed(), answer.id)
  assert.deepEqual(typesOf(found), ['submitted', 'mined', 'finalized'])
  const transitions = await transitionsOf(writer, answer.id)
  assert.deepEqual(
    typesOf(found).slice(1),
    transitions.slice(1).map(({ state }) => NAMES[state]),
  )
  const { receipt } = await readTransaction(world.first.app, writer, answer.id)
  const mined = found[1]!
  assert.deepEqual(
    [mined.data.hash, mined.data.blockNumber, mined.data.blockHash, mined.data.state],
    [answer.hash, receipt!.blockNumber, receipt!.blockHash, 'MINED'],
  )
  assert.deepEqual([mined.userId, mined.chainId, found[0]!.data.blockHash], ['DEV-each', 31_337, null])
  assert.ok(found.every(({ sequence: one }, index) => index === 0 || one > found[index - 1]!.sequence))
})

test('each event of a write has the reference of its request', async () => {
  const writer = await world.writer('refers')
  const call = { address: world.probe, abi: 'add(uint256 amount)', args: ['1'] }
  for (const reference of ['order-17', null]) {
    const { answer } = await writeContract(
      world.first.app,
      writer,
      { ...call, ...(reference === null ? {} : { reference }) },
      {},
    )
    await world.mine()
    const found = about(await feed(), answer.id)
    assert.deepEqual(typesOf(found).slice(0, 2), ['submitted', 'mined'])
    for (const { data } of found) assert.equal(data.reference, reference)
  }
})

test('a reorganisation retracts the event of the block that is gone, by its id; a return of the block is another event', async () => {
  const writer = await world.writer('reorg')
  const snapshot = await world.rpc('evm_snapshot')
  const { answer } = await world.add(world.first, writer)
  await world.mine()
  const raw = await world.db
    .selectFrom('attempts')
    .select('raw')
    .where('transaction_id', '=', answer.id)
    .executeTakeFirstOrThrow()
  await world.rpc('evm_revert', snapshot)
  await world.rpc('evm_mine')
  await world.rpc('evm_mine')
  await world.followed()
  const found = about(await feed(), answer.id)
  assert.deepEqual(typesOf(found), ['submitted', 'mined', 'retracted'])
  assert.equal(found[2]!.data.retracts, found[1]!.id)
  assert.equal(found[2]!.data.state, 'SUBMITTED')
  await world.rpc('eth_sendRawTransaction', `0x${Buffer.from(raw.raw!).toString('hex')}`)
  await world.mine()
  const again = about(await feed(), answer.id)
  assert.deepEqual(typesOf(again), ['submitted', 'mined', 'retracted', 'mined'])
  assert.notEqual(again[3]!.id, again[1]!.id)
})

test('bytes that the database has lost, a fee bump among them, come again from the ledger under the ids that were read', async () => {
  const writer = await world.writer('bumped')
  const { answer } = await world.add(world.first, writer)
  const { hash } = await speedUpTransaction(world.first.app, writer, answer.id)
  assert.notEqual(hash, answer.hash)
  const known = about(await feed(), answer.id)
  assert.deepEqual(typesOf(known), ['submitted', 'resubmitted'])
  const { nonce, sender } = await world.db.selectFrom('transactions').select(['nonce', 'sender']).where('id', '=', answer.id).executeTakeFirstOrThrow() // prettier-ignore
  await world.db.deleteFrom('attempts').where('transaction_id', '=', answer.id).execute()
  await world.db.deleteFrom('transactions').where('id', '=', answer.id).execute()
  await reconcileNonce(world.first.app, { chainId: 31_337, from: toHex(sender), nonce })
  const again = about(await feed(), answer.id).slice(2)
  assert.deepEqual(
    again.map(({ id, data }) => [id, data.hash]),
    [[known[1]!.id, hash]],
  )
})

test('a nonce whose intent was never signed has no event when another transaction uses it', async () => {
  const writer = await world.writer('untold')
  const { answer } = await world.add(world.first, writer)
  const { id } = answer
  // As a nonce whose intent had no bytes when another transaction used it.
  await sql`update transactions set hash = null, state = 'BOUND', transitions = '[]' where id = ${id}`.execute(world.db)
  await feed()
  await markReplaced(world.db, world.first.app, { id, hash: `0x${'5a'.repeat(32)}`, blockNumber: 1, blockHash: `0x${'5b'.repeat(32)}` }) // prettier-ignore
  assert.deepEqual(await transactionsOf('DEV-untold'), [`transaction:${id}`])
  await markFinal(world.db, world.first.app, 31_337, 1)
  assert.deepEqual(await transactionsOf('DEV-untold'), [`transaction:${id}`])
})

/** The events of a user's transactions: their ids without repeats. */
const transactionsOf = async (userId: string) => [
  ...new Set((await feed()).filter((one) => one.userId === userId).map(({ subject }) => subject)),
]

test('a nonce whose intent was abandoned before it was signed has no event, neither when it is filled, mined, retracted nor final', async () => {
  const writer = await world.writer('abandoned')
  const { app } = world.first
  interruptSteps(app, (step) => {
    if (step === 'after-bind') throw new Error('killed')
  })
  await assert.rejects(world.add(world.first, writer, 1, 'k'), /killed/)
  interruptSteps(app, null)
  const { answer } = await world.add(world.first, writer)
  await age(app, 40)
  const keeper = world.first.keeper()
  await keeper.round()
  const snapshot = await world.rpc('evm_snapshot')
  await world.mine()
  await world.rpc('evm_revert', snapshot)
  await world.rpc('evm_mine')
  await world.mine()
  await keeper.round()
  await keeper.stop()
  for (let blocks = 0; blocks < 4; blocks++) await world.mine()
  const { rows } = await sql<{ state: string; is_final: boolean }>`
    select state, is_final from transactions where account_id = ${writer.accountId}::uuid and nonce = 0`.execute(
    world.db,
  )
  assert.deepEqual(rows, [{ state: 'CANCELLED', is_final: true }])
  assert.deepEqual(await transactionsOf('DEV-abandoned'), [`transaction:${answer.id}`])
  // The cancellation of a write that its caller knows is told as before.
  const { answer: known } = await world.add(world.first, writer)
  await cancelTransaction(app, writer, known.id)
  await world.mine()
  assert.deepEqual(typesOf(about(await feed(), known.id)), ['submitted', 'resubmitted', 'cancelled'])
})

test('a user sees the events of their own account, and not those of others', async () => {
  const [mine, others] = [await world.writer('mine'), await world.writer('others')]
  await world.add(world.first, mine)
  await world.add(world.first, others)
  const own = await feed({ clientId: 'demo', accountId: mine.accountId })
  assert.deepEqual([...new Set(own.map(({ userId }) => userId))], ['DEV-mine'])
})

test('what happens to an account goes to each application that the user signed in to; until the user allows users:read, only the user sees it there', async () => {
  const writer = await world.writer('frozen')
  await noteUser(world.db, { clientId: 'demo', accountId: writer.accountId })
  await freezeAccount(world.db, 'DEV-frozen')
  await unfreezeAccount(world.db, 'DEV-frozen')
  const own = { clientId: 'demo', accountId: writer.accountId }
  const ofUser = (events: WireEvent[]) =>
    events.filter(({ subject }) => subject === 'user:DEV-frozen').map(({ type }) => type)
  assert.deepEqual(ofUser(await feed(own)), ['user.created', 'account.frozen', 'account.unfrozen'])
  assert.deepEqual(ofUser(await feed()), ['user.created'])
  await addConsentTo(writer)
  await freezeAccount(world.db, 'DEV-frozen')
  assert.deepEqual(ofUser(await feed()), ['user.created', 'consent.granted', 'account.frozen'])
})

test('a user who revokes an application takes back what it saw of the account; what it did itself stays', async () => {
  const writer = await world.writer('leaving')
  await noteUser(world.db, { clientId: 'demo', accountId: writer.accountId })
  await addConsentTo(writer)
  await world.add(world.first, writer)
  await freezeAccount(world.db, 'DEV-leaving')
  const seen = async () => (await feed()).filter(({ userId }) => userId === 'DEV-leaving').map(({ type }) => type)
  assert.deepEqual(await seen(), ['user.created', 'consent.granted', 'transaction.submitted', 'account.frozen'])
  await sql`delete from consents where account_id = ${writer.accountId}::uuid`.execute(world.db)
  assert.deepEqual(await seen(), ['user.created', 'consent.granted', 'transaction.submitted', 'grant.revoked'])
})

test('an application without events:read has no facts and no feed', async () => {
  await sql`update applications set permissions = permissions - 'events:read'`.execute(world.db)
  const before = await feed()
  const writer = await world.writer('without')
  await world.add(world.first, writer)
  assert.equal(Number((await sql<{ n: number }>`select count(*)::int as n from facts`.execute(world.db)).rows[0]!.n), 0)
  assert.equal((await feed()).length, before.length)
  await sql`update applications set permissions = permissions || '["events:read"]'`.execute(world.db)
})

test('whoever continues from where events were deleted is told so, with the cursor from which to go on', async () => {
  const [first] = await feed()
  await sql`update events set at = now() - interval '40 days' where seq <= (select seq from events order by seq offset 3 limit 1)`.execute(
    world.db,
  )
  await deleteOldEvents(world.db, 'demo', 30)
  const refused = await readEvents(world.first.app, MACHINE, { after: first!.sequence, types: null, limit: 10 }).catch((error: unknown) => error) // prettier-ignore
  assert.equal((refused as { code?: string }).code, 'cursor_expired')
  assert.ok((await feed()).length > 0)
})
