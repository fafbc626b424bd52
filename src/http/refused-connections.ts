import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { readHead, type RawHead } from './raw-head.ts'
import { type Clock, type Timer } from '../clock.ts'

/** milliseconds in which the body of a refused request is to be over, as of any other */
const BODY_MS = 15_000
/** So many refusals leave together at the end of a turn of the event loop at most: each alone would wake a client that sleeps. */
const MAX_TOGETHER = 64

/** A connection whose requests are looked at before Node's parser has them. */
type RefusedConnection = {
  /** false: nothing more is known of where its requests begin, and the parser alone has it */
  isFollowed: boolean
  /** the parser was seen to begin a request with the first byte that it was given */
  isCertain: boolean
  /** requests that the parser has told of and that are not answered yet */
  open: number
  /** a refusal is about to leave */
  isOwed: boolean
  /** bytes of a body that belong to a request which the parser has */
  toParser: number
  /** bytes of a body whose request was refused here, and what ends the connection when they do not come */
  toDrop: number
  dropTimer: Timer | undefined
  /** what the parser is to tell of while it reads one chunk, and what it told */
  expected: RawHead | null
  told: 'nothing' | 'expected' | 'otherwise'
}

/**
 * Refuses before Node's parser what comes on a connection that was refused something before: a parsed request costs twice as
 * much as its refusal. Only what has one reading is answered here, and only where a request is known to begin: the first
 * after a refusal goes to the parser in any case, and what it tells has to be what was read here, field by field in number;
 * from then on lengths are counted. What is not certain, comes while an answer is owed, or together with another request
 * goes to the parser, which alone has the connection until it refuses again.
 * @param refuse  the bytes of a refusal as ASCII, or null when the request may come in
 */
export function openRefusedConnections(
  { after }: Clock,
  refuse: (head: RawHead) => string | null,
): {
  /** to be called for each request that the parser tells of, before it is handled */
  note(request: IncomingMessage, response: ServerResponse): void
  /** Follows a connection on which the parser's request was refused, once that answer has left. */
  follow(socket: Socket, response: ServerResponse): void
} {
  const connections = new WeakMap<Socket, RefusedConnection>()

  let ready: { socket: Socket; of: RefusedConnection; refusal: string }[] = []

  function sendAll(): void {
    const sending = ready
    ready = []
    for (const { socket, of, refusal } of sending) {
      of.isOwed = false
      socket.write(refusal, 'utf8')
    }
  }

  function begin(socket: Socket): void {
    if (socket.destroyed) return
    const known = connections.get(socket)
    if (known !== undefined) {
      if (!known.isFollowed && known.open === 0) Object.assign(known, fresh())
      return
    }
    // The parser's own way to be given bytes; with more listeners we would not know who else reads.
    const [give, ...others] = socket.listeners('data') as ((chunk: Buffer) => void)[]
    if (give === undefined || others.length > 0) return
    const connection = fresh()
    connections.set(socket, connection)
    socket.removeListener('data', give)
    socket.on('data', (chunk: Buffer) => {
      // Before anything that the parser may say to what comes now.
      if (connection.isOwed) sendAll()
      take(socket, connection, chunk, give)
    })
    socket.once('close', () => connection.dropTimer?.cancel())
    // Before Node ends what the client has ended: it still reads.
    socket.prependListener('end', () => {
      if (connection.isOwed) sendAll()
    })
  }

  function take(socket: Socket, of: RefusedConnection, chunk: Buffer, give: (chunk: Buffer) => void): void {
    if (!of.isFollowed) return give(chunk)
    if (of.toDrop > 0) {
      const dropped = Math.min(of.toDrop, chunk.length)
      of.toDrop -= dropped
      if (of.toDrop === 0) of.dropTimer?.cancel()
      if (dropped === chunk.length) return
      chunk = chunk.subarray(dropped)
    }
    if (of.toParser > 0) {
      of.toParser -= chunk.length
      if (of.toParser < 0) of.isFollowed = false
      return give(chunk)
    }
    const head = of.open > 0 ? null : readHead(chunk)
    const missing = head === null ? 0 : head.headBytes + head.bodyBytes - chunk.length
    if (head === null || missing < 0) {
      of.isFollowed = false
      return give(chunk)
    }
    // Who does not read its answers is not given more of them to keep here.
    const refusal = of.isCertain && socket.writableLength === 0 ? refuse(head) : null
    if (refusal !== null) {
      of.isOwed = true
      if (ready.push({ socket, of, refusal }) === 1) setImmediate(sendAll)
      else if (ready.length === MAX_TOGETHER) sendAll()
      of.toDrop = missing
      if (missing > 0) of.dropTimer = after(BODY_MS, () => socket.destroy()).unref()
      return
    }
    Object.assign(of, { toParser: missing, expected: head, told: 'nothing' })
    give(chunk)
    of.expected = null
    of.isCertain = of.told === 'expected'
    of.isFollowed = of.isCertain
  }

  return {
    note(request, response) {
      const of = connections.get(request.socket)
      if (of === undefined) return
      of.open++
      response.once('close', () => of.open--)
      of.told = of.told === 'nothing' && of.expected !== null && isSame(of.expected, request) ? 'expected' : 'otherwise'
    },
    follow(socket, response) {
      response.once('close', () => begin(socket))
    },
  }
}

const fresh = (): RefusedConnection => ({
  isFollowed: true,
  isCertain: false,
  open: 0,
  isOwed: false,
  toParser: 0,
  toDrop: 0,
  dropTimer: undefined,
  expected: null,
  told: 'nothing',
})

/** A head that began before its chunk has more fields, or another first line. */
const isSame = ({ method, url, fields }: RawHead, request: IncomingMessage): boolean =>
  method === request.method && url === request.url && fields * 2 === request.rawHeaders.length
