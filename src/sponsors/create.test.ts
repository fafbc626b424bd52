import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import { attestingSigner } from '../../test/attesting.ts'
import { testDatabase } from '../../test/kit/database.ts'
import { madeSealKeys } from '../../test/seal-keys.ts'
import { bindNetwork, listNetworks } from '../applications/networks.ts'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { RpcUnavailable } from '../chain/rpc/failures.ts'
import { AppError } from '../errors.ts'
import { selectWaiting } from '../history/backfill-work.ts'
import { accountIdOf, type Hex } from '../ids.ts'
import { openState } from '../state.ts'
import { fromHex } from '../hex.ts'
import { openedHead } from '../../test/opened.ts'
import { askToResume } from '../transactions/recovery/resume.ts'
import { findOwner, findUser } from '../users/find.ts'
import { freezeAccount, unfreezeAccount } from '../users/freeze.ts'
import { pregenerate, restoreAccount } from '../users/pregenerate.ts'
import { signIn } from '../users/sign-in.ts'
import { createSponsor, findSponsoredChain } from './create.ts'
import { listSponsors } from './list.ts'
import { sponsorsOf, tellMissingSponsors } from './sponsors.ts'
import { systemClock } from '../clock.ts'

const addressOf = (userId: string): Hex => `0x${createHash('sha256').update(userId).digest('hex').slice(0, 40)}`
const HOUSE = addressOf('SPONSOR-HOUSE')

async function house(t: TestContext) {
  const { db, close } = await testDatabase()
  t.after(close)
  const [asked, told]: string[][] = [[], []]
  const signer = attestingSigner(addressOf)
  const app = {
    db,
    signer: {
      ...signer,
      createAccount: (request: { userId: string }) => {
        asked!.push(request.userId)
        return signer.createAccount(request)
      },
    },
    clock: systemClock,
    state: openState(),
    sealKeys: madeSealKeys(),
    chains: new Map<number, Chain>(),
    telemetry: {
      log: {
        warn: (event: string, { network }: { network: string }) => told!.push(`${event} ${network}`),
        error: (event: string) => told!.push(event),
      },
      addressesNotProven: { inc: () => {} },
    },
  } as unknown as App
  const facts = { symbol: 'ETH', coin: 'Ether', explorer: null, finality: 'finalized' as const }
  for (const [chainId, name] of [
    [5, 'five'],
    [7, 'seven'],
  ] as const)
    await bindNetwork(
      db,
      {
        ...facts,
        chainId,
        name,
        blockVerification: null,
        feeCapGwei: null,
        gas: 'topup',
        genesisHash: `0x${'11'.repeat(32)}`,
      },
      { mayBegin: false },
    )
  return { app, db, asked: asked!, told: told! }
}

test('a sponsor is an account of the signer under one name, on each network that it is made for; twice or at once is the same as once', async (t) => {
  const { app, db } = await house(t)
  const all = await Promise.all(Array.from({ length: 4 }, () => createSponsor(app, { name: 'HOUSE', chainId: 5 })))
  const sponsor = { accountId: accountIdOf('SPONSOR', 'HOUSE'), chainId: 5, name: 'HOUSE', address: HOUSE }
  for (const one of all) assert.deepEqual(one, sponsor)
  assert.deepEqual(await sponsorsOf(db, 5), [sponsor])
  assert.deepEqual(await sponsorsOf(db, 7), [])
  const elsewhere = await createSponsor(app, { name: 'HOUSE', chainId: 7 })
  assert.deepEqual(elsewhere, { ...sponsor, chainId: 7 })
  await createSponsor(app, { name: 'A_2', chainId: 5 })
  assert.deepEqual(
    (await sponsorsOf(db, 5)).map(({ name }) => name),
    ['A_2', 'HOUSE'],
  )
  assert.deepEqual(
    (await listNetworks(db)).map(({ name, sponsors }) => [name, sponsors]),
    [
      ['five', 2],
      ['seven', 1],
    ],
  )
})

test('what is no name of a sponsor and no network of this installation is refused before the signer is asked', async (t) => {
  const { app, db, asked } = await house(t)
  const refused = (pointer: string) => (error: unknown) =>
    error instanceof AppError && error.code === 'invalid_request' && error.errors?.[0]?.pointer === pointer
  for (const name of ['', 'house', 'THE HOUSE', 'A-B', 'A'.repeat(33), 'HÄUSER', 'A\0'])
    await assert.rejects(createSponsor(app, { name, chainId: 5 }), refused('/name'))
  await assert.rejects(findSponsoredChain(db, 'mars'), refused('/network'))
  assert.equal(await findSponsoredChain(db, 'seven'), 7)
  assert.deepEqual(asked, [])
})

test('a sponsor is no person: it has no identity, nobody finds it, signs in to it or makes its account, and no past is looked up for it', async (t) => {
  const { app, db, asked } = await house(t)
  await createSponsor(app, { name: 'HOUSE', chainId: 5 })
  assert.equal((await db.selectFrom('identities').selectAll().execute()).length, 0)
  assert.equal(await findUser(app, 'SPONSOR-HOUSE'), null)
  assert.equal(await findOwner(app, 'SPONSOR-HOUSE'), null)
  await assert.rejects(
    pregenerate(app, { provider: 'SPONSOR', providerUserId: 'OTHER' }),
    (error: unknown) => error instanceof AppError && error.errors?.[0]?.pointer === '/provider',
  )
  const profile = {
    provider: 'SPONSOR',
    subject: 'OTHER',
    username: null,
    imageSrc: null,
    email: null,
    emailVerified: null,
  }
  await assert.rejects(signIn(app, profile), /no identity provider has the name of sponsors/)
  assert.deepEqual(asked, ['SPONSOR-HOUSE'], 'for neither was an account made')
  assert.deepEqual((await selectWaiting(db, { chainId: 5, fromBlock: 0, atMost: 10 })).accountIds, [])
  const ann = await pregenerate(app, { provider: 'ONE', providerUserId: '1' })
  assert.deepEqual((await selectWaiting(db, { chainId: 5, fromBlock: 0, atMost: 10 })).accountIds, [
    accountIdOf('ONE', '1'),
  ])
  assert.equal(ann.userId, 'ONE-1')
})

test('the account of a person whose provider was once called so becomes no sponsor', async (t) => {
  const { app, db, asked } = await house(t)
  const accountId = accountIdOf('SPONSOR', 'HOUSE')
  await db
    .insertInto('accounts')
    .values({ account_id: accountId, user_id: 'SPONSOR-HOUSE', address: fromHex(HOUSE) })
    .execute()
  await db
    .insertInto('identities')
    .values({ provider: 'SPONSOR', subject: 'HOUSE', account_id: accountId, username: 'h' })
    .execute()
  await assert.rejects(
    createSponsor(app, { name: 'HOUSE', chainId: 5 }),
    (error: unknown) => error instanceof AppError && error.code === 'already_exists',
  )
  assert.deepEqual([await sponsorsOf(db, 5), asked], [[], []])
})

test('an account that the database lost comes back without an identity, and the sponsor with it once it is made again', async (t) => {
  const { app, db } = await house(t)
  assert.equal(await restoreAccount(db, { userId: 'SPONSOR-HOUSE', address: HOUSE }), true)
  assert.equal((await db.selectFrom('identities').selectAll().execute()).length, 0)
  assert.deepEqual(await sponsorsOf(db, 5), [])
  assert.equal((await createSponsor(app, { name: 'HOUSE', chainId: 5 })).address, HOUSE)
  assert.equal((await sponsorsOf(db, 5)).length, 1)
})

test('an operator freezes and resumes a sponsor as an account of a person', async (t) => {
  const { app, db } = await house(t)
  await createSponsor(app, { name: 'HOUSE', chainId: 5 })
  assert.notEqual((await freezeAccount(db, 'SPONSOR-HOUSE')).frozenAt, null)
  assert.equal((await unfreezeAccount(db, 'SPONSOR-HOUSE')).frozenAt, null)
  await assert.rejects(freezeAccount(db, 'SPONSOR-OTHER'), /no account/)
  await db
    .insertInto('stopped_lanes')
    .values({ chain_id: 5, sender: fromHex(HOUSE), nonce: 3, reason: 'foreign' })
    .execute()
  const [lane] = await askToResume(db, 'SPONSOR-HOUSE')
  assert.deepEqual([lane?.userId, lane?.nonce, lane?.resumeAskedAt === null], ['SPONSOR-HOUSE', 3, false])
})

test('the log names the networks whose people need a sponsor and have none, and no others', async (t) => {
  const { app, told } = await house(t)
  app.chains.set(5, { chainId: 5, name: 'five', gas: 'topup' } as Chain)
  app.chains.set(7, { chainId: 7, name: 'seven', gas: 'topup' } as Chain)
  app.chains.set(8, { chainId: 8, name: 'eight', gas: 'sponsor' } as Chain)
  app.chains.set(9, { chainId: 9, name: 'nine', gas: 'self' } as Chain)
  await createSponsor(app, { name: 'HOUSE', chainId: 7 })
  await tellMissingSponsors(app)
  assert.deepEqual(told, ['network_without_sponsor five', 'network_without_sponsor eight'])
})

test('a sponsor that is low on one network is not shown so on another', async (t) => {
  const { app, db } = await house(t)
  for (const chainId of [5, 7]) await createSponsor(app, { name: 'HOUSE', chainId })
  const { since } = await db
    .insertInto('low_sponsors')
    .values({ chain_id: 5, account_id: accountIdOf('SPONSOR', 'HOUSE') })
    .returning('since')
    .executeTakeFirstOrThrow()
  assert.deepEqual(
    (await listSponsors(app)).map(({ chainId, lowSince }) => [chainId, lowSince]),
    [
      [5, since.toISOString()],
      [7, null],
    ],
  )
})

test('a list says what each holds, where a node says it; an address that the database was given is shown to nobody, to be funded', async (t) => {
  const { app, db, told } = await house(t)
  await createSponsor(app, { name: 'HOUSE', chainId: 5 })
  await createSponsor(app, { name: 'HOUSE', chainId: 7 })
  const down = async () => {
    throw new RpcUnavailable('away', { timedOut: false })
  }
  app.chains.set(7, { chainId: 7, ...openedHead(), rpc: { call: down } } as unknown as Chain)
  const listed = await listSponsors(app)
  assert.deepEqual(
    listed.map(({ name, network, chainId, address, balance }) => [name, network, chainId, address.toLowerCase(), balance]),
    [['HOUSE', 'five', 5, HOUSE, null], ['HOUSE', 'seven', 7, HOUSE, null]],
  ) // prettier-ignore
  await db
    .updateTable('accounts')
    .set({ address: fromHex(addressOf('thief')) })
    .execute()
  const notProven = (error: unknown) => error instanceof AppError && error.code === 'address_not_proven'
  await assert.rejects(listSponsors(app), notProven)
  await assert.rejects(createSponsor(app, { name: 'HOUSE', chainId: 5 }), notProven)
  assert.ok(told.includes('address_not_proven'))
})
