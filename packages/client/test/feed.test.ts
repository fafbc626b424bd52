// tier: all, because it starts the whole program twice
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { createServer, request as askServer, type Server } from 'node:http'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { decodeJwt, importJWK, SignJWT, type JWK } from 'jose'
import type { WireEvent } from '../../../src/events/wire.ts'
import { systemClock } from '../../../src/clock.ts'
import { freePort } from '../../../test/kit/ports.ts'
import { until } from '../../../test/kit/until.ts'
import { keyHolder } from '../../../test/key-holder.ts'
import { world, type World } from '../../../test/world.ts'
import { createClient, type ClientOptions, type EventsOptions, type FeedEvent } from '../src/index.ts'

/** `events()` against a real server, with a token that is bound to a key (DPoP). */

let here: World
/** requests with the bound token, each with a proof */
let bound: (input: string | URL, init?: RequestInit) => Promise<Response>
before(async () => {
  here = await world({ PORT: String(await freePort()) })
  const holder = await keyHolder()
  const { keys } = JSON.parse(await readFile(join(here.dataDir, 'auth-keys.json'), 'utf8')) as { keys: JWK[] }
  const key = keys.find(({ alg }) => alg === 'ES256')!
  const token = await new SignJWT({ ...decodeJwt(here.alice.token), cnf: { jkt: holder.jkt } })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: key.kid! })
    .sign(await importJWK(key, 'ES256'))
  bound = async (input, init = {}) => {
    const { pathname } = new URL(input)
    const proof = await holder.headers({ method: init.method ?? 'GET', uri: `${here.facts.origin}${pathname}`, token })
    return fetch(input, { ...init, headers: { ...(init.headers as Record<string, string>), ...proof } })
  }
})
after(() => here.close())

const TYPES: EventsOptions['types'] = ['transaction.submitted']

/** Begins to follow the events of alice's writes. `asked` has each request, in order. */
function follow(options: Omit<EventsOptions, 'types' | 'signal'> = {}, more: Partial<ClientOptions> = {}) {
  const asked: ('page' | 'stream')[] = []
  let streams = 0
  const wallet = createClient({
    origin: here.facts.origin,
    session: {
      fetch: async (input, init) => {
        const isStream = new Headers(init?.headers).get('accept') === 'text/event-stream'
        asked.push(isStream ? 'stream' : 'page')
        const response = await bound(input, init)
        if (isStream && response.ok) streams++
        return response
      },
    },
    ...more,
  })
  const stop = new AbortController()
  const got: { event: FeedEvent; by: 'page' | 'stream' }[] = []
  const reading = (async () => {
    for await (const { events } of wallet.events({ cursor: 'now', ...options, types: TYPES, signal: stop.signal }))
      got.push(...events.map((event) => ({ event, by: asked.at(-1)! })))
  })()
  return {
    ...{ asked, got },
    streams: () => streams,
    end: async () => {
      stop.abort()
      await reading
    },
  }
}

/** @returns ids of the events of so many new writes, as the feed has them */
async function write(count: number): Promise<string[]> {
  const before = await submitted()
  const address = here.facts.contracts.erc20!
  for (let index = 0; index < count; index++)
    await here.alice.write({ address, abi: 'mint(address to, uint256 amount) public', args: [here.alice.address, '1'] })
  const ids = await until('they are in the feed', async () => {
    const all = await submitted()
    return all.length === before.length + count ? all : null
  })
  return ids.slice(before.length)
}

const submitted = async (): Promise<string[]> =>
  (await here.alice.get('/v1/events?types=transaction.submitted&limit=1000')).body.map(({ id }: WireEvent) => id)

test('a stream with a bound token continues after a restart of the server: no event is lost, and none comes twice', async () => {
  const feed = follow()
  await until('the stream is open', () => feed.streams() === 1)
  const written = await write(3)
  await until('they have come', () => feed.got.length === 3)
  here = await here.startAgain()
  // The client has not come back yet, or is coming back.
  written.push(...(await write(3)))
  await until('these, too', () => feed.got.length >= 6)
  await until('a stream is open again', () => feed.streams() >= 2)
  written.push(...(await write(2)))
  await until('the last ones', () => feed.got.length >= 8)
  await feed.end()
  assert.deepEqual(feed.got.map(({ event }) => event.id), written) // prettier-ignore
  assert.ok(feed.got.slice(0, 3).every(({ by }) => by === 'stream'))
  assert.ok(feed.got.slice(-2).every(({ by }) => by === 'stream'))
})

test('behind a proxy that collects streams the same token reads by long polling, each event once', async (t) => {
  const proxy = collecting(here.facts.origin)
  const port = await freePort()
  await new Promise<void>((done) => void proxy.listen(port, '127.0.0.1', done))
  t.after(() => {
    proxy.closeAllConnections()
    proxy.close()
  })
  // Nobody waits 40 seconds for what a proxy holds back.
  const clock = { now: () => performance.now(), sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms === 40_000 ? 200 : Math.min(ms, 100), signal).catch(() => {}) } // prettier-ignore
  const feed = follow({}, { origin: `http://127.0.0.1:${port}`, clock })
  await until('it reads by pages', () => feed.asked.at(-1) === 'page' && feed.streams() === 2)
  const written = await write(3)
  await until('they have come', () => feed.got.length >= 3)
  await feed.end()
  assert.deepEqual(feed.got.map(({ event, by }) => [event.id, by]), written.map((id) => [id, 'page'])) // prettier-ignore
  assert.equal(feed.asked.filter((one) => one === 'stream').length, 2)
})

/** A proxy that passes the headers of a stream, and holds its bytes back until it ends. */
const collecting = (origin: string): Server =>
  createServer((incoming, response) => {
    const { host } = new URL(origin)
    const passed = askServer(
      `${origin}${incoming.url}`,
      { method: incoming.method!, headers: { ...incoming.headers, host } },
      (answer) => {
        // prettier-ignore
        response.writeHead(answer.statusCode!, answer.headers)
        if (!answer.headers['content-type']!.startsWith('text/event-stream')) return void answer.pipe(response)
        response.flushHeaders()
        const bytes: Buffer[] = []
        answer.on('data', (piece: Buffer) => bytes.push(piece))
        answer.on('end', () => response.end(Buffer.concat(bytes)))
        response.once('close', () => answer.destroy())
      },
    )
    passed.on('error', () => response.destroy())
    incoming.pipe(passed)
  })
