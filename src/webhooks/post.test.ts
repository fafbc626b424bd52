import { strict as assert } from 'node:assert'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { LookupAddress } from 'node:dns'
import { after, before, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { stoppedClock } from '../../test/kit/clock.ts'
import { freePort } from '../../test/kit/ports.ts'
import { until } from '../../test/kit/until.ts'
import { systemClock } from '../clock.ts'
import { readConfig } from '../config.ts'
import type { WireEvent } from '../events/wire.ts'
import { verifyWebhook } from '../../packages/client/src/webhook.ts'
import { openPost, openWebhookOutbound, PATIENCE_MS, type Letter } from './post.ts'
import { newSigningSecret, showSecret, signatureHeaders } from './sign.ts'

let server: Server
let port: number
let connections = 0
const requests: { headers: IncomingMessage['headers']; body: string; method: string | undefined }[] = []
before(async () => {
  port = await freePort()
  server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += String(chunk)
    requests.push({ headers: request.headers, body, method: request.method })
    if (request.url === '/away') return response.writeHead(302, { location: `http://127.0.0.1:${port}/` }).end()
    if (request.url === '/large') return response.end('x\0'.repeat(1_000_000))
    if (request.url === '/busy') return response.writeHead(503, { 'retry-after': '120' }).end()
    if (request.url === '/silent') return undefined
    return response.end('ok')
  })
  server.on('connection', () => connections++)
  await new Promise<void>((done) => void server.listen(port, '127.0.0.1', done))
})
after(() => {
  server.closeAllConnections()
  server.close()
})

const event: WireEvent = {
  id: `evt_${'ab'.repeat(16)}`,
  type: 'transaction.mined',
  timestamp: '2026-01-31T12:00:00.000Z',
  sequence: 7,
  subject: 'transaction:tx_1',
  userId: 'DEV-ünïcødé',
  network: 'sepolia',
  chainId: 11_155_111,
  data: { id: 'tx_1' },
}
const letter = (path: string, more: Partial<Letter> = {}): Letter => ({
  url: path.startsWith('/') ? `http://127.0.0.1:${port}${path}` : path,
  secrets: [newSigningSecret()],
  event,
  isReplay: false,
  signal: new AbortController().signal,
  ...more,
})
const app = { config: readConfig({ NODE_ENV: 'test' }, 'server'), clock: systemClock }
const production = { config: readConfig({ NODE_ENV: 'test', WEBHOOK_PRIVATE_HOSTS: '' }, 'server'), clock: systemClock }
production.config = { ...production.config, NODE_ENV: 'production' }

test('a foreign verifier accepts what is sent, with the former secret as well after a rotation, and nothing that was changed', async () => {
  const [fresh, former] = [newSigningSecret(), newSigningSecret()]
  const post = openPost(app, openWebhookOutbound(app))
  const answer = await post(letter('/', { secrets: [fresh, former] }))
  assert.deepEqual([answer.isOk, answer.status, answer.answer], [true, 200, 'ok'])
  const { headers, body, method } = requests.at(-1)!
  assert.deepEqual([method, headers['content-type'], headers['webhook-id']], ['POST', 'application/json', event.id])
  for (const secret of [fresh, former]) {
    const verifier = new Webhook(showSecret(secret))
    assert.deepEqual(await verifyWebhook({ headers, body }, showSecret(secret)), event)
    assert.deepEqual(verifier.verify(body, textsOf(headers)), event)
    assert.throws(() => verifier.verify(body.replace('mined', 'final'), textsOf(headers)))
    assert.throws(() => verifier.verify(body, textsOf({ ...headers, 'webhook-id': 'evt_other' })))
  }
  assert.throws(() => new Webhook(showSecret(newSigningSecret())).verify(body, textsOf(headers)))
})

test('the function of the guide accepts what is sent, and nothing that was changed or is old', async () => {
  const guide = readFileSync(new URL('../../docs/build/webhooks.md', import.meta.url), 'utf8')
  const [, code] = /```js\n(import \{ createHmac[^]*?)```/.exec(guide)!
  const { readEvent } = (await import(`data:text/javascript,${encodeURIComponent(code!)}`)) as {
    readEvent: (body: string, headers: object, secret: string) => unknown
  }
  const secret = newSigningSecret()
  await openPost(app, openWebhookOutbound(app))(letter('/', { secrets: [newSigningSecret(), secret] }))
  const { headers, body } = requests.at(-1)!
  assert.deepEqual(readEvent(body, headers, showSecret(secret)), event)
  assert.equal(readEvent(body, headers, showSecret(newSigningSecret())), null)
  assert.equal(readEvent(body.replace('mined', 'final'), headers, showSecret(secret)), null)
  assert.equal(readEvent(body, { ...headers, 'webhook-signature': 'v1,x' }, showSecret(secret)), null)
  const old = String(Math.floor(Date.now() / 1_000) - 301)
  const signed = signatureHeaders([secret], { id: event.id, at: Number(old), body })
  assert.equal(readEvent(body, signed, showSecret(secret)), null)
})

test('the signature of the specification’s own example is the same', () => {
  // Standard Webhooks, test vector of the reference libraries.
  const secret = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64')
  const headers = signatureHeaders([secret], { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', at: 1_614_265_330, body: '{"test": 2432232314}' }) // prettier-ignore
  assert.equal(headers['webhook-signature'], 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')
})

test('only 2xx counts: redirects are not followed, a large answer is cut, Retry-After is read, NUL never reaches the database', async () => {
  const post = openPost(app, openWebhookOutbound(app))
  const before = requests.length
  const away = await post(letter('/away'))
  assert.deepEqual([away.isOk, away.status, requests.length - before], [false, 302, 1])
  const large = await post(letter('/large'))
  assert.ok(large.isOk && large.answer!.length <= 1_024 && !large.answer!.includes('\0'))
  const busy = await post(letter('/busy', { isReplay: true }))
  assert.deepEqual([busy.status, busy.retryAfterMs], [503, 120_000])
  assert.equal(requests.at(-1)!.headers['chatelaine-replay'], 'true')
})

test('an endpoint that does not answer within fifteen seconds has failed', async () => {
  const clock = stoppedClock()
  const post = openPost({ clock }, openWebhookOutbound(app))
  const before = requests.length
  const sent = post(letter('/silent'))
  await until('the request has arrived', () => requests.length > before)
  await clock.advance(PATIENCE_MS)
  const answer = await sent
  assert.deepEqual([answer.isOk, answer.status, answer.error], [false, null, 'no answer within 15 seconds'])
})

/** Headers with one value each, as a verifier takes them. */
const textsOf = (headers: IncomingMessage['headers']): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))

/** Hosts that are not on the public internet, however they are written. */
const HOSTS = [
  ...['127.0.0.1', '127.1', '127.0.1', '2130706433', '017700000001', '0x7f000001', '0x7f.1', '0x7f.0.0.1', '0177.0.0.1', '127.000.000.001', '127.255.255.254'], // prettier-ignore
  ...['0', '0.0.0.0', '0.1.2.3', '10.0.0.1', '10.255.255.255', '167772161', '0xa000001', '012.0.0.1', '172.16.0.1', '172.31.255.255', '2886729729'], // prettier-ignore
  ...['192.168.0.1', '192.168.255.255', '3232235521', '0xc0a80001', '0300.0250.0.1', '100.64.0.1', '100.127.255.255', '100.100.100.200'], // prettier-ignore
  ...['169.254.169.254', '2852039166', '0xa9fea9fe', '0251.0376.0251.0376', '169.254.0.1', '168.63.129.16', '192.0.0.192', '192.0.2.1', '198.18.0.1'], // prettier-ignore
  ...['198.51.100.1', '203.0.113.1', '224.0.0.1', '239.255.255.255', '240.0.0.1', '255.255.255.255', '192.88.99.1'],
  ...['[::]', '[::1]', '[0:0:0:0:0:0:0:1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::ffff:10.0.0.1]', '[::ffff:169.254.169.254]', '[::127.0.0.1]'], // prettier-ignore
  ...['[64:ff9b::7f00:1]', '[64:ff9b::a9fe:a9fe]', '[64:ff9b:1::1]', '[2002:7f00:1::]', '[2002:a9fe:a9fe::]', '[2001::1]', '[2001:db8::1]'], // prettier-ignore
  ...['[fc00::1]', '[fd00:ec2::254]', '[fe80::1]', '[fec0::1]', '[ff02::1]', '[100::1]', '[3fff::1]', '[5f00::1]'],
  ...['①②⑦.⓪.⓪.①', '127。0。0。1', '%31%32%37.0.0.1'],
]
/** Names, and the addresses to which they lead. */
const NAMES: [string, string[]][] = [
  ['localhost', ['127.0.0.1']],
  ['localhost.', ['::1']],
  ['metadata.google.internal', ['169.254.169.254']],
  ['instance-data', ['169.254.169.254']],
  ['mixed.example', ['93.184.215.14', '127.0.0.1']],
  ['mapped.example', ['::ffff:127.0.0.1']],
  ['zone.example', ['fe80::1%eth0']],
  ['cgnat.example', ['100.64.0.1']],
  ['nat64.example', ['64:ff9b::7f00:1']],
  ['none.example', []],
]

test('nothing is connected to outside the public internet, however its address is written, and whatever a name resolves to', async () => {
  assert.ok(HOSTS.length + NAMES.length >= 70)
  const opened = connections
  for (const scheme of ['https', 'http'])
    for (const host of HOSTS) {
      const answer = await openPost(production, openWebhookOutbound(production))(letter(`${scheme}://${host}:${port}/`))
      assert.deepEqual([answer.isOk, answer.status], [false, null], `${scheme}://${host}`)
      assert.match(answer.error!, /not public|not https|Invalid URL|ERR_INVALID_URL/, `${scheme}://${host}`)
    }
  for (const [name, addresses] of NAMES) {
    const found: LookupAddress[] = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
    const out = openWebhookOutbound(production, { lookup: (_host, _options, done) => done(null, found) })
    const answer = await openPost(production, out)(letter(`https://${name}:${port}/`))
    assert.match(answer.error!, /not public|no address/, name)
  }
  for (const url of ['ftp://93.184.215.14/', 'file:///etc/passwd', 'gopher://127.0.0.1/', 'data:,x', `unix:/tmp/x`])
    assert.equal((await openPost(production, openWebhookOutbound(production))(letter(url))).isOk, false, url)
  assert.equal(connections, opened)
})

test('a name that is public when it is judged and private a moment later is not connected to there', async () => {
  const opened = connections
  let looks = 0
  const lookup: NonNullable<Parameters<typeof openWebhookOutbound>[1]>['lookup'] = (_host, _options, done) =>
    done(null, [{ address: looks++ === 0 ? '192.31.196.1' : '127.0.0.1', family: 4 }])
  const clock = stoppedClock()
  const post = openPost({ clock }, openWebhookOutbound(production, { lookup }))
  const first = post(letter(`https://rebinding.example:${port}/`))
  await until('the name was resolved', () => looks === 1)
  await clock.advance(PATIENCE_MS)
  await first
  // Judged anew, and rejected.
  assert.match((await post(letter(`https://rebinding.example:${port}/`))).error!, /not public/)
  assert.equal(connections, opened)
})

test('a private host of the configuration is visited, also by http, and its neighbours are not', async () => {
  const own = { ...production, config: { ...production.config, WEBHOOK_PRIVATE_HOSTS: 'hook.internal' } }
  const out = openWebhookOutbound(own, { lookup: (_host, _options, done) => done(null, [{ address: '127.0.0.1', family: 4 }]) }) // prettier-ignore
  assert.equal((await openPost(own, out)(letter(`http://hook.internal:${port}/`))).isOk, true)
  for (const url of [`http://other.internal:${port}/`, `https://other.internal:${port}/`, `http://127.0.0.1:${port}/`])
    assert.equal((await openPost(own, out)(letter(url))).status, null, url)
})
