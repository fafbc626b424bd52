// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import http from 'node:http'
import https from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, test } from 'node:test'
import { importJWK, SignJWT } from 'jose'
import { sql } from 'kysely'
import { launchAnvil, type Anvil } from '../src/devnet/anvil.ts'
import { rpc } from '../src/devnet/rpc.ts'
import { newKey } from '../src/oauth/keys.ts'
import { connectSigner } from '../src/signer-wire/client.ts'
import { unwrapStored } from '../src/signer/keys/deks.ts'
import { openKekFile } from '../src/signer/kek/file.ts'
import { withKey, type KeptAccount } from '../src/signer/keys/wrapping.ts'
import { verifyWebhook } from '../packages/client/src/webhook.ts'
import type { WireEvent } from '../src/events/wire.ts'
import { openPostgres, type RootDb } from '../src/store/db.ts'
import { makeCertificate, noCertificates } from '../test/certificate.ts'
import { command } from '../test/kit/command.ts'
import { emptyPostgres, testCluster } from '../test/kit/database.ts'
import { until } from '../test/kit/until.ts'
import { startAcme } from './acme.ts'
import { endAll, startProgram, type RunningProgram } from './programs.ts'
import { freePort } from '../test/kit/ports.ts'

/**
 * Three programs on PostgreSQL: the API and the authorization server under a role and with settings of their own, and the signer
 * with a socket for each. What clients were promised holds, and what the API has signs nobody in.
 */
const ORIGIN = 'https://wallet.example'
const PAGES = 'https://sign-in.example'
const CALLBACK = 'https://shop.example/callback'
const NODE_KEY = 'key-of-the-node-6f1d'
const PROVIDER_SECRET = 'secret-of-the-wallet-91c2'
const DATABASE_PASSWORD = 'password-of-the-database-77ab'
const skip = testCluster === null ? 'needs TEST_DATABASE_URL' : noCertificates

let folder: string
let drop: () => Promise<void> = async () => {}
let chain: Anvil
let idp: https.Server
let ports: { api: number; auth: number; ops: number }
let api: Record<string, string>
let auth: Record<string, string>
let signerSettings: Record<string, string>
let roles: { auth: string; api: string }
let owner: string
let programs: { api: RunningProgram; auth: RunningProgram; signer: RunningProgram }
let secret: string
let operator: string
const inside = (name: string): string => join(folder, name)

before(async () => {
  if (skip !== false) return
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-apart-'))
  const certificate = await makeCertificate('localhost')
  await writeFile(inside('cert.pem'), certificate.cert)
  await writeFile(inside('kek'), randomBytes(32), { mode: 0o600 })
  for (const name of ['auth', 'api', 'run']) await mkdir(inside(name))
  const genesisSeconds = Math.floor(Date.now() / 1_000) - 60
  chain = await launchAnvil({ dir: folder, port: 0, genesisSeconds, loadFile: null, dumpFile: inside('chain.json') })
  await rpc(chain.rpcUrl, 'anvil_mine', '0x5')
  await rpc(chain.rpcUrl, 'evm_setIntervalMining', 1)
  ports = { api: await freePort(), auth: await freePort(), ops: await freePort() }
  const acme = await startAcme({ host: 'localhost', port: await freePort(), certificate, secret: PROVIDER_SECRET })
  idp = acme.server
  // Left to itself it closes what was idle for five seconds, just when a sign-in may use it.
  idp.keepAliveTimeout = 120_000
  await writeFile(
    inside('auth/providers.json'),
    JSON.stringify([
      { name: 'ACME', issuer: acme.issuer, clientId: 'wallet', clientSecret: PROVIDER_SECRET, allowPrivate: true },
      { preset: 'discord', clientId: 'wallet', clientSecret: 'of the wallet at Discord' },
    ]),
  )
  const database = await emptyPostgres(testCluster!)
  owner = database.url
  const mark = randomBytes(4).toString('hex')
  roles = { auth: `chatelaine_auth_${mark}`, api: `chatelaine_api_${mark}` }
  await asOwner(`create role ${roles.auth} login`, `create role ${roles.api} login`)
  drop = async () => {
    await database.drop()
    const admin = await openPostgres({ url: testCluster!, pooler: 'none', pool: 1, onError: () => {} })
    for (const role of Object.values(roles)) await sql.raw(`drop role ${role}`).execute(admin)
    await admin.destroy()
  }
  const urlAs = (role: string): string =>
    Object.assign(new URL(owner), { username: role, password: DATABASE_PASSWORD }).href
  const shared = {
    NODE_ENV: 'production',
    PUBLIC_ORIGIN: ORIGIN,
    AUTH_ORIGIN: PAGES,
    AUTH_SOCKET: inside('run/auth.sock'),
    AUTH_JWKS_FILE: inside('api/jwks.json'),
    NETWORKS_FILE: inside('networks.json'),
    TRUST_PROXY: '127.0.0.1',
  }
  api = {
    ...shared,
    PORT: String(ports.api),
    OPS_LISTEN: `127.0.0.1:${ports.ops}`,
    DATABASE_URL: urlAs(roles.api),
    SIGNER_SOCKET: inside('signer.sock'),
    WEBHOOK_PRIVATE_HOSTS: '127.0.0.1',
  }
  auth = {
    ...shared,
    PORT: String(ports.auth),
    API_URL: `http://127.0.0.1:${ports.api}`,
    DATABASE_URL: urlAs(roles.auth),
    SIGNER_AUTH_SOCKET: inside('auth/signer.sock'),
    AUTH_KEYS_FILE: inside('auth/keys.json'),
    PROVIDERS_FILE: inside('auth/providers.json'),
    OPERATOR_TOKEN_FILE: inside('auth/operators'),
    NODE_EXTRA_CA_CERTS: inside('cert.pem'),
  }
  signerSettings = {
    SIGNER_SOCKET: api.SIGNER_SOCKET!,
    SIGNER_AUTH_SOCKET: auth.SIGNER_AUTH_SOCKET!,
    SIGNER_DIR: inside('signer'),
    SIGNER_KEK_FILE: inside('kek'),
    SIGNER_JWKS_FILE: shared.AUTH_JWKS_FILE,
    SIGNER_ISSUER: `${PAGES}/oauth`,
    SIGNER_AUDIENCE: `${ORIGIN}/v1`,
    SIGNER_CHAINS: '31337',
    LOG_LEVEL: 'debug',
  }
  await run({ DATABASE_URL: owner }, 'database', 'roles', '--auth', roles.auth, '--api', roles.api)
  await run(auth, 'auth-keys', 'create')
  operator = JSON.parse(await run(auth, 'operator-token', 'create', '--name', 'mira', '--json')).token as string
  const [fingerprint] = (await run(auth, 'auth-keys', 'fingerprints')).split('\n')
  await run(signerSettings, 'signer', 'trust-key', '--accept', fingerprint!)
  await run(auth, 'network', 'add', 'local', '--chain-id', '31337', '--rpc-url', `${chain.rpcUrl}/?key=${NODE_KEY}`, '--symbol', 'ETH', '--explorer', 'https://scan.example') // prettier-ignore
  secret = JSON.parse(await run(auth, 'app', 'create', '--name', 'Shop', '--client-id', 'shop', '--network', 'local', '--redirect-uri', CALLBACK, '--permission', 'wallet:read', '--permission', 'contracts:read', '--permission', 'contracts:write', '--permission', 'messages:sign', '--permission', 'events:read', '--permission', 'webhooks:manage', '--confidential', '--json')).secret as string // prettier-ignore

  const signer = startProgram('signer/main.ts', signerSettings, folder)
  await until('the signer is ready', async () => signer.child.stdout!.read() !== null)
  programs = {
    signer,
    auth: startProgram('cli/main.ts', auth, folder, ['auth', 'run']),
    api: startProgram('main.ts', api, folder),
  }
  await until('the authorization server is ready', () => isReady(ports.auth, 'sign-in.example'))
  await until('the API is ready', () => isReady(ports.api, 'wallet.example'))
})
after(async () => {
  if (programs !== undefined && process.env.SHOW !== undefined) console.error(programs.auth.err(), programs.api.err())
  endAll()
  idp?.closeAllConnections()
  idp?.close()
  await chain?.stop()
  await drop()
  if (folder !== undefined) await rm(folder, { recursive: true, force: true })
})

test(
  'issuer, endpoints and pages are at the origin of the authorization server, and nothing of them at the host of the API',
  { skip },
  async () => {
    const discovery = await ask(`${PAGES}/oauth/.well-known/openid-configuration`)
    assert.equal(discovery.status, 200, discovery.text)
    const found = JSON.parse(discovery.text)
    assert.deepEqual(
      ['issuer', 'authorization_endpoint', 'token_endpoint', 'jwks_uri', 'userinfo_endpoint', 'end_session_endpoint'].map((name) => found[name]), // prettier-ignore
      ['', '/auth', '/token', '/jwks', '/me', '/session/end'].map((path) => `${PAGES}/oauth${path}`),
    )
    const same = await ask(`${PAGES}/.well-known/oauth-authorization-server/oauth`)
    assert.equal(JSON.parse(same.text).issuer, found.issuer)
    assert.doesNotMatch((await ask(`${PAGES}/oauth/jwks`)).text, /"d"/)
    assert.equal((await ask(`${PAGES}/oauth/me`)).status, 401)
    const refused = await ask(`${PAGES}/oauth/token`, { form: { grant_type: 'authorization_code', code: 'x' } })
    assert.equal(refused.status, 400)
    assert.equal(JSON.parse(refused.text).error, 'invalid_request')

    const ofAuth = ['/oauth/.well-known/openid-configuration', '/.well-known/oauth-authorization-server/oauth', '/oauth/jwks', '/oauth/me', '/oauth/auth?client_id=shop', '/oauth/session/end', '/login/callback/ACME?code=1&state=2', '/account', '/account/send'] // prettier-ignore
    for (const path of ofAuth) {
      assert.equal((await ask(`${ORIGIN}${path}`)).status, 404, path)
      // Under the name of the API it answers nothing, whichever path a proxy leads to it.
      assert.equal((await ask(`${PAGES}${path}`, { headers: { host: 'wallet.example' } })).status, 421, path)
    }
    for (const path of [
      '/oauth/token',
      '/oauth/token/revocation',
      '/oauth/token/introspection',
      '/oauth/auth',
      '/login/callback/ACME',
    ])
      // prettier-ignore
      assert.equal((await ask(`${ORIGIN}${path}`, { form: { code: '1', state: '2' } })).status, 404, path)
    const front = (await ask(`${ORIGIN}/`)).text
    for (const link of [`${PAGES}/account`, `${PAGES}/oauth/.well-known/openid-configuration`])
      assert.ok(front.includes(`href="${link}"`), link)
    const { flows } = JSON.parse((await ask(`${ORIGIN}/openapi.json`)).text).components.securitySchemes.oauth
    assert.equal(flows.authorizationCode.tokenUrl, found.token_endpoint)
    for (const path of ['/internal/auth/forms', '/internal/auth/accounts'])
      for (const origin of [ORIGIN, PAGES]) assert.equal((await ask(`${origin}${path}`)).status, 404, path)
    assert.equal((await ask(`${ORIGIN}/operator/v1/networks`, { headers: bearer(operator) })).status, 404)
    const networks = JSON.parse((await ask(`${PAGES}/operator/v1/networks`, { headers: bearer(operator) })).text)
    assert.deepEqual(
      networks.map(({ name }: { name: string }) => name),
      ['local'],
    )
  },
)

test(
  'a person signs in, allows, and writes with the token at once; sends from the account page, and ends it there',
  { skip },
  async () => {
    const browser = openBrowser()
    const { token, refreshToken } = await signIn(browser)
    const me = JSON.parse((await ask(`${ORIGIN}/v1/me`, { headers: bearer(token) })).text)
    assert.equal(me.username, 'Nell')
    const userinfo = JSON.parse((await ask(`${PAGES}/oauth/me`, { headers: bearer(token) })).text)
    assert.equal(userinfo.email, 'n@acme.example')
    // No cookie was set for the API's host, and each is bound to that of the pages.
    assert.deepEqual([...browser.hosts()], ['sign-in.example'])

    await rpc(chain.rpcUrl, 'anvil_setBalance', me.address, `0x${(10n ** 18n).toString(16)}`)
    const written = await transfer(token, '0.25')
    assert.equal(written.status, 200, written.text)
    // Someone who has never been here has an account made by the other program, which also knows what ids look like.
    const ahead = await transfer(token, '0.1', { toUserId: 'DISCORD-80351110224678912' })
    assert.equal(ahead.status, 200, ahead.text)
    assert.equal(JSON.parse(ahead.text).recipient.hasSignedIn, false)
    for (const nobody of ['DISCORD-mallory', 'ACME-4712', 'GITHUB-1'])
      assert.equal(
        JSON.parse((await transfer(token, '0.1', { toUserId: nobody })).text).code,
        'unknown_recipient',
        nobody,
      )

    const account = await browser.go(`${PAGES}/account`)
    assert.equal(account.status, 200)
    for (const shown of ['Nell', 'Shop', '0.25']) assert.ok(account.text.includes(shown), shown)
    assert.ok((await browser.go(`${PAGES}/account/receive`)).text.includes(me.address))
    // What is sent is native currency, whatever else there is.
    const asset = '31337:NATIVE::'
    const confirm = await browser.submit(`${PAGES}/account/send?asset=${encodeURIComponent(asset)}`, '/account/send', { asset, to: `0x${'c1'.repeat(20)}`, provider: '', amount: '0.125' }) // prettier-ignore
    const sent = await browser.submit(confirm, '/account/send/confirm', {})
    assert.match(sent.url, /^https:\/\/sign-in\.example\/account\/receipt\?/)
    await until('it is in a block', async () => BigInt(await rpc<string>(chain.rpcUrl, 'eth_getBalance', `0x${'c1'.repeat(20)}`, 'latest')) === 125n * 10n ** 15n) // prettier-ignore

    // A text waits for the page of the other program, whose token the signer takes.
    const sign = () => ask(`${ORIGIN}/v1/signatures/message`, { json: { message: 'Hello from the shop' }, headers: { ...bearer(token), 'idempotency-key': 'hello' } }) // prettier-ignore
    const asked = await sign()
    assert.equal(asked.status, 403, asked.text)
    const { url } = JSON.parse(asked.text).approval
    assert.match(url, /^https:\/\/sign-in\.example\/account\/approvals\/apr_/)
    const question = await browser.go(url)
    for (const shown of ['Shop', 'Hello from the shop', 'Sign this text'])
      assert.ok(question.text.includes(shown), shown)
    await browser.submit(question, `${new URL(url).pathname}/approve`, {})
    const signed = await sign()
    assert.equal(signed.status, 200, signed.text)
    assert.ok((await browser.go(`${PAGES}/account/approvals`)).text.includes('approved and signed'))
    await browser.submit(`${PAGES}/account/applications`, '/account/applications/revoke', {})
    await until('the token is refused', async () => (await ask(`${ORIGIN}/v1/me`, { headers: bearer(token) })).status === 401) // prettier-ignore
    const again = await ask(`${PAGES}/oauth/token`, { form: { grant_type: 'refresh_token', refresh_token: refreshToken, client_id: 'shop', client_secret: secret } }) // prettier-ignore
    assert.equal(JSON.parse(again.text).error, 'invalid_grant')
  },
)

test(
  'the application’s own server reads the feed and gets webhooks with a good signature, of a write and of a revocation on the pages of the other program',
  { skip },
  async (t) => {
    const grant = { grant_type: 'client_credentials', scope: 'events:read webhooks:manage', client_id: 'shop', client_secret: secret } // prettier-ignore
    const { access_token: machine, scope } = JSON.parse((await ask(`${PAGES}/oauth/token`, { form: grant })).text)
    assert.equal(scope, 'events:read webhooks:manage')
    const browser = openBrowser()
    const { token } = await signIn(browser)
    const { id: userId, address } = JSON.parse((await ask(`${ORIGIN}/v1/me`, { headers: bearer(token) })).text)
    await rpc(chain.rpcUrl, 'anvil_setBalance', address, `0x${(10n ** 18n).toString(16)}`)

    const received: { headers: http.IncomingHttpHeaders; body: Buffer }[] = []
    const hook = http.createServer(async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      received.push({ headers: request.headers, body: Buffer.concat(chunks) })
      response.writeHead(204).end()
    })
    const port = await freePort()
    await new Promise<void>((done) => void hook.listen(port, '127.0.0.1', done))
    t.after(() => {
      hook.closeAllConnections()
      hook.close()
    })
    const created = await ask(`${ORIGIN}/v1/webhooks`, { json: { url: `http://127.0.0.1:${port}/` }, headers: bearer(machine) }) // prettier-ignore
    assert.equal(created.status, 201, created.text)
    const { webhook, secret: signing } = JSON.parse(created.text)
    t.after(() => onDatabase(owner, async (db) => void (await db.deleteFrom('webhooks').execute())))

    let { 'x-next-cursor': cursor } = (await ask(`${ORIGIN}/v1/events?cursor=now`, { headers: bearer(machine) })).headers // prettier-ignore
    const events: WireEvent[] = []
    const readUntil = (what: string, isLast: (event: WireEvent) => boolean) =>
      until(what, async () => {
        const page = await ask(`${ORIGIN}/v1/events?cursor=${String(cursor)}&wait=10`, { headers: bearer(machine) })
        assert.equal(page.status, 200, page.text)
        cursor = page.headers['x-next-cursor']
        events.push(...(JSON.parse(page.text) as WireEvent[]))
        return events.some(isLast)
      }) // prettier-ignore
    const [written] = await Promise.all([
      transfer(token, '0.25'),
      readUntil('the write is in a block', ({ type }) => type === 'transaction.mined'),
    ])
    assert.equal(written.status, 200, written.text)
    const { hash } = JSON.parse(written.text)
    assert.deepEqual(
      events.filter(({ type }) => /submitted|mined/.test(type)).map(({ type, data, ...event }) => [type, data.hash, event.userId]), // prettier-ignore
      [
        ['transaction.submitted', hash, userId],
        ['transaction.mined', hash, userId],
      ],
    )
    await browser.submit(`${PAGES}/account/applications`, '/account/applications/revoke', {})
    await readUntil('the revocation is in the feed', ({ type }) => type === 'grant.revoked')
    assert.equal(events.find(({ type }) => type === 'grant.revoked')!.userId, userId)

    // Since the webhook was created, before the cursor was read.
    await until('all of them were delivered', () => events.every(({ id }) => received.some(({ headers }) => headers['webhook-id'] === id))) // prettier-ignore
    for (const one of received) {
      assert.equal((await verifyWebhook(one, signing)).id, one.headers['webhook-id'])
      await assert.rejects(verifyWebhook(one, `whsec_${randomBytes(32).toString('base64')}`), {
        name: 'InvalidWebhook',
      })
    }
    const rotated = JSON.parse((await ask(`${ORIGIN}/v1/webhooks/${webhook.id}/rotate-secret`, { json: {}, headers: bearer(machine) })).text) // prettier-ignore
    const tried = await ask(`${ORIGIN}/v1/webhooks/${webhook.id}/test`, { json: {}, headers: bearer(machine) })
    assert.equal(JSON.parse(tried.text).status, 204, tried.text)
    for (const one of [signing, rotated.secret])
      assert.equal((await verifyWebhook(received.at(-1)!, one)).type, 'webhook.test')
  },
)

test(
  'what the API has signs nobody in and nothing for them: its role, its sockets, its settings',
  { skip },
  async (t) => {
    const { token } = await signIn(openBrowser())
    const me = JSON.parse((await ask(`${ORIGIN}/v1/me`, { headers: bearer(token) })).text)
    await rpc(chain.rpcUrl, 'anvil_setBalance', me.address, `0x${(10n ** 18n).toString(16)}`)

    const db = await openPostgres({ url: api.DATABASE_URL!, pooler: 'none', pool: 1, onError: () => {} })
    const signer = connectSigner({ path: api.SIGNER_SOCKET! })
    t.after(async () => {
      signer.close()
      await db.destroy()
    })
    for (const statement of [
      'select email from identities',
      'select * from identities',
      'select secret_hashes from applications',
      'select payload from oauth_records',
      'select * from sign_ins',
      'select * from wrapped_keys',
      'select * from operator_actions',
      "insert into identities (provider, subject, account_id, username) select 'ACME', 'thief', account_id, 'thief' from accounts",
      "update identities set subject = 'thief'",
      'update accounts set address = address',
      'delete from revoked_grants',
      'update applications set suspended_at = null',
      "insert into consents (account_id, client_id, permissions) select account_id, 'shop', '[]' from accounts",
      'create table more (x int)',
    ])
      await assert.rejects(sql.raw(statement).execute(db), /permission denied/, statement)

    for (const asked of [
      signer.createAccount({ userId: 'ACME-thief' }),
      signer.bringRevocations(['a list']),
      signer.wrapped({ after: 0 }),
    ])
      await assert.rejects(asked, /is available only on SIGNER_AUTH_SOCKET/)
    const effect = { intentId: 'tx_theft', chainId: 31_337, from: me.address.toLowerCase(), nonce: 50, to: `0x${'ee'.repeat(20)}`, value: '1', data: '0x', gas: '21000', maxFeePerGas: '1000', maxPriorityFeePerGas: '1', kind: 'send' } as const // prettier-ignore
    await assert.rejects(signer.sign(effect), (error: { code: string }) =>
      ['invalid_token', 'nonce_gap'].includes(error.code),
    )
    const forged = await mint(me.id)
    await assert.rejects(signer.sign({ ...effect, accessToken: forged }), { code: 'invalid_token' })
    assert.equal((await ask(`${ORIGIN}/v1/me`, { headers: bearer(forged) })).status, 401)
    assert.equal(
      (await ask(`${ORIGIN}/internal/account/send`, { json: { args: [] }, headers: bearer(forged) })).status,
      404,
    )
    // A token of an application opens nothing that is for the account page, however live it is.
    assert.equal(
      (await ask(`${ORIGIN}/internal/account/send`, { json: { args: [] }, headers: bearer(token) })).status,
      404,
    )
  },
)

test(
  'the API does not start where it could open what the authorization server guards, or with a role that can do more',
  { skip },
  async () => {
    const more = { AUTH_KEYS_FILE: auth.AUTH_KEYS_FILE!, PROVIDERS_FILE: auth.PROVIDERS_FILE!, OPERATOR_TOKEN_FILE: auth.OPERATOR_TOKEN_FILE!, SIGNER_AUTH_SOCKET: auth.SIGNER_AUTH_SOCKET! } // prettier-ignore
    const each = Object.entries(more).map(async ([name, path]) => {
      const { ended, err } = startProgram('main.ts', { ...api, [name]: path }, folder)
      assert.equal(await ended, 1)
      assert.match(err(), new RegExp(`the API can open ${name}, which only the authorization server may`))
    })
    const wide = startProgram(
      'main.ts',
      { ...api, DATABASE_URL: owner, PORT: String(await freePort()), OPS_LISTEN: '' },
      folder,
    )
    await Promise.all(each)
    assert.equal(await wide.ended, 1)
    assert.match(wide.err(), /the role of DATABASE_URL can read e-mail addresses, read secrets of applications/)
  },
)

test(
  'while the authorization server is away tokens that are out work, and what needs it is 503 auth_unavailable',
  { skip },
  async () => {
    const { token } = await signIn(openBrowser())
    programs.auth.child.kill('SIGTERM')
    assert.equal(await programs.auth.ended, 0)
    const refused = await transfer(token, '0.1', { toUserId: 'DISCORD-80351110224678999' })
    assert.equal(refused.status, 503)
    const problem = JSON.parse(refused.text)
    assert.deepEqual([problem.code, problem.retryable, /^application\/problem\+json/.test(refused.headers['content-type']!), refused.headers['retry-after']], ['auth_unavailable', true, true, '1']) // prettier-ignore
    assert.equal((await ask(`${ORIGIN}/v1/me`, { headers: bearer(token) })).status, 200)
    const checks = async () => JSON.parse(await (await fetch(`http://${api.OPS_LISTEN}/readyz`)).text()).checks as { name: string; ok: boolean }[] // prettier-ignore
    await until('all but the authorization server is there', async () => (await checks()).every(({ name, ok }) => ok === (name !== 'authorization server'))) // prettier-ignore
    assert.deepEqual((await checks()).map(({ name }) => name), ['database', 'signer', 'authorization server', 'chain local']) // prettier-ignore
    await until('the API is ready', () => isReady(ports.api, 'wallet.example'))
    programs.auth = startProgram('cli/main.ts', auth, folder, ['auth', 'run'])
    await until('it is back', () => isReady(ports.auth, 'sign-in.example'))
  },
)

test(
  'no secret is in what the programs print, measure, answer, store in the open, or are started with',
  { skip },
  async () => {
    const more = { LOG_LEVEL: 'debug', REQUEST_LOG: 'on' }
    const before = Object.values(programs).map(({ err }) => err)
    programs.auth.child.kill('SIGTERM')
    programs.api.child.kill('SIGTERM')
    await Promise.all([programs.auth.ended, programs.api.ended])
    programs.auth = startProgram('cli/main.ts', { ...auth, ...more }, folder, ['auth', 'run'])
    programs.api = startProgram('main.ts', { ...api, ...more }, folder)
    await until('both are ready', async () => (await isReady(ports.auth, 'sign-in.example')) && isReady(ports.api, 'wallet.example')) // prettier-ignore

    const browser = openBrowser()
    const { token, refreshToken, code } = await signIn(browser)
    const me = JSON.parse((await ask(`${ORIGIN}/v1/me`, { headers: bearer(token) })).text)
    await rpc(chain.rpcUrl, 'anvil_setBalance', me.address, `0x${(10n ** 18n).toString(16)}`)
    const { keys } = JSON.parse(await readFile(auth.AUTH_KEYS_FILE!, 'utf8')) as { keys: { d: string }[] }
    const kek = await readFile(inside('kek'))
    const userKey = await keyOf(me.id)
    const secrets: Record<string, string | Buffer> = {
      'the token-signing key': keys[0]!.d,
      'the secret at a provider': PROVIDER_SECRET,
      'the application’s secret': secret,
      'the operator’s token': operator,
      'the key of the node': NODE_KEY,
      'the password of the database': DATABASE_PASSWORD,
      'the master key': kek,
      'the person’s key': userKey,
      // Its name is no secret, and neither are its claims: what makes it one is the signature.
      'the access token': token.split('.')[2]!,
      'the refresh token': refreshToken,
      'the code': code,
      // An interaction is named in addresses, too: its signature is what nobody else has.
      ...Object.fromEntries(browser.secrets().filter(([name]) => !name.endsWith('_interaction')).map(([name, value]) => [`the cookie ${name}`, value])), // prettier-ignore
    }
    assert.ok(Object.keys(secrets).length >= 12)

    // Answers that are for somebody hold what is theirs; these are of requests that are wrong, or of strangers.
    const answers: string[] = []
    const note = async (answer: Promise<Answer>): Promise<void> => {
      const { text, headers } = await answer
      answers.push(text, JSON.stringify(headers))
    }
    const form = { grant_type: 'authorization_code', code, redirect_uri: CALLBACK, code_verifier: 'w'.repeat(43), client_id: 'shop', client_secret: secret } // prettier-ignore
    await note(ask(`${ORIGIN}/v1/me?access_token=${token}`))
    await note(ask(`${ORIGIN}/v1/me`, { headers: bearer(`${token}x`) }))
    await note(ask(`${ORIGIN}/v1/tokens/transfers`, { json: { [secret]: token }, headers: bearer(token) }))
    await note(ask(`${ORIGIN}/v1/tokens/transfers`, { json: { tokenType: 'NATIVE', amount: secret, toAddress: operator }, headers: bearer(token) })) // prettier-ignore
    await note(transfer(token, '1000'))
    await note(ask(`${PAGES}/oauth/token?client_secret=${secret}`, { form }))
    await note(ask(`${PAGES}/oauth/token`, { form: { ...form, client_secret: `${secret}x` } }))
    await note(ask(`${PAGES}/oauth/token`, { form: { grant_type: 'refresh_token', refresh_token: `${refreshToken}x`, client_id: 'shop', client_secret: secret } })) // prettier-ignore
    await note(ask(`${PAGES}/oauth/auth?client_id=shop&client_secret=${secret}&code=${code}`))
    await note(ask(`${PAGES}/login/callback/ACME?code=${code}&state=${refreshToken}`))
    await note(ask(`${PAGES}/operator/v1/networks`, { headers: bearer(`${operator}x`) }))
    await note(ask(`${PAGES}/operator/v1/networks`, { headers: bearer(operator) }))
    // A path is repeated to whoever asked for it, and to nobody else.
    await ask(`${ORIGIN}/v1/${refreshToken}`, { headers: bearer(token) })
    await ask(`${PAGES}/operator/v1/${operator}`, { headers: bearer(operator) })
    for (const path of ['metrics', 'readyz', 'livez'])
      answers.push(await (await fetch(`http://${api.OPS_LISTEN}/${path}`)).text())
    for (const words of [
      ['network', 'list'],
      ['network', 'show', 'local'],
      ['app', 'show', 'shop'],
      ['actions', 'list'],
      ['config'],
      ['operator-token', 'list'],
    ]) {
      // prettier-ignore
      const { out, err } = await command(auth, [...words, ...(words[0] === 'config' ? [] : ['--json'])])
      answers.push(out, err)
    }
    answers.push(...Object.values(await command(auth, ['network', 'add', 'other', '--chain-id', '5', '--rpc-url', `http://127.0.0.1:9/?key=${NODE_KEY}`, '--symbol', 'X', '--explorer', 'https://scan.example'])).map(String)) // prettier-ignore
    assert.equal((await transfer(token, '0.001')).status, 200)

    const dump: string[] = []
    await onDatabase(owner, async (db) => {
      const { rows } = await sql<{ name: string }>`select quote_ident(table_name) as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'`.execute(db) // prettier-ignore
      for (const { name } of rows) {
        const table = await sql<{ row: string }>`select t::text as row from ${sql.raw(name)} as t`.execute(db)
        dump.push(...table.rows.map(({ row }) => row))
      }
    })
    assert.ok(dump.length > 50)
    const identity = await command({}, ['signer', 'create-backup-key', inside('backup-key')])
    const recipient = /age1\w+/.exec(identity.out)![0]
    await mkdir(inside('backups'))
    await run(signerSettings, 'signer', 'backup', '--to', inside('backups/signer.age'), '--recipient', recipient)
    const places: Record<string, Buffer> = {
      'what was printed': Buffer.from([...before, ...Object.values(programs).map(({ err }) => err)].map((err) => err()).join('\n')), // prettier-ignore
      'what was answered': Buffer.from(answers.join('\n')),
      'the database': Buffer.from(dump.join('\n')),
      'the backup': await readFile(inside('backups/signer.age')),
      'the signer’s store': Buffer.concat(await Promise.all((await readdir(inside('signer'))).map(async (name) => readFile(join(inside('signer'), name)).catch(() => Buffer.alloc(0))))), // prettier-ignore
      'the command lines': Buffer.concat(await Promise.all(Object.values(programs).map(({ child }) => readFile(`/proc/${child.pid}/cmdline`)))), // prettier-ignore
    }
    assert.match(places['what was printed']!.toString(), /"msg":"request_completed"|request/)
    const found = Object.entries(places).flatMap(([place, bytes]) =>
      Object.entries(secrets)
        .filter(([, one]) => formsOf(one).some((form) => bytes.includes(form)))
        .map(([name]) => `${name} is in ${place}`),
    )
    assert.deepEqual(found, [])
    // The search finds what is there.
    const planted = Buffer.concat([places['the backup']!, kek])
    assert.ok(formsOf(kek).some((form) => planted.includes(form)))
    assert.ok(formsOf(secret).some((form) => Buffer.from(Buffer.from(secret).toString('hex')).includes(form)))
  },
)

/** How a secret may stand somewhere: as it is, in hex, or in Base64 from any byte on. */
function formsOf(secret: string | Buffer): (string | Buffer)[] {
  const bytes = Buffer.from(secret)
  const hex = bytes.toString('hex')
  const base64 = [0, 1, 2].map((skipped) => bytes.subarray(skipped).toString('base64').slice(0, -4))
  return [bytes, hex, hex.toUpperCase(), ...base64, ...base64.map((one) => one.replaceAll('+', '-').replaceAll('/', '_'))] // prettier-ignore
}

/** What only the signer ever holds: the key of an account, opened as it opens it. */
async function keyOf(userId: string): Promise<Buffer> {
  const db = new DatabaseSync(join(inside('signer'), 'signer.sqlite'), { readOnly: true })
  try {
    const { deks } = await unwrapStored(db, openKekFile(inside('kek')))
    const row = db.prepare('SELECT user_id AS userId, address, wrapped, iv, tag, epoch, version FROM accounts WHERE user_id = ?').get(userId) as KeptAccount // prettier-ignore
    const account = Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value instanceof Uint8Array ? Buffer.from(value) : value])) as KeptAccount // prettier-ignore
    return withKey(account, deks.get(account.epoch)!, (key) => Buffer.from(key))
  } finally {
    db.close()
  }
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

async function run(settings: Record<string, string>, ...words: string[]): Promise<string> {
  const { code, out, err } = await command(settings, words)
  assert.deepEqual([code, err], [0, ''], words.join(' '))
  return out
}

const asOwner = (...statements: string[]): Promise<void> =>
  onDatabase(owner, async (db) => {
    for (const one of statements) await sql.raw(one).execute(db)
  })

async function onDatabase(url: string, work: (db: RootDb) => Promise<void>): Promise<void> {
  const db = await openPostgres({ url, pooler: 'none', pool: 1, onError: () => {} })
  await work(db).finally(() => db.destroy())
}

type Answer = { status: number; headers: http.IncomingHttpHeaders; text: string }

/** A request as the proxies of the two hosts pass it on. */
function ask(
  url: string,
  {
    form,
    json,
    headers = {},
  }: { form?: Record<string, string>; json?: unknown; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const { host, pathname, search, protocol, port } = new URL(url)
  const body = form === undefined ? (json === undefined ? undefined : JSON.stringify(json)) : new URLSearchParams(form).toString() // prettier-ignore
  const type = form === undefined ? 'application/json' : 'application/x-www-form-urlencoded'
  const isOurs = host.endsWith('.example')
  const given = {
    ...(isOurs ? { host, 'x-forwarded-proto': 'https', 'x-forwarded-for': '203.0.113.7' } : {}),
    ...(body === undefined ? {} : { 'content-type': type, 'content-length': String(Buffer.byteLength(body)) }),
    ...headers,
  }
  const at = isOurs
    ? { host: '127.0.0.1', port: host === 'sign-in.example' ? ports.auth : ports.api }
    : { host: 'localhost', port: Number(port), rejectUnauthorized: false }
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const asked = (isOurs || protocol === 'http:' ? http : https).request(
    { ...at, path: `${pathname}${search}`, method: body === undefined ? 'GET' : 'POST', headers: given },
    async (response) => {
      const chunks: Buffer[] = []
      for await (const chunk of response) chunks.push(chunk as Buffer)
      resolve({ status: response.statusCode!, headers: response.headers, text: Buffer.concat(chunks).toString() })
    },
  )
  asked.once('error', reject)
  asked.end(body)
  return promise
}

const isReady = async (port: number, host: string): Promise<boolean> =>
  (await ask(`https://${host}/readyz`).catch(() => null))?.status === 200 && port > 0

/** The browser's part: follows redirects, keeps cookies by host, sends forms with their hidden fields. */
function openBrowser() {
  const jar = new Map<string, Map<string, string>>()
  type Page = Answer & { url: string }
  async function go(from: string, form?: Record<string, string>): Promise<Page> {
    let [url, body] = [from, form]
    for (let hops = 0; hops < 20; hops++) {
      const { host, origin } = new URL(url)
      if (url.startsWith(CALLBACK)) return { url, status: 0, headers: {}, text: '' }
      const cookies = jar.get(host) ?? new Map<string, string>()
      const answer = await ask(url, { ...(body === undefined ? {} : { form: body }), headers: { cookie: [...cookies].map((pair) => pair.join('=')).join('; '), ...(body === undefined ? {} : { origin }) } }) // prettier-ignore
      for (const line of answer.headers['set-cookie'] ?? []) {
        assert.doesNotMatch(line, /domain=/i)
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
        if (/expires=Thu, 01 Jan 1970/i.test(line)) cookies.delete(name!)
        else jar.set(host, cookies.set(name!, value!))
      }
      const { location } = answer.headers
      if (location === undefined) return { ...answer, url }
      if (answer.status !== 307) body = undefined
      url = new URL(location, url).href
    }
    throw new Error('too many redirects')
  }
  return {
    go,
    hosts: () => jar.keys(),
    secrets: (): [name: string, value: string][] => [...jar.values()].flatMap((cookies) => [...cookies]),
    /** the form of a page that leads to a path, as a person fills it in */
    async submit(page: string | Page, path: string, fields: Record<string, string>): Promise<Page> {
      const { url, text } = typeof page === 'string' ? await go(page) : page
      const form = [...text.matchAll(/<form[^>]*action="([^"]+)"[^>]*>([^]*?)<\/form>/g)].find(([, action]) => action === path || action!.startsWith(`${path}/`) || new URL(action!, url).pathname === path) // prettier-ignore
      assert.ok(form !== undefined, `${path} is not on ${url}: ${text.replaceAll(/\s+/g, ' ').slice(0, 400)}`)
      const hidden = [...form[2]!.matchAll(/<input[^>]*type="hidden"[^>]*>/g)].map(([field]) => [/name="([^"]+)"/.exec(field)![1]!, /value="([^"]*)"/.exec(field)?.[1] ?? '']) // prettier-ignore
      return go(new URL(form[1]!, url).href, { ...Object.fromEntries(hidden), ...fields })
    },
  }
}

/** The way of an application's user: sign-in, consent, code, token. */
async function signIn(
  browser: ReturnType<typeof openBrowser>,
): Promise<{ token: string; refreshToken: string; code: string }> {
  const verifier = randomBytes(32).toString('base64url')
  const query = new URLSearchParams({
    ...{ client_id: 'shop', response_type: 'code', redirect_uri: CALLBACK, login_provider: 'ACME', state: 'x' },
    ...{
      scope: 'openid email wallet:read contracts:read contracts:write messages:sign',
      code_challenge_method: 'S256',
    },
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
  })
  let page = await browser.go(`${PAGES}/oauth/auth?${query.toString()}`)
  if (page.url.includes('/consent/')) page = await browser.submit(page, new URL(page.url).pathname, { answer: 'allow' })
  const back = new URL(page.url)
  assert.equal(back.searchParams.get('iss'), `${PAGES}/oauth`, page.text)
  const code = back.searchParams.get('code')!
  const form = { grant_type: 'authorization_code', code, redirect_uri: CALLBACK, code_verifier: verifier, client_id: 'shop', client_secret: secret } // prettier-ignore
  const { access_token: token, refresh_token: refreshToken } = JSON.parse((await ask(`${PAGES}/oauth/token`, { form })).text) // prettier-ignore
  assert.equal(typeof token, 'string')
  return { token, refreshToken, code }
}

const transfer = (token: string, amount: string, to: Record<string, string> = { toAddress: `0x${'c0'.repeat(20)}` }) =>
  ask(`${ORIGIN}/v1/tokens/transfers?wait=mined`, { json: { tokenType: 'NATIVE', amount, ...to }, headers: bearer(token) }) // prettier-ignore

/** A token as the authorization server would make it, by a key of the thief's own. */
async function mint(userId: string): Promise<string> {
  const { kid, ...key } = newKey('ES256')
  return new SignJWT({ client_id: 'shop', scope: 'openid contracts:write', chain_id: 31_337, gid: 'g', jti: 'j' })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid })
    .setIssuer(`${PAGES}/oauth`)
    .setAudience(`${ORIGIN}/v1`)
    .setSubject(userId)
    .setIssuedAt()
    .setExpirationTime('5m')
    .sign(await importJWK(key, 'ES256'))
}
