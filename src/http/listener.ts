/**
 * http: rules and limits of all routes, and the HTML shell of pages.
 * Owns: admission control, callers (access tokens and DPoP proofs), limits, quotas, problem documents, cursors,
 *   OpenAPI, health, assets.
 * Does not own: routes of the API (each slice), issuing tokens (`oauth/`), texts (`texts/`).
 * Path of a request: `gate.ts`, `caller.ts`, the route, `problems.ts`.
 * Tables: application_usage.
 */

import { lookup } from 'node:dns/promises'
import { STATUS_CODES } from 'node:http'
import { BlockList, isIPv6, type Socket } from 'node:net'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import { isLoopback, type Config } from '../config.ts'
import { AppError, describeError, type ErrorCode } from '../errors.ts'
import { newRequestId } from '../ids.ts'
import { openEnding, type Ending } from './ending.ts'
import { JsonInvalid, readUniqueJson } from '../unique-json.ts'
import { requestIdOf } from './request-id.ts'
import { logRequests } from './request-log.ts'
import { problemOf, problems, rememberRoutes, sendProblem } from './problems.ts'
import { sharedSerializers } from './serializers.ts'
import { en } from '../texts/en.ts'

const BODY_BYTES = 65_536
const HEADER_BYTES = 8_192
/** milliseconds without traffic after which a connection is closed; longer than any response takes */
const SILENT_MS = 120_000
/** milliseconds for a client to close its side after an error response to bytes that were not a request */
const LINGER_MS = 1_000

/**
 * Opens the HTTP server with everything that holds for every route: size and time limits, strict JSON, request ids,
 * headers. Errors of the HTTP parser also become problem documents.
 */
export function openListener(app: App): FastifyInstance {
  const server = Fastify({
    logger: false,
    bodyLimit: BODY_BYTES,
    // By default, Node checks for late requests every 30 s, which is too coarse for the 5 s and 15 s below.
    http: {
      maxHeaderSize: HEADER_BYTES,
      connectionsCheckingInterval: 1_000,
      headersTimeout: 5_000,
    },
    // Not in `http`: the framework overrides these there, and its default request time-out is none.
    requestTimeout: 15_000,
    keepAliveTimeout: 72_000,
    connectionTimeout: SILENT_MS,
    routerOptions: { maxParamLength: 4_096, ignoreTrailingSlash: true },
    trustProxy: trusted(app.config.TRUST_PROXY),
    forceCloseConnections: 'idle',
    // The framework's own 503 has no code and no Retry-After; refuseWhileClosing responds instead.
    return503OnClosing: false,
    genReqId: requestIdOf,
    // Fastify's defaults turn [1e21, true, null] into strings and silently drop unknown fields.
    ajv: {
      customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false, keywords: ['x-shown-as'] },
    },
    // Most responses of most routes share the schema of the problem document.
    schemaController: { compilersFactory: { buildSerializer: sharedSerializers } },
    onProtoPoisoning: 'error',
    onConstructorPoisoning: 'error',
    frameworkErrors: (error, request, reply) => sendProblem(app, request as FastifyRequest, reply, error),
    clientErrorHandler: (error, socket) => {
      const answer = ending.responseOn(socket as Socket)
      // If a complete request still awaits its response, an error response could be taken for it and claim that nothing
      // was done.
      if (answer?.req.complete === true && !answer.writableFinished) socket.destroy()
      else refuseRaw(app, error, socket as Socket)
    },
  }) as unknown as FastifyInstance
  const ending = openEnding(server.server, app.clock)

  // Node would answer an unknown `Expect` with a 417 without a body. Ignoring the header is allowed: RFC 9110 §10.1.1.
  server.server.on('checkExpectation', (request, response) => void server.server.emit('request', request, response))
  boundConnections(server, app, app.config.MAX_CONNECTIONS)
  rememberRoutes(server)
  problems(server, app)
  strictJson(server)
  if (app.config.NODE_ENV !== 'production' && app.config.DEVELOPMENT_OPEN_TO === 'this-machine') refuseNames(server)
  const isHttps = app.origin.startsWith('https:')
  // Hooks with callbacks: as promises, these two would cost more than their work.
  server.addHook('onRequest', (request, reply, done) => {
    ending.follow(reply.raw)
    reply
      .header('x-request-id', request.id)
      .header('x-content-type-options', 'nosniff')
      .header('referrer-policy', 'no-referrer')
    if (isHttps) reply.header('strict-transport-security', 'max-age=31536000; includeSubDomains')
    done()
  })
  refuseWhileClosing(server, ending)
  answerTogether(server)
  logRequests(server, app)
  server.addHook('onResponse', (request, reply, done) => {
    app.telemetry.requests.observe(
      { route: request.routeOptions.url ?? 'none', method: request.method, status: String(reply.statusCode) },
      reply.elapsedTime / 1_000,
    )
    done()
  })
  return server
}

/**
 * Listens at one address. For `localhost`, Fastify would open a second server per address, without the limits set here.
 */
export async function listenAt(server: FastifyInstance, { host, port }: { host: string; port: number }): Promise<void> {
  const { address } = await lookup(host)
  await server.listen({ host: address, port })
}

/** minimum milliseconds between two log lines about closed connections */
const TELL_MS = 10_000

/** Limits the connections of a server, because each costs memory before it sends anything. Further ones are closed. */
export function boundConnections({ server }: FastifyInstance, { clock, telemetry }: App, most: number): void {
  server.maxConnections = most
  let [closed, toldAt] = [0, Number.NEGATIVE_INFINITY]
  server.on('drop', () => {
    closed++
    const now = clock.ticks()
    if (now - toldAt < TELL_MS) return
    telemetry.log.warn('connections_full', { most, closed })
    ;[closed, toldAt] = [0, now]
  })
}

/**
 * Returns whether an address is a trusted proxy. `hop` counts proxies, starting at 0 with the peer of the connection.
 */
type Trusts = (address: string, hop: number) => boolean

/**
 * Returns the proxies that may set X-Forwarded-For: by address or by number. A number cannot distinguish a proxy from a
 * client that bypasses it, so the peer must then be on this machine or in a private network.
 */
function trusted(proxies: Config['TRUST_PROXY']): false | string[] | Trusts {
  if (proxies === undefined || proxies === 0) return false
  if (typeof proxies !== 'number') return [...proxies]
  const near = new BlockList()
  for (const [network, bits] of NEAR_4) near.addSubnet(network, bits, 'ipv4')
  for (const [network, bits] of NEAR_6) near.addSubnet(network, bits, 'ipv6')
  return (address, hop) => hop < proxies && (hop > 0 || near.check(address, isIPv6(address) ? 'ipv6' : 'ipv4'))
}

/**
 * Loopback, private and link-local networks: RFC 1122 §3.2.1.3, RFC 1918, RFC 3927, RFC 6598; RFC 4291, RFC 4193.
 * IPv4-mapped IPv6 addresses count as IPv4.
 */
const NEAR_4 = [['127.0.0.0', 8], ['10.0.0.0', 8], ['172.16.0.0', 12], ['192.168.0.0', 16], ['169.254.0.0', 16], ['100.64.0.0', 10]] as const // prettier-ignore
const NEAR_6 = [['::1', 128], ['fc00::', 7], ['fe80::', 10]] as const // prettier-ignore

/**
 * Rejects foreign host names in development mode. A web page can resolve its own name to this machine (DNS rebinding).
 * It would then share an origin with a service where anyone signs in as anyone. It cannot change the Host header.
 */
function refuseNames(server: FastifyInstance): void {
  server.addHook('onRequest', (request, _reply, done) => {
    const { host } = request.headers
    const name = host === undefined ? 'localhost' : host.toLowerCase().replace(/:\d{1,5}$/, '')
    done(
      isLoopback(name)
        ? undefined
        : new AppError(
            'misdirected_request',
            'A development server accepts only local host names. Nothing was done. `DEVELOPMENT_OPEN_TO=everyone` accepts other names, and everyone who can reach the server.',
          ),
    )
  })
}

/**
 * Rejects requests on open connections while the program ends. Another replica, or the next start, will answer them.
 */
function refuseWhileClosing(server: FastifyInstance, ending: Ending): void {
  let isClosing = false
  server.addHook('preClose', (done) => {
    isClosing = true
    ending.begin()
    done()
  })
  server.addHook('onRequest', (_request, _reply, done) => {
    if (!isClosing) {
      done()
      return
    }
    done(
      new AppError('shutting_down', 'The server is restarting. Nothing was done. Retry in a moment.', {
        retryAfter: 1,
      }),
    )
  })
}

/**
 * Maximum number of responses that wait for the end of a turn, because a turn that reads thousands of connections is
 * long.
 */
const MAX_TOGETHER = 64

/**
 * Sends the responses of one turn of the event loop together at its end. Sent one by one, each would wake a sleeping
 * client, and waking a process on a sleeping core costs more than the response.
 */
function answerTogether(server: FastifyInstance): void {
  let ready: { reply: FastifyReply; send: (error?: Error) => void }[] = []
  const sendAll = () => {
    const sending = ready
    ready = []
    for (const { reply, send } of sending) {
      try {
        send()
      } catch (error) {
        // A response that cannot be written becomes an internal error, and the others are still sent.
        for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name)
        send(error as Error)
      }
    }
  }
  server.addHook('onSend', (_request, reply, _payload, send) => {
    const waiting = ready.push({ reply, send })
    if (waiting === 1) setImmediate(sendAll)
    else if (waiting === MAX_TOGETHER) sendAll()
  })
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * rejects a body in which an object has a name twice: the signer signs the last one, and a person may see the first
     */
    hasUniqueNames?: true
  }
}

/** Accepts only JSON in UTF-8, at most 16 levels deep, without keys that poison prototypes. */
function strictJson(server: FastifyInstance): void {
  const parse = server.getDefaultJsonParser('error', 'error')
  const utf8 = new TextDecoder('utf-8', { fatal: true })
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    let text: string
    try {
      text = utf8.decode(body as Buffer)
    } catch (cause) {
      done(
        new AppError('invalid_json', 'The body is not UTF-8. Nothing was done. Send one JSON document in UTF-8.', {
          cause,
        }),
      )
      return
    }
    if (text.trim() === '') {
      done(new AppError('invalid_json', 'The body is empty. Nothing was done. Send one JSON document.'))
      return
    }
    if (isDeep(text)) {
      done(
        new AppError(
          'invalid_json',
          `The body is nested more than ${MAX_DEPTH} levels deep. Nothing was done. Flatten the body.`,
        ),
      )
      return
    }
    void parse(request, text, (error, value) => {
      const cause = error ?? (request.routeOptions.config.hasUniqueNames === true ? problemOfNames(text) : null)
      const why = cause instanceof JsonInvalid ? `The body is not accepted: ${cause.message}.` : 'The body is not JSON.'
      done(
        cause === null
          ? null
          : new AppError('invalid_json', `${why} Nothing was done. Send one JSON document.`, { cause }),
        value,
      )
    })
  })
}

/** Returns the error for a JSON text in which an object has a name twice; null if none has. */
function problemOfNames(text: string): JsonInvalid | null {
  try {
    readUniqueJson(text)
    return null
  } catch (error) {
    if (error instanceof JsonInvalid) return error
    throw error
  }
}

const MAX_DEPTH = 16

/** Returns whether JSON is nested too deeply. Counting brackets first is quick and clears nearly all texts. */
function isDeep(text: string): boolean {
  return countOf(text, '[', MAX_DEPTH) + countOf(text, '{', MAX_DEPTH) > MAX_DEPTH && depthOf(text) > MAX_DEPTH
}

/** Counts a character, up to one more than `most`. */
function countOf(text: string, character: string, most: number): number {
  let count = 0
  for (let at = text.indexOf(character); at !== -1 && count <= most; at = text.indexOf(character, at + 1)) count++
  return count
}

/** Returns the deepest nesting of brackets outside strings. Exact for valid JSON, otherwise an upper bound. */
function depthOf(text: string): number {
  let depth = 0
  let deepest = 0
  let inString = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (inString) {
      if (code === 0x5c) at++
      else if (code === 0x22) inString = false
    } else if (code === 0x22) inString = true
    else if (code === 0x7b || code === 0x5b) deepest = Math.max(deepest, ++depth)
    else if (code === 0x7d || code === 0x5d) depth--
  }
  return deepest
}

const RAW_CODES: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

/** Responds to bytes that never became a request: not HTTP, headers too large or too slow. */
function refuseRaw(app: App, error: NodeJS.ErrnoException & { rawPacket?: unknown }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const code = RAW_CODES[error.code ?? ''] ?? 'invalid_request'
  const refusal = new AppError(code, describeError(code).help)
  const { status } = describeError(code)
  app.telemetry.refusals.inc({ code })
  // RFC 9110 §9.3.2: a response to HEAD has no body. The raw bytes are the only sign of the method.
  const isHead = Buffer.isBuffer(error.rawPacket) && error.rawPacket.toString('latin1', 0, 5) === 'HEAD '
  const body = JSON.stringify(
    problemOf(refusal, { origin: app.origin, instance: '', requestId: newRequestId(), words: en }),
  )
  // `end` closes only our side; a client that never closes its own would hold the connection.
  app.clock.after(LINGER_MS, () => socket.destroy()).unref()
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/problem+json\r\nContent-Language: ${en.language}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${isHead ? '' : body}`,
  )
}
