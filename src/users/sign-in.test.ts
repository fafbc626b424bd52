import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import { sql } from 'kysely'
import { attestingSigner } from '../../test/attesting.ts'
import { noIdentityKeys } from '../../test/identity-keys.ts'
import { testDatabase } from '../../test/database.ts'
import type { App } from '../app.ts'
import { accountIdOf, type Hex } from '../ids.ts'
import { openState } from '../state.ts'
import { findUser, provenUser, userWire } from './find.ts'
import { linkIdentity } from './identities.ts'
import { cleanProfile, type Profile } from './profile.ts'
import { signIn } from './sign-in.ts'

const addressOf = (userId: string): Hex => `0x${createHash('sha256').update(userId).digest('hex').slice(0, 40)}`
const alice: Profile = {
  provider: 'ONE',
  subject: '7',
  username: 'alice',
  imageSrc: 'https://one.example/a.png',
  email: 'a@one.example',
  emailVerified: true,
}

async function house(t: TestContext, faucet: ((address: Hex) => Promise<void>) | null = null) {
  const { db, close } = await testDatabase()
  t.after(close)
  const warned: string[] = []
  const app = {
    db,
    signer: attestingSigner(addressOf),
    state: openState(),
    identityKeys: noIdentityKeys,
    chains: new Map([[1, { chainId: 1, gas: 'self', faucet }]]),
    telemetry: { log: { warn: (event: string) => warned.push(event) } },
  } as unknown as App
  return { app, db, warned }
}

test('the same subject at two providers is two people, and so is the same e-mail or username', async (t) => {
  const { app } = await house(t)
  const one = await signIn(app, alice)
  const two = await signIn(app, { ...alice, provider: 'TWO' })
  const three = await signIn(app, { ...alice, subject: '8' })
  assert.deepEqual([one.userId, two.userId, three.userId], ['ONE-7', 'TWO-7', 'ONE-8'])
  assert.equal(new Set([one.address, two.address, three.address]).size, 3)
  assert.equal(new Set([one.accountId, two.accountId, three.accountId]).size, 3)
})

test('name, picture and e-mail follow the provider; the account stays', async (t) => {
  const { app } = await house(t)
  const first = await signIn(app, alice)
  const again = await signIn(app, { ...alice, username: 'alicia', imageSrc: null, email: null, emailVerified: null })
  assert.deepEqual([first.isNew, again.isNew], [true, false])
  assert.equal(again.address, first.address)
  const user = await findUser(app, 'ONE-7')
  assert.deepEqual([user?.username, user?.imageSrc, user?.email, user?.emailVerified], ['alicia', null, null, null])
})

test('concurrent first sign-ins give one account and coins once', async (t) => {
  const given: string[] = []
  const { app, db } = await house(t, async (address) => void given.push(address))
  const all = await Promise.all(Array.from({ length: 8 }, () => signIn(app, alice)))
  assert.equal(new Set(all.map(({ address }) => address)).size, 1)
  assert.equal(all.filter(({ isNew }) => isNew).length, 1)
  assert.deepEqual(given, [all[0]!.address])
  assert.equal((await db.selectFrom('accounts').selectAll().execute()).length, 1)
})

test('a faucet that fails stops nobody', async (t) => {
  const { app, warned } = await house(t, () => Promise.reject(new Error('dry')))
  assert.equal((await signIn(app, alice)).isNew, true)
  assert.deepEqual(warned, ['faucet_failed'])
})

test('a signer that does not answer leaves nothing behind', async (t) => {
  const { app, db } = await house(t)
  const broken = { ...app, signer: { createAccount: () => Promise.reject(new Error('away')) } } as unknown as App
  await assert.rejects(signIn(broken, alice))
  assert.deepEqual(await db.selectFrom('identities').selectAll().execute(), [])
  assert.equal((await signIn(app, alice)).isNew, true)
})

test('an account made before its owner came is the one they get', async (t) => {
  const { app, db } = await house(t)
  const before = await signIn(app, alice)
  await db.updateTable('identities').set({ signed_in_at: null }).execute()
  assert.deepEqual(await signIn(app, alice), { ...before, isNew: false })
})

test('a linked identity leads to the stable user', async (t) => {
  const { app, db } = await house(t)
  const { accountId, address } = await signIn(app, alice)
  await db
    .insertInto('identities')
    .values({
      provider: 'TWO',
      subject: 'x-y',
      account_id: accountId,
      username: 'other',
      image_src: null,
      email: null,
      email_verified: null,
    })
    .execute()
  assert.equal((await signIn(app, { ...alice, provider: 'TWO', subject: 'x-y' })).userId, 'ONE-7')
  const user = await findUser(app, 'TWO-x-y')
  assert.deepEqual([user?.userId, user?.stored.address], ['ONE-7', address])
  assert.equal(userWire(await provenUser(app, user!)).id, 'ONE-7')
  for (const unknown of ['ONE-8', 'ONE', '', 'one-7', 'ONE-', 'ONE-\0'])
    assert.equal(await findUser(app, unknown), null)
})

test('what a provider says is cleaned: control and invisible characters, long names, other schemes', () => {
  const clean = (username: string | null, imageSrc: string | null = null) =>
    cleanProfile({ ...alice, username, imageSrc })
  assert.equal(clean('a\0b\u202ec\ud800').username, 'abc\ufffd')
  assert.equal(clean(' \u200b ').username, '7')
  assert.equal(clean(null).username, '7')
  assert.equal(clean('x'.repeat(300)).username.length, 255)
  assert.ok(clean(`${'x'.repeat(254)}😀`).username.isWellFormed())
  assert.equal(clean('Zoë 😀').username, 'Zoë 😀')
  for (const bad of [
    'javascript:alert(1)',
    'data:image/png;base64,AA',
    'ftp://x/y',
    'no url',
    `https://x/${'y'.repeat(3_000)}`,
  ])
    assert.equal(clean('a', bad).imageSrc, null)
  assert.equal(clean('a', 'https://x.example/y.png').imageSrc, 'https://x.example/y.png')
  assert.deepEqual(
    [cleanProfile({ ...alice, email: '\0' }).email, cleanProfile({ ...alice, email: '\0' }).emailVerified],
    [null, null],
  )
})

test('a first sign-in that ends leaves no account without its identity, nor the identity of such a one to somebody else', async (t) => {
  const { app, db } = await house(t)
  await signIn(app, alice)
  const owner = { accountId: accountIdOf('ONE', '7'), userId: 'ONE-7' as const }
  await sql`create function refuse() returns trigger language plpgsql as 'begin raise exception ''ended''; end'`.execute(
    db,
  )
  for (const table of ['accounts', 'identities']) {
    await sql`create trigger refuse before insert on ${sql.table(table)} execute function refuse()`.execute(db)
    await assert.rejects(signIn(app, { ...alice, subject: '8' }), /ended/)
    await sql`drop trigger refuse on ${sql.table(table)}`.execute(db)
    for (const where of ['accounts', 'identities'] as const)
      assert.equal((await db.selectFrom(where).select('account_id').execute()).length, 1, where)
  }
  // As an earlier version could leave it.
  await signIn(app, { ...alice, subject: '8' })
  await db.deleteFrom('identities').where('subject', '=', '8').execute()
  assert.equal(await linkIdentity(app, owner, { ...alice, subject: '8' }), 'has_own_account')
  assert.equal((await signIn(app, { ...alice, subject: '8' })).userId, 'ONE-8')
  assert.equal(await linkIdentity(app, owner, { ...alice, subject: '9' }), 'linked')
})
