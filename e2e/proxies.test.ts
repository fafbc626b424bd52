// tier: all, because it starts nginx and Caddy
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect, type ClientHttp2Session } from 'node:http2'
import https from 'node:https'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { after, before, test } from 'node:test'
import { makeCertificate, noCertificates, type Certificate } from '../test/certificate.ts'
import { runningClock, type TestClock } from '../test/kit/clock.ts'
import { freePort } from '../test/kit/ports.ts'
import { until } from '../test/kit/until.ts'
import { storeEvents } from '../test/stored-events.ts'
import { world, type World } from '../test/world.ts'
import { accountIdOf } from '../src/ids.ts'

/** Streams of events through the proxies of docs/operate, with the configuration that is written there. */

const findBinary = (name: string): string | null =>
  ['/usr/sbin', '/usr/local/sbin', ...(process.env.PATH ?? '').split(delimiter)]
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path)) ?? null
const [nginx, caddy] = [findBinary('nginx'), findBinary('caddy')]
/** seconds after which a proxy of this test cuts a silent response, instead of the 60 of the guide */
const SILENT_SECONDS = 8
/** milliseconds after which a silent stream has a ping */
const PING_MS = 15_000

let here: World
let clock: TestClock
let folder: string
let certificate: Certificate
const running: ChildProcess[] = []

before(async () => {
  if (noCertificates !== false) return
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-proxies-'))
  certificate = await makeCertificate('localhost')
  await writeFile(join(folder, 'cert.pem'), certificate.cert)
  await writeFile(join(folder, 'key.pem'), certificate.key)
  here = await world()
  clock = runningClock()
  here.app.clock = clock
})
after(async () => {
  for (const child of running) child.kill('SIGKILL')
  await here?.close()
  if (folder !== undefined) await rm(folder, { recursive: true, force: true })
})

/** @returns the block of code of a guide in a language */
async function blockOf(guide: string, language: string): Promise<string> {
  const text = await readFile(new URL(`../docs/operate/${guide}.md`, import.meta.url), 'utf8')
  return new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(text)![1]!
}

/** Replaces names, ports, files and the time-out of a guide, which differ in this test. @throws if one of them is not found */
const changed = (text: string, changes: [RegExp, string][]): string =>
  changes.reduce((changing, [from, to]) => {
    assert.match(changing, from)
    return changing.replace(from, to)
  }, text)

const upstream = (): string => `127.0.0.1:${new URL(here.facts.origin).port}`

/** Starts nginx with servers of a guide. @returns the port where it ends TLS */
async function startNginx(guide: string, changes: [RegExp, string][]): Promise<number> {
  const port = await freePort()
  const servers = changed(await blockOf(guide, 'nginx'), [
    [/server_name wallet\.example;/, 'server_name localhost;'],
    [/127\.0\.0\.1:4000/g, upstream()],
    ...changes.map(([from, to]): [RegExp, string] => [from, to.replaceAll('PORT', String(port))]),
  ])
  const tls = `ssl_certificate ${folder}/cert.pem; ssl_certificate_key ${folder}/key.pem;`
  const file = join(folder, `nginx-${port}.conf`)
  await writeFile(
    file,
    `daemon off; pid ${folder}/nginx-${port}.pid; error_log stderr crit; worker_processes 1; events { worker_connections 256; }
     http { access_log off; ${tls} proxy_read_timeout ${SILENT_SECONDS}s;
       client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
       ${servers} }`,
  )
  run(nginx!, ['-c', file])
  return port
}

async function startCaddy(): Promise<number> {
  const port = await freePort()
  const site = changed(await blockOf('debian', 'caddy'), [
    [/wallet\.example \{/, `https://localhost:${port} {\n  tls ${folder}/cert.pem ${folder}/key.pem`],
    [/127\.0\.0\.1:4000/, upstream()],
  ])
  const file = join(folder, 'Caddyfile')
  await writeFile(
    file,
    `{\n  admin off\n  auto_https disable_redirects\n  storage file_system ${folder}/caddy\n}\n${site}`,
  )
  run(caddy!, ['run', '--config', file, '--adapter', 'caddyfile'])
  return port
}

function run(program: string, words: string[]): void {
  running.push(spawn(program, words, { stdio: 'ignore', env: { PATH: process.env.PATH, HOME: folder } }))
}

type ProxiedStream = { text(): string; isClosed(): boolean; leave(): void }
type OpenStream = (token: string) => Promise<ProxiedStream>

/** Streams over HTTP/1.1, each with a connection of its own. */
const openAt =
  (port: number): OpenStream =>
  async (token) => {
    const request = https.get({ host: '127.0.0.1', servername: 'localhost', port, ca: certificate.cert, agent: false, path: '/v1/events?cursor=now', headers: { host: 'localhost', accept: 'text/event-stream', authorization: `Bearer ${token}` } }) // prettier-ignore
    const [answer] = (await once(request, 'response')) as [import('node:http').IncomingMessage]
    let [text, isClosed] = ['', false]
    answer.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
    answer.on('error', () => {}).once('close', () => (isClosed = true))
    request.on('error', () => {})
    if (answer.statusCode !== 200) text = `status ${answer.statusCode}`
    return { text: () => text, isClosed: () => isClosed, leave: () => request.destroy() }
  }

/** Streams of one HTTP/2 connection, as a browser has them. */
function openIn(session: ClientHttp2Session): OpenStream {
  return async (token) => {
    const request = session.request({ ':path': '/v1/events?cursor=now', accept: 'text/event-stream', 'accept-encoding': 'gzip, br', authorization: `Bearer ${token}` }) // prettier-ignore
    let [text, isClosed] = ['', false]
    request.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
    request.on('error', () => {}).once('close', () => (isClosed = true))
    const [headers] = (await once(request, 'response')) as [Record<string, unknown>]
    if (headers[':status'] !== 200) text = `status ${String(headers[':status'])}`
    return { text: () => text, isClosed: () => isClosed, leave: () => request.close() }
  }
}

let written = 0
/** Adds an event, and waits until the stream has it: a proxy that buffers would hold it. */
async function assertArrives(stream: ProxiedStream, username: string): Promise<void> {
  const from = ++written
  await storeEvents(here.app.db, { clientId: here.facts.clientId, accountId: accountIdOf('DEV', username), from, count: 1 }) // prettier-ignore
  await until(`event ${from} arrives`, () => stream.text().includes(`"tx_${from}"`))
}

/** Checks that streams that their clients leave end behind the proxy as well: a user has five of them at most. */
async function assertLeave(open: OpenStream, token: string): Promise<void> {
  let streams: ProxiedStream[] = []
  for (let times = 0; times < 2; times++) {
    await until('five streams are open', async () => {
      for (const { leave } of streams) leave()
      streams = await Promise.all(Array.from({ length: 5 }, () => open(token)))
      await until('all are answered', () => streams.every(({ text }) => text() !== ''))
      return streams.every(({ text }) => !text().startsWith('status'))
    })
  }
  for (const { leave } of streams) leave()
}

const untilServes = (port: number): Promise<true> =>
  until(
    'the proxy passes on',
    () =>
      new Promise<boolean>((resolve) => {
        const request = https.get({ host: '127.0.0.1', servername: 'localhost', port, ca: certificate.cert, agent: false, path: '/healthz', headers: { host: 'localhost' } }) // prettier-ignore
        request.once('response', (answer) => {
          answer.resume()
          resolve(answer.statusCode === 200)
        })
        request.once('error', () => resolve(false))
      }),
  ) as Promise<true>

for (const [name, guide, changes] of [
  [
    'nginx of the Debian guide',
    'debian',
    [
      [/listen 443 ssl;/, 'listen 127.0.0.1:PORT ssl;'],
      [/ssl_certificate .*\n.*ssl_certificate_key .*\n/, ''],
      [/proxy_read_timeout 60s/, `proxy_read_timeout ${SILENT_SECONDS}s`],
    ],
  ],
  [
    'nginx of a split deployment',
    'split-deployment',
    [
      [/server_name localhost;/, 'listen 127.0.0.1:PORT ssl; server_name localhost;'],
      [/server \{ server_name sign-in.*\n/, ''],
    ],
  ],
] as [string, string, [RegExp, string][]][])
  // prettier-ignore
  test(
    `through ${name}, events arrive one by one, pings keep a silent stream, and a client that leaves ends it`,
    { skip: nginx === null ? 'needs nginx' : noCertificates },
    async () => {
      const port = await startNginx(guide, changes)
      await untilServes(port)
      const { token } = await here.person('alice')
      const open = openAt(port)
      const stream = await open(token)
      for (let count = 0; count < 3; count++) await assertArrives(stream, 'alice')
      // Longer than the proxy waits, with pings more often than that, as with 60 seconds and a ping each 15. One after another as
      // fast as they come, they would put the clock past the 15 minutes of a stream.
      const began = performance.now()
      for (let quarter = 1; quarter <= 6; quarter++) {
        await until('a quarter of its time-out is over', () => performance.now() >= began + quarter * SILENT_SECONDS * 250)
        const pings = stream.text().split('event: ping').length
        await clock.advance(PING_MS)
        await until('a ping', () => stream.text().split('event: ping').length > pings)
      }
      assert.equal(stream.isClosed(), false)
      await assertArrives(stream, 'alice')
      // Without pings the proxy cuts it: what was survived is that time-out.
      await until('the proxy cuts a silent stream', () => stream.isClosed())
      await assertLeave(open, token)
    },
  )

test(
  'through Caddy of the Debian guide and HTTP/2, events arrive one by one, and a client that leaves ends its stream',
  { skip: caddy === null ? 'needs Caddy' : noCertificates },
  async () => {
    const port = await startCaddy()
    await untilServes(port)
    const session = connect(`https://localhost:${port}`, { ca: certificate.cert })
    session.on('error', () => {})
    try {
      const { token } = await here.person('bob')
      const open = openIn(session)
      const stream = await open(token)
      for (let count = 0; count < 3; count++) await assertArrives(stream, 'bob')
      stream.leave()
      await assertLeave(open, token)
    } finally {
      session.destroy()
    }
  },
)
