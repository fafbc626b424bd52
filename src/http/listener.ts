/**
 * http: everything that holds for all routes, and the pages' shell.
 * Owns: the gate before all work, access tokens and DPoP proofs to a caller, limits, quotas, problem documents,
 *   cursors, OpenAPI, health, assets.
 * Does not own: routes of the API (each slice), issuing tokens (`oauth/`), texts (`texts/`).
 * Way of a request: `gate.ts`, `caller.ts`, the route, `problems.ts`.
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
import { requestIdOf } from './request-id.ts'
import { logRequests } from './request-log.ts'
import { problemOf, problems, rememberRoutes, sendProblem } from './problems.ts'
import { sharedSerializers } from './serializers.ts'
import { en } from '../texts/en.ts'

const BODY_BYTES = 65_536
const HEADER_BYTES = 8_192
/** milliseconds in which nothing is read or taken, longer than any answer takes: who does not read one keeps no connection */
const SILENT_MS = 120_000
/** milliseconds for a client to end its side after what never became a request was answered */
const LINGER_MS = 1_000

/**
 * The HTTP server with everything that holds for every route: limits of size and time, strict
 * JSON, request ids, headers, problem documents also for what the HTTP parser refuses.
 */
export function openListener(app: App): FastifyInstance {
  const server = Fastify({
    logger: false,
    bodyLimit: BODY_BYTES,
    // Node looks for late requests only every 30 s by default, which would make the 5 s and 10 s below meaningless.
    http: {
      maxHeaderSize: HEADER_BYTES,
      connectionsCheckingInterval: 1_000,
      headersTimeout: 5_000,
    },
    // These beside `http`, not in it: the framework sets its own over those, and its own for a request is none.
    requestTimeout: 15_000,
    keepAliveTimeout: 72_000,
    connectionTimeout: SILENT_MS,
    routerOptions: { maxParamLength: 4_096, ignoreTrailingSlash: true },
    trustProxy: trusted(app.config.TRUST_PROXY),
    forceCloseConnections: 'idle',
    // Left to itself the framework answers without a code and without Retry-After: refuseWhileClosing does.
    return503OnClosing: false,
    genReqId: requestIdOf,
    // Fastify's defaults turn [1e21, true, null] into strings and drop unknown fields silently.
    ajv: {
      customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false, keywords: ['x-shown-as'] },
    },
    // Most answers of most routes are the same problem document.
    schemaController: { compilersFactory: { buildSerializer: sharedSerializers } },
    onProtoPoisoning: 'error',
    onConstructorPoisoning: 'error',
    frameworkErrors: (error, request, reply) => sendProblem(app, request as FastifyRequest, reply, error),
    clientErrorHandler: (error, socket) => {
      const answer = ending.responseOn(socket as Socket)
      // In place of an answer to a whole request it would say that nothing was done.
      if (answer?.req.complete === true && !answer.writableFinished) socket.destroy()
      else refuseRaw(app, error, socket as Socket)
    },
  }) as unknown as FastifyInstance
  const ending = openEnding(server.server, app.clock)

  // Left to itself Node answers an unknown `Expect` with a 417 that has no body. We may ignore it: RFC 9110 §10.1.1.
  server.server.on('checkExpectation', (request, response) => void server.server.emit('request', request, response))
  boundConnections(server, app, app.config.MAX_CONNECTIONS)
  rememberRoutes(server)
  problems(server, app)
  strictJson(server)
  if (app.config.NODE_ENV !== 'production' && app.config.DEVELOPMENT_OPEN_TO === 'this-machine') refuseNames(server)
  const isHttps = app.origin.startsWith('https:')
  // Hooks with a callback: as promises these two would cost more than what they do.
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
 * Listens at one address. Of the name `localhost` Fastify would listen at each of its addresses, with a server of its own
 * that no bound holds for.
 */
export async function listenAt(server: FastifyInstance, { host, port }: { host: string; port: number }): Promise<void> {
  const { address } = await lookup(host)
  await server.listen({ host: address, port })
}

/** milliseconds between two lines that say so */
const TELL_MS = 10_000

/** Closes what connects beyond a number: each connection costs memory before it has asked anything. */
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

/** Whether an address is one of our proxies; `hop` counts from the one that is connected to us. */
type Trusts = (address: string, hop: number) => boolean

/**
 * Addresses name the proxies; a number counts them. Counting cannot tell a proxy from a client that came past it, so
 * the one that is connected to us must be near: on this machine or in a private network.
 */
function trusted(proxies: Config['TRUST_PROXY']): false | string[] | Trusts {
  if (proxies === undefined || proxies === 0) return false
  if (typeof proxies !== 'number') return [...proxies]
  const near = new BlockList()
  for (const [network, bits] of NEAR_4) near.addSubnet(network, bits, 'ipv4')
  for (const [network, bits] of NEAR_6) near.addSubnet(network, bits, 'ipv6')
  return (address, hop) => hop < proxies && (hop > 0 || near.check(address, isIPv6(address) ? 'ipv6' : 'ipv4'))
}

/** RFC 1122 §3.2.1.3, RFC 1918, RFC 3927, RFC 6598; RFC 4291, RFC 4193. An IPv4 address in IPv6 counts as itself. */
const NEAR_4 = [['127.0.0.0', 8], ['10.0.0.0', 8], ['172.16.0.0', 12], ['192.168.0.0', 16], ['169.254.0.0', 16], ['100.64.0.0', 10]] as const // prettier-ignore
const NEAR_6 = [['::1', 128], ['fc00::', 7], ['fe80::', 10]] as const // prettier-ignore

/**
 * A page that a browser opened elsewhere may give its own name this machine's address (DNS rebinding) and would then
 * be of one origin with a service where anyone signs in as anyone. It cannot change the name that the browser sends.
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

/** What arrives on open connections while the program ends: another replica, or the next start, will answer it. */
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

/** A turn that reads from thousands of connections is long: so many answers wait for its end at most. */
const MAX_TOGETHER = 64

/**
 * The answers to what was read in one turn of the event loop leave together at its end. Each written at once would
 * wake a client that sleeps since the one before, and waking a process on a sleeping core costs more than the answer.
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
        // One that cannot be written is answered as any other mistake of ours, and the others continue.
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

/** JSON in UTF-8 only; keys that poison prototypes are refused, and so is anything nested deeper than 16. */
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
    void parse(request, text, (error, value) =>
      done(
        error === null
          ? null
          : new AppError('invalid_json', 'The body is not JSON. Nothing was done. Send one JSON document.', {
              cause: error,
            }),
        value,
      ),
    )
  })
}

const MAX_DEPTH = 16

/** Whether JSON is nested deeper than allowed. Few texts hold so many brackets at all, and counting those is quick. */
function isDeep(text: string): boolean {
  return countOf(text, '[', MAX_DEPTH) + countOf(text, '{', MAX_DEPTH) > MAX_DEPTH && depthOf(text) > MAX_DEPTH
}

/** How often a character is there, counted up to one more than `most`. */
function countOf(text: string, character: string, most: number): number {
  let count = 0
  for (let at = text.indexOf(character); at !== -1 && count <= most; at = text.indexOf(character, at + 1)) count++
  return count
}

/** Deepest nesting of brackets outside strings; an upper bound that is exact for JSON. */
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

/** What never became a request: bytes that are not HTTP, headers too large or too slow. */
function refuseRaw(app: App, error: NodeJS.ErrnoException & { rawPacket?: unknown }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const code = RAW_CODES[error.code ?? ''] ?? 'invalid_request'
  const refusal = new AppError(code, describeError(code).help)
  const { status } = describeError(code)
  app.telemetry.refusals.inc({ code })
  // RFC 9110 §9.3.2: no body answers a HEAD. The bytes are all that is known of what never became a request.
  const isHead = Buffer.isBuffer(error.rawPacket) && error.rawPacket.toString('latin1', 0, 5) === 'HEAD '
  const body = JSON.stringify(
    problemOf(refusal, { origin: app.origin, instance: '', requestId: newRequestId(), words: en }),
  )
  // Our side alone does not end it: one that never ends its own would stay.
  app.clock.after(LINGER_MS, () => socket.destroy()).unref()
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/problem+json\r\nContent-Language: ${en.language}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${isHead ? '' : body}`,
  )
}
