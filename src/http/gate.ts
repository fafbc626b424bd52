import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { openAdmission, type Admission, type AdmissionClass, type Ticket, type Requester } from './admission.ts'
import { allowedTo, knownReader, type Reader } from './bearer.ts'
import { addressOf } from './limits.ts'
import { openKnownKeys } from './known-keys.ts'
import { openLoopDelay } from './loop-delay.ts'
import { textsOf } from './page.ts'
import { nameLanguage, problemOf } from './problems.ts'
import { openRefusedConnections } from './refused-connections.ts'
import { requestIdOf } from './request-id.ts'
import { openTurns } from './turns.ts'
import { type Clock } from '../clock.ts'
import { languages, textsFor } from '../texts/choose.ts'
import type { Texts } from '../texts/en.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** default: by the scope of the route; one without a scope counts as `status` */
    admission?: AdmissionClass
  }
  interface FastifyRequest {
    /** null before the gate, and for what it refused */
    place: AdmittedRequest | null
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
    /** Its write was answered under its idempotency key, for the first time: a repeat looks up that answer. */
    noteTold(): void
  }
}

/** What an admitted request holds. */
type AdmittedRequest = {
  ticket: Ticket
  /** what it counts for beyond one */
  more: Ticket | null
  kind: AdmissionClass
  /** let in as what asks after a write: its key was answered, by this process */
  isRepeat: boolean
  whose: Requester
  /** monotonic, milliseconds */
  since: number
  receivingSince: number
  /** its ticket went to others while its body was on its way */
  isParked: boolean
  /** its body is there: from here on it is answered, by a handler or by a refusal */
  hasBegun: boolean
  isAside: boolean
}

/** milliseconds between two looks at how it goes */
const LOOK_MS = 100
/** milliseconds in which a body arrives from anyone who does not mean to be slow */
const SLOW_BODY_MS = 300
/** requests of a process that wait for a block: each looks into the database once a block */
const MAX_ASIDE = 1_000
const REFUSED = 'The service has too many requests. This request had no effect. Retry.'
/** as `listener.ts` sets it */
const KEEP_ALIVE_MS = 72_000
/** milliseconds between two lines that say we refuse */
const TELL_MS = 10_000

/**
 * The gate before all work: anyone who cannot be served soon gets an immediate 503 `overloaded`, instead of everyone
 * waiting ever longer. To be registered before every hook that works.
 * @returns  to be called behind CORS: pages of other origins see no refusal without its headers
 */
export function openGate(server: FastifyInstance, app: App): { refuseBehindCors: () => void } {
  const admission = openAdmission({ most: app.config.MAX_IN_FLIGHT, now: () => app.clock.ticks() })
  const receiving = new Set<FastifyRequest>()
  const refusals = openRefusals(app, admission)
  const knownKeys = openKnownKeys(() => app.clock.ticks())
  let aside = 0

  server.decorateRequest('place', null)
  server.decorateRequest('standAside', function (this: FastifyRequest) {
    if (this.place?.isAside === true) return true
    if (aside >= MAX_ASIDE) return false
    if (this.place !== null) {
      aside++
      this.place.isAside = true
      this.place.ticket.leave(app.clock.ticks() - this.place.since)
    }
    return true
  })

  server.decorateRequest('weigh', function (this: FastifyRequest, count: number) {
    const { place } = this
    const weight = Math.ceil((count - 1) / 2)
    if (place === null || weight <= 0) return
    place.more = admission.enter(place.kind, place.whose, weight)
    if (place.more === null) throw new AppError('overloaded', REFUSED, { retryAfter: 1 })
  })

  server.decorateRequest('answerPast', async function (this: FastifyRequest, reply: FastifyReply, work) {
    reply.hijack()
    try {
      await work()
    } finally {
      leave(this, reply)
    }
  })

  server.decorateRequest('noteTold', function (this: FastifyRequest) {
    if (this.place !== null) knownKeys.add(askingOf(this, this.place.whose))
  })

  refuseEarly(server, app, { admission, refusals, knownKeys })
  server.addHook('onRequest', (request, reply, done) => {
    const whose = whoseOf(app, request)
    const own = classOf(request.routeOptions.config)
    const isRepeat = own === 'write' && knownKeys.has(askingOf(request, whose))
    const kind = isRepeat ? 'status' : own
    const ticket = admission.enter(kind, whose)
    if (ticket !== null) {
      const place = {
        ticket,
        more: null,
        kind,
        isRepeat,
        whose,
        since: app.clock.ticks(),
        receivingSince: 0,
        isParked: false,
        hasBegun: false,
        isAside: false,
      }
      request.place = place
      // Of a client that left before its body was read the framework never hears again. All others it answers to the end.
      if (isRead(request))
        reply.raw.once('close', () => {
          if (!place.hasBegun) leave(request, reply)
        })
      done()
    } else done()
  })
  // Not before: what the door waits for until then is our own database.
  server.addHook('preParsing', (request, _reply, _payload, done) => {
    if (request.place !== null && hasBody(request)) {
      request.place.receivingSince = app.clock.ticks()
      receiving.add(request)
    }
    done()
  })
  server.addHook('preValidation', (request, reply, done) => {
    const { place } = request
    receiving.delete(request)
    if (place !== null) place.hasBegun = true
    // A dry run answers anew under any key.
    if (place?.isRepeat === true && isDryRun(request)) becomeWrite(place)
    if (place?.isParked !== true) return done()
    const ticket = admission.enter(place.kind, place.whose)
    if (ticket === null) return void refusals.send(request, reply)
    Object.assign(place, { ticket, isParked: false, since: app.clock.ticks() })
    done()
  })
  // Also of a request whose client has left: what it began continues, and keeps its place until then.
  server.addHook('onSend', (request, reply, _payload, done) => {
    leave(request, reply)
    done()
  })

  function leave(request: FastifyRequest, { statusCode }: FastifyReply): void {
    const { place } = request
    if (place === null) return
    request.place = null
    receiving.delete(request)
    if (place.isAside) aside--
    place.more?.leave()
    // What is refused is quick, and says nothing of how busy we are.
    place.ticket.leave(statusCode < 300 ? app.clock.ticks() - place.since : undefined)
  }

  const loop = openLoopDelay({
    everyMs: LOOK_MS,
    onLook: (loopDelayMs) => {
      admission.adapt({ loopDelayMs, poolWaitMs: app.poolWaitMs?.() ?? 0 })
      parkSlow(receiving, app.clock.ticks() - SLOW_BODY_MS)
      refusals.tell()
      report(app, admission, loopDelayMs)
    },
  })
  server.addHook('onClose', (_server, done) => {
    loop.stop()
    done()
  })
  return {
    refuseBehindCors: () => {
      server.addHook('onRequest', (request, reply, done) => {
        if (request.place === null) void refusals.send(request, reply)
        else done()
      })
    },
  }
}

/**
 * Says no before the framework has looked at a request, which takes it longer than the answer: to what is asked with a
 * token that was seen before. That is where thousands a second come from; all others are refused by the hooks.
 */
function refuseEarly(server: FastifyInstance, app: App, { admission, refusals, knownKeys }: Refusing): void {
  const kinds = new Map<string, AdmissionClass>()
  const beginnings = new Map<string, AdmissionClass | null>()
  server.addHook('onRoute', ({ method, url, config }) => {
    const kind = classOf(config ?? {})
    const [beginning] = url.split(/[:*]/, 1) as [string]
    for (const one of [method].flat())
      if (beginning === url) kinds.set(`${one} ${url}`, kind)
      else {
        // Where addresses that begin alike are of two classes, only the router can tell.
        const known = beginnings.get(`${one} ${beginning}`)
        beginnings.set(`${one} ${beginning}`, known === undefined || known === kind ? kind : null)
      }
  })
  const kindOf = ({ method, url }: EarlyRequest): AdmissionClass | null => {
    const [path] = url!.split('?', 1)
    const asked = `${method} ${path}`
    const kind = kinds.get(asked)
    if (kind !== undefined) return kind
    let longest = ''
    for (const beginning of beginnings.keys())
      if (beginning.length > longest.length && asked.startsWith(beginning)) longest = beginning
    return beginnings.get(longest) ?? null
  }
  const isRefused = (request: EarlyRequest): boolean => {
    const reader = knownReader(app, request)
    const kind = reader === undefined ? null : kindOf(request)
    // Pages of other origins see no answer without the headers of CORS.
    if (kind === null || request.headers.origin !== undefined) return false
    const whose = toWhose(app, reader!)
    return !admission.hasRoom(kind, whose) && !(kind === 'write' && knownKeys.has(askingOf(request, whose)))
  }
  const http = server.server
  const connections = openRefusedConnections(app.clock, (head) =>
    // While we close, connections are to end.
    http.listening && isRefused(head) ? refusals.textFor(head) : null,
  )
  const [handle] = http.listeners('request') as ((request: IncomingMessage, response: ServerResponse) => void)[]
  http.removeAllListeners('request')
  const inTurn = openTurns()
  http.on('request', (request: IncomingMessage, response: ServerResponse) => {
    connections.note(request, response)
    inTurn(request, response, () => {
      // Of what comes while we close the listener says so, and ends the connection.
      if (!http.listening || !isRefused(request)) return handle!(request, response)
      connections.follow(request.socket, response)
      refusals.sendRaw(request, response)
    })
  })
}

/** What of a request is known before it has begun. */
type EarlyRequest = Pick<IncomingMessage, 'method' | 'url' | 'headers'>

type Refusing = {
  admission: Admission
  refusals: ReturnType<typeof openRefusals>
  knownKeys: ReturnType<typeof openKnownKeys>
}

const askingOf = (
  { headers, url }: Pick<FastifyRequest, 'headers'> & { url?: string | undefined },
  whose: Requester,
) => ({
  ...whose,
  headers,
  path: url?.split('?', 1)[0] ?? '',
})

/** By the class of its route, also of a request that has no place any more. */
export function classOf(config: FastifyContextConfig): AdmissionClass {
  if (config.admission !== undefined) return config.admission
  if (config.scope === undefined) return 'status'
  return config.scope === 'contracts:write' ? 'write' : 'read'
}

/** Before its body is checked. */
export const isDryRun = ({ body }: FastifyRequest): boolean =>
  (body as { dryRun?: unknown } | null | undefined)?.dryRun === true

/** Leaves the place that it has as a repeat, and is to ask for one as a write. */
function becomeWrite(place: AdmittedRequest): void {
  if (!place.isParked) place.ticket.leave()
  Object.assign(place, { kind: 'write', isRepeat: false, isParked: true })
}

/** Before the token is verified: one that was seen before says whose it is, of all others the address does. */
function whoseOf(app: App, request: FastifyRequest): Requester {
  const reader = knownReader(app, request)
  // All addresses together are one application: else each of a thousand would have a fair part of its own.
  return reader === undefined ? { application: 'unknown', person: addressOf(request.ip) } : toWhose(app, reader)
}

const toWhose = (app: App, reader: Reader): Requester => ({
  application: reader.clientId,
  weight: allowedTo(app, reader.clientId).weight,
  person: reader.kind === 'machine' ? '' : reader.accountId,
})

/** Whether a request says that it has a body. */
const hasBody = ({ headers }: Pick<FastifyRequest, 'headers'>): boolean =>
  headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0'

/** Whether the framework reads for a body, there or not: of GET and HEAD never. */
const isRead = (request: FastifyRequest): boolean =>
  !/^(GET|HEAD)$/.test(request.method) && (hasBody(request) || request.headers['content-type'] !== undefined)

/** A body that comes byte by byte holds nobody's place: when it is there, its request asks again. */
function parkSlow(receiving: Set<FastifyRequest>, before: number): void {
  for (const request of receiving) {
    // In the order in which they came.
    if (request.place!.receivingSince > before) return
    receiving.delete(request)
    request.place!.isParked = true
    request.place!.ticket.leave()
  }
}

/**
 * Refusals that cost next to nothing: one text for each language with a gap for the id, and a line in the log now and then for all
 * of them.
 */
function openRefusals(app: App, admission: Admission) {
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
  let toldAt = Number.NEGATIVE_INFINITY

  /** Those who are refused together are not all to come back together. */
  const retryAfter = () => String(1 + (count++ % 3))

  function bodyFor({ words, id }: { words: Texts; id: string }): string {
    const { before, after } = texts.get(words)!
    return `${before}${id}${after}`
  }

  function refuse(headers: IncomingHttpHeaders): { fields: string[]; body: string } {
    const id = requestIdOf({ headers })
    const words = textsFor({ accept: headers['accept-language'] })
    const body = bodyFor({ words, id })
    app.telemetry.refusals.inc({ code: 'overloaded' })
    // Flat, in the order in which they are written: the framework's object would be read key by key.
    const fields = [
      ...['content-type', 'application/problem+json; charset=utf-8', 'content-length', String(Buffer.byteLength(body))],
      ...['cache-control', 'no-store', 'retry-after', retryAfter(), 'x-request-id', id],
      ...['x-content-type-options', 'nosniff', 'vary', 'Accept-Language', 'content-language', words.language],
    ]
    return { fields, body }
  }

  return {
    sendRaw({ method, headers }: IncomingMessage, response: ServerResponse): void {
      const { fields, body } = refuse(headers)
      response.writeHead(503, fields)
      response.end(method === 'HEAD' ? undefined : body)
    },
    /** The same, to the byte, of a request that Node's parser never had; on a connection that stays open. */
    textFor({ headers }: EarlyRequest): string {
      const { fields, body } = refuse(headers)
      let head = 'HTTP/1.1 503 Service Unavailable\r\n'
      for (let at = 0; at < fields.length; at += 2) head += `${fields[at]}: ${fields[at + 1]}\r\n`
      return `${head}Date: ${date(app.clock)}\r\nConnection: keep-alive\r\nKeep-Alive: timeout=${KEEP_ALIVE_MS / 1_000}\r\n\r\n${body}`
    },
    send(request: FastifyRequest, reply: FastifyReply): FastifyReply {
      request.refusal = 'overloaded'
      app.telemetry.refusals.inc({ code: 'overloaded' })
      const words = textsOf(request)
      return nameLanguage(reply, words)
        .code(503)
        .headers({ 'cache-control': 'no-store', 'retry-after': retryAfter(), 'x-request-id': request.id })
        .type('application/problem+json')
        .send(bodyFor({ words, id: request.id }))
    },
    tell(): void {
      const now = app.clock.ticks()
      if (count === 0 || now - toldAt < TELL_MS) return
      const { all, reads, writes } = admission.state()
      app.telemetry.log.warn('overloaded', {
        refused: count,
        limit: all.limit,
        inFlight: all.inFlight,
        readLimit: reads.limit,
        readsInFlight: reads.inFlight,
        writeLimit: writes.limit,
        writesInFlight: writes.inFlight,
      })
      ;[count, toldAt] = [0, now]
    },
  }
}

let told = { second: 0, text: '' }
/** Now, as in a header; written once a second. */
function date({ wall }: Clock): string {
  const second = Math.floor(wall() / 1_000)
  if (second !== told.second) told = { second, text: new Date(second * 1_000).toUTCString() }
  return told.text
}

function report({ telemetry }: App, admission: Admission, loopDelayMs: number): void {
  telemetry.loopDelay.set(loopDelayMs / 1_000)
  for (const [of, { limit, inFlight }] of Object.entries(admission.state())) {
    telemetry.admissionLimit.set({ of }, limit)
    telemetry.inFlight.set({ of }, inFlight)
  }
}
