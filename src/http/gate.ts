import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { openAdmission, type Admission, type AdmissionClass, type Leave, type Requester } from './admission.ts'
import { allowedTo, knownReader, type Reader } from './bearer.ts'
import { addressOf } from './limits.ts'
import { textsOf } from './page.ts'
import { nameLanguage, problemOf } from './problems.ts'
import { requestIdOf } from './request-id.ts'
import { openTurns } from './turns.ts'
import { languages, textsFor } from '../texts/choose.ts'
import type { Texts } from '../texts/en.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** default: by the route's scope; a route without a scope counts as `status` */
    admission?: AdmissionClass
  }
  interface FastifyRequest {
    /** admission slots that the request holds; null before admission, and if it was rejected */
    held: Leave[] | null
    isAside: boolean
    /**
     * Releases the slot once, because the request only waits for a block from here on. The number of waiting requests
     * has its own limit.
     * @returns false if that limit is reached: respond as if the wait had timed out
     */
    standAside(): boolean
    /**
     * Takes more slots, once the body shows that the request contains several.
     * @param count  contained requests; each after the first takes half a slot, because they share parsing and the
     * response
     * @throws overloaded  if no slot is free
     */
    weigh(count: number): void
    /**
     * Responds without the framework, whose hooks then do not run. Releases the slots when the work ends, even if the
     * client has disconnected.
     */
    answerPast(reply: FastifyReply, work: () => Promise<void>): Promise<void>
  }
}

/** maximum of requests per process that wait for a block: each queries the database once per block */
const MAX_ASIDE = 1_000
const REFUSED = 'The service has too many requests. This request had no effect. Retry.'
/** minimum milliseconds between two log lines about rejections */
const TELL_MS = 10_000

/**
 * Installs the admission control: a request that cannot be served soon gets an immediate 503 `overloaded`, instead of
 * all requests waiting longer. Register it before every hook that does work.
 * @returns  refuseBehindCors: call it after CORS is registered, because pages of other origins need its headers to read
 * a rejection
 */
export function openGate(server: FastifyInstance, app: App): { refuseBehindCors: () => void } {
  const admission = openAdmission(app.config.MAX_IN_FLIGHT)
  const refusal = openRefusals(app)
  let aside = 0

  const enter = (request: FastifyRequest, count?: number): Leave | null => {
    const kind = classOf(request.routeOptions.config)
    return admission.enter(kind, whoseOf(app, request, kind), count)
  }
  const refuse = (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const words = textsOf(request)
    const { headers, body } = refusal(request.id, words)
    request.refusal = 'overloaded'
    return nameLanguage(reply, words).code(503).headers(headers).send(body)
  }
  const letGo = ({ held }: FastifyRequest): void => {
    for (const leave of held?.splice(0) ?? []) leave()
  }
  Object.assign(app.telemetry.inFlight, {
    collect: () => {
      for (const [of, count] of Object.entries(admission.inFlight())) app.telemetry.inFlight.set({ of }, count)
    },
  })

  server.decorateRequest('held', null)
  server.decorateRequest('isAside', false)
  server.decorateRequest('standAside', function (this: FastifyRequest) {
    if (this.isAside) return true
    if (aside >= MAX_ASIDE) return false
    letGo(this)
    aside++
    this.isAside = true
    this.held?.push(() => aside--)
    return true
  })

  server.decorateRequest('weigh', function (this: FastifyRequest, count: number) {
    const more = Math.ceil((count - 1) / 2)
    if (this.held === null || more <= 0) return
    const leave = enter(this, more)
    if (leave === null) throw new AppError('overloaded', REFUSED, { retryAfter: 1 })
    this.held.push(leave)
  })

  server.decorateRequest('answerPast', async function (this: FastifyRequest, reply: FastifyReply, work) {
    reply.hijack()
    try {
      await work()
    } finally {
      letGo(this)
    }
  })

  refuseEarly(server, app, admission, refusal)
  server.addHook('onRequest', (request, _reply, done) => {
    const leave = enter(request)
    request.held = leave === null ? null : [leave]
    done()
  })
  // While its body arrives, a request holds no slot, however slow it is. It is admitted again afterwards.
  server.addHook('preParsing', (request, _reply, _payload, done) => {
    letGo(request)
    done()
  })
  server.addHook('preValidation', (request, reply, done) => {
    const leave = enter(request)
    if (leave === null) return void refuse(request, reply)
    request.held?.push(leave)
    done()
  })
  // This hook also runs if the client has disconnected: the work continues and holds its slot until then.
  server.addHook('onSend', (request, _reply, _payload, done) => {
    letGo(request)
    done()
  })
  return {
    refuseBehindCors: () => {
      server.addHook('onRequest', (request, reply, done) => {
        if (request.held === null) void refuse(request, reply)
        else done()
      })
    },
  }
}

/**
 * Handles the requests of a connection one at a time. Under overload, rejects a request before the framework parses it,
 * which would take longer than the rejection. That applies to requests whose token was seen before and whose URL is
 * exactly a route, which can arrive by the thousands per second. The hooks reject all others.
 */
function refuseEarly(
  server: FastifyInstance,
  app: App,
  admission: Admission,
  refusal: (requestId: string, words: Texts) => RefusalText,
): void {
  const kinds = new Map<string, AdmissionClass>()
  server.addHook('onRoute', ({ method, url, config }) => {
    for (const one of [method].flat()) kinds.set(`${one} ${url}`, classOf(config ?? {}))
  })
  const { server: http } = server
  const isRefused = (request: IncomingMessage): boolean => {
    const kind = kinds.get(`${request.method} ${request.url}`)
    const reader = knownReader(app, request)
    // While the server closes, the listener's hook responds. Pages of other origins need CORS headers, so the hooks
    // respond there.
    if (kind === undefined || reader === undefined || !http.listening || request.headers.origin !== undefined)
      return false
    return !admission.hasRoom(kind, toRequester(app, reader))
  }
  const [handle] = http.listeners('request') as ((request: IncomingMessage, response: ServerResponse) => void)[]
  http.removeAllListeners('request')
  const inTurn = openTurns()
  http.on('request', (request: IncomingMessage, response: ServerResponse) =>
    inTurn(request, response, () => {
      if (!isRefused(request)) return handle!(request, response)
      const words = textsFor({ accept: request.headers['accept-language'] })
      const { headers, body } = refusal(requestIdOf(request), words)
      const language = { vary: 'Accept-Language', 'content-language': words.language }
      response.writeHead(503, { ...headers, ...language, 'x-content-type-options': 'nosniff' })
      response.end(request.method === 'HEAD' ? undefined : body)
    }),
  )
}

/** Returns whether requests with a permission sign in the user's name: they count as writes, and a freeze stops them. */
export const isSigning = (scope: FastifyContextConfig['scope']): boolean =>
  scope === 'contracts:write' || scope === 'messages:sign'

/** Returns the admission class of a route. */
export function classOf(config: FastifyContextConfig): AdmissionClass {
  if (config.admission !== undefined) return config.admission
  if (config.scope === undefined) return 'status'
  return isSigning(config.scope) ? 'write' : 'read'
}

/**
 * Identifies the holder of a slot before the token is verified: by a cached token, else by IP address. All addresses
 * together count as one application; otherwise a thousand addresses would get a fair share each. Vital requests count
 * as another, so that sign-ins cannot use up their share.
 */
function whoseOf(app: App, request: FastifyRequest, kind: AdmissionClass): Requester {
  const reader = knownReader(app, request)
  if (reader !== undefined) return toRequester(app, reader)
  return { application: kind === 'vital' ? 'vital' : 'unknown', person: addressOf(request.ip) }
}

const toRequester = (app: App, reader: Reader): Requester => ({
  application: `app ${reader.clientId}`,
  person: reader.kind === 'machine' ? '' : reader.accountId,
  weight: allowedTo(app, reader.clientId).weight,
})

type RefusalText = { headers: Record<string, string>; body: string }

/** Prepares rejections that cost little: one text per language with a gap for the request id, and one log line for many. */
function openRefusals(app: App): (requestId: string, words: Texts) => RefusalText {
  const gap = '\u0000'
  const refused = new AppError('overloaded', REFUSED)
  const texts = new Map(
    languages.map((words) => {
      const problem = problemOf(refused, { origin: app.origin, instance: '', requestId: gap, words })
      const [before, after] = JSON.stringify(problem).split(JSON.stringify(gap).slice(1, -1)) as [string, string]
      return [words, { before, after }]
    }),
  )
  let count = 0
  let untold = 0
  let toldAt = Number.NEGATIVE_INFINITY
  return (requestId, words) => {
    app.telemetry.refusals.inc({ code: 'overloaded' })
    untold++
    const now = app.clock.ticks()
    if (now - toldAt >= TELL_MS) {
      app.telemetry.log.warn('requests_shed', { refused: untold })
      ;[untold, toldAt] = [0, now]
    }
    const { before, after } = texts.get(words)!
    const body = `${before}${requestId}${after}`
    const headers = {
      'content-type': 'application/problem+json; charset=utf-8',
      'content-length': String(Buffer.byteLength(body)),
      'cache-control': 'no-store',
      // Spread the retries of clients that are rejected together.
      'retry-after': String(1 + (count++ % 3)),
      'x-request-id': requestId,
    }
    return { headers, body }
  }
}
