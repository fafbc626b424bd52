// tier: all, because it repeats attacks at length
import assert from 'node:assert/strict'
import { createHmac, generateKeyPairSync, hash, randomUUID } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { after, before, suite, test, type TestContext } from 'node:test'
import { decodeJwt, SignJWT } from 'jose'
import { keyHolder, type KeyHolder } from '../../test/key-holder.ts'
import { rememberProofs } from '../http/dpop.ts'
import { obtainCode, obtainTokens, post, REDIRECT, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { withWall } from '../../test/kit/clock.ts'

/** What is tried with access tokens that are bound to a key, against the API's door and against the token endpoint. */
let world: Rehearsal
let owner: KeyHolder
let thief: KeyHolder
let token: string
let others: { token: string; unbound: string }
let uri: string
before(async () => {
  ;[world, owner, thief] = await Promise.all([rehearse(), keyHolder(), keyHolder()])
  uri = `${world.origin}/oauth/me`
  token = await bound(owner)
  others = { token: await bound(owner), unbound: (await obtainTokens(world)).access }
})
after(() => world.close())

async function bound(holder: KeyHolder): Promise<string> {
  const { exchange } = await obtainCode(world)
  const dpop = await holder.prove({ method: 'POST', uri: `${world.origin}/oauth/token` })
  return (await exchange({}, { dpop })).body.access_token!
}

type Answer = { status: number; body: { code?: string }; challenge: string | null }
async function ask(headers: Record<string, string>, { method = 'GET', at = uri } = {}): Promise<Answer> {
  const response = await fetch(at, { method, headers })
  return {
    status: response.status,
    body: (await response.json()) as Answer['body'],
    challenge: response.headers.get('www-authenticate'),
  }
}
const now = () => Math.floor(Date.now() / 1_000)
const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
const dpop = (proof: string, of = token) => ({ authorization: `DPoP ${of}`, dpop: proof })
const ATH = () => hash('sha256', token, 'base64url')
const right = () => owner.prove({ uri, token })
const bent = (claims: object, header?: object) =>
  owner.prove({ uri, token }, header === undefined ? { claims } : { claims, header })

/** A proof put together by hand, with whatever stands for a signature. */
const forged = (header: object, sign: (body: string) => string): string => {
  const body = `${base64({ typ: 'dpop+jwt', alg: 'ES256', jwk: owner.jwk, ...header })}.${base64({ htm: 'GET', htu: uri, iat: now(), jti: randomUUID(), ath: ATH() })}` // prettier-ignore
  return `${body}.${sign(body)}`
}

/** The other signature of the same numbers that ECDSA takes: s counted from the end of the group. */
function twisted(proof: string): string {
  const [header, payload, signature] = proof.split('.') as [string, string, string]
  const bytes = Buffer.from(signature, 'base64url')
  const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
  const s = (order - BigInt(`0x${bytes.toString('hex', 32)}`)).toString(16).padStart(64, '0')
  return `${header}.${payload}.${Buffer.concat([bytes.subarray(0, 32), Buffer.from(s, 'hex')]).toString('base64url')}`
}

suite('the door of the API refuses', () => {
  const proofs: Record<string, () => string | Promise<string>> = {
    'no proof': () => '',
    'a word': () => 'null',
    'two proofs in one header': async () => `${await right()}, ${await right()}`,
    'a proof with a part too few': async () => (await right()).split('.').slice(0, 2).join('.'),
    'a proof whose header is no JSON': async () => `eyJ.${(await right()).split('.').slice(1).join('.')}`,
    'a proof of another address': () => owner.prove({ uri: `${world.origin}/v1/me`, token }),
    'a proof of a longer address': () => owner.prove({ uri: `${uri}/more`, token }),
    'a proof of the address with a slash behind': () => owner.prove({ uri: `${uri}/`, token }),
    'a proof of another origin': () => owner.prove({ uri: 'https://evil.example/oauth/me', token }),
    'a proof of another port': () => owner.prove({ uri: uri.replace(/:\d+/, ':1'), token }),
    'a proof of another scheme': () => owner.prove({ uri: uri.replace('http:', 'https:'), token }),
    'a proof of the address with a user in it': () => owner.prove({ uri: uri.replace('://', '://a@'), token }),
    'a proof of a path alone': () => owner.prove({ uri: '/oauth/me', token }),
    'a proof of no address': () => bent({ htu: undefined }),
    'a proof of a list of addresses': () => bent({ htu: [uri] }),
    'a proof of another method': () => owner.prove({ method: 'POST', uri, token }),
    'a proof of the method in small letters': () => owner.prove({ method: 'get', uri, token }),
    'a proof of no method': () => bent({ htm: undefined }),
    'a proof of another token': () => owner.prove({ uri, token: others.token }),
    'a proof of no token': () => owner.prove({ uri }),
    'a proof of the token in hexadecimal': () => bent({ ath: hash('sha256', token) }),
    'an old proof': () => bent({ iat: now() - 301 }),
    'a very old proof': () => bent({ iat: 1 }),
    'a proof of tomorrow': () => bent({ iat: now() + 86_400 }),
    'a proof of a little later': () => bent({ iat: now() + 65 }),
    'a proof without a time': () => bent({ iat: undefined }),
    'a proof whose time is a text': () => forgedTime(),
    'a proof that ended': () => bent({ exp: now() - 10 }),
    'a proof without a number': () => bent({ jti: undefined }),
    'a proof with an empty number': () => bent({ jti: '' }),
    'a proof whose number is an object': () => bent({ jti: {} }),
    'a proof that says JWT': () => bent({}, { typ: 'JWT' }),
    'a proof that says nothing of what it is': () => bent({}, { typ: undefined }),
    'a proof that is an access token': () => token,
    'a proof that says at+jwt': () => bent({}, { typ: 'at+jwt' }),
    'an unsigned proof': () => forged({ alg: 'none' }, () => ''),
    'an unsigned proof with a signature': () => forged({ alg: 'none' }, () => 'AAAA'),
    'an unsigned proof in other letters': () => forged({ alg: 'nOnE' }, () => 'AAAA'),
    'a proof with zeros for a signature': () => forged({}, () => Buffer.alloc(64).toString('base64url')),
    'a proof signed with the public key as a shared secret': () =>
      forged({ alg: 'HS256' }, (body) => createHmac('sha256', JSON.stringify(owner.jwk)).update(body).digest('base64url')), // prettier-ignore
    'a proof signed with a shared secret that it brings': () =>
      forged({ alg: 'HS256', jwk: { kty: 'oct', k: 'AAAA' } }, (body) => createHmac('sha256', Buffer.alloc(3)).update(body).digest('base64url')), // prettier-ignore
    'a proof by an algorithm that is not announced': () => {
      const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
      return new SignJWT({ htm: 'GET', htu: uri, iat: now(), jti: randomUUID(), ath: ATH() })
        .setProtectedHeader({ typ: 'dpop+jwt', alg: 'RS256', jwk: publicKey.export({ format: 'jwk' }) as never })
        .sign(privateKey)
    },
    'a proof that holds its private key': () => bent({}, { jwk: owner.key.export({ format: 'jwk' }) }),
    'a proof that holds no key': () => bent({}, { jwk: undefined }),
    'a proof whose key is a text': () => bent({}, { jwk: JSON.stringify(owner.jwk) }),
    'a proof whose key is at an address': () => bent({}, { jwk: undefined, jku: 'https://evil.example/jwks' }),
    'a proof with a critical extension': async () => {
      const [, ...rest] = (await right()).split('.')
      return [base64({ typ: 'dpop+jwt', alg: 'ES256', jwk: owner.jwk, crit: ['x'], x: 1 }), ...rest].join('.')
    },
    'a proof signed by the thief under the owner’s key': () => owner.prove({ uri, token }, { key: thief.key }),
    'a proof whose claims were changed': async () => {
      const [header, , signature] = (await right()).split('.')
      return [header, base64({ htm: 'GET', htu: uri, iat: now(), jti: 'another', ath: ATH() }), signature].join('.')
    },
    'a proof of more than 4 kB': () => bent({ filler: 'x'.repeat(4_096) }),
  }
  const forgedTime = () => {
    const claims = { htm: 'GET', htu: uri, iat: String(now()), jti: randomUUID(), ath: ATH() }
    return new SignJWT(claims as never)
      .setProtectedHeader({ typ: 'dpop+jwt', alg: 'ES256', jwk: owner.jwk })
      .sign(owner.key)
  }
  for (const [name, make] of Object.entries(proofs))
    test(name, async () => {
      const { status, body, challenge } = await ask(dpop(await make()))
      assert.deepEqual([status, body.code], [401, 'invalid_dpop_proof'])
      assert.equal(challenge, 'DPoP error="invalid_dpop_proof", algs="ES256 Ed25519 EdDSA"')
      assert.equal((await ask(dpop(await right()))).status, 200, 'and the right one still works')
    })

  test('two headers with a proof each', async () => {
    const [one, two] = [await right(), await right()]
    const status = await new Promise<number | undefined>((done, fail) => {
      const request = httpRequest(
        uri,
        { headers: { authorization: `DPoP ${token}`, dpop: [one, two] } },
        (response) => {
          response.resume()
          done(response.statusCode)
        },
      )
      request.on('error', fail)
      request.end()
    })
    assert.equal(status, 401)
    assert.equal((await ask(dpop(one))).status, 200, 'neither counts as used')
  })

  test('a proof the second time, also at the same moment, with its other signature, or in other words', async () => {
    const proof = await right()
    const together = await Promise.all(Array.from({ length: 8 }, () => ask(dpop(proof))))
    assert.deepEqual(
      together.map(({ status }) => status).toSorted((a, b) => a - b),
      [200, ...Array.from({ length: 7 }, () => 401)],
    )
    const { jti } = decodeJwt(proof)
    for (const again of [proof, twisted(proof), await bent({ jti }), await bent({ jti, iat: now() - 200 })])
      assert.equal((await ask(dpop(again))).body.code, 'invalid_dpop_proof')
    const fresh = await right()
    assert.equal((await ask(dpop(twisted(fresh)))).status, 200, 'the other signature is one')
    assert.equal((await ask(dpop(fresh))).status, 401)
  })

  test('the number of a proof of another key is no reason', async () => {
    const proof = await right()
    const { jti } = decodeJwt(proof)
    const mine = await bound(thief)
    assert.equal((await ask(dpop(await thief.prove({ uri, token: mine }, { claims: { jti } }), mine))).status, 200)
    assert.equal((await ask(dpop(proof))).status, 200)
  })

  const tokens: Record<string, () => Promise<Record<string, string>>> = {
    'a stolen bound token as a bearer token': async () => ({ authorization: `Bearer ${token}` }),
    'a bound token as a bearer token with a proof beside it': async () => ({
      authorization: `Bearer ${token}`,
      dpop: await right(),
    }),
    'a bound token by other letters': async () => ({ authorization: `bEARER   ${token}` }),
    'a stolen bound token with a proof of the thief’s key': async () => thief.headers({ uri, token }),
    'an unbound token by the scheme of bound ones': async () => owner.headers({ uri, token: others.unbound }),
    'an unbound token by that scheme without a proof': async () => ({ authorization: `DPoP ${others.unbound}` }),
    'no token, with a proof': async () => ({ authorization: 'DPoP ', dpop: await right() }),
    'a word': async () => ({ authorization: 'DPoP x', dpop: await right() }),
    'a token whose claim of the key was changed': async () => {
      const [header, , signature] = token.split('.')
      const changed = [header, base64({ ...decodeJwt(token), cnf: { jkt: thief.jkt } }), signature].join('.')
      return thief.headers({ uri, token: changed })
    },
    'a token whose claim of the key was taken out': async () => {
      const { cnf: _cnf, ...claims } = decodeJwt(token)
      const [header, , signature] = token.split('.')
      return { authorization: `Bearer ${[header, base64(claims), signature].join('.')}` }
    },
  }
  for (const [name, make] of Object.entries(tokens))
    test(name, async () => {
      for (const attempt of ['first', 'second']) {
        const { status, body, challenge } = await ask(await make())
        assert.deepEqual([status, body.code], [401, 'invalid_token'], attempt)
        assert.match(challenge!, / error="invalid_token"/)
        assert.equal((await ask(dpop(await right()))).status, 200)
      }
    })
  test('and says by which scheme a bound token comes', async () => {
    const { challenge } = await ask({ authorization: `Bearer ${token}` })
    assert.equal(challenge, 'DPoP error="invalid_token", algs="ES256 Ed25519 EdDSA"')
  })

  test('what is right in other words is taken: query and fragment, the host in capitals, an escaped letter', async () => {
    const escaped = uri.replace('/me', '/%6de')
    for (const same of [`${uri}?a=b`, `${uri}#there`, uri.replace('localhost', 'LOCALHOST'), escaped])
      assert.equal((await ask(dpop(await owner.prove({ uri: same, token })))).status, 200, same)
    assert.equal((await ask(dpop(await right()), { at: `${uri}?a=b` })).status, 200)
    assert.equal((await ask({ ...dpop(await right()), authorization: `dpop  ${token}` })).status, 200)
  })
})

test('on another replica a used proof of the API is taken once more, and one of the token endpoint is not', async (t) => {
  const replica = await rehearse({ again: world })
  t.after(() => replica.close())
  const proof = await right()
  assert.equal((await ask(dpop(proof))).status, 200)
  const statuses = []
  for (let n = 0; n < 3; n++) statuses.push((await ask(dpop(proof), { at: `${replica.base}/oauth/me` })).status)
  assert.deepEqual(statuses, [200, 401, 401])
  const once = await owner.prove({ method: 'POST', uri: `${world.origin}/oauth/token` })
  const fresh = await owner.prove({ method: 'POST', uri: `${world.origin}/oauth/token` })
  const [one, two, three] = await Promise.all([obtainCode(world), obtainCode(world), obtainCode(world)])
  assert.equal((await one.exchange({}, { dpop: once })).status, 200)
  const atReplica = ({ code, verifier }: typeof one, proof: string) =>
    post(replica.base, '/oauth/token', { grant_type: 'authorization_code', client_id: 'demo', redirect_uri: REDIRECT, code, code_verifier: verifier }, { dpop: proof }) // prettier-ignore
  assert.equal((await atReplica(two, once)).body.error, 'invalid_grant')
  assert.equal((await atReplica(three, fresh)).status, 200)
})

test('who floods the memory of used proofs is slowed down alone, and not by somebody without the key', async (t) => {
  const small = await rehearse({ env: { APPLICATION_PER_SECOND: '5' } })
  t.after(() => small.close())
  const at = `${small.origin}/oauth/me`
  const signIn = async (holder: KeyHolder, username: string) => {
    const { exchange } = await obtainCode(small, { username })
    const proof = await holder.prove({ method: 'POST', uri: `${small.origin}/oauth/token` })
    return (await exchange({}, { dpop: proof })).body.access_token!
  }
  const [loud, quiet] = [await signIn(owner, 'loud'), await signIn(owner, 'quiet')]
  const askAt = async (holder: KeyHolder, of: string) => (await ask(await holder.headers({ uri: at, token: of }), { at })).status // prettier-ignore
  for (let n = 0; n < 20; n++) assert.equal(await askAt(thief, loud), 401)
  const statuses = await Promise.all(Array.from({ length: 20 }, () => askAt(owner, loud)))
  assert.ok(statuses.filter((status) => status === 200).length >= 5)
  assert.ok(statuses.includes(429))
  assert.deepEqual(new Set(statuses), new Set([200, 429]))
  assert.equal(await askAt(owner, quiet), 200)
})

suite('the memory of used proofs', () => {
  const rehearseSmall = async (t: TestContext, perSecond: number) => {
    const small = await rehearse({ env: { APPLICATION_PER_SECOND: String(perSecond) } })
    t.after(() => small.close())
    // It is stuck, so that limits let through the same on a slow machine.
    const begun = Date.now()
    small.app.clock = withWall(() => begun)
    rememberProofs(small.app, { most: 20 })
    const at = `${small.origin}/oauth/me`
    const signIn = async (username: string) => {
      const { exchange } = await obtainCode(small, { username })
      const proof = await owner.prove({ method: 'POST', uri: `${small.origin}/oauth/token` })
      return (await exchange({}, { dpop: proof })).body.access_token!
    }
    const askAt = async (of: string, claims: object = {}) => {
      const response = await fetch(at, { headers: dpop(await owner.prove({ uri: at, token: of }, { claims }), of) })
      const { code } = (await response.json()) as { code?: string }
      return { status: response.status, code, retryAfter: response.headers.get('retry-after') }
    }
    return { signIn, askAt }
  }

  test('is not filled by one person with several tokens: what is refused takes no place in it', async (t) => {
    const { signIn, askAt } = await rehearseSmall(t, 5)
    const [loud, again, quiet] = [await signIn('loud'), await signIn('loud'), await signIn('quiet')]
    const ahead = { iat: now() + 55 }
    const answers = await Promise.all(Array.from({ length: 60 }, (_, n) => askAt(n % 2 === 0 ? loud : again, ahead)))
    assert.deepEqual(
      answers.map(({ status }) => status).toSorted((a, b) => a - b),
      [...Array.from({ length: 5 }, () => 200), ...Array.from({ length: 55 }, () => 429)],
    )
    assert.equal((await askAt(quiet)).status, 200)
    for (const friend of ['second', 'third', 'fourth']) {
      const of = await signIn(friend)
      for (let n = 0; n < 5; n++) await askAt(of, ahead)
    }
    assert.equal((await askAt(quiet)).status, 503, 'several people together fill it')
  })

  test('forgets the oldest where it is full, and then takes none of their time; of now it refuses more', async (t) => {
    const { signIn, askAt } = await rehearseSmall(t, 100)
    const of = await signIn('many')
    const old = now() - 200
    assert.equal((await askAt(of, { iat: old, jti: 'old' })).status, 200)
    const ahead = { iat: now() + 55 }
    for (let n = 0; n < 20; n++) assert.equal((await askAt(of, ahead)).status, 200)
    for (const jti of ['old', 'another']) {
      const { status, code } = await askAt(of, { iat: old, jti })
      assert.deepEqual([status, code], [401, 'invalid_dpop_proof'])
    }
    assert.deepEqual(await askAt(of), { status: 503, code: 'overloaded', retryAfter: '10' })
  })
})

suite('the token endpoint refuses', () => {
  const endpoint = () => `${world.origin}/oauth/token`
  const proofOf = async (holder: KeyHolder | null): Promise<Record<string, string>> =>
    holder === null ? {} : { dpop: await holder.prove({ method: 'POST', uri: endpoint() }) }
  const proofs: Record<string, (proof: () => Promise<string>) => Promise<Record<string, string>>> = {
    'an old proof': async () => ({ dpop: await owner.prove({ method: 'POST', uri: endpoint() }, { claims: { iat: now() - 400 } }) }), // prettier-ignore
    'a proof of tomorrow': async () => ({ dpop: await owner.prove({ method: 'POST', uri: endpoint() }, { claims: { iat: now() + 400 } }) }), // prettier-ignore
    'a proof of another address': async () => ({ dpop: await owner.prove({ method: 'POST', uri }) }),
    'a proof of another origin': async () => ({ dpop: await owner.prove({ method: 'POST', uri: 'https://evil.example/oauth/token' }) }), // prettier-ignore
    'a proof of another method': async () => ({ dpop: await owner.prove({ uri: endpoint() }) }),
    'two proofs': async (proof) => ({ dpop: `${await proof()}, ${await proof()}` }),
    'an unsigned proof': async () => ({ dpop: forged({ alg: 'none' }, () => '') }),
    'a proof that holds its private key': async () => ({ dpop: await owner.prove({ method: 'POST', uri: endpoint() }, { header: { jwk: owner.key.export({ format: 'jwk' }) } }) }), // prettier-ignore
    'a proof signed by another key': async () => ({ dpop: await owner.prove({ method: 'POST', uri: endpoint() }, { key: thief.key }) }), // prettier-ignore
  }
  for (const [name, make] of Object.entries(proofs))
    test(name, async () => {
      const { exchange } = await obtainCode(world)
      const proof = () => owner.prove({ method: 'POST', uri: endpoint() })
      const { status, body } = await exchange({}, await make(proof))
      assert.deepEqual([status, body.error], [400, 'invalid_dpop_proof'])
      assert.equal((await exchange({}, { dpop: await proof() })).status, 200, 'and the code is still good')
    })

  test('a proof the second time, for as long as its time is good, and of eight at once seven', async () => {
    const dpop = await owner.prove({ method: 'POST', uri: endpoint() }, { claims: { iat: now() + 290 } })
    const codes = await Promise.all(Array.from({ length: 8 }, () => obtainCode(world)))
    const answers = await Promise.all(codes.map(({ exchange }) => exchange({}, { dpop })))
    assert.deepEqual(
      answers.map(({ status }) => status).toSorted((a, b) => a - b),
      [200, ...Array.from({ length: 7 }, () => 400)],
    )
    const [row] = await world.app.db
      .selectFrom('oauth_records')
      .select('expires_at')
      .where('kind', '=', 'Proof')
      .orderBy('expires_at', 'desc')
      .limit(1)
      .execute()
    assert.ok(row!.expires_at!.getTime() > Date.now() + 595_000, 'it is good for ten minutes, and remembered for those')
  })

  test('a stolen code or refresh token without the key, and the one that has it goes on', async () => {
    const parameters = { dpop_jkt: owner.jkt }
    for (const holder of [null, thief]) {
      const { exchange } = await obtainCode(world, { parameters })
      assert.equal((await exchange({}, await proofOf(holder))).body.error, 'invalid_grant')
    }
    const { exchange } = await obtainCode(world, { parameters })
    const { body } = await exchange({}, { dpop: await owner.prove({ method: 'POST', uri: endpoint() }) })
    const form = { grant_type: 'refresh_token', client_id: 'demo', refresh_token: body.refresh_token! }
    const refresh = async (holder: KeyHolder | null) => post(world.origin, '/oauth/token', form, await proofOf(holder))
    for (const holder of [null, thief]) assert.equal((await refresh(holder)).body.error, 'invalid_grant')
    assert.equal((await refresh(owner)).body.token_type, 'DPoP', 'and what the thief tried has ended nothing')
  })
})
