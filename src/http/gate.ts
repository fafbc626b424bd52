import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { openAdmission, type Admission, type AdmissionClass, type Ticket, type Whose } from './admission.ts'
import { knownReader } from './bearer.ts'
import { addressOf } from './limits.ts'
import { openLoopDelay } from './loop-delay.ts'
import { problemOf } from './problems.ts'
import { noteRefusal } from './request-log.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** default: by the scope of the route; one without a scope counts as `status` */
    admission?: AdmissionClass
  }
  interface FastifyRequest {
    /** null before the gate, and for what it refused */
    place: Place | null
    /**
     * Gives its place to others: from here on it only waits for a block. How many may do so is bounded apart.
     * @returns false when too many do already: it is to be answered as if it had waited in vain
     */
    standAside(): boolean
  }
}

/** What an admitted request holds. */
type Place = {
  ticket: Ticket
  kind: AdmissionClass
  whose: Whose
  /** monotonic, milliseconds */
  since: number
  /** its ticket went to others while its body was on its way */
  isParked: boolean
  isAside: boolean
}

/** milliseconds between two looks at how it goes */
const LOOK_MS = 100
/** milliseconds in which a body arrives from whoever does not mean to be slow */
const SLOW_BODY_MS = 300
/** requests of a process that wait for a block: each looks into the database once a block */
const MAX_ASIDE = 1_000
/** milliseconds between two lines that say we refuse */
const TELL_MS = 10_000

/**
 * The gate before all work: whoever cannot be served soon is told so at once, 503 `overloaded`, instead of everybody
 * waiting ever longer. To be registered before every hook that works.
 * @returns  to be called behind CORS: pages of other origins see no refusal without its headers
 */
export function openGate(server: FastifyInstance, app: App): { refuseBehindCors: () => void } {
  const admission = openAdmission({ most: app.config.MAX_IN_FLIGHT, now: () => performance.now() })
  const receiving = new Set<FastifyRequest>()
  const refusals = openRefusals(app, admission)
  let aside = 0

  server.decorateRequest('place', null)
  server.decorateRequest('standAside', function (this: FastifyRequest) {
    if (aside >= MAX_ASIDE) return false
    if (this.place !== null) {
      aside++
      this.place.isAside = true
      this.place.ticket.leave(performance.now() - this.place.since)
    }
    return true
  })

  server.addHook('onRequest', (request, reply, done) => {
    const kind = classOf(request)
    const whose = whoseOf(app, request)
    const ticket = admission.enter(kind, whose)
    if (ticket !== null) {
      const place = { ticket, kind, whose, since: performance.now(), isParked: false, isAside: false }
      request.place = place
      if (hasBody(request)) receiving.add(request)
      // The authorization server's library answers for itself, past the hook that sees all other answers leave.
      if (request.routeOptions.config.scope === undefined)
        reply.raw.once('close', () => {
          if (reply.sent) leave(request, reply)
        })
      done()
    } else if (request.headers.origin === undefined) refusals.sendRaw(request, reply)
    else done()
  })
  server.addHook('preValidation', (request, reply, done) => {
    const { place } = request
    receiving.delete(request)
    if (place?.isParked !== true) return done()
    const ticket = admission.enter(place.kind, place.whose)
    if (ticket === null) return void refusals.send(request, reply)
    Object.assign(place, { ticket, isParked: false, since: performance.now() })
    done()
  })
  // Also of a request whose client has left: what it began goes on, and keeps its place until then.
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
    // What is refused is quick, and says nothing of how busy we are.
    place.ticket.leave(statusCode < 300 ? performance.now() - place.since : undefined)
  }

  const loop = openLoopDelay({
    everyMs: LOOK_MS,
    onLook: (loopDelayMs) => {
      admission.adapt({ loopDelayMs, poolWaitMs: app.poolWaitMs?.() ?? 0 })
      parkSlow(receiving)
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

function classOf({ routeOptions: { config } }: FastifyRequest): AdmissionClass {
  if (config.admission !== undefined) return config.admission
  if (config.scope === undefined) return 'status'
  return config.scope === 'contracts:write' ? 'write' : 'read'
}

/** Before the token is verified: one that was seen before says whose it is, of all others the address does. */
function whoseOf(app: App, request: FastifyRequest): Whose {
  const reader = knownReader(app, request)
  if (reader === undefined) return { application: `address ${addressOf(request.ip)}`, person: '' }
  return { application: reader.clientId, person: reader.kind === 'machine' ? '' : reader.accountId }
}

const hasBody = ({ headers }: FastifyRequest): boolean =>
  headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0'

/** A body that comes byte by byte holds nobody's place: when it is there, its request asks again. */
function parkSlow(receiving: Set<FastifyRequest>): void {
  const before = performance.now() - SLOW_BODY_MS
  for (const request of receiving) {
    // In the order in which they came.
    if (request.place!.since > before) return
    receiving.delete(request)
    request.place!.isParked = true
    request.place!.ticket.leave()
  }
}

/** Refusals that cost next to nothing: one text with a gap for the id, and a line in the log now and then for all of them. */
function openRefusals(app: App, admission: Admission) {
  const gap = '\u0000'
  const refused = new AppError('overloaded', 'More is asked than can be answered soon. Nothing was done. Repeat.')
  const { type, ...rest } = problemOf(refused, { origin: app.origin, instance: '', requestId: gap })
  const [before, after] = JSON.stringify({ type, ...rest }).split(JSON.stringify(gap).slice(1, -1)) as [string, string]
  let count = 0
  let toldAt = Number.NEGATIVE_INFINITY

  /** Headers and body. Those who are refused together are not all to come back together. */
  function next(request: FastifyRequest): { headers: Record<string, string | number>; body: string } {
    const body = `${before}${request.id}${after}`
    noteRefusal(request, 'overloaded')
    app.telemetry.refusals.inc({ code: 'overloaded' })
    return {
      headers: {
        'content-type': 'application/problem+json',
        'cache-control': 'no-store',
        'retry-after': 1 + (count++ % 3),
        'x-request-id': request.id,
        'x-content-type-options': 'nosniff',
      },
      body,
    }
  }

  return {
    /** Past the framework, which takes longer to say no than to say yes. */
    sendRaw(request: FastifyRequest, reply: FastifyReply): void {
      const { headers, body } = next(request)
      reply.hijack()
      reply.raw.writeHead(503, { ...headers, 'content-length': Buffer.byteLength(body) })
      reply.raw.end(request.method === 'HEAD' ? undefined : body)
    },
    send(request: FastifyRequest, reply: FastifyReply): FastifyReply {
      const { headers, body } = next(request)
      return reply.code(503).headers(headers).send(body)
    },
    tell(): void {
      const now = performance.now()
      if (count === 0 || now - toldAt < TELL_MS) return
      const [all, writes] = [admission.all(), admission.writes()]
      app.telemetry.log.warn('overloaded', {
        ...{ refused: count, limit: all.limit, inFlight: all.inFlight },
        ...{ writeLimit: writes.limit, writesInFlight: writes.inFlight },
      })
      ;[count, toldAt] = [0, now]
    },
  }
}

function report({ telemetry }: App, admission: Admission, loopDelayMs: number): void {
  telemetry.loopDelay.set(loopDelayMs / 1_000)
  for (const [of, { limit, inFlight }] of [
    ['all', admission.all()],
    ['writes', admission.writes()],
  ] as const) {
    telemetry.admissionLimit.set({ of }, limit)
    telemetry.inFlight.set({ of }, inFlight)
  }
}
