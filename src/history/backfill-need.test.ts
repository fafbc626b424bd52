import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { sql } from 'kysely'
import type { Hex } from '../ids.ts'
import { ALICE, backfillStage, BOB, CAROL, CHAIN, idOf } from '../../test/backfill-stage.ts'
import { addressOf, scriptedChain } from '../../test/nodes/scripted-chain.ts'
import { nextByNeed, selectByNeed } from './backfill-need.ts'
import { storeWishes, wishForPast } from './backfill-wishes.ts'
import { noteCoverage } from './coverage.ts'
import { stoppedClock } from '../../test/kit/clock.ts'

const ERIN = addressOf(0xe1)

suite('whose past is looked up next', () => {
  const { app, add, followedChain } = backfillStage()
  /** The same in however many statements accounts are read. */
  const order = async () => {
    const wanted = { chainId: CHAIN, fromBlock: 0, atMost: 9 }
    const { accountIds, waiting } = await selectByNeed(app.db, wanted)
    assert.equal(waiting, accountIds.length)
    for (const batch of [1, 2, 3, 4])
      assert.deepEqual(await selectByNeed(app.db, { ...wanted, batch }), { accountIds, waiting }, `${batch}`)
    const some = await selectByNeed(app.db, { ...wanted, atMost: 3, batch: 2 })
    assert.deepEqual(some, { accountIds: accountIds.slice(0, 3), waiting })
    return accountIds
  }
  const application = (clientId: string, chainId = CHAIN, isSuspended = false) =>
    app.db
      .insertInto('applications')
      .values({
        ...{ client_id: clientId, name: clientId, chain_id: chainId, kind: 'public', logo_uri: null },
        ...{ redirect_uris: '[]', permissions: '[]', allowed_origins: '[]', secret_hashes: '[]' },
        suspended_at: isSuspended ? new Date() : null,
      })
      .execute()
  const consent = (address: Hex, clientId: string) =>
    app.db
      .insertInto('consents')
      .values({ account_id: idOf(address), client_id: clientId, permissions: '[]' })
      .execute()
  const seen = (address: Hex, provider: string, daysAgo: number) =>
    app.db
      .insertInto('identities')
      .values({
        ...{ provider, subject: address, account_id: idOf(address), username: 'x', image_src: null, email: null },
        ...{ email_verified: null, signed_in_at: new Date(Date.now() - daysAgo * 86_400_000) },
      })
      .execute()
  const forget = async () => {
    for (const table of ['applications', 'consents', 'application_users', 'identities'] as const)
      await app.db.deleteFrom(table).execute()
  }
  /** Made in this order, the first is the newest. */
  const people = [ALICE, BOB, CAROL, ERIN]
  const wish = async (chain: ReturnType<typeof scriptedChain>['chain'], address: Hex) => {
    wishForPast(chain, idOf(address))
    await storeWishes(app.db, chain)
  }
  test('those that more applications of the network act for come first, and nobody’s by age last', async (t) => {
    t.after(forget)
    await add(...people)
    for (const clientId of ['one', 'two']) await application(clientId)
    assert.deepEqual(await order(), people.map(idOf))
    await consent(ERIN, 'one')
    await consent(ERIN, 'two')
    await consent(CAROL, 'two')
    assert.deepEqual(await order(), [ERIN, CAROL, ALICE, BOB].map(idOf))
    // An application that exchanges tokens of its own asks for no consent.
    await app.db
      .insertInto('application_users')
      .values({ client_id: 'one', account_id: idOf(BOB) })
      .execute()
    assert.deepEqual(await order(), [ERIN, BOB, CAROL, ALICE].map(idOf))
    // One and the same is no second one.
    await app.db
      .insertInto('application_users')
      .values({ client_id: 'two', account_id: idOf(CAROL) })
      .execute()
    assert.deepEqual(await order(), [ERIN, BOB, CAROL, ALICE].map(idOf))
  })

  test('applications of other networks, suspended ones and those that are gone count for nothing', async (t) => {
    t.after(forget)
    await add(...people)
    await application('here')
    await application('there', 5)
    await application('suspended', CHAIN, true)
    for (const clientId of ['there', 'suspended', 'gone']) {
      await consent(ERIN, clientId)
      await app.db
        .insertInto('application_users')
        .values({ client_id: clientId, account_id: idOf(CAROL) })
        .execute()
    }
    await consent(BOB, 'here')
    assert.deepEqual(await order(), [BOB, ALICE, CAROL, ERIN].map(idOf))
  })

  test('of those that applications act for who signed in within thirty days comes before who did not, and of equals the latest', async (t) => {
    t.after(forget)
    await add(...people)
    for (const clientId of ['one', 'two']) await application(clientId)
    for (const address of [ALICE, BOB, CAROL]) await consent(address, 'one')
    await consent(ALICE, 'two')
    await seen(ALICE, 'DEV', 31)
    await seen(BOB, 'DEV', 29)
    // The latest of the ways to sign in decides.
    await seen(CAROL, 'DEV', 400)
    await seen(CAROL, 'GOOGLE', 28)
    // Seen now, and used by no application here.
    await seen(ERIN, 'DEV', 0)
    assert.deepEqual(await order(), [CAROL, BOB, ALICE, ERIN].map(idOf))
    await seen(ALICE, 'GOOGLE', 29)
    assert.deepEqual(await order(), [ALICE, CAROL, BOB, ERIN].map(idOf))
  })

  test('who is used by no application comes by when they were seen, lately or not, and before who never was', async (t) => {
    t.after(forget)
    await add(...people)
    await seen(CAROL, 'DEV', 90)
    await seen(ERIN, 'DEV', 60)
    assert.deepEqual(await order(), [ERIN, CAROL, ALICE, BOB].map(idOf))
  })

  test('all accounts are read once for many groups; who asks meanwhile is next, and who was covered meanwhile is left out', async () => {
    const { chain } = await followedChain()
    await add(...people)
    const next = () => nextByNeed(app.db, chain, { fromBlock: 0, atMost: 1 })
    assert.deepEqual(await next(), { accountIds: [idOf(ALICE)], counted: { waiting: 4, covered: 0 } })
    await noteCoverage(app.db, chain, { accountIds: [idOf(ALICE), idOf(BOB)], from: 0 })
    await wish(chain, ERIN)
    assert.deepEqual(await next(), { accountIds: [idOf(ERIN)], counted: null })
    await noteCoverage(app.db, chain, { accountIds: [idOf(ERIN)], from: 0 })
    assert.deepEqual(await next(), { accountIds: [idOf(CAROL)], counted: null })
    // Nobody is left of that order: all are counted anew.
    assert.deepEqual(await next(), { accountIds: [idOf(CAROL)], counted: { waiting: 1, covered: 3 } })
    await noteCoverage(app.db, chain, { accountIds: [idOf(CAROL)], from: 0 })
    assert.deepEqual(await next(), { accountIds: [], counted: { waiting: 0, covered: 4 } })
  })

  test('one who asked is in a group once, and others fill it', async () => {
    const { chain } = await followedChain()
    await add(ALICE, BOB)
    await wish(chain, BOB)
    const { accountIds } = await nextByNeed(app.db, chain, { fromBlock: 0, atMost: 9 })
    assert.deepEqual(accountIds, [BOB, ALICE].map(idOf))
    const rest = await nextByNeed(app.db, chain, { fromBlock: 0, atMost: 9 })
    // Where some asked, the others wait for the next look: that they are not many is known.
    assert.deepEqual(rest, { accountIds: [idOf(BOB)], counted: null })
  })

  test('where more wait than one look puts into order, the next look comes as soon as that is used up', async () => {
    const { chain } = await followedChain()
    await add(...people)
    const next = () => nextByNeed(app.db, chain, { fromBlock: 0, atMost: 2, planned: 3 })
    assert.deepEqual(await next(), { accountIds: [ALICE, BOB].map(idOf), counted: { waiting: 4, covered: 0 } })
    await noteCoverage(app.db, chain, { accountIds: [ALICE, BOB].map(idOf), from: 0 })
    assert.deepEqual(await next(), { accountIds: [CAROL, ERIN].map(idOf), counted: { waiting: 2, covered: 2 } })
  })

  test('an order is gone by for ten minutes and not longer, and not where another first block is looked up', async () => {
    const { chain } = await followedChain()
    const clock = stoppedClock()
    chain.clock = clock
    await add(...people)
    const next = (fromBlock: number) => nextByNeed(app.db, chain, { fromBlock, atMost: 1 })
    const all = { waiting: 4, covered: 0 }
    assert.deepEqual((await next(0)).counted, all)
    await clock.advance(600_000)
    assert.deepEqual(await next(0), { accountIds: [idOf(BOB)], counted: null })
    await clock.advance(1)
    assert.deepEqual(await next(0), { accountIds: [idOf(ALICE)], counted: all })
    assert.deepEqual(await next(3), { accountIds: [idOf(ALICE)], counted: all })
    assert.deepEqual(await next(3), { accountIds: [idOf(BOB)], counted: null })
  })

  test('a look that took long is not repeated before a hundred times as long', async () => {
    const { chain } = await followedChain()
    const clock = stoppedClock()
    chain.clock = clock
    await add(...people)
    let isSlow = true
    const slow = app.db.withPlugin({
      transformQuery: ({ node }) => node,
      transformResult: async ({ result }) => {
        if (isSlow && 'asked' in (result.rows[0] ?? {})) await clock.advance(20_000)
        return result
      },
    })
    const next = () => nextByNeed(slow, chain, { fromBlock: 0, atMost: 1 })
    assert.notEqual((await next()).counted, null)
    isSlow = false
    await clock.advance(2_000_000)
    assert.equal((await next()).counted, null)
    await clock.advance(1)
    assert.notEqual((await next()).counted, null)
  })

  test('sponsors are neither waiting nor covered', async () => {
    const { chain } = await followedChain()
    await add(ALICE, BOB)
    await sql`update accounts set user_id = 'SPONSOR-house' where account_id = ${idOf(ALICE)}`.execute(app.db)
    const { accountIds, counted } = await nextByNeed(app.db, chain, { fromBlock: 0, atMost: 9 })
    assert.deepEqual([accountIds, counted], [[idOf(BOB)], { waiting: 1, covered: 0 }])
  })
})
