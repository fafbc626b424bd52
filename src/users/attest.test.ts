import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { suite, test, type TestContext } from 'node:test'
import { attestingSigner } from '../../test/attesting.ts'
import { noSealKeys } from '../../test/seal-keys.ts'
import { testDatabase } from '../../test/kit/database.ts'
import { makePlace, startSigner } from '../../test/kit/signer.ts'
import type { App } from '../app.ts'
import { attestingIdentity, isAttested } from '../http/proven-address.ts'
import type { Hex, UserId } from '../ids.ts'
import { keepHead } from '../signing-log/keep.ts'
import { connectSigner, type Signer } from '../signer-wire/client.ts'
import { openState } from '../state.ts'
import { fromHex } from '../hex.ts'
import { openTelemetry } from '../telemetry.ts'
import { attestAccounts, startAttesting } from './attest.ts'
import { findUser, provenUser } from './find.ts'
import { insertAccount, signIn } from './sign-in.ts'
import { until } from '../../test/kit/until.ts'
import { stoppedClock } from '../../test/kit/clock.ts'

/** A database with a real signer, as in a server. */
async function house(t: TestContext) {
  const [place, { db, close }] = await Promise.all([makePlace(), testDatabase()])
  let signer = await startSigner(place)
  t.after(async () => {
    await signer.end('SIGKILL')
    await close()
    place.clear()
  })
  const errors: unknown[] = []
  const telemetry = openTelemetry('test', 'silent')
  telemetry.log.error = (event, fields) => void errors.push([event, (fields as { userId: string }).userId])
  const asked: string[][] = []
  const counting = (real: Signer): Signer =>
    Object.assign(Object.create(real) as Signer, {
      attest: (request: { userIds: string[] }) => {
        asked.push(request.userIds)
        return real.attest(request)
      },
    })
  const clock = stoppedClock()
  const open = (by: Signer = counting(signer)) =>
    ({
      clock,
      db,
      signer: by,
      chains: new Map(),
      state: openState(),
      telemetry,
      sealKeys: noSealKeys,
    }) as unknown as App
  return {
    ...{ clock, place, db, errors, asked, open, telemetry },
    signer: () => signer,
    async restart(isAnew: boolean) {
      await signer.end('SIGTERM')
      if (isAnew) rmSync(place.env.SIGNER_DIR!, { recursive: true })
      signer = await startSigner(place)
    },
    person: (app: App, n: number | string) =>
      signIn(app, {
        provider: 'X',
        subject: String(n),
        username: `x${n}`,
        imageSrc: null,
        email: null,
        emailVerified: null,
      }),
    address: async (app: App, userId: UserId) => (await provenUser(app, (await findUser(app, userId))!)).address,
    set: (userId: UserId, { address, ...row }: { address?: Hex; attestation?: Uint8Array | null }) =>
      db
        .updateTable('accounts')
        .set({ ...row, ...(address === undefined ? {} : { address: fromHex(address) }) })
        .where('user_id', '=', userId)
        .execute(),
    stored: (userId: UserId) =>
      db.selectFrom('accounts').selectAll().where('user_id', '=', userId).executeTakeFirstOrThrow(),
  }
}

const notProven = { code: 'address_not_proven' }
const FOREIGN = `0x${'66'.repeat(20)}` as const

suite('an address that the database was given by someone else is an error', () => {
  test('another one, and that of another person, with its attestation or without', async (t) => {
    const { open, person, address, set, stored, errors, telemetry } = await house(t)
    const app = open()
    const [one, two] = [await person(app, 1), await person(app, 2)]
    await attestAccounts(app)
    const [first, second] = [await stored('X-1'), await stored('X-2')]
    assert.equal(await address(app, 'X-1'), one.address)
    // Change the other row first, because the database rejects equal addresses.
    await set('X-2', { address: FOREIGN })
    await assert.rejects(address(app, 'X-2'), notProven)
    await set('X-1', { address: two.address })
    await assert.rejects(address(app, 'X-1'), notProven)
    await set('X-1', { attestation: second.attestation })
    await set('X-2', { address: one.address, attestation: first.attestation })
    for (const fresh of [app, open()]) {
      await assert.rejects(address(fresh, 'X-1'), notProven)
      await assert.rejects(address(fresh, 'X-2'), notProven)
      // The user cannot sign in to it either, because the next page would show the address.
      await assert.rejects(person(fresh, 1), notProven)
    }
    assert.deepEqual(errors.slice(0, 2), [
      ['address_not_proven', 'X-2'],
      ['address_not_proven', 'X-1'],
    ])
    assert.equal((await telemetry.addressesNotProven.get()).values[0]!.value, errors.length)
    await set('X-2', { address: FOREIGN })
    await set('X-1', { address: one.address, attestation: first.attestation })
    assert.equal(await address(open(), 'X-1'), one.address)
  })

  test('attested by another installation', async (t) => {
    const { open, person, address, set } = await house(t)
    const app = open()
    await person(app, 1)
    await attestAccounts(app)
    const attestation = fromHex(attestingSigner(() => FOREIGN).attestation('X-1', FOREIGN))
    await set('X-1', { address: FOREIGN, attestation })
    await assert.rejects(address(app, 'X-1'), notProven)
    await assert.rejects(address(open(), 'X-1'), notProven)
  })

  test('a row that was put in by hand, before all are attested and after', async (t) => {
    const { open, db, address, errors } = await house(t)
    for (const isAttested of [false, true]) {
      const app = open()
      const subject = isAttested ? 'late' : 'early'
      if (isAttested) await attestAccounts(app)
      const put = { userId: `X-${subject}` as UserId, address: `0x${isAttested ? '77'.repeat(20) : '66'.repeat(20)}` as Hex } // prettier-ignore
      await insertAccount(db, put)
      await assert.rejects(address(app, put.userId), notProven)
      await attestAccounts(app)
      await assert.rejects(address(app, put.userId), notProven)
      assert.ok(errors.length > 0)
    }
  })

  test('an attestation that was taken away: the signer is asked, and the next look brings it back', async (t) => {
    const { open, person, address, set, stored, asked } = await house(t)
    const app = open()
    const { address: right } = await person(app, 1)
    await set('X-1', { attestation: null })
    assert.equal(await address(app, 'X-1'), right)
    assert.equal(await address(app, 'X-1'), right)
    assert.equal(asked.length, 1, 'and it is remembered')
    assert.equal(await attestAccounts(app), 1)
    const { attestation } = await stored('X-1')
    assert.equal(attestation?.length, 64)
    await set('X-1', { attestation: null })
    const later = open()
    assert.equal(await address(later, 'X-1'), right)
    assert.equal(await attestAccounts(later), 1)
    assert.equal(await address(later, 'X-1'), right)
  })
})

test('a read of what was checked asks nobody and checks nothing again', async (t) => {
  const { open, person, address, asked } = await house(t)
  const app = open()
  await person(app, 1)
  const user = (await findUser(app, 'X-1'))!
  await provenUser(app, user)
  const identity = await attestingIdentity(app)
  // Measure processor time of both alternately, because the machine may be busy.
  const spent = { read: 0, checked: 0 }
  for (let round = 0; round < 20; round++) {
    let before = process.cpuUsage()
    for (let n = 0; n < 100; n++) await provenUser(app, user)
    spent.read += process.cpuUsage(before).user
    before = process.cpuUsage()
    for (let n = 0; n < 100; n++) assert.ok(isAttested(identity, user.stored))
    spent.checked += process.cpuUsage(before).user
  }
  assert.ok(spent.read < spent.checked / 3, JSON.stringify(spent))
  assert.equal(asked.length, 0)
  assert.equal(await address(app, 'X-1'), (await person(app, 1)).address)
})

test('accounts that lack an attestation get it in batches, and a run that was stopped asks for none of them again', async (t) => {
  const { open, signer, db, asked, errors } = await house(t)
  const app = open()
  const made = await Promise.all(Array.from({ length: 150 }, (_, n) => signer().createAccount({ userId: `X-${n}` })))
  for (const [n, { address }] of made.entries()) await insertAccount(db, { userId: `X-${n}`, address })
  let left = 2
  const failing = open(
    Object.assign(Object.create(signer()) as Signer, {
      attest: (request: { userIds: string[] }) =>
        (left -= 1) < 0 ? Promise.reject(new Error('killed')) : signer().attest(request),
    }),
  )
  await assert.rejects(attestAccounts(failing), /killed/)
  const before = Number((await db.selectFrom('accounts').select(({ fn }) => fn.count('attestation').as('n')).executeTakeFirstOrThrow()).n) // prettier-ignore
  assert.equal(before, 64)
  assert.equal(await attestAccounts(app), 150 - before)
  assert.equal(asked.flat().length, 150 - before)
  assert.equal(await attestAccounts(app), 0)
  assert.deepEqual(errors, [])
})

test('a signer with a new identity attests anew, and what the old one attested is asked for until then', async (t) => {
  const { open, person, address, restart, db, signer, asked } = await house(t)
  const { address: right } = await person(open(), 1)
  await attestAccounts(open())
  await db.deleteFrom('signing_log_head').execute()
  await restart(true)
  // The key was restored by `restore-keys`. Here, the new store has created another account of the same user.
  await signer().createAccount({ userId: 'X-1' })
  await assert.rejects(address(open(), 'X-1'), notProven)
  await db
    .updateTable('accounts')
    .set({ address: fromHex((await signer().createAccount({ userId: 'X-1' })).address) })
    .execute()
  const app = open()
  assert.notEqual(await address(app, 'X-1'), right)
  assert.ok(asked.length > 0)
  assert.equal(await attestAccounts(app), 1)
  const after = asked.length
  await address(open(), 'X-1')
  assert.equal(asked.length, after)
})

test('while the signer is away addresses are proven by the identity that was kept with its head', async (t) => {
  const { open, person, address, db, signer, telemetry } = await house(t)
  const app = open()
  const { address: right } = await person(app, 1)
  await keepHead({ db, telemetry }, signer().head()!)
  const key = await signer().identity()
  await signer().end('SIGTERM')
  const away = open(signer())
  await assert.rejects(address(away, 'X-1'), { code: 'signer_unavailable' })
  await db.updateTable('signing_log_head').set({ key }).execute()
  assert.equal(await address(away, 'X-1'), right)
  const other = await attestingSigner(() => FOREIGN).identity()
  await db.updateTable('signing_log_head').set({ key: other }).execute()
  await assert.rejects(address(open(signer()), 'X-1'), { code: 'signer_unavailable' })
})

test('an identity that someone wrote into the database attests nothing where SIGNER_KEY names the signer’s, and elsewhere only while the signer is away', async (t) => {
  const { clock, place, open, person, address, db, signer, telemetry, restart } = await house(t)
  const { address: right } = await person(open(), 1)
  await keepHead({ db, telemetry }, signer().head()!)
  const verifierKey = await signer().identity()
  const kept = await db.selectFrom('signing_log_head').selectAll().executeTakeFirstOrThrow()
  await signer().end('SIGTERM')
  const thief = attestingSigner(() => FOREIGN)
  const key = await thief.identity()
  const [origin] = key.split('+') as [string]
  const forge = async () => {
    await db.updateTable('signing_log_head').set({ origin, key }).execute()
    await db
      .updateTable('accounts')
      .set({ address: fromHex(FOREIGN), attestation: fromHex(thief.attestation('X-1', FOREIGN)) })
      .execute()
  }
  await forge()
  const pinned = connectSigner({ path: place.env.SIGNER_SOCKET!, verifierKey })
  t.after(() => pinned.close())
  await assert.rejects(address(open(pinned), 'X-1'), { code: 'signer_unavailable' })

  // Without a configured identity, the database's value counts until the signer has reported its own, and is not
  // remembered.
  const unpinned = open(connectSigner({ path: place.env.SIGNER_SOCKET! }))
  t.after(() => unpinned.signer.close())
  assert.equal(await address(unpinned, 'X-1'), FOREIGN)
  await restart(false)
  await clock.advance(60_000)
  await assert.rejects(address(unpinned, 'X-1'), notProven)
  await db.updateTable('signing_log_head').set({ origin: kept.origin, key: kept.key }).execute()
  await db
    .updateTable('accounts')
    .set({ address: fromHex(right), attestation: null })
    .execute()
  assert.equal(await address(unpinned, 'X-1'), right)
})

test('the worker attests at the start and says once that it cannot', async (t) => {
  const { clock, open, person, set, stored, signer, telemetry } = await house(t)
  const app = open()
  await person(app, 1)
  await set('X-1', { attestation: null })
  const running = startAttesting(app)
  await running.stop()
  assert.equal((await stored('X-1')).attestation?.length, 64)
  const warned: string[] = []
  telemetry.log.warn = (event) => void warned.push(event)
  await signer().end('SIGTERM')
  const failing = startAttesting(open(signer()))
  for (let minute = 0; minute < 3; minute++) {
    await until('the round is over', () => clock.sleepers() === 1)
    await clock.advance(60_000)
  }
  await failing.stop()
  assert.deepEqual(warned, ['addresses_not_attested'])
})
