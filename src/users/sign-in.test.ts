import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import { attestingSigner } from '../../test/attesting.ts'
import { madeSealKeys } from '../../test/seal-keys.ts'
import { testDatabase } from '../../test/kit/database.ts'
import type { App } from '../app.ts'
import { accountIdOf, type Hex, type UserId } from '../ids.ts'
import { openState } from '../state.ts'
import type { RootDb } from '../store/db.ts'
import { findUser, provenUser, userWire } from './find.ts'
import { linkIdentity } from './identities.ts'
import { cleanProfile, type Profile } from './profile.ts'
import { signIn } from './sign-in.ts'
import { stoppedClock } from '../../test/kit/clock.ts'

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
  const clock = stoppedClock()
  const app = {
    clock,
    db,
    signer: attestingSigner(addressOf),
    state: openState(),
    sealKeys: madeSealKeys(),
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
  const { app } = await house(t)
  const { accountId, userId, address } = await signIn(app, alice)
  assert.equal(await linkIdentity(app, { accountId, userId }, { ...alice, provider: 'TWO', subject: 'x-y' }), 'linked')
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
  // A blank letter, a soft hyphen and a joiner between Latin letters leave no trace in a name.
  for (const hidden of [
    '\u00ad',
    '\u034f',
    '\u115f',
    '\u180e',
    '\u200b',
    '\u200c',
    '\u200d',
    '\u2066',
    '\u3164',
    '\ufe0f',
    '\ufeff',
    '\uffa0',
    '\ufff9',
    '\u{e0041}',
    '\u200d\ufe0f',
  ])
    // prettier-ignore
    assert.equal(clean(`bo${hidden}b${hidden}`).username, 'bob', encodeURIComponent(hidden))
  for (const visible of ['\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645', '👩\u200d🚀', '❤\ufe0f', 'Zoë', '山田'])
    assert.equal(clean(visible).username, visible)
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
  // The state that an attacker leaves who can delete the row.
  await signIn(app, { ...alice, subject: '8' })
  await db.deleteFrom('identities').where('subject', '=', '8').execute()
  assert.equal(await linkIdentity(app, owner, { ...alice, subject: '8' }), 'has_own_account')
  assert.equal((await signIn(app, { ...alice, subject: '8' })).userId, 'ONE-8')
  assert.equal(await linkIdentity(app, owner, { ...alice, subject: '9' }), 'linked')
})

test('an identity that is linked while it signs in for the first time gets no account of its own beside that', async (t) => {
  const { app, db } = await house(t)
  const { accountId, userId } = await signIn(app, alice)
  const other = { ...alice, provider: 'TWO' }
  const { signer } = app
  app.signer = {
    ...signer,
    async createAccount(request) {
      if (request.userId === 'TWO-7') assert.equal(await linkIdentity(app, { accountId, userId }, other), 'linked')
      return signer.createAccount(request)
    },
  }
  assert.deepEqual(await signIn(app, other).then((one) => [one.userId, one.accountId, one.isNew]), [
    'ONE-7',
    accountId,
    false,
  ])
  assert.equal((await db.selectFrom('accounts').selectAll().execute()).length, 1)
})

test('of a link and a first sign-in at once one is first, on two connections, and the other finds it', async (t) => {
  const { app, db } = await house(t)
  const owner = await signIn(app, alice)
  const made = async (subject: string): Promise<boolean> =>
    (await db.selectFrom('accounts').select('account_id').where('user_id', '=', `TWO-${subject}` as UserId).execute()).length > 0 // prettier-ignore
  const leadsTo = async (subject: string): Promise<string> =>
    (await db.selectFrom('identities').select('account_id').where('provider', '=', 'TWO').where('subject', '=', subject).executeTakeFirstOrThrow()).account_id // prettier-ignore
  // One of two sign-ins is not committed yet when the other begins. In the embedded database, the other waits for the
  // connection.
  const during = async <T>(first: (app: App) => Promise<unknown>, second: () => Promise<T>): Promise<T> => {
    let late: Promise<T> | undefined
    await (db as RootDb).transaction().execute(async (inside) => {
      await first({ ...app, db: inside as unknown as RootDb })
      late = second()
      await setTimeout(100)
    })
    return late!
  }
  const link = (on: App, subject: string) => linkIdentity(on, owner, { ...alice, provider: 'TWO', subject })
  const arrive = (on: App, subject: string) => signIn(on, { ...alice, provider: 'TWO', subject })

  assert.equal((await during((on) => link(on, 'linked'), () => arrive(app, 'linked'))).accountId, owner.accountId) // prettier-ignore
  assert.deepEqual([await made('linked'), await leadsTo('linked')], [false, owner.accountId])
  assert.equal(await during((on) => arrive(on, 'came'), () => link(app, 'came')), 'has_own_account') // prettier-ignore
  assert.deepEqual([await made('came'), await leadsTo('came')], [true, accountIdOf('TWO', 'came')])

  for (let n = 0; n < 30; n += 1) {
    await Promise.all([link(app, `r${n}`), arrive(app, `r${n}`)])
    assert.equal(await made(`r${n}`), (await leadsTo(`r${n}`)) !== owner.accountId, `round ${n}`)
  }
})
