import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { sql } from 'kysely'
import { fakeApp } from '../../test/fake-app.ts'
import { madeSealKeys, noSealKeys } from '../../test/seal-keys.ts'
import { accountIdOf } from '../ids.ts'
import type { RootDb } from '../store/db.ts'
import type { SealKeys } from '../store/seal.ts'
import { hasOwnAccount } from '../users/find.ts'
import { linkIdentity } from '../users/identities.ts'
import {
  authenticateRows,
  countOnOlderKeys,
  listUnauthentic,
  renewSeals,
  startRenewingSeals,
} from './authenticate-rows.ts'

async function house(t: TestContext) {
  const fake = await fakeApp()
  t.after(() => fake.close())
  const { app, db, account, told } = fake
  const [ann, bob] = [await account('ann'), await account('bob')]
  const nobody = { username: null, imageSrc: null, email: null, emailVerified: null }
  const by = (sealKeys: SealKeys) => ({ ...app, sealKeys })
  const kids = async () =>
    (await db.selectFrom('identities').select('seal').where('seal', 'is not', null).orderBy('subject').execute()).map((row) => row.seal!.split(' ')[0]) // prettier-ignore
  return {
    ...{ app, db, ann, bob, by, kids, told },
    all: async (keys: SealKeys) =>
      (await listUnauthentic(by(keys))).identities.map(({ identity, userId, isMoved }) => [identity, userId, isMoved]),
    digest: async (keys: SealKeys) => (await listUnauthentic(by(keys))).digest,
    accept: async (keys: SealKeys, listed: string) => {
      const done = await authenticateRows(by(keys), { listed, withSignIns: false })
      return done && { identities: done.identities, ledBack: done.ledBack }
    },
    link: (keys: SealKeys, n: number | string, owner = ann) =>
      linkIdentity(by(keys), owner, { ...nobody, provider: 'TWO', subject: String(n) }),
  }
}

test('identities without a seal are sealed after an operator looked, those that were moved are led back, and the rest stays', async (t) => {
  const { db, accept, all, digest, link, kids, ann } = await house(t)
  const keys = madeSealKeys()
  // More than a page.
  const some = Array.from({ length: 600 }, (_, n) => ({ provider: 'TWO', subject: `${n}`, username: 'x' }))
  await db
    .insertInto('identities')
    .values(some.map((one) => ({ ...one, account_id: ann.accountId })))
    .execute()
  await link(keys, 'proven')
  await db.updateTable('identities').set({ account_id: ann.accountId }).where('subject', '=', 'bob').execute()
  const listed = await all(keys)
  assert.equal(listed.length, 601)
  assert.deepEqual(listed.filter(([, , isMoved]) => isMoved), [['DEV-bob', 'DEV-ann', true]]) // prettier-ignore
  const looked = await digest(keys)
  await link(noSealKeys, 'late')
  assert.equal(await accept(keys, looked), null, 'a row that came after the list')
  assert.equal((await all(keys)).length, 602)
  await db.deleteFrom('identities').where('subject', '=', 'late').execute()
  assert.deepEqual(await accept(keys, looked), { identities: 600, ledBack: 1 })
  assert.deepEqual([await all(keys), (await kids()).length], [[], 601])
  assert.deepEqual(await accept(keys, await digest(keys)), { identities: 0, ledBack: 0 })
})

test('an identity has an account of its own where user id and account id are both made of it', async (t) => {
  const { db } = await house(t)
  const has = (subject: string) => hasOwnAccount(db, { provider: 'DEV', subject })
  assert.deepEqual([await has('ann'), await has('nobody')], [true, false])
  const rename = (user_id: string, subject: string) =>
    db.updateTable('accounts').set({ user_id }).where('account_id', '=', accountIdOf('DEV', subject)).execute()
  await rename('DEV-nobody', 'ann')
  assert.deepEqual([await has('ann'), await has('nobody')], [false, false])
})

test('an identity that is moved while the listed ones are sealed is not believed: it leads to another account than was listed', async (t) => {
  const { db, accept, all, digest, link, bob } = await house(t)
  const keys = madeSealKeys()
  await link(noSealKeys, 1)
  await link(noSealKeys, 2)
  const looked = await digest(keys)
  await sql`create function move() returns trigger language plpgsql as ${sql.lit(`begin
    update identities set account_id = '${bob.accountId}' where provider = 'TWO' and subject = '2'; return new; end`)}`.execute(
    db,
  )
  await sql`create trigger move after update on identities for each row when (new.subject = '1') execute function move()`.execute(db) // prettier-ignore
  await accept(keys, looked)
  assert.deepEqual(await all(keys), [['TWO-2', bob.userId, false]])
})

/** Lets someone write as soon as identities were read for the first time. */
function onFirstRead(db: RootDb, write: () => Promise<unknown>): RootDb {
  let reads = 0
  return db.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      if (result.rows.some((row) => 'subject' in row && 'user_id' in row) && ++reads === 1) await write()
      return result
    },
  })
}

test('an identity that is inserted after the list was compared is not sealed with it', async (t) => {
  const { db, by, all, digest, link } = await house(t)
  const keys = madeSealKeys()
  await link(noSealKeys, 1)
  const listed = await digest(keys)
  const watched = onFirstRead(db, () => link(noSealKeys, 'late'))
  const done = await authenticateRows({ ...by(keys), db: watched }, { listed, withSignIns: false })
  assert.equal(done?.identities, 1)
  assert.deepEqual(await all(keys), [['TWO-late', 'DEV-ann', false]])
})

test('what the server writes while seals are renewed keeps the seal that it is written with', async (t) => {
  const { db, by, all, link, bob } = await house(t)
  const [old, fresh] = [madeSealKeys(), madeSealKeys()]
  const known = new Map([...fresh.known, ...old.known])
  await link(old, 1)
  const watched = onFirstRead(db, async () => {
    await db.deleteFrom('identities').where('subject', '=', '1').execute()
    await link(fresh, 1, bob)
  })
  assert.equal(await renewSeals({ ...by({ ...fresh, known }), db: watched }), 0)
  assert.deepEqual(await all(fresh), [])
})

test('seals by an older key become those of the newest, and false ones do not', async (t) => {
  const { by, all, link, kids, db, app, told } = await house(t)
  const [old, fresh, foreign] = [madeSealKeys(), madeSealKeys(), madeSealKeys()]
  const both = {
    ...fresh,
    known: new Map([...fresh.known, ...old.known]),
    macs: new Map([...fresh.macs!, ...old.macs!]),
  }
  await link(old, 1)
  await link(old, 2)
  await link(foreign, 3)
  assert.equal(await renewSeals(by({ ...both, signing: null })), 0)
  assert.equal(await countOnOlderKeys(by(both)), 2)
  const worker = startRenewingSeals(Object.assign(app, { sealKeys: both }))
  await worker.stop()
  // The stop may have come first.
  await renewSeals(by(both))
  assert.deepEqual(await kids(), [fresh.signing!.kid, fresh.signing!.kid, foreign.signing!.kid])
  assert.deepEqual(await all(fresh), [['TWO-3', 'DEV-ann', false]])
  assert.deepEqual(told('identity_not_proven')[0]!.fields, { identity: 'TWO-3', userId: 'DEV-ann' })
  assert.equal(told('rows_not_authentic')[0]!.fields.rows, 1)
  await db.deleteFrom('identities').where('subject', '=', '3').execute()
  assert.deepEqual([await renewSeals(by(both)), await countOnOlderKeys(by(both))], [0, 0])
})
