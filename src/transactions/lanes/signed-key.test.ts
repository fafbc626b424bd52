import { strict as assert } from 'node:assert'
import { after, afterEach, before, describe, test } from 'node:test'
import { sql } from 'kysely'
import { age, keep, remember } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import type { Writer } from '../../../test/writing.ts'
import { interruptSteps, type Step } from '../crash-points.ts'
import { nobodysOperation } from '../rows.ts'
import { withWall } from '../../../test/kit/clock.ts'

/**
 * Key of an operation that its account has signed, that no transaction included, and whose deadline is over. Over HTTP.
 */
let world: Sponsored
/** seconds that the server is ahead of this machine, and of the signer, which signs nothing that ends over an hour ahead: some worlds, then */
const START = -300
let ahead = START
const inWorld = (what: string, tests: () => void): void =>
  void describe(what, () => {
    before(async () => {
      ahead = START
      world = await sponsored()
      world.first.app.clock = withWall(() => Date.now() + ahead * 1_000)
    })
    afterEach(async () => {
      interruptSteps(world.first.app, null)
      await world.mine()
    })
    after(() => world?.close())
    tests()
  })

async function write(writer: Writer, key: string, amount = 1): Promise<number> {
  const response = await world.first.server.inject({
    ...{ method: 'POST', url: '/v1/contracts/method/write' },
    headers: { authorization: `Bearer ${writer.token}`, 'idempotency-key': key, 'content-type': 'application/json' },
    payload: { address: world.probe, abi: 'add(uint256)', args: [String(amount)] },
  })
  return response.statusCode
}

/** Kills the first request at this step. */
async function dies(step: Step, request: () => Promise<number>): Promise<void> {
  interruptSteps(world.first.app, (now) => {
    if (now === step) throw new Error('killed')
  })
  assert.equal(await request(), 500)
  interruptSteps(world.first.app, null)
}

/** Moves the clock past the deadline of everything bound so far. */
async function later(): Promise<void> {
  ahead += 620
  await world.rpc('evm_increaseTime', 620)
  for (let block = 0; block < 3; block++) {
    await world.mine()
    await keep(world)
  }
  await age(world.first.app, 5)
}

const rowsOf = ({ accountId }: Writer) =>
  world.db.selectFrom('operations').selectAll().where('account_id', '=', accountId).orderBy('created_at').execute()

inWorld('signed, and over', () => {
  test('a key whose operation was signed, never carried, and is over, writes anew, once', async () => {
    const writer = await world.poor('signed')
    await dies('after-sign-operation', () => write(writer, 'key'))
    const [first] = await rowsOf(writer)
    await later()
    assert.deepEqual((await rowsOf(writer)).map(({ id, state }) => [id, state]), [[first!.id, 'FAILED']]) // prettier-ignore
    assert.equal(await write(writer, 'key'), 200)
    await world.mine()
    assert.equal(await write(writer, 'key'), 200)
    assert.equal(await world.countOf(writer), 1n)
    assert.deepEqual((await rowsOf(writer)).map(({ state }) => state), ['FAILED', 'MINED']) // prettier-ignore
    // The reservation of its cost is released.
    await keep(world)
    assert.equal((await rowsOf(writer))[0]!.charged, '0')
  })

  test('and so it does each time that this happens to it', async () => {
    const writer = await world.poor('signed-twice')
    for (let time = 0; time < 3; time++) {
      await dies('after-sign-operation', () => write(writer, 'key'))
      await later()
    }
    assert.equal(await write(writer, 'key'), 200)
    await world.mine()
    assert.equal(await world.countOf(writer), 1n)
    const rows = await rowsOf(writer)
    assert.equal(new Set(rows.map(({ id }) => id)).size, 4)
  })
})

inWorld('not signed, or not known to be', () => {
  test('a key whose operation nobody signed has its id again', async () => {
    const writer = await world.poor('unsigned')
    await dies('after-bind-operation', () => write(writer, 'key'))
    const [first] = await rowsOf(writer)
    await later()
    const [over] = await rowsOf(writer)
    assert.notEqual(over!.id, first!.id)
    // The account does not owe the delegation that it would have signed.
    assert.deepEqual([first!.authorization_nonce, over!.authorization_nonce], [0, null])
    assert.equal(await write(writer, 'key'), 200)
    await world.mine()
    assert.ok((await rowsOf(writer)).some(({ id, state }) => id === first!.id && state === 'MINED'))
    assert.equal(await world.countOf(writer), 1n)
  })

  test('while the signer cannot be asked whether it was signed, it is not over', async () => {
    const writer = await world.poor('away')
    await dies('after-sign-operation', () => write(writer, 'key'))
    const { app } = world.first
    const { signer } = app
    app.signer = { ...signer, recall: () => Promise.reject(new Error('the signer is away')) }
    await later()
    assert.equal((await rowsOf(writer))[0]!.state, 'BOUND')
    assert.equal(await write(writer, 'key'), 409)
    app.signer = signer
    await keep(world)
    assert.equal(await write(writer, 'key'), 200)
  })

  test('a row that has the number of what was signed, under no key any more, is in nobody’s way', async () => {
    const writer = await world.poor('renamed')
    await dies('after-sign-operation', () => write(writer, 'key'))
    const [first] = await rowsOf(writer)
    await later()
    // Simulate a signature just after the check that found none.
    await world.db.updateTable('operations').set(nobodysOperation()).where('id', '=', first!.id).execute()
    const statuses: number[] = []
    for (let again = 0; again < 4; again++) {
      statuses.push(await write(writer, 'key'))
      await world.mine()
      await keep(world)
      await age(world.first.app, 5)
    }
    assert.deepEqual(statuses, [409, 200, 200, 200])
    await world.mine()
    assert.equal(await world.countOf(writer), 1n)
  })

  test('a database that lost the second use of a key finds it again, and writes nothing twice', async () => {
    const writer = await world.poor('went-back')
    await dies('after-sign-operation', () => write(writer, 'key'))
    await later()
    const goBack = await remember(world.first.app)
    assert.equal(await write(writer, 'key'), 200)
    await goBack()
    assert.notEqual(await write(writer, 'key'), 500)
    await age(world.first.app, 5)
    await keep(world)
    await world.mine()
    assert.equal(await write(writer, 'key'), 200)
    await world.mine()
    assert.equal(await world.countOf(writer), 1n)
  })

  test('one whose number was another’s, and that nobody takes up, is over in time, too', async () => {
    const writer = await world.poor('numberless')
    await dies('after-bind-operation', () => write(writer, 'key'))
    await sql`update operations set sequence = -1 - sequence where account_id = ${writer.accountId}`.execute(world.db)
    await later()
    assert.equal((await rowsOf(writer))[0]!.state, 'FAILED')
  })
})
