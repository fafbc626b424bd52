import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { addressOf } from '../../test/rehearsal.ts'
import { attestingSigner } from '../../test/attesting.ts'
import { noSealKeys } from '../../test/seal-keys.ts'
import { testDatabase } from '../../test/kit/database.ts'
import type { App } from '../app.ts'
import { accountIdOf, type UserId } from '../ids.ts'
import { openState } from '../state.ts'
import { fromHex } from '../hex.ts'
import { openTelemetry } from '../telemetry.ts'
import { attestAccounts } from './attest.ts'
import { findUser, provenUser } from './find.ts'
import { insertAccount } from './sign-in.ts'
import { stoppedClock } from '../../test/kit/clock.ts'

/** A database with a signer that has some accounts, and can get others by `restore-keys`. */
async function house(t: TestContext) {
  const { db, close } = await testDatabase()
  t.after(close)
  const known = new Set<string>()
  const asked: string[][] = []
  const telemetry = openTelemetry('test', 'silent')
  telemetry.log.error = () => {}
  const signer = attestingSigner((userId) => (known.has(userId) ? addressOf(userId) : null))
  const counting = {
    ...signer,
    attest: (request: { userIds: string[] }) => {
      asked.push(request.userIds)
      return signer.attest(request)
    },
  }
  const clock = stoppedClock()
  return {
    ...{ db, known, asked, pass: clock.advance },
    open: () =>
      ({
        clock,
        db,
        signer: counting,
        chains: new Map(),
        state: openState(),
        telemetry,
        sealKeys: noSealKeys,
      }) as unknown as App,
    async add(subject: string, by?: ReturnType<typeof attestingSigner>) {
      const userId: UserId = `X-${subject}`
      const address = addressOf(userId)
      await insertAccount(db, { userId, address })
      if (by !== undefined)
        await db
          .updateTable('accounts')
          .set({ attestation: fromHex(by.attestation(userId, address)) })
          .where('user_id', '=', userId)
          .execute()
      return userId
    },
    /** Adds only accounts, all at once. */
    async addMany(most: number, by?: ReturnType<typeof attestingSigner>) {
      const rows = Array.from({ length: most }, (_, n) => {
        const [userId, subject] = [`X-many${n}` as UserId, `many${n}`]
        const address = addressOf(userId)
        const attestation = by === undefined ? null : fromHex(by.attestation(userId, address))
        return { account_id: accountIdOf('X', subject), user_id: userId, address: fromHex(address), attestation }
      })
      await db.insertInto('accounts').values(rows).execute()
    },
    address: async (app: App, userId: UserId) => (await provenUser(app, (await findUser(app, userId))!)).address,
    stored: async (userId: UserId) =>
      (await db.selectFrom('accounts').select('attestation').where('user_id', '=', userId).executeTakeFirstOrThrow())
        .attestation,
  }
}

const notProven = { code: 'address_not_proven' }

test('keys that come after the pass of a new identity are attested by a later look, whatever the old one said of them', async (t) => {
  const { known, open, add, address, stored, asked } = await house(t)
  const old = attestingSigner(addressOf)
  const users: UserId[] = []
  for (const n of ['1', '2', '3']) users.push(await add(n, old))
  known.add('X-1')
  const app = open()
  assert.equal(await attestAccounts(app), 1)
  const before = await stored('X-2')
  assert.equal(await attestAccounts(app), 0)
  // `restore-keys --identity` trusts the attestations of the old signer, so they remain until there are new ones.
  assert.deepEqual(await stored('X-2'), before)
  await assert.rejects(address(app, 'X-2'), notProven)
  known.add('X-2').add('X-3')
  assert.equal(await attestAccounts(app), 2)
  const after = asked.length
  for (const userId of users) assert.equal(await address(open(), userId), addressOf(userId).toLowerCase())
  assert.equal(asked.length, after, 'by what is stored')
})

test('accounts that the signer does not have keep no other one from being attested', async (t) => {
  const { known, open, addMany, db, asked } = await house(t)
  const app = open()
  assert.equal(await attestAccounts(app), 0)
  await addMany(400)
  const last = await db.selectFrom('accounts').select('user_id').orderBy('account_id', 'desc').executeTakeFirstOrThrow()
  const first = await db.selectFrom('accounts').select('user_id').orderBy('account_id').executeTakeFirstOrThrow()
  known.add(last.user_id)
  const one = await attestAccounts(app)
  assert.ok(asked.flat().length < 400, 'a look is bounded')
  assert.equal(one + (await attestAccounts(app)), 1)
  // The next round begins at the first account again.
  known.add(first.user_id)
  assert.equal((await attestAccounts(app)) + (await attestAccounts(app)), 1)
})

test('rows that another identity attested are looked at some at a time, from where the last look ended', async (t) => {
  const { known, open, addMany, db } = await house(t)
  const app = open()
  await attestAccounts(app)
  await addMany(1_700, attestingSigner(addressOf))
  const last = await db.selectFrom('accounts').select('user_id').orderBy('account_id', 'desc').executeTakeFirstOrThrow()
  known.add(last.user_id)
  assert.deepEqual([await attestAccounts(app), await attestAccounts(app)], [0, 1])
})

test('an account without the signer’s word is refused for a minute at most where the signer agrees', async (t) => {
  const { known, open, add, address, asked, pass } = await house(t)
  const app = open()
  await attestAccounts(app)
  const [none, foreign] = [await add('none'), await add('foreign', attestingSigner(addressOf))]
  for (const userId of [none, foreign]) {
    asked.length = 0
    await assert.rejects(address(app, userId), notProven)
    known.add(userId)
    await pass(59_000)
    await assert.rejects(address(app, userId), notProven)
    assert.equal(asked.length, 1, 'not asked again at once')
    await pass(1_000)
    assert.equal(await address(app, userId), addressOf(userId).toLowerCase())
    assert.equal(await address(app, userId), addressOf(userId).toLowerCase())
    assert.equal(asked.length, 2, 'and remembered')
  }
})

test('reads of what the signer does not have ask it a bounded number of times a minute', async (t) => {
  const { known, open, add, address, asked, pass } = await house(t)
  const app = open()
  await attestAccounts(app)
  const users: UserId[] = []
  for (let n = 0; n < 310; n++) users.push(await add(String(n)))
  for (const userId of users) await assert.rejects(address(app, userId), notProven)
  assert.equal(asked.length, 300)
  known.add(users[305]!)
  await assert.rejects(address(app, users[305]!), notProven)
  await pass(60_000)
  assert.equal(await address(app, users[305]!), addressOf(users[305]!).toLowerCase())
})
