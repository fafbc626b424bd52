import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { sql } from 'kysely'
import { fakeApp } from '../../test/fake-app.ts'
import { madeIdentityKeys, noIdentityKeys } from '../../test/identity-keys.ts'
import type { IdentityKeys } from '../app.ts'
import { accountIdOf } from '../ids.ts'
import { hasOwnAccount } from './find.ts'
import { linkIdentity } from './identities.ts'
import {
  countOnOlderKeys,
  listUnproven,
  proveIdentities,
  renewProofs,
  startRenewingProofs,
} from './prove-identities.ts'

async function house(t: TestContext) {
  const fake = await fakeApp()
  t.after(() => fake.close())
  const { app, db, account, told } = fake
  const [ann, bob] = [await account('ann'), await account('bob')]
  const nobody = { username: null, imageSrc: null, email: null, emailVerified: null }
  const by = (identityKeys: IdentityKeys) => ({ ...app, identityKeys })
  const all = async (keys: IdentityKeys) => {
    const rows = []
    for await (const { identity, userId, isMoved } of listUnproven(by(keys))) rows.push([identity, userId, isMoved])
    return rows
  }
  const digest = async (keys: IdentityKeys): Promise<string> => {
    const rows = listUnproven(by(keys))
    for (;;) {
      const { done, value } = await rows.next()
      if (done === true) return value
    }
  }
  const proofs = async () =>
    (await db.selectFrom('identities').select('proof').where('proof', 'is not', null).orderBy('subject').execute()).map((row) => row.proof!.split(' ')[0]) // prettier-ignore
  return {
    ...{ app, db, ann, bob, by, all, digest, proofs, told },
    link: (keys: IdentityKeys, n: number | string, owner = ann) =>
      linkIdentity(by(keys), owner, { ...nobody, provider: 'TWO', subject: String(n) }),
  }
}

test('identities without a proof are proven after an operator looked, those that were moved are led back, and the rest stays', async (t) => {
  const { db, by, all, digest, link, proofs, ann } = await house(t)
  const keys = madeIdentityKeys()
  // More than a page.
  for (let n = 0; n < 600; n += 1) await link(noIdentityKeys, n)
  await link(keys, 'proven')
  await db.updateTable('identities').set({ account_id: ann.accountId }).where('subject', '=', 'bob').execute()
  const listed = await all(keys)
  assert.equal(listed.length, 601)
  assert.deepEqual(listed.filter(([, , isMoved]) => isMoved), [['DEV-bob', 'DEV-ann', true]]) // prettier-ignore
  const looked = await digest(keys)
  await link(noIdentityKeys, 'late')
  assert.equal(await proveIdentities(by(keys), looked), null, 'a row that came after the list')
  assert.equal((await all(keys)).length, 602)
  await db.deleteFrom('identities').where('subject', '=', 'late').execute()
  assert.deepEqual(await proveIdentities(by(keys), looked), { proven: 600, ledBack: 1 })
  assert.deepEqual([await all(keys), (await proofs()).length], [[], 601])
  assert.deepEqual(await proveIdentities(by(keys), await digest(keys)), { proven: 0, ledBack: 0 })
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

test('an identity that is moved while the listed ones are proven is not: another account than was listed', async (t) => {
  const { db, by, all, digest, link, bob } = await house(t)
  const keys = madeIdentityKeys()
  await link(noIdentityKeys, 1)
  await link(noIdentityKeys, 2)
  const looked = await digest(keys)
  await sql`create function move() returns trigger language plpgsql as ${sql.lit(`begin
    update identities set account_id = '${bob.accountId}' where provider = 'TWO' and subject = '2'; return new; end`)}`.execute(
    db,
  )
  await sql`create trigger move after update on identities for each row when (new.subject = '1') execute function move()`.execute(db) // prettier-ignore
  assert.deepEqual(await proveIdentities(by(keys), looked), { proven: 1, ledBack: 0 })
  const { proof } = await db
    .selectFrom('identities')
    .select('proof')
    .where('subject', '=', '2')
    .executeTakeFirstOrThrow()
  assert.equal(proof, null)
  assert.deepEqual(await all(keys), [['TWO-2', bob.userId, false]])
})

test('proofs by an older key become those of the newest, and false ones do not', async (t) => {
  const { by, all, link, proofs, db, app, told } = await house(t)
  const [old, fresh, foreign] = [madeIdentityKeys(), madeIdentityKeys(), madeIdentityKeys()]
  const both = { ...fresh, known: new Map([...fresh.known, ...old.known]) }
  await link(old, 1)
  await link(old, 2)
  await link(foreign, 3)
  assert.equal(await renewProofs(by({ ...both, signing: null })), 0)
  assert.equal(await countOnOlderKeys(by(both)), 2)
  const worker = startRenewingProofs(Object.assign(app, { identityKeys: both }))
  await worker.stop()
  assert.deepEqual(await proofs(), [fresh.signing!.kid, fresh.signing!.kid, foreign.signing!.kid])
  assert.deepEqual(await all(fresh), [['TWO-3', 'DEV-ann', false]])
  assert.deepEqual(told('identities_proven')[0]!.fields, { identities: 2 })
  assert.deepEqual(told('identity_not_proven')[0]!.fields, { identity: 'TWO-3', userId: 'DEV-ann' })
  assert.equal(told('identities_not_proven')[0]!.fields.identities, 1)
  await db.deleteFrom('identities').where('subject', '=', '3').execute()
  assert.deepEqual([await renewProofs(by(both)), await countOnOlderKeys(by(both))], [0, 0])
})
