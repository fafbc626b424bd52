import { Agent, request, type IncomingMessage } from 'node:http'

/** What a feed holds, as its writer knows it. */
export type WrittenFeed = {
  /** numbers of the events, in order; noted before each is written */
  numbers: number[]
}

/** How a stream compares with what was written. `absent`: those of the lost that are after the last that came. */
export type Verdict = { read: number; lost: number; absent: number; twice: number }

/** Compares the events that a stream has received with those of its feed. */
export type Judge = {
  /** @returns false  it was known already */
  note(number: number): boolean
  /** Counts what has not come as lost. */
  verdict(): Verdict
}

/** Judges one stream: each event of the feed once, in order. What comes after a later one counts as lost and as twice. */
export function openJudge(feed: WrittenFeed): Judge {
  let [at, read, lost, twice] = [0, 0, 0, 0]
  return {
    note(number) {
      read++
      const place = feed.numbers.indexOf(number, at)
      if (place === -1) {
        twice++
        return false
      }
      lost += place - at
      at = place + 1
      return true
    },
    verdict: () => {
      const absent = feed.numbers.length - at
      return { read, lost: lost + absent, absent, twice }
    },
  }
}

export type StreamReader = {
  judge: Judge
  /** the server that it reads from, or reconnects to */
  server: number
  /** ticks at which its present connection was answered; infinite while there is none */
  openSince: number
  /** how often it went on with `Last-Event-ID` */
  resumptions: number
  /** answers other than 200 */
  refusals: number
  /** cuts its connection as a network does; it continues at another server */
  cut(): void
  stop(): void
}

export type StreamReaderOptions = {
  feed: WrittenFeed
  token: string
  /** addresses of the servers; null: not running */
  servers: readonly { url: string | null }[]
  server: number
  path: string
  /** called with the number of each event, when it arrives */
  onEvent: (number: number, reader: StreamReader) => void
}

/** milliseconds after which a reader that was refused tries the next server */
const AGAIN_MS = 100
/** No connection is used twice: the cut of one stream is that of one connection. */
const agent = new Agent({ keepAlive: false })

/** Reads a stream of events until it is stopped, and goes on at the next server with the id that it saw last. */
export function openStreamReader({ feed, token, servers, path, onEvent, ...first }: StreamReaderOptions): StreamReader {
  const judge = openJudge(feed)
  let lastId: string | null = null
  let isStopped = false
  let drop = () => {}

  const goOn = () => {
    reader.openSince = Number.POSITIVE_INFINITY
    if (isStopped) return
    reader.server = (reader.server + 1) % servers.length
    connect()
  }

  function connect(): void {
    const { url } = servers[reader.server]!
    let isOver = false
    const next = (waitMs: number) => {
      if (isOver) return
      isOver = true
      setTimeout(goOn, waitMs)
    }
    drop = () => {}
    if (url === null) return next(AGAIN_MS)
    const headers = { accept: 'text/event-stream', authorization: `Bearer ${token}`, ...(lastId !== null && { 'last-event-id': lastId }) } // prettier-ignore
    const asked = request(`${url}${path}`, { headers, agent }, (answer) => {
      if (answer.statusCode !== 200) {
        reader.refusals++
        answer.resume()
        return next(AGAIN_MS)
      }
      if (lastId !== null) reader.resumptions++
      reader.openSince = performance.now()
      listen(answer)
      answer.once('close', () => next(0))
    })
    asked.once('error', () => next(AGAIN_MS))
    drop = () => asked.destroy()
    asked.end()
  }

  function listen(answer: IncomingMessage): void {
    let rest = ''
    answer.setEncoding('utf8').on('data', (chunk: string) => {
      const parts = (rest + chunk).split('\n\n')
      // An incomplete event is dropped with the connection.
      rest = parts.pop()!
      for (const part of parts) {
        const lines = /^id: (.+)\nevent: (.+)\ndata: (.+)$/.exec(part)
        if (lines === null) continue
        lastId = lines[1]!
        if (lines[2] !== 'ping')
          onEvent(Number((JSON.parse(lines[3]!) as { data: { id: string } }).data.id.slice(3)), reader)
      }
    })
    answer.once('error', () => {})
  }

  const reader: StreamReader = {
    judge,
    ...{ server: first.server, openSince: Number.POSITIVE_INFINITY, resumptions: 0, refusals: 0 },
    cut: () => drop(),
    stop: () => {
      isStopped = true
      drop()
    },
  }
  connect()
  return reader
}
