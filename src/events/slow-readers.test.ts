// tier: all, because a hundred readers leave a hundred thousand events unread
import { strict as assert } from 'node:assert'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { runningClock } from '../../test/kit/clock.ts'
import { until } from '../../test/kit/until.ts'
import { addMachine } from '../../test/machine.ts'
import { storeEvents } from '../../test/stored-events.ts'
import { world } from '../../test/world.ts'
import type { RootDb } from '../store/db.ts'
import { endStreams } from './stream.ts'

/** With one reader that reads, as many streams as an application may have. */
const SLOW_READERS = 99
const [EVENTS, BATCH] = [100_000, 5_000]
/** bytes of text in an event, whose size on the wire is about 900 */
const TEXT_BYTES = 500
/** bytes that a slow reader may hold: what may be unread, and the page that exceeded it */
const HELD_BYTES = 262_144 + 200 * 1_000

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void
function usedBytes(): number {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

test('readers that never read hold a bounded amount of memory and nobody up, and are cut off after 60 seconds', async () => {
  const here = await world()
  const sockets: Socket[] = []
  try {
    const clock = runningClock()
    here.app.clock = clock
    let pagesRead = 0
    here.app.db = here.app.db.withPlugin({
      transformQuery: ({ node }) => node,
      transformResult: ({ result }) => {
        if (result.rows.some((row) => 'looked_to' in row)) pagesRead++
        return Promise.resolve(result)
      },
    }) as RootDb
    const { token } = await addMachine(here, 'shop', ['wallet:read', 'events:read'])
    const url = new URL(here.facts.origin)
    const headers = { accept: 'text/event-stream', authorization: `Bearer ${token}` }
    /** connections that ended in the midst of their response, and those that ended after it */
    let [cutOff, completed] = [0, 0]
    const read = new Map<Socket, (text: string) => void>()
    /** Opens a stream from the oldest event on, and reads nothing of it but its beginning. */
    async function openUnread(): Promise<void> {
      const socket = connect({ port: Number(url.port), host: url.hostname })
      sockets.push(socket)
      let last = ''
      socket.setEncoding('latin1').on('error', () => {})
      socket.once('close', () => (last.endsWith('\r\n0\r\n\r\n') ? completed++ : cutOff++))
      read.set(socket, (text) => (last = (last + text).slice(-7)))
      socket.write(`GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: ${headers.accept}\r\nAuthorization: ${headers.authorization}\r\n\r\n`) // prettier-ignore
      await once(socket, 'readable')
    }
    const leaving = new AbortController()
    const reading = await fetch(`${url.origin}/v1/events`, { headers, signal: leaving.signal })
    let known = 0
    void (async () => {
      for await (const text of reading.body!.pipeThrough(new TextDecoderStream()))
        known += text.split('event: transaction.mined').length - 1
    })().catch(() => {})
    await Promise.all(Array.from({ length: SLOW_READERS }, openUnread))
    const another = async () => {
      const response = await fetch(`${url.origin}/v1/events?cursor=now`, { headers })
      await response.body!.cancel()
      return response.status
    }
    assert.equal(await another(), 429)

    const before = usedBytes()
    for (let from = 1; from <= EVENTS; from += BATCH) {
      await storeEvents(here.app.db, { clientId: 'shop', from, count: BATCH, bytes: TEXT_BYTES })
      // A name that is cut in two between chunks is not counted: a few of thousands.
      await until('the reader that reads has nearly all', () => known > (from + BATCH - 1) * 0.99)
    }
    const held = usedBytes() - before
    assert.ok(held < SLOW_READERS * HELD_BYTES, `${held} bytes`)

    /** Resolves when nobody reads pages any more: who has not everything has stopped. */
    const allStand = async () => {
      let [last, looks] = [-1, 0]
      await until('no pages are read', () => {
        looks = pagesRead === last ? looks + 1 : 0
        last = pagesRead
        return looks === 10
      })
    }
    await allStand()
    assert.equal(await another(), 429)
    await clock.advance(60_000)
    assert.equal(await another(), 200)
    // Only a socket that is read sees its end. One that was not cut off would go on.
    for (const socket of sockets) socket.on('data', read.get(socket)!)
    await until('all slow readers are cut off', () => cutOff === SLOW_READERS)

    // A server that ends does not wait for a reader that does not read.
    await openUnread()
    await allStand()
    endStreams(here.app)
    await clock.advance(5_000)
    sockets.at(-1)!.on('data', read.get(sockets.at(-1)!)!)
    await until('the stream is cut off', () => cutOff === SLOW_READERS + 1)
    assert.equal(completed, 0)
    leaving.abort()
  } finally {
    for (const socket of sockets) socket.destroy()
    await here.close()
  }
})
