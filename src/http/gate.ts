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
    /** default: by the scope of the route; one without a scope counts as `status` */
    admission?: AdmissionClass
  }
  interface FastifyRequest {
    /** what it holds of the process; null before the gate, and for what it refused */
    held: Leave[] | null
    isAside: boolean
    /**
     * Gives its place to others, once: from here on it only waits for a block. How many may do so is bounded apart.
     * @returns false when too many do already: it is to be answered as if it had waited in vain
     */
    standAside(): boolean
    /**
     * Counts for more than one request, once its body says so.
     * @param count  requests that it stands for; each beyond the first counts half, as it is read and answered with the others
     * @throws overloaded  when there is no room for them
     */
    weigh(count: number): void
    /**
     * Answers past the framework, which sees nothing of that: the place is given back when the work is over, also of a
     * client that has left.
     */
    answerPast(reply: FastifyReply, work: () => Promise<void>): Promise<void>
  }
}

/** requests of a process that wait for a block: each looks into the database once a block */
const MAX_ASIDE = 1_000
const REFUSED = 'The service has too many requests. This request had no effect. Retry.'
/** milliseconds between two lines that say we refuse */
const TELL_MS = 10_000

/**
 * The gate before all work: anyone who cannot be served soon gets an immediate 503 `overloaded`, instead of everyone
 * waiting ever longer. To be registered before every hook that works.
 * @returns  to be called behind CORS: pages of other origins see no refusal without its headers
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
  // While a body is on its way its request holds nothing, however slowly it comes: once it is there, it asks again.
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
  // Also of a request whose client has left: what it began continues, and keeps its place until then.
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
 * Answers one request of a connection at a time, and says no before the framework has looked at a request, which takes it
 * longer than the answer: to what is asked with a token that was seen before, where the address names the route. That is
 * where thousands a second come from; all others are refused by the hooks.
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
    // Of what comes while we close the listener says so; pages of other origins see no answer without the headers of CORS.
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

/** By the class of its route. */
export function classOf(config: FastifyContextConfig): AdmissionClass {
  if (config.admission !== undefined) return config.admission
  if (config.scope === undefined) return 'status'
  return config.scope === 'contracts:write' ? 'write' : 'read'
}

/**
 * Before the token is verified: one that was seen before says whose it is, of all others the address does. These are one
 * application together, or each of a thousand addresses would have a fair part of its own; what is vital is another, so that
 * those who sign in leave it room.
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

/**
 * Refusals that cost little: one text for each language with a gap for the id, and a line in the log now and then for all of them.
 */
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
      app.telemetry.log.warn('overloaded', { refused: untold })
      ;[untold, toldAt] = [0, now]
    }
    const { before, after } = texts.get(words)!
    const body = `${before}${requestId}${after}`
    const headers = {
      'content-type': 'application/problem+json; charset=utf-8',
      'content-length': String(Buffer.byteLength(body)),
      'cache-control': 'no-store',
      // Those who are refused together are not all to come back together.
      'retry-after': String(1 + (count++ % 3)),
      'x-request-id': requestId,
    }
    return { headers, body }
  }
}
