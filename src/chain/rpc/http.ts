import net from 'node:net'
import tls from 'node:tls'
import { systemClock } from '../../clock.ts'
import { RpcTooLarge, RpcUnavailable } from './failures.ts'
import { newHttpReader, type HttpAnswer, type HttpReader } from './http-reader.ts'

/**
 * Posts JSON to one URL over keep-alive connections.
 * @throws RpcUnavailable, RpcTooLarge
 */
export type Post = {
  (body: string, limits: { timeoutMs: number; maxBytes: number }): Promise<unknown>
  close(): void
}

const MAX_CONNECTIONS = 32

type HttpConnection = { socket: net.Socket; exchange: Exchange | null; isUsed: boolean }
type Exchange = {
  reader: HttpReader
  isReused: boolean
  hasAnswer: boolean
  end: (outcome: HttpAnswer | Error) => void
}

/** Thrown if the node closed an idle connection before a response. The request is repeated on another connection. */
class StaleConnection extends Error {}

/**
 * Creates a client of one node.
 * @param url  the node's; user and password in it are sent as basic authentication
 */
export function openPost(url: string, clock = systemClock): Post {
  const target = new URL(url)
  const head = headOf(target)
  const idle: HttpConnection[] = []
  const open = new Set<HttpConnection>()
  const waiting: (() => void)[] = []

  function connect(): HttpConnection {
    const host = target.hostname.replace(/^\[|\]$/g, '')
    const isTls = target.protocol === 'https:'
    const port = Number(target.port) || (isTls ? 443 : 80)
    const name = net.isIP(host) === 0 ? { servername: host } : {}
    const socket = isTls
      ? tls.connect({ host, port, ALPNProtocols: ['http/1.1'], ...name })
      : net.connect({ host, port })
    socket.setNoDelay(true).setKeepAlive(true, 30_000)
    const connection: HttpConnection = { socket, exchange: null, isUsed: false }
    open.add(connection)
    const fail = (cause?: Error) => {
      const { exchange } = connection
      if (exchange === null) return
      const isStale = exchange.isReused && !exchange.hasAnswer
      exchange.end(isStale ? new StaleConnection() : unreachable(cause))
    }
    socket.on('data', (chunk) => {
      const { exchange } = connection
      // No request is open: these bytes would count as the response to the next one.
      if (exchange === null) return void socket.destroy()
      exchange.hasAnswer = true
      try {
        const answer = exchange.reader.take(chunk)
        if (answer !== null) exchange.end(answer)
      } catch (cause) {
        exchange.end(
          cause instanceof RpcTooLarge
            ? cause
            : new RpcUnavailable('the node does not speak HTTP', { cause, timedOut: false }),
        )
      }
    })
    socket.on('end', () => {
      const answer = connection.exchange?.reader.finish() ?? null
      if (answer !== null) connection.exchange!.end(answer)
    })
    socket.on('error', fail)
    socket.on('close', () => {
      open.delete(connection)
      const place = idle.indexOf(connection)
      if (place !== -1) idle.splice(place, 1)
      fail()
      waiting.shift()?.()
    })
    return connection
  }

  function once(body: string, { timeoutMs, maxBytes }: { timeoutMs: number; maxBytes: number }): Promise<HttpAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<HttpAnswer>()
    let connection: HttpConnection | null = null
    const end = (outcome: HttpAnswer | Error) => {
      timer.cancel()
      if (connection !== null) release(connection, !(outcome instanceof Error) && outcome.isReusable)
      if (outcome instanceof Error) reject(outcome)
      else resolve(outcome)
    }
    const begin = () => {
      connection = idle.pop() ?? connect()
      const { socket, isUsed } = connection
      connection.exchange = { reader: newHttpReader(maxBytes), isReused: isUsed, hasAnswer: false, end }
      connection.isUsed = true
      socket.ref()
      socket.write(`${head}${Buffer.byteLength(body)}\r\n\r\n${body}`)
    }
    const timer = clock.after(timeoutMs, () => {
      const place = waiting.indexOf(begin)
      if (place !== -1) waiting.splice(place, 1)
      end(new RpcUnavailable('the node took too long', { timedOut: true }))
    })
    if (idle.length === 0 && open.size >= MAX_CONNECTIONS) waiting.push(begin)
    else begin()
    return promise
  }

  function release(connection: HttpConnection, isReusable: boolean): void {
    connection.exchange = null
    if (!isReusable) return void connection.socket.destroy()
    // An idle connection must not prevent the process from ending.
    connection.socket.unref()
    idle.push(connection)
    waiting.shift()?.()
  }

  const post = async (body: string, limits: { timeoutMs: number; maxBytes: number }): Promise<unknown> => {
    const until = clock.ticks() + limits.timeoutMs
    // After a restart of the node, all idle connections may be stale. A connection that closes during a long request
    // counts as well.
    for (let attempt = 0; attempt <= MAX_CONNECTIONS; attempt++) {
      try {
        return readJson(await once(body, { ...limits, timeoutMs: Math.max(1, until - clock.ticks()) }))
      } catch (error) {
        if (!(error instanceof StaleConnection)) throw error
      }
    }
    throw new RpcUnavailable('the node closes its connections', { timedOut: false })
  }
  const close = () => {
    for (const { socket } of open) socket.destroy()
  }
  return Object.assign(post, { close })
}

/** Returns the head of the request up to the value of Content-Length. */
function headOf({ host, pathname, search, username, password }: URL): string {
  const secret = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  const authorization = username === '' ? '' : `authorization: Basic ${Buffer.from(secret).toString('base64')}\r\n`
  return `POST ${pathname}${search} HTTP/1.1\r\nhost: ${host}\r\n${authorization}content-type: application/json\r\naccept: application/json\r\nconnection: keep-alive\r\ncontent-length: `
}

function readJson({ status, body }: HttpAnswer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch (cause) {
    throw new RpcUnavailable(`the node answered with status ${status} and no JSON`, { cause, timedOut: false })
  }
}

const unreachable = (cause?: Error) => new RpcUnavailable('the node could not be reached', { cause, timedOut: false })
