import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { base64url, exportJWK, generateKeyPair, SignJWT } from 'jose'
import type { Logger } from '../../log.ts'
import type { TokenCaller } from './caller.ts'
import { connectSigner } from '../../signer-wire/client.ts'
import { openKeyFile } from './key-file.ts'
import { Refusal } from '../refusal.ts'
import { openRevocations } from './revocations.ts'
import {
  ALICE,
  ask,
  BOB,
  ISSUER,
  makePlace,
  refusal,
  startSigner,
  world as anyWorld,
} from '../../../test/kit/signer.ts'
import { MAX_REVOCATION_PARTS, revoked, REVOCATIONS_TYPE } from '../../signer-wire/wire.ts'

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} }
const IN_USE = { more: { SIGNER_REVOCATIONS_SECONDS: '60' } }

/** A running signer that wants lists, an account, and a token of it whose grant is named. */
async function world(t: TestContext) {
  const place = await makePlace()
  const signer = await startSigner(place, IN_USE)
  t.after(async () => {
    await signer.end('SIGKILL')
    place.clear()
  })
  const { address } = await signer.createAccount({ userId: ALICE })
  const accessToken = await place.token(ALICE, { gid: 'g1' })
  const bring = async (...list: Parameters<typeof place.revocations>) =>
    signer.bringRevocations([await place.revocations(...list)])
  return { place, signer, address, accessToken, bring }
}

describe('over the socket, with no server between', () => {
  test('a revoked token is refused from the list on, also one that has signed before', async (t) => {
    const { signer, address, accessToken, bring, place } = await world(t)
    await bring({ entries: [] })
    await signer.sign(ask(address, { accessToken }))
    await bring({ entries: [revoked.grant('g1'), revoked.grant('g2')] })
    await assert.rejects(signer.sign(ask(address, { accessToken, nonce: 1 })), refusal('invalid_token'))
    // Another sign-in of the same person is not concerned.
    await signer.sign(ask(address, { accessToken: await place.token(ALICE, { gid: 'g3' }), nonce: 1 }))
  })

  test('a suspended application and a frozen user are refused, and no others; resumed and unfrozen they sign again', async (t) => {
    const { signer, address, accessToken, bring, place } = await world(t)
    const other = await place.token(ALICE, { gid: 'g1', client_id: 'kiosk' })
    await bring({ entries: [revoked.application('shop')] })
    await assert.rejects(signer.sign(ask(address, { accessToken })), refusal('application_suspended'))
    await signer.sign(ask(address, { accessToken: other }))

    await bring({ entries: [revoked.user(ALICE)] })
    await assert.rejects(signer.sign(ask(address, { accessToken: other, nonce: 1 })), refusal('account_frozen'))
    const { address: bob } = await signer.createAccount({ userId: BOB })
    await signer.sign(ask(bob, { accessToken: await place.token(BOB), intentId: 'bob' }))

    await bring({ entries: [] })
    await signer.sign(ask(address, { accessToken, nonce: 1 }))
  })

  test('without any list every token is refused, and the code says why; what needs no token is signed', async (t) => {
    const { signer, address, accessToken, bring } = await world(t)
    assert.equal((await signer.health()).revocations, 'stale')
    await assert.rejects(signer.sign(ask(address, { accessToken })), refusal('revocations_stale'))
    const fill = { to: address, value: '0', kind: 'cancel' } as const
    const { kind } = await signer.sign(ask(address, fill))
    assert.equal(kind, 'cancel')
    const raised = ask(address, { ...fill, maxFeePerGas: '2000', maxPriorityFeePerGas: '200' })
    assert.equal((await signer.sign(raised)).kind, 'cancel')

    await bring({ entries: [] })
    assert.equal((await signer.health()).revocations, 'fresh')
    await signer.sign(ask(address, { accessToken, nonce: 1 }))
  })

  test('a signer that was started again is told first of all, on the connection that finds it', async (t) => {
    const { place, signer, address, accessToken } = await anyWorld(t)
    await signer.end('SIGKILL')
    const list = await place.revocations({ entries: [] })
    const client = connectSigner({ path: place.env.SIGNER_SOCKET! })
    t.after(() => client.close())
    await assert.rejects(client.bringRevocations([list]), refusal('signer_unavailable'))
    const again = await startSigner(place, IN_USE)
    t.after(() => again.end('SIGKILL'))
    // Several at once: those behind the list wait for it, and are not refused.
    const health = client.health()
    const asked = Array.from({ length: 8 }, (_, nonce) => client.sign(ask(address, { accessToken, nonce })))
    assert.equal((await Promise.all(asked)).length, 8)
    assert.equal((await health).revocations, 'fresh')
  })

  test('a client that can bring a new list does so when the signer’s is too old, and asks again', async (t) => {
    const { place, address, accessToken } = await world(t)
    let renewals = 0
    const client = connectSigner({
      path: place.env.SIGNER_SOCKET!,
      async renewRevocations() {
        renewals += 1
        await client.bringRevocations([await place.revocations({ entries: [] })])
      },
    })
    t.after(() => client.close())
    await client.sign(ask(address, { accessToken }))
    assert.equal(renewals, 1)

    const helpless = connectSigner({ path: place.env.SIGNER_SOCKET!, renewRevocations: () => Promise.reject(new Error('away')) }) // prettier-ignore
    t.after(() => helpless.close())
    await helpless.sign(ask(address, { accessToken, nonce: 1 }))
  })
})

let files = 0

/** The lists of a signer with a clock of its own, seconds since some start. */
async function lists(t: TestContext, freezes?: Parameters<typeof openRevocations>[0]['freezes']) {
  const place = await makePlace()
  t.after(() => place.clear())
  const { privateKey, publicKey } = await generateKeyPair('ES256')
  const file = join(place.folder, `${files++}.json`)
  writeFileSync(file, JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'k' }] }))
  const start = Date.now()
  const clock = { seconds: 0 }
  const now = () => start + clock.seconds * 1_000
  const keys = openKeyFile(file, silent, now)
  const revocations = openRevocations({
    keys,
    issuer: ISSUER,
    maxAgeSeconds: 60,
    log: silent,
    ...(freezes && { freezes }),
    now,
  })
  const list = (changes: Record<string, unknown> = {}, { header = {}, issuer = ISSUER, by = privateKey } = {}) =>
    new SignJWT({ jti: randomUUID(), part: 0, parts: 1, entries: [], iat: start / 1_000 + clock.seconds, ...changes })
      .setProtectedHeader({ alg: 'ES256', typ: REVOCATIONS_TYPE, kid: 'k', ...header })
      .setIssuer(issuer)
      .sign(by)
  const take = async (...changes: Parameters<typeof list>) => revocations.take({ list: await list(...changes) })
  return { clock, revocations, list, take, seconds: start / 1_000 }
}

const caller = (grantId: string): TokenCaller => ({
  ...{
    userId: ALICE,
    clientId: 'shop',
    scopes: [],
    chainId: 1,
    domains: [],
    tokenHash: 'hash',
    jti: null,
    tokenId: 't',
    expiresAt: 9e9,
  },
  marks: { grant: revoked.grant(grantId), application: revoked.application('shop'), user: revoked.user(ALICE) },
})
const isRefused = (code: string) => (error: unknown) => error instanceof Refusal && error.code === code

test('a list keeps tokens good for 60 seconds and no longer', async (t) => {
  const { revocations, take, clock } = await lists(t)
  await take()
  clock.seconds = 60
  const good = caller('g')
  // At once, not by a promise: this comes before every signature.
  assert.equal(revocations.check(good), good)
  assert.equal(await revocations.state(), 'fresh')
  clock.seconds = 60.5
  assert.throws(() => revocations.check(caller('g')), isRefused('revocations_stale'))
  assert.equal(await revocations.state(), 'stale')
  await take()
  await revocations.check(caller('g'))
})

test('a list is acknowledged, and counts, when its freezes are kept and not before', async (t) => {
  const kept = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<readonly string[]>()
  const takeList = (entries: readonly string[]) => (begun.resolve(entries), kept.promise)
  const { revocations, take } = await lists(t, { takeList })
  let isAcknowledged = false
  const taking = take({ entries: ['frozen 1 user DISCORD-1'] }).then(() => (isAcknowledged = true))
  assert.deepEqual(await begun.promise, ['frozen 1 user DISCORD-1'])
  let isAccepted = false
  const checking = Promise.resolve(revocations.check(caller('g'))).then(() => (isAccepted = true))
  // More turns than a list takes that waits for nothing.
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
  assert.deepEqual([isAcknowledged, isAccepted], [false, false])
  kept.resolve()
  await Promise.all([taking, checking])
})

test('a list whose freezes could not be kept is not acknowledged, and no token is accepted by it', async (t) => {
  const takeList = () => Promise.reject(new Error('the disk is full'))
  const { revocations, take } = await lists(t, { takeList })
  await assert.rejects(take(), /the disk is full/)
  assert.throws(() => revocations.check(caller('g')), isRefused('revocations_stale'))
})

test('a clock that is set back makes no list live longer', async (t) => {
  const { revocations, take, clock } = await lists(t)
  await take()
  clock.seconds = -600
  assert.throws(() => revocations.check(caller('g')), isRefused('revocations_stale'))
})

test('an older list takes nothing back: of two servers, and of one that replays', async (t) => {
  const { revocations, list, take, clock } = await lists(t)
  const before = await list()
  clock.seconds = 5
  await take({ entries: [revoked.grant('g')] })
  const known = await revocations.take({ list: before })
  assert.throws(() => revocations.check(caller('g')), isRefused('invalid_token'))
  const { issuedAt } = await take({ entries: [revoked.grant('g')] })
  assert.equal(known.issuedAt, issuedAt)
  // And it does not make the newest live longer.
  clock.seconds = 65.5
  await assert.rejects(revocations.take({ list: before }), isRefused('bad_request'))
  assert.throws(() => revocations.check(caller('other')), isRefused('revocations_stale'))
})

describe('not taken', () => {
  test('a list by another key, of another issuer, of another type, altered, or without a signature', async (t) => {
    const { revocations, list } = await lists(t)
    const foreign = await generateKeyPair('ES256')
    const [head, body, signature] = (await list({ entries: [revoked.grant('g')] })).split('.')
    const [, empty] = (await list()).split('.')
    const none = base64url.encode(JSON.stringify({ alg: 'none', typ: REVOCATIONS_TYPE }))
    const forged = [
      await list({}, { by: foreign.privateKey }),
      await list({}, { issuer: 'http://localhost:4001/oauth' }),
      // An access token, a session's id token: signed by the same key, for something else.
      await list({}, { header: { typ: 'at+jwt' } }),
      await list({}, { header: { typ: 'JWT' } }),
      [head, empty, signature].join('.'),
      [none, body, ''].join('.'),
      'word',
      '',
    ]
    for (const one of forged) await assert.rejects(revocations.take({ list: one }), isRefused('bad_request'), one)
    assert.throws(() => revocations.check(caller('g')), isRefused('revocations_stale'))
  })

  test('a list of another form', async (t) => {
    const { take, revocations } = await lists(t)
    const wrong = [
      { entries: undefined },
      { entries: 'grant g' },
      { entries: [1] },
      { iat: undefined },
      { jti: undefined },
      { parts: 0 },
      { parts: MAX_REVOCATION_PARTS + 1 },
      { part: 1 },
      { part: -1 },
      { part: 0.5, parts: 2 },
    ]
    for (const changes of wrong) await assert.rejects(take(changes), isRefused('bad_request'), JSON.stringify(changes))
    for (const request of [null, {}, { list: 7 }, { list: 'x', more: 1 }])
      await assert.rejects(revocations.take(request), isRefused('bad_request'))
  })

  test('a list from the future, by more than clocks may differ', async (t) => {
    const { take, seconds, revocations } = await lists(t)
    await take({ iat: seconds + 9 })
    await revocations.check(caller('g'))
    await assert.rejects(take({ iat: seconds + 11 }), /clocks/)
  })
})

test('a list in parts counts when all of them are here, in any order', async (t) => {
  const { take, revocations } = await lists(t)
  const shared = { jti: 'one', parts: 3 }
  const entries = (name: string) => [revoked.grant(name)]
  await take({ ...shared, part: 2, entries: entries('c') })
  await take({ ...shared, part: 0, entries: entries('a') })
  assert.throws(() => revocations.check(caller('x')), isRefused('revocations_stale'))
  await assert.rejects(take({ ...shared, parts: 2, part: 1, entries: entries('b') }), isRefused('bad_request'))
  await take({ ...shared, part: 1, entries: entries('b') })
  for (const grant of ['a', 'b', 'c']) assert.throws(() => revocations.check(caller(grant)), isRefused('invalid_token'))
  await revocations.check(caller('x'))
})

test('lists that never become whole are forgotten, and hold no whole one up', async (t) => {
  const { take, revocations } = await lists(t)
  for (let index = 0; index < 100; index++) await take({ jti: `half ${index}`, parts: 2 })
  assert.throws(() => revocations.check(caller('x')), isRefused('revocations_stale'))
  await take()
  await revocations.check(caller('x'))
})
