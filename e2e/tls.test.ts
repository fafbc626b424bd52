// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import http from 'node:http'
import https from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { launchAnvil, type Anvil } from '../src/devnet/anvil.ts'
import { rpc } from '../src/devnet/rpc.ts'
import { openOutbound } from '../src/http/outbound.ts'
import { makeCertificate, noCertificates, type Certificate } from '../test/certificate.ts'
import { command } from '../test/kit/command.ts'
import { emptyPostgres, testCluster } from '../test/kit/database.ts'
import { until } from '../test/kit/until.ts'
import { startAcme } from './acme.ts'
import { openChromium, skip as withoutChromium } from './chromium.ts'
import { endAll, startProgram } from './programs.ts'
import { freePort } from '../test/kit/ports.ts'

/**
 * A sign-in in production as it really is: a browser at https://wallet.example, a proxy there that ends TLS, our
 * programs behind it, and an identity provider on https whose certificate the server checks. The certificate is made
 * here, for this run.
 */
const ORIGIN = 'https://wallet.example'
const SHOP = 'https://shop.example'
const skip =
  testCluster === null ? 'needs TEST_DATABASE_URL' : withoutChromium === false ? noCertificates : withoutChromium

let folder: string
let drop: () => Promise<void> = async () => {}
let chain: Anvil
let browser: Browser
let certificate: Certificate
const servers: (http.Server | https.Server)[] = []
const inside = (name: string): string => join(folder, name)

before(async () => {
  if (skip !== false) return
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-tls-'))
  certificate = await makeCertificate('localhost', 'wallet.example')
  await writeFile(inside('cert.pem'), certificate.cert)
  const genesisSeconds = Math.floor(Date.now() / 1_000) - 60
  chain = await launchAnvil({ dir: folder, port: 0, genesisSeconds, loadFile: null, dumpFile: inside('chain.json') })
  await rpc(chain.rpcUrl, 'anvil_mine', '0x5')
})
after(async () => {
  await browser?.close()
  endAll()
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
  await chain?.stop()
  await drop()
  if (folder !== undefined) await rm(folder, { recursive: true, force: true })
})

/** What stands in front in production: ends TLS, says who asked and how, and passes everything on. */
async function proxy(to: number): Promise<number> {
  const port = await freePort()
  const server = https.createServer(certificate, (request, response) => {
    const headers = { ...request.headers, 'x-forwarded-for': '203.0.113.7', 'x-forwarded-proto': 'https' }
    const passed = http.request({ host: '127.0.0.1', port: to, path: request.url, method: request.method, headers })
    passed.on('response', (answer) => {
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
    })
    passed.on('error', () => response.writeHead(502).end())
    request.pipe(passed)
  })
  servers.push(server)
  await new Promise<void>((done) => void server.listen(port, '127.0.0.1', done))
  return port
}

test(
  'in production, behind a proxy that ends TLS, a person signs in with a provider on https and the tokens are good',
  { skip },
  async () => {
    const database = await emptyPostgres(testCluster!)
    drop = database.drop
    const [port, idpPort] = [await freePort(), await freePort()]
    const { issuer, server: idp } = await startAcme({ host: 'localhost', port: idpPort, certificate })
    servers.push(idp)
    const tlsPort = await proxy(port)
    await writeFile(inside('kek'), randomBytes(32), { mode: 0o600 })
    const acme = { name: 'ACME', label: 'Acme', issuer, clientId: 'wallet', clientSecret: 'of the wallet', allowPrivate: true } // prettier-ignore
    await writeFile(inside('providers.json'), JSON.stringify([acme]))
    const shared = { NODE_ENV: 'production', SIGNER_SOCKET: inside('signer.sock') }
    const settings: Record<string, string> = {
      ...shared,
      PUBLIC_ORIGIN: ORIGIN,
      PORT: String(port),
      DATABASE_URL: database.url,
      DATA_DIR: folder,
      NETWORKS_FILE: inside('networks.json'),
      PROVIDERS_FILE: inside('providers.json'),
      AUTH_KEYS_FILE: inside('auth-keys.json'),
      TRUST_PROXY: '127.0.0.1',
      NODE_EXTRA_CA_CERTS: inside('cert.pem'),
    }
    const run = async (...words: string[]) => {
      const { code, out, err } = await command(settings, words)
      assert.deepEqual([code, err], [0, ''], words.join(' '))
      return out
    }
    await run('auth-keys', 'create')
    const signerSettings: Record<string, string> = { ...shared, SIGNER_DIR: inside('signer'), SIGNER_KEK_FILE: inside('kek'), SIGNER_JWKS_FILE: inside('auth-keys.public.json'), SIGNER_ISSUER: `${ORIGIN}/oauth`, SIGNER_AUDIENCE: `${ORIGIN}/v1`, SIGNER_CHAINS: '31337' } // prettier-ignore
    const [fingerprint] = (await run('auth-keys', 'fingerprints')).split('\n')
    assert.equal((await command(signerSettings, ['signer', 'trust-key', '--accept', fingerprint!])).code, 0)
    const signer = startProgram('signer/main.ts', signerSettings, folder)
    await until('the signer is ready', async () => signer.child.stdout!.read() !== null)
    await run('network', 'add', 'local', '--chain-id', '31337', '--rpc-url', chain.rpcUrl, '--symbol', 'ETH', '--explorer', 'https://scan.example') // prettier-ignore
    const { secret } = JSON.parse(await run('app', 'create', '--name', 'Shop', '--client-id', 'shop', '--network', 'local', '--redirect-uri', `${SHOP}/callback`, '--confidential', '--json')) // prettier-ignore
    const server = startProgram('main.ts', settings, folder)
    await until(`the server is ready ${server.err()}`, async () => (await through('/readyz').catch(() => null))?.status === 200) // prettier-ignore

    browser = await openChromium([`--host-resolver-rules=MAP wallet.example 127.0.0.1:${tlsPort}`])
    const context = await browser.newContext({ ignoreHTTPSErrors: true })
    const page = await context.newPage()
    await page.route(`${SHOP}/**`, (route) => route.fulfill({ contentType: 'text/html', body: '<title>the shop' }))

    const verifier = randomBytes(32).toString('base64url')
    const query = new URLSearchParams({
      client_id: 'shop',
      response_type: 'code',
      scope: 'openid email',
      state: 'of the shop',
      redirect_uri: `${SHOP}/callback`,
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    })
    await page.goto(`${ORIGIN}/oauth/auth?${query.toString()}`)
    await page.getByRole('button', { name: 'Continue with Acme' }).click()
    await page.waitForURL(/\/consent\//)
    assert.ok(page.url().startsWith(`${ORIGIN}/consent/`))
    await page.getByText('Nell').first().waitFor()
    await page.getByRole('button', { name: 'Allow', exact: true }).click()
    await page.waitForURL(`${SHOP}/callback**`)
    const back = new URL(page.url())
    assert.deepEqual([back.searchParams.get('state'), back.searchParams.get('iss')], ['of the shop', `${ORIGIN}/oauth`])

    // What the browser was given is guarded by the browser.
    const cookies = (await context.cookies()).filter(({ domain }) => domain === 'wallet.example')
    assert.ok(cookies.some(({ name }) => /^__Host-chatelaine_\w+_session$/.test(name)))
    for (const { name, secure, httpOnly, sameSite, path } of cookies) {
      assert.match(name, /^__(Host|Secure)-/)
      assert.deepEqual([secure, httpOnly, sameSite], [true, true, 'Lax'], name)
      if (name.startsWith('__Host-')) assert.equal(path, '/')
    }

    const form = { grant_type: 'authorization_code', code: back.searchParams.get('code')!, redirect_uri: `${SHOP}/callback`, code_verifier: verifier } // prettier-ignore
    const authorization = `Basic ${Buffer.from(`shop:${secret}`).toString('base64')}`
    const exchange = await through('/oauth/token', { authorization }, form)
    assert.equal(exchange.status, 200, exchange.text)
    const tokens = JSON.parse(exchange.text) as Record<string, string>
    const bearer = { authorization: `Bearer ${tokens.access_token}` }
    const me = JSON.parse((await through('/v1/me', bearer)).text) as Record<string, unknown>
    assert.deepEqual([me.id, me.provider, me.username, me.network], ['ACME-4711', 'ACME', 'Nell', 'local'])
    assert.match(exchange.headers['strict-transport-security'] ?? '', /max-age/)

    // The session is there for the account page and for the next sign-in.
    await page.goto(`${ORIGIN}/account/receive`)
    assert.equal(await page.getByRole('textbox', { name: 'Your address' }).inputValue(), me.address)
    assert.doesNotMatch(server.err(), /"level":"error"/)

    /** A request of the shop's server, over TLS with the certificate checked. */
    function through(
      path: string,
      headers: Record<string, string> = {},
      body?: Record<string, string>,
    ): Promise<{ status: number; headers: Record<string, string | undefined>; text: string }> {
      return new Promise((resolve, reject) => {
        const text = body === undefined ? undefined : new URLSearchParams(body).toString()
        const request = https.request(
          {
            host: '127.0.0.1',
            port: tlsPort,
            servername: 'wallet.example',
            ca: certificate.cert,
            path,
            method: text === undefined ? 'GET' : 'POST',
            headers: {
              host: 'wallet.example',
              ...headers,
              ...(text === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' }),
            },
          },
          async (answer) => {
            let said = ''
            for await (const chunk of answer as AsyncIterable<Buffer>) said += chunk.toString()
            resolve({ status: answer.statusCode!, headers: answer.headers as Record<string, string>, text: said })
          },
        )
        request.once('error', reject)
        request.end(text)
      })
    }
  },
)

test('a provider whose certificate nobody vouches for is not believed', { skip }, async () => {
  const port = await freePort()
  const { issuer, server } = await startAcme({ host: 'localhost', port, certificate })
  servers.push(server)
  const way = openOutbound({ allowsPrivate: true, isDevelopment: false })
  await assert.rejects(way(`${issuer}/.well-known/openid-configuration`), (error: Error) => {
    assert.match(String((error.cause as { code?: string }).code), /SELF_SIGNED|UNABLE_TO_VERIFY/)
    return true
  })
})
