// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { test } from 'node:test'
import { BigNumber } from 'ethers5'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import OAuth2Strategy from 'passport-oauth2'
import { until } from '../test/kit/until.ts'
import { installation } from './start.ts'
import { walk } from './walk.ts'

const installed = installation()

/** A redirect address on a loopback port that is really free. */
async function redirectUri(): Promise<string> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  return `http://127.0.0.1:${port}/any/path`
}

type Tokens = { access: string; refresh: string | undefined; subject: string }

/** Signs in as openid-client does: discovery, PKCE, RS256 id token, all checks of the library. */
async function signIn(username: string): Promise<Tokens & { config: openid.Configuration }> {
  const { facts } = installed.program
  const config = await openid.discovery(new URL(facts.issuer), facts.clientId, undefined, openid.None(), {
    execute: [openid.allowInsecureRequests],
  })
  const verifier = openid.randomPKCECodeVerifier()
  const [state, nonce] = [openid.randomState(), openid.randomNonce()]
  const url = openid.buildAuthorizationUrl(config, {
    redirect_uri: await redirectUri(),
    scope: 'openid email',
    code_challenge: await openid.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    nonce,
  })
  const { url: back } = await walk(url.href, { origin: facts.origin, username })
  assert.equal(back.searchParams.get('iss'), facts.issuer)
  const tokens = await openid.authorizationCodeGrant(config, back, {
    pkceCodeVerifier: verifier,
    expectedState: state,
    expectedNonce: nonce,
    idTokenExpected: true,
  })
  const header = JSON.parse(Buffer.from(tokens.id_token!.split('.')[0]!, 'base64url').toString())
  assert.equal(header.alg, 'RS256')
  return { access: tokens.access_token, refresh: tokens.refresh_token, subject: tokens.claims()!.sub, config }
}

// oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
type Reply = { status: number; headers: Headers; body: any }

async function call(token: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Reply> {
  const response = await fetch(path.startsWith('http') ? path : `${installed.program.facts.baseUrl}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

const asEthers5 = (value: bigint): unknown => JSON.parse(JSON.stringify(BigNumber.from(value)))

test('the command that npm start prints works when pasted', async () => {
  const command = /curl -H 'Authorization: (Bearer [^']+)' (\S+)/.exec(installed.program.printed())
  assert.ok(command !== null)
  const response = await fetch(command[2]!, { headers: { authorization: command[1]! } })
  assert.equal(response.status, 200)
  assert.deepEqual(Object.keys((await response.json()) as object), ['ETH'])
})

test('openid-client signs in with scope "openid email" and does the whole main job', async () => {
  const { facts } = installed.program
  const { erc20 } = facts.contracts as { erc20: string }
  const alice = await signIn('alice')
  const bob = await signIn('bob')
  assert.equal(alice.subject, 'DEV-alice')

  const info = await openid.fetchUserInfo(alice.config, alice.access, alice.subject)
  const me = await call(alice.access, '/me')
  const user = await call(alice.access, `/users/${alice.subject}`)
  assert.deepEqual(
    [info.id, info.provider, info.username, info.address, info.email],
    ['DEV-alice', 'DEV', 'alice', user.body.address, 'alice@dev.invalid'],
  )
  assert.deepEqual(Object.keys(user.body).toSorted(), ['address', 'id', 'imageSrc', 'provider', 'username'])
  assert.deepEqual([me.body.network, me.body.chainId], ['devnet', 31_337])

  const native = await call(alice.access, '/users/DEV-alice/balance')
  assert.deepEqual(native.body.ETH.balanceBn, asEthers5(BigInt(native.body.ETH.balance)))
  assert.equal(native.body.ETH.network, 'devnet')

  const bobAddress = (await call(bob.access, '/users/DEV-bob')).body.address
  const mint = await call(alice.access, '/contracts/method/write?wait=mined', {
    address: erc20,
    abi: 'mint(address to, uint256 amount) public',
    args: [user.body.address, '2500000000000000000'],
  })
  assert.equal(mint.status, 200, JSON.stringify(mint.body))
  assert.deepEqual([mint.body.status, typeof mint.body.tx.type, mint.body.tx.chainId], ['SUCCESS', 'number', 31_337])
  assert.match(mint.body.hash, /^0x[0-9a-f]{64}$/)
  const send = await call(
    alice.access,
    '/contracts/method/write?wait=mined',
    {
      address: erc20,
      abi: 'transfer(address,uint256) public returns (bool)',
      args: [bobAddress, '1000000000000000000'],
    },
    { 'idempotency-key': 'once' },
  )
  assert.equal(send.status, 200, JSON.stringify(send.body))
  const again = await call(
    alice.access,
    '/contracts/method/write',
    {
      address: erc20,
      abi: 'transfer(address,uint256) public returns (bool)',
      args: [bobAddress, '1000000000000000000'],
    },
    { 'idempotency-key': 'once' },
  )
  assert.deepEqual([again.body.hash, again.headers.get('idempotent-replayed')], [send.body.hash, 'true'])

  const read = await call(alice.access, '/contracts/method/read', {
    address: erc20,
    abi: 'balanceOf(address) public view returns (uint256)',
    args: [user.body.address],
  })
  assert.deepEqual(read.body.response, asEthers5(1_500_000_000_000_000_000n))
  const token = await call(alice.access, `/users/DEV-alice/balance/${erc20}`)
  const entry = token.body[erc20.toLowerCase()]
  assert.deepEqual(
    [entry.balance, entry.formatted, entry.decimals, entry.tokenAddress],
    ['1500000000000000000', '1.5', '18', erc20],
  )

  const history = await until('both transfers are in the history', async () => {
    const { body } = await call(alice.access, '/users/DEV-alice/history')
    return body.length >= 2 ? body : null
  })
  const [newest] = history
  assert.deepEqual(newest.to, { username: 'bob', platform: 'DEV', address: bobAddress })
  assert.deepEqual([newest.type, newest.hash, newest.explorerUrl], ['TRANSFER', send.body.hash, send.body.explorerUrl])
  assert.match(newest.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  const { valueBn, formatted, decimals, symbol, name, tokenAddress, network, chainId } = newest.amount
  assert.deepEqual(
    { valueBn, formatted, decimals, symbol, name, tokenAddress, network, chainId },
    {
      valueBn: asEthers5(10n ** 18n),
      formatted: 1,
      decimals: 18,
      symbol: 'SMPL',
      name: 'Sample Token',
      tokenAddress: erc20,
      network: 'DEVNET',
      chainId: 31_337,
    },
  )
  for (const page of [send.body.explorerUrl, read.body.explorerUrl, newest.explorerUrl])
    assert.equal((await fetch(page)).status, 200, page)

  const refreshed = await openid.refreshTokenGrant(alice.config, alice.refresh!)
  assert.notEqual(refreshed.refresh_token, alice.refresh)
  assert.equal((await call(refreshed.access_token, '/me')).status, 200)
  assert.equal((await call(alice.access, '/users/DEV-bob')).body.code, 'forbidden_user')
})

test('oauth4webapi completes the flow and its checks', async () => {
  const { facts } = installed.program
  const insecure = { [oauth.allowInsecureRequests]: true }
  const issuer = new URL(facts.issuer)
  const server = await oauth.processDiscoveryResponse(
    issuer,
    await oauth.discoveryRequest(issuer, { algorithm: 'oidc', ...insecure }),
  )
  const client: oauth.Client = { client_id: facts.clientId }
  const redirect = await redirectUri()
  const verifier = oauth.generateRandomCodeVerifier()
  const state = oauth.generateRandomState()
  const url = new URL(server.authorization_endpoint!)
  url.search = new URLSearchParams({
    client_id: facts.clientId,
    response_type: 'code',
    redirect_uri: redirect,
    scope: 'openid',
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    login_provider: 'dev',
  }).toString()
  const { url: back, pages } = await walk(url.href, { origin: facts.origin, username: 'olga' })
  assert.ok(!pages[0]!.includes('class="providers"'), 'login_provider skips the chooser')
  const parameters = oauth.validateAuthResponse(server, client, back, state)
  const response = await oauth.authorizationCodeGrantRequest(
    server,
    client,
    oauth.None(),
    parameters,
    redirect,
    verifier,
    insecure,
  )
  const tokens = await oauth.processAuthorizationCodeResponse(server, client, response, { requireIdToken: true })
  const info = await oauth.processUserInfoResponse(
    server,
    client,
    oauth.getValidatedIdTokenClaims(tokens)!.sub,
    await oauth.userInfoRequest(server, client, tokens.access_token, insecure),
  )
  assert.equal(info.sub, 'DEV-olga')
  assert.equal((await call(tokens.access_token, '/users/DEV-olga/balance')).status, 200)
})

test('passport-oauth2 completes the flow', async () => {
  const { facts } = installed.program
  const redirect = await redirectUri()
  const session: Record<string, unknown> = {}
  let profileOf: string | null = null
  const strategy = new OAuth2Strategy(
    {
      authorizationURL: `${facts.issuer}/auth`,
      tokenURL: `${facts.issuer}/token`,
      clientID: facts.clientId,
      clientSecret: '',
      callbackURL: redirect,
      scope: 'openid email',
      pkce: true,
      state: true,
    },
    (accessToken: string, _refresh: string, _profile: unknown, done: (error: unknown, user?: unknown) => void) => {
      profileOf = accessToken
      done(null, { accessToken })
    },
  )
  /** One request through the strategy, as express would make it. */
  const handle = (request: object): Promise<{ redirect?: string; user?: unknown }> =>
    new Promise((resolve, reject) => {
      const bound = Object.create(strategy) as OAuth2Strategy & Record<string, (value: never) => void>
      bound.redirect = (location: never) => resolve({ redirect: location })
      bound.success = (user: never) => resolve({ user })
      bound.fail = (challenge: never) => reject(new Error(`refused: ${JSON.stringify(challenge)}`))
      bound.error = (error: never) => reject(error)
      bound.authenticate(request as never, {})
    })
  const away = await handle({ query: {}, session, headers: {}, url: '/' })
  const { url: back } = await walk(away.redirect!, { origin: facts.origin, username: 'pia' })
  const home = await handle({
    query: Object.fromEntries(back.searchParams),
    session,
    headers: {},
    url: back.pathname + back.search,
  })
  assert.ok(home.user !== undefined)
  const info = await call(profileOf!, `${facts.issuer}/me`)
  assert.equal(info.body.sub, 'DEV-pia')
})
