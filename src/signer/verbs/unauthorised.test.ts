import assert from 'node:assert/strict'
import { createHmac, generateKeyPairSync, randomUUID, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { SignJWT, type JSONWebKeySet } from 'jose'
import { randomOf } from '../../../test/random.ts'
import { ALICE, ask, BOB, CHAIN_ID, ISSUER, makePlace, startSigner, SOMEWHERE } from '../../../test/kit/signer.ts'
import { connectSigner } from '../../signer-wire/client.ts'
import { encodeFrame, frameReader } from '../../signer-wire/frames.ts'
import type { Hex } from '../../ids.ts'
import { revoked, type SignRequest } from '../../signer-wire/wire.ts'

const REQUESTS = Number(process.env.UNAUTHORISED ?? 200)
const SEED = Number(process.env.UNAUTHORISED_SEED ?? 3)
const AUDIENCE = 'http://localhost:4000/v1'
const FROZEN = 'DISCORD-3'
const HOUSE = 'SPONSOR-HOUSE'

/** A signer with both sockets, accounts of three people, of which one is frozen, and of a sponsor, and a list of what is revoked. */
async function installation(t: TestContext) {
  const place = await makePlace()
  const authSocket = join(place.folder, 'auth', 'signer.sock')
  const api = await startSigner(place, {
    more: { SIGNER_AUTH_SOCKET: authSocket, SIGNER_REVOCATIONS_SECONDS: '300', SIGNER_CHAINS: `${CHAIN_ID},1` },
  })
  const auth = connectSigner({ path: authSocket })
  t.after(async () => {
    auth.close()
    await api.end('SIGKILL')
    place.clear()
  })
  const addresses = new Map<string, Hex>()
  for (const userId of [ALICE, BOB, FROZEN, HOUSE])
    addresses.set(userId, (await auth.createAccount({ userId })).address)
  const entries = [revoked.user(FROZEN), revoked.application('suspended'), revoked.grant('ended')]
  await auth.bringRevocations([await place.revocations({ entries })])
  const ledger = () => {
    const db = new DatabaseSync(join(place.env.SIGNER_DIR!, 'signer.sqlite'), { readOnly: true })
    try {
      return db.prepare('SELECT kind, user_id FROM ledger ORDER BY seq').all()
    } finally {
      db.close()
    }
  }
  return { place, authSocket, api, auth, addressOf: (userId: string) => addresses.get(userId)!, ledger }
}

type Installation = Awaited<ReturnType<typeof installation>>

/** Codes of refusals that do not concern the token. */
const CODES: Record<string, string> = {
  'another person’s account': 'forbidden_user',
  'an account of nobody': 'unknown_account',
  'a sponsor’s funds for somewhere': 'policy_denied',
  'a sponsor’s funds for another person': 'policy_denied',
  'a call of a sponsor’s': 'policy_denied',
  'a sponsor’s nonce cancelled': 'forbidden_user',
  'a sponsor’s token': 'forbidden_user',
  'no permission to write': 'insufficient_scope',
  'another network of the token': 'insufficient_scope',
  'a network that is not served': 'policy_denied',
  'a suspended application': 'application_suspended',
  'a frozen user': 'account_frozen',
  'a contract made': 'policy_denied',
  'more than the fee': 'policy_denied',
  'a negative value': 'bad_request',
  'a digest': 'bad_request',
}

/** Requests of an attacker with access to the socket and tokens for other purposes, in place of a valid request. */
function thefts({ place, addressOf }: Installation, below: (limit: number) => number) {
  const own = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  const jwks = JSON.parse(readFileSync(place.env.SIGNER_JWKS_FILE!, 'utf8')) as JSONWebKeySet
  const by = (key: KeyObject | Uint8Array, header: Record<string, unknown> = {}, claims: Record<string, unknown> = {}) =>
    new SignJWT({ client_id: 'shop', scope: 'openid contracts:write', chain_id: CHAIN_ID, gid: randomUUID(), jti: randomUUID(), ...claims })
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: 'first', ...header })
      .setIssuer(ISSUER)
      .setAudience(AUDIENCE)
      .setSubject(ALICE)
      .setIssuedAt()
      .setExpirationTime('1h')
      .sign(key) // prettier-ignore
  const seconds = Math.floor(Date.now() / 1_000)
  const parts = async () => (await place.token(ALICE)).split('.') as [string, string, string]
  const base64url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const changed = async (claims: Record<string, unknown>, part = 1) => {
    const all = await parts()
    all[part] = base64url({ ...JSON.parse(Buffer.from(all[part]!, 'base64url').toString()), ...claims })
    return all.join('.')
  }
  // A token of Alice that is valid, but not for this request.
  const alice =
    (request: Partial<SignRequest>, claims: Record<string, unknown> = {}) =>
    async () =>
      ask(addressOf(ALICE), { accessToken: await place.token(ALICE, claims), ...request })
  const withToken = (token: () => Promise<string> | string) => async () =>
    ask(addressOf(ALICE), { accessToken: await token() })
  const kinds: Record<string, () => Promise<SignRequest>> = {
    'no token': async () => ask(addressOf(ALICE)),
    'a fee raised where nothing was signed': async () => ask(addressOf(ALICE), { kind: 'replace' }),
    'an empty token': withToken(() => ''),
    'no signature': withToken(async () => `${(await parts()).slice(0, 2).join('.')}.`),
    'no algorithm': withToken(async () => {
      const [, claims] = await parts()
      return `${base64url({ alg: 'none', typ: 'at+jwt', kid: 'first' })}.${claims}.`
    }),
    'a secret that is the public key': withToken(async () => {
      const [, claims] = await parts()
      const signed = `${base64url({ alg: 'HS256', typ: 'at+jwt', kid: 'first' })}.${claims}`
      return `${signed}.${createHmac('sha256', JSON.stringify(jwks.keys[0])).update(signed).digest('base64url')}`
    }),
    'a key of the thief': withToken(() => by(own)),
    'a key of the thief, brought along': withToken(() => by(own, { jwk: own.export({ format: 'jwk' }), kid: 'mine' })),
    'a key that nobody knows': withToken(() => by(own, { kid: randomUUID() })),
    'another user written into it': withToken(() => changed({ sub: BOB })),
    'a scope written into it': withToken(() => changed({ scope: 'contracts:write everything' })),
    'another header': withToken(() => changed({ typ: 'JWT' }, 0)),
    'an application written into it': withToken(() => changed({ client_id: 'other' })),
    'another person’s account': async () => ask(addressOf(BOB), { accessToken: await place.token(ALICE) }),
    'a sponsor’s funds for somewhere': alice({ from: addressOf(HOUSE) }),
    'a sponsor’s funds for another person': alice({ from: addressOf(HOUSE), to: addressOf(BOB) }),
    'a call of a sponsor’s': alice({ from: addressOf(HOUSE), to: addressOf(ALICE), data: '0x12345678' }),
    'a sponsor’s nonce cancelled': alice({ from: addressOf(HOUSE), to: addressOf(HOUSE), kind: 'cancel', value: '0' }),
    'a sponsor’s token': async () => ask(addressOf(HOUSE), { accessToken: await place.token(HOUSE) }),
    'a sponsor’s funds without a token': async () => ask(addressOf(HOUSE), { to: addressOf(ALICE) }),
    'an account of nobody': async () => ask(SOMEWHERE, { accessToken: await place.token(ALICE) }),
    'no permission to write': alice({}, { scope: 'openid contracts:read' }),
    'another network of the token': alice({}, { chain_id: 1 }),
    'a network that is not served': alice({ chainId: 5 }, { chain_id: 5 }),
    'a grant that was ended': alice({}, { gid: 'ended' }),
    'a suspended application': alice({}, { client_id: 'suspended' }),
    'a frozen user': async () => ask(addressOf(FROZEN), { accessToken: await place.token(FROZEN) }),
    'a token without an end': withToken(async () => by(own, {}, { exp: undefined })),
    'an export token': withToken(() => place.exportToken(ALICE, 'take')),
    'a list of what is revoked': withToken(() => place.revocations({ entries: [] })),
    'a token of tomorrow': alice({}, { nbf: seconds + 86_400 }),
    'a contract made': alice({ to: '0x' as Hex }),
    'more than the fee': alice({ maxFeePerGas: `1${'0'.repeat(20)}`, maxPriorityFeePerGas: '0' }),
    'a negative value': alice({ value: '-1' }),
    'a digest': alice({ digest: `0x${'11'.repeat(32)}` } as Partial<SignRequest>, { scope: 'openid' }),
  }
  const names = Object.keys(kinds)
  return async (made: number): Promise<[name: string, request: SignRequest]> => {
    const name = names[made % names.length]!
    const request = await kinds[name]!()
    const nonce = below(3)
    return [name, { ...request, nonce, intentId: `tx_${nonce}_${made}` }]
  }
}

/** Sends a request unchanged, without the checks of our own client. */
function say(path: string, verb: string, request: unknown): Promise<{ error?: { code: string }; answer?: unknown }> {
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    socket.once('error', reject).once('close', () => reject(new Error('closed without an answer')))
    socket.on('data', frameReader((message) => (resolve(message as object), socket.destroy()))) // prettier-ignore
    socket.write(encodeFrame({ id: 1, verb, request }))
  })
}

test(`of ${REQUESTS} requests that nobody authorised nothing is signed, on the socket of the API`, async (t) => {
  const house = await installation(t)
  const { api, place, addressOf, ledger } = house
  const before = ledger()
  assert.deepEqual(before.map(({ kind }) => kind), ['account', 'account', 'account', 'account']) // prettier-ignore
  const theft = thefts(house, randomOf(SEED))
  for (let made = 0; made < REQUESTS; made += 1) {
    const [name, request] = await theft(made)
    const said = await say(place.env.SIGNER_SOCKET!, 'sign', request)
    assert.deepEqual([name, said.answer, said.error?.code], [name, undefined, CODES[name] ?? 'invalid_token'])
  }
  assert.deepEqual(ledger(), before)
  // Authorised requests are signed, so the refusals were caused by the changes.
  const accessToken = await place.token(ALICE)
  await api.sign(ask(addressOf(ALICE), { accessToken }))
  assert.equal(ledger().length, before.length + 1)
})

test(`of ${REQUESTS} requests nothing is signed on the socket of the authorization server, good ones among them`, async (t) => {
  const house = await installation(t)
  const { place, authSocket, auth, addressOf, ledger } = house
  const before = ledger()
  const theft = thefts(house, randomOf(SEED))
  const verbs = ['sign', 'check', 'recall', 'recallSince', 'raw', 'signDigest', 'constructor', '__proto__']
  for (let made = 0; made < REQUESTS; made += 1) {
    const isGood = made % 2 === 0
    const request = isGood ? ask(addressOf(ALICE), { accessToken: await place.token(ALICE) }) : (await theft(made))[1]
    const said = await say(authSocket, verbs[made % verbs.length]!, request)
    assert.deepEqual([said.answer, said.error?.code], [undefined, 'bad_request'])
  }
  // No key is exported for a token of another purpose.
  for (const token of [
    await place.token(ALICE),
    await place.exportToken(ALICE, 'ask'),
    await place.exportToken(ALICE, 'take'),
  ])
    // prettier-ignore
    await assert.rejects(auth.takeKey({ token }))
  assert.deepEqual(ledger(), before)
})
