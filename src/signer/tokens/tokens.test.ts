import assert from 'node:assert/strict'
import { createHmac, hash, randomBytes } from 'node:crypto'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { inspect } from 'node:util'
import { base64url, exportJWK, exportSPKI, generateKeyPair, SignJWT, type JWK } from 'jose'
import type { TokenCaller } from './caller.ts'
import { openKeyFile } from './key-file.ts'
import { Refusal } from '../refusal.ts'
import { openRevocations } from './revocations.ts'
import { openTokens } from './tokens.ts'
import type { Logger } from '../../log.ts'

const ISSUER = 'https://chatelaine.example/oauth'
const AUDIENCE = 'https://chatelaine.example/v1'
const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} }

/** A check without lists of what is revoked: they have tests of their own. */
function open({ file, log = silent, now = Date.now }: { file: string; log?: Logger; now?: () => number }) {
  const keys = openKeyFile(file, log, now, now)
  const revocations = openRevocations({ keys, issuer: ISSUER, maxAgeSeconds: 0, log, now })
  return openTokens({ keys, revocations, issuer: ISSUER, audience: AUDIENCE, maxSeconds: 86_400, now })
}

const folder = mkdtempSync(join(tmpdir(), 'chatelaine-tokens-'))
after(() => rmSync(folder, { recursive: true, force: true }))

type Pair = Awaited<ReturnType<typeof generateKeyPair>> & { kid: string }
const newPair = async (kid: string): Promise<Pair> => ({
  ...(await generateKeyPair('ES256', { extractable: true })),
  kid,
})

async function write(file: string, pairs: Pair[], more: JWK[] = []) {
  const keys = await Promise.all(pairs.map(async ({ publicKey, kid }) => ({ ...(await exportJWK(publicKey)), kid })))
  // As the authorization server replaces it: aside, then renamed.
  writeFileSync(`${file}.new`, JSON.stringify({ keys: [...more, ...keys] }))
  renameSync(`${file}.new`, file)
}

let files = 0

/** A check with a clock of its own, in seconds since some start. */
async function world() {
  const file = join(folder, `${files++}.json`)
  const pair = await newPair('first')
  await write(file, [pair])
  const start = Date.now()
  const clock = { seconds: 0 }
  const now = () => start + clock.seconds * 1_000
  const tokens = open({ file, now })
  const seconds = Math.floor(start / 1_000)
  const claims = {
    iss: ISSUER,
    aud: AUDIENCE,
    sub: 'DISCORD-1',
    client_id: 'shop',
    gid: 'g1',
    scope: 'openid',
    chain_id: 1,
  }
  const issue = (changes: Record<string, unknown> = {}, header = {}, by = pair) =>
    new SignJWT({ ...claims, iat: seconds, exp: seconds + 60, ...changes })
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: by.kid, ...header })
      .sign(by.privateKey, { crit: { strange: true } })
  return { file, pair, clock, tokens, issue, seconds, claims }
}

const check = async (tokens: { check: (token: string) => unknown }, token: string) => await tokens.check(token)
const isInvalid = (error: unknown) => error instanceof Refusal && error.code === 'invalid_token'

test('a good token tells user, application, scopes, chain and id', async () => {
  const { tokens, issue, seconds } = await world()
  const token = await issue({ scope: 'openid contracts:write', jti: 'j1' })
  assert.deepEqual(await check(tokens, token), {
    userId: 'DISCORD-1',
    clientId: 'shop',
    scopes: ['openid', 'contracts:write'],
    chainId: 1,
    domains: [],
    tokenId: 'j1',
    jti: 'j1',
    tokenHash: hash('sha256', token, 'base64url'),
    expiresAt: seconds + 60,
    marks: { grant: 'grant g1', application: 'application shop', user: 'user DISCORD-1' },
  })
})

test('a token that is bound to a key is a good one: its proof is the server’s to check, and is not shown here', async () => {
  const { tokens, issue } = await world()
  const bound = await issue({ cnf: { jkt: '0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I' } })
  assert.equal(((await check(tokens, bound)) as { userId: string }).userId, 'DISCORD-1')
})

describe('refused as invalid_token', () => {
  const faults: [name: string, changes: Record<string, unknown>, header?: Record<string, unknown>][] = [
    ['another issuer', { iss: 'https://other.example/oauth' }],
    ['another audience', { aud: 'https://chatelaine.example' }],
    ['no audience', { aud: undefined }],
    ['no expiry', { exp: undefined }],
    ['expired', { exp: 1 }],
    ['not yet valid', { nbf: 9_999_999_999 }],
    ['no subject', { sub: undefined }],
    ['an empty subject', { sub: '' }],
    ['no grant', { gid: undefined }],
    ['a grant that is no text', { gid: 7 }],
    ['no client', { client_id: undefined }],
    ['a client that is no text', { client_id: 7 }],
    ['an id token', {}, { typ: 'JWT' }],
    ['no type', {}, { typ: undefined }],
    ['an unknown critical header', {}, { crit: ['strange'], strange: 1 }],
    ['an unknown key', {}, { kid: 'other' }],
    ['a key named by a path', {}, { kid: '../../etc/passwd' }],
    ['an expiry that is no number', { exp: '9999999999' }],
    ['a subject that is no text', { sub: ['DISCORD-1'] }],
    ['an audience that begins like ours', { aud: [`${AUDIENCE}/`, `${AUDIENCE}0`] }],
    ['a client with control characters', { client_id: 'shop\u0000' }],
    ['a client too long for the ledger', { client_id: 'x'.repeat(256) }],
  ]
  for (const [name, changes, header] of faults) {
    test(name, async () => {
      const { tokens, issue } = await world()
      await assert.rejects(check(tokens, await issue(changes, header)), isInvalid)
    })
  }

  test('algorithm none, with and without a signature', async () => {
    const { tokens, issue } = await world()
    const [, payload, signature] = (await issue()).split('.')
    for (const alg of ['none', 'NONE', 'None']) {
      const header = base64url.encode(JSON.stringify({ alg, typ: 'at+jwt', kid: 'first' }))
      await assert.rejects(check(tokens, `${header}.${payload}.`), isInvalid)
      await assert.rejects(check(tokens, `${header}.${payload}.${signature}`), isInvalid)
    }
  })

  test('HS256 keyed with our public key', async () => {
    const { tokens, issue, pair } = await world()
    const [, payload] = (await issue()).split('.')
    const header = base64url.encode(JSON.stringify({ alg: 'HS256', typ: 'at+jwt', kid: 'first' }))
    for (const key of [await exportSPKI(pair.publicKey), JSON.stringify(await exportJWK(pair.publicKey))]) {
      const mac = createHmac('sha256', key).update(`${header}.${payload}`).digest('base64url')
      await assert.rejects(check(tokens, `${header}.${payload}.${mac}`), isInvalid)
    }
  })

  test('RS256, though its key stands in the same file', async () => {
    const { tokens, file, pair, claims, seconds, clock } = await world()
    const rsa = await generateKeyPair('RS256', { extractable: true })
    await write(file, [pair], [{ ...(await exportJWK(rsa.publicKey)), kid: 'rsa' }])
    clock.seconds = 2
    const token = await new SignJWT({ ...claims, exp: seconds + 60 })
      .setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', kid: 'rsa' })
      .sign(rsa.privateKey)
    await assert.rejects(check(tokens, token), isInvalid)
  })

  test('another key under our key’s id, also one that the token brings along or points to', async () => {
    const { tokens, issue } = await world()
    const stranger = await newPair('first')
    const at = 'http://127.0.0.1:9/keys'
    for (const header of [{}, { jwk: await exportJWK(stranger.publicKey) }, { jku: at }, { x5u: at }])
      await assert.rejects(check(tokens, await issue({}, header, stranger)), isInvalid)
  })

  test('our own key, when its use is not to sign', async () => {
    const { tokens, issue, file, pair, clock } = await world()
    const other = await newPair('other')
    await write(file, [other], [{ ...(await exportJWK(pair.publicKey)), kid: 'first', use: 'enc' }])
    clock.seconds = 2
    await assert.rejects(check(tokens, await issue()), isInvalid)
  })

  test('any byte changed, and text that is no token', async () => {
    const { tokens, issue } = await world()
    const token = await issue()
    const [header, payload, signature] = token.split('.')
    const forged = base64url.encode(JSON.stringify({ ...JSON.parse(atob(payload!)), sub: 'DISCORD-2' }))
    for (const text of [`${header}.${forged}.${signature}`, `${token}AA`, token.slice(0, -4), '', '..', 'x']) {
      await assert.rejects(check(tokens, text), isInvalid)
    }
    assert.equal(((await check(tokens, token)) as { userId: string }).userId, 'DISCORD-1')
  })
})

test('scopes and chain of another shape give nothing', async () => {
  const { tokens, issue } = await world()
  const odd = (await check(tokens, await issue({ scope: ['contracts:write'], chain_id: ['1'] }))) as TokenCaller
  assert.deepEqual([odd.scopes, odd.chainId], [[], null])
  const glued = (await check(tokens, await issue({ scope: 'contracts:write,openid' }))) as TokenCaller
  assert.ok(!glued.scopes.includes('contracts:write'))
})

test('a token id that the ledger cannot keep as it is stands there as a hash', async () => {
  const { tokens, issue } = await world()
  for (const jti of ['a\u0000b', '\u00e9', '', 'x'.repeat(256), 7]) {
    const { tokenId } = (await check(tokens, await issue({ jti }))) as TokenCaller
    assert.match(tokenId, /^[\w-]{43}$/)
  }
})

test('a token is good from five seconds before its nbf and until five after its exp', async () => {
  const { tokens, issue, clock, seconds } = await world()
  const early = await issue({ nbf: seconds + 7 })
  await assert.rejects(check(tokens, early), isInvalid)
  clock.seconds = 3
  await check(tokens, early)
  clock.seconds = 64
  await check(tokens, await issue({ jti: 'late' }))
  clock.seconds = 66
  await assert.rejects(check(tokens, await issue({ jti: 'later' })), isInvalid)
})

test('a token under verification while its key is taken away is not remembered', async () => {
  const { tokens, issue, clock, file } = await world()
  const token = await issue()
  const verifying = check(tokens, token)
  await write(file, [await newPair('next')])
  clock.seconds = 2
  await assert.rejects(check(tokens, token), isInvalid)
  await verifying
  await assert.rejects(check(tokens, token), isInvalid)
})

test('a remembered token is refused from its expiry on, five seconds of clocks apart', async () => {
  const { tokens, issue, clock } = await world()
  const token = await issue()
  const first = await check(tokens, token)
  clock.seconds = 63
  assert.equal(await check(tokens, token), first, 'remembered')
  clock.seconds = 66
  await assert.rejects(check(tokens, token), isInvalid)
  await assert.rejects(check(tokens, token), isInvalid)
})

test('a key added to the file is found at once, a key taken away takes its tokens with it', async () => {
  const { tokens, issue, clock, file, pair } = await world()
  const old = await issue()
  await check(tokens, old)
  const next = await newPair('next')
  await write(file, [pair, next])
  clock.seconds = 0.2
  await check(tokens, await issue({}, {}, next))
  await write(file, [next])
  clock.seconds = 1.5
  await assert.rejects(check(tokens, old), isInvalid)
  await check(tokens, await issue({}, {}, next))
})

test('unknown keys do not make the file be read more than ten times a second', async () => {
  const { tokens, issue, clock, file } = await world()
  const next = await newPair('next')
  const token = await issue({}, {}, next)
  clock.seconds = 0.2
  await assert.rejects(check(tokens, token), isInvalid)
  await write(file, [next])
  clock.seconds = 0.25
  await assert.rejects(check(tokens, token), isInvalid)
  clock.seconds = 0.31
  await check(tokens, token)
})

test('without any key the signer is unavailable: that is no fault of the token', async () => {
  const { issue } = await world()
  const file = join(folder, 'missing.json')
  const tokens = open({ file })
  await assert.rejects(check(tokens, await issue()), (error: Refusal) => error.code === 'signer_unavailable')
})

test('a file emptied of keys takes all of them away, and that is no fault of the tokens', async () => {
  const { tokens, issue, clock, file } = await world()
  const token = await issue()
  await check(tokens, token)
  await write(file, [])
  clock.seconds = 2
  await assert.rejects(check(tokens, token), (error: Refusal) => error.code === 'signer_unavailable')
})

test('a broken file of keys is logged without a word of what is in it', async () => {
  const { file, issue } = await world()
  const logged: unknown[] = []
  const log: Logger = { ...silent, warn: (...line) => logged.push(line) }
  writeFileSync(file, '{"d":"S3CRET"')
  const tokens = open({ file, log })
  await assert.rejects(check(tokens, await issue()), Refusal)
  assert.equal(logged.length, 1)
  assert.doesNotMatch(inspect(logged, { depth: 9 }), /S3CRET/)
})

test('keys that were read stay in force while the file is broken', async () => {
  const { tokens, issue, clock, file } = await world()
  writeFileSync(file, '{"keys":[')
  clock.seconds = 2
  await check(tokens, await issue({ jti: randomBytes(4).toString('hex') }))
})

test('a file that holds private keys is told: it is not the one that was meant', async () => {
  const file = join(folder, 'private.json')
  const { privateKey } = await newPair('private')
  const told: string[] = []
  const log: Logger = { ...silent, warn: (event) => void told.push(event) }
  writeFileSync(file, JSON.stringify({ keys: [{ ...(await exportJWK(privateKey)), kid: 'private' }] }))
  openKeyFile(file, log, Date.now).current()
  assert.deepEqual(told, ['token_keys_private'])
  await write(file, [await newPair('public')])
  openKeyFile(file, log, Date.now).current()
  assert.equal(told.length, 1)
})

test('a wall clock that is set back does not put off the look at keys that are trusted no more', async () => {
  const { file } = await world()
  const clock = { wall: Date.now(), ticks: 0 }
  const keys = openKeyFile(file, silent, () => clock.wall, () => clock.ticks) // prettier-ignore
  assert.equal(keys.fingerprints().length, 1)
  const [before] = keys.fingerprints()
  await write(file, [await newPair('next')])
  clock.wall -= 3_600_000
  clock.ticks += 1_000
  assert.notEqual(keys.fingerprints()[0], before)
})
