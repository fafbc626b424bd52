import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { addMachine } from '../../test/machine.ts'
import { runningClock } from '../../test/kit/clock.ts'
import { until } from '../../test/kit/until.ts'
import { untilNumbered } from '../../test/stored-events.ts'
import { world, type World } from '../../test/world.ts'
import { updateApplication } from '../applications/manage.ts'
import { noteUser } from '../applications/registry.ts'
import { accountIdOf } from '../ids.ts'
import type { WireEvent } from './wire.ts'

let here: World
before(async () => {
  here = await world()
})
after(() => here.close())

const mint = (more: { reference?: string } = {}) =>
  here.bob.write({ ...more, address: here.facts.contracts.erc20!, abi: 'mint(address,uint256) public', args: [here.bob.address, '1'] }) // prettier-ignore
/** Returns the end of the feed, once all changes so far have their numbers. */
async function newestCursor(): Promise<string> {
  await untilNumbered(here.app.db)
  return (await here.bob.get('/v1/events?cursor=now')).headers.get('x-next-cursor')!
}

/** Opens a stream, and reads its events as they arrive. */
async function open(path: string, { token = here.bob.token, ...headers }: Record<string, string> = {}) {
  const leaving = new AbortController()
  const response = await fetch(`${here.facts.origin}${path}`, {
    headers: { accept: 'text/event-stream', authorization: `Bearer ${token}`, ...headers },
    signal: leaving.signal,
  })
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  return {
    response,
    leave: () => leaving.abort(),
    /** @returns null  the stream has ended */
    async next(): Promise<{ id: string; event: WireEvent } | null> {
      for (;;) {
        const match = /id: (.+)\nevent: (.+)\ndata: (.+)\n\n/.exec(text)
        if (match !== null) {
          text = text.slice(match.index + match[0].length)
          if (match[2] !== 'ping') return { id: match[1]!, event: JSON.parse(match[3]!) as WireEvent }
          continue
        }
        const { value, done } = await reader.read()
        if (done) return null
        text += value
      }
    },
  }
}

test('a request that waits is answered by the event, and its cursor continues after it', async () => {
  const cursor = await newestCursor()
  const [answer] = await Promise.all([
    here.bob.get(`/v1/events?cursor=${cursor}&wait=30&types=transaction.submitted`),
    mint({ reference: 'order-17' }),
  ])
  assert.deepEqual(
    answer.body.map(({ type, data }: WireEvent) => [type, data.reference]),
    [['transaction.submitted', 'order-17']],
  )
  const next = answer.headers.get('x-next-cursor')!
  assert.notEqual(next, cursor)
  const { body: rest } = await here.bob.get(`/v1/events?cursor=${next}&types=transaction.submitted`)
  assert.deepEqual(rest, [])
})

test('pages of one event give the same feed as one page, and a filter of types gives a part of it', async () => {
  await mint()
  await mint()
  const { body: all } = await here.bob.get('/v1/events?limit=1000')
  const one: WireEvent[] = []
  for (let cursor = ''; one.length < all.length;) {
    const { body, headers } = await here.bob.get(`/v1/events?limit=1${cursor === '' ? '' : `&cursor=${cursor}`}`)
    one.push(...body)
    cursor = headers.get('x-next-cursor')!
  }
  assert.deepEqual(one, all)
  const { body: mined } = await here.bob.get('/v1/events?types=transaction.mined,transfer.*')
  const wanted = all.filter(({ type }: WireEvent) => type === 'transaction.mined' || type.startsWith('transfer.'))
  assert.deepEqual(mined.slice(0, wanted.length), wanted)
})

test('a stream that is cut continues with its last id: nothing is lost and nothing comes twice', async () => {
  const start = await newestCursor()
  const first = await open(`/v1/events?cursor=${start}&types=transaction.submitted`)
  assert.match(first.response.headers.get('content-type')!, /^text\/event-stream/)
  const sent = [(await mint()).body.id]
  const seen = [(await first.next())!]
  first.leave()
  sent.push((await mint()).body.id, (await mint()).body.id)
  const second = await open(`/v1/events?cursor=${start}&types=transaction.submitted`, { 'last-event-id': seen[0]!.id })
  seen.push((await second.next())!, (await second.next())!)
  second.leave()
  assert.deepEqual(
    seen.map(({ event }) => event.data.id),
    sent,
  )
})

test('bad input gets a clear error', async () => {
  for (const [query, code] of [
    ['cursor=nonsense', 'invalid_cursor'],
    [`cursor=${Buffer.from('["other",5]').toString('base64url')}`, 'invalid_cursor'],
    [`cursor=${Buffer.from('["events",-1]').toString('base64url')}`, 'invalid_cursor'],
    [`cursor=${Buffer.from('["events",1e300]').toString('base64url')}`, 'invalid_cursor'],
    ['types=transaction.unknown', 'invalid_request'],
    ['types=', 'invalid_request'],
    ['limit=1001', 'invalid_request'],
    ['wait=31', 'invalid_request'],
    ['after=1', 'unknown_parameter'],
  ]) {
    const { status, body } = await here.bob.get(`/v1/events?${query}`)
    assert.deepEqual([status, body.code], [400, code], query)
  }
})

test('an application reads its feed by itself, whichever of its users it is about, and nobody reads that of another', async () => {
  const { token, scope } = await addMachine(here, 'shop', ['wallet:read', 'events:read'])
  assert.equal(scope, 'events:read')
  const read = (query = '') => here.request(`/v1/events${query}`, { headers: { authorization: `Bearer ${token}` } })
  assert.deepEqual((await read()).body, [])
  for (const name of ['alice', 'bob'])
    await noteUser(here.app.db, { clientId: 'shop', accountId: accountIdOf('DEV', name) })
  // It ends with the first of them.
  assert.ok((await read('?wait=30&types=user.created')).body.length > 0)
  await untilNumbered(here.app.db)
  assert.deepEqual(
    (await read('?types=user.created')).body.map(({ type, userId }: WireEvent) => [type, userId]),
    [
      ['user.created', 'DEV-alice'],
      ['user.created', 'DEV-bob'],
    ],
  )
})

test('streams that are opened at the same time count as well, whichever token of the user opens them', async () => {
  const tokens = [(await here.person('dave')).token, (await here.person('dave')).token]
  assert.notEqual(tokens[0], tokens[1])
  const streams = await Promise.all(
    tokens.flatMap((token) => Array.from({ length: 6 }, () => open('/v1/events', { token }))),
  )
  for (const { leave } of streams) leave()
  assert.equal(streams.filter(({ response }) => response.status === 200).length, 5)
})

test('requests that wait count as open streams do, whichever token of the user sends them, and leave their places when they end', async () => {
  const [one, two] = [await here.person('erin'), await here.person('erin')]
  const cursor = await newestCursor()
  const leaving = new AbortController()
  const statuses: number[] = []
  const answers = [one, two].flatMap(({ token }) =>
    Array.from({ length: 4 }, async () => {
      // A type that never happens here: what an account receives at its sign-in would end the wait.
      const response = await fetch(`${here.facts.origin}/v1/events?cursor=${cursor}&types=key.exported&wait=30`, {
        headers: { authorization: `Bearer ${token}` },
        signal: leaving.signal,
      })
      statuses.push(response.status)
      return { status: response.status, retryAfter: response.headers.get('retry-after'), body: await response.json() }
    }),
  )
  for (const answer of answers) answer.catch(() => {})
  await until('three are rejected', () => statuses.length >= 3)
  assert.deepEqual(statuses, [429, 429, 429])
  const stream = await open('/v1/events', { token: one.token })
  stream.leave()
  assert.equal(stream.response.status, 429)
  // What is there is read without a place, and another user has places.
  assert.equal((await one.get('/v1/events?limit=1')).status, 200)
  assert.equal((await here.bob.get(`/v1/events?cursor=${cursor}&wait=1`)).status, 200)
  leaving.abort()
  await Promise.allSettled(answers)
  await until('the places are free', async () => (await two.get(`/v1/events?cursor=${cursor}&wait=1`)).status === 200)
})

test('HEAD responds with the headers of a page, and opens no stream', async () => {
  const response = await fetch(`${here.facts.origin}/v1/events?wait=30&types=key.exported`, {
    method: 'HEAD',
    headers: { accept: 'text/event-stream', authorization: `Bearer ${here.bob.token}` },
    signal: AbortSignal.timeout(25_000),
  })
  assert.match(response.headers.get('content-type')!, /^application\/json/)
  assert.ok(response.headers.get('x-next-cursor'))
})

test('a token has five streams at most; a stream ends when the application loses the permission', async () => {
  const carol = await here.person('carol')
  const clock = runningClock()
  here.app.clock = clock
  const cursor = await newestCursor()
  const streams = await Promise.all(
    Array.from({ length: 5 }, () => open(`/v1/events?cursor=${cursor}`, { token: carol.token })),
  )
  const sixth = await open('/v1/events', { token: carol.token })
  sixth.leave()
  assert.equal(sixth.response.status, 429)
  for (const stream of streams.slice(1)) stream.leave()
  const permissions = ['wallet:read', 'contracts:read', 'contracts:write', 'messages:sign'] as const
  await updateApplication(here.app, here.facts.clientId, { permissions: [...permissions] })
  let isOver = false
  const reading = (async () => {
    while ((await streams[0]!.next()) !== null);
    isOver = true
  })()
  await until('the stream has ended', async () => {
    await clock.advance(5_000)
    return isOver
  })
  await reading
  const after = await carol.get('/v1/events')
  assert.deepEqual([after.status, after.body.code], [403, 'insufficient_scope'])
})
