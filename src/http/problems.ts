import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { html } from 'ghtml'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { AppError, describeError, type ErrorCode, type FieldError } from '../errors.ts'
import { mapChainError } from '../chain/rpc/rpc.ts'
import { mapDatabaseError } from '../store/db.ts'
import type { Texts } from '../texts/en.ts'
import { type PageParts, sendPage, textsOf } from './page.ts'
import { challengeOf } from './dpop.ts'
import type * as wire from './wire.ts'

/** A problem document: RFC 9457 with additional fields. */
export type Problem = Static<typeof wire.Problem>

/**
 * Converts anything thrown into an AppError: errors of ours, the framework, the database or the node. Any other is a
 * bug of ours.
 */
export function toAppError(thrown: unknown): AppError {
  const error = mapChainError(mapDatabaseError(thrown))
  if (error instanceof AppError) return error
  const { validation, validationContext, code, statusCode, message } = error as Partial<FastifyError>
  if (validation !== undefined) return readValidation(validation, validationContext ?? 'body', thrown)
  const known: ErrorCode | undefined = FASTIFY_CODES[code ?? '']
  if (known !== undefined) return new AppError(known, describeError(known).help, { cause: thrown })
  // Body parsers and the router throw plain errors with a 4xx status and a message about the request.
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500)
    return new AppError('invalid_request', message ?? 'The request is malformed. Nothing was done.', { cause: thrown })
  return new AppError(
    'internal_error',
    'The service has a bug. A write may have been sent. Report the request id to the operator.',
    { cause: thrown },
  )
}

const FASTIFY_CODES: Record<string, ErrorCode> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'body_too_large',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'invalid_json',
  FST_ERR_CTP_INVALID_JSON_BODY: 'invalid_json',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'invalid_request',
  FST_ERR_BAD_URL: 'invalid_request',
  FST_ERR_MAX_PARAM_LENGTH: 'uri_too_long',
  FST_ERR_ASYNC_CONSTRAINT: 'invalid_request',
}

/** Converts Ajv's findings into field errors. Unknown fields have their own code. */
function readValidation(findings: NonNullable<FastifyError['validation']>, context: string, cause: unknown): AppError {
  const errors = findings.map(({ keyword, instancePath, message, params }): FieldError => {
    const inBody = context === 'body'
    const extra =
      keyword === 'additionalProperties' || keyword === 'unevaluatedProperties'
        ? String((params as { additionalProperty?: unknown }).additionalProperty)
        : null
    const missing = keyword === 'required' ? String((params as { missingProperty?: unknown }).missingProperty) : null
    const name = extra ?? missing
    const place = name === null ? instancePath : `${instancePath}/${escapePointer(name)}`
    const where = inBody ? { pointer: place } : { parameter: place.slice(1) }
    if (extra !== null)
      return { ...where, code: 'unknown', detail: `This ${inBody ? 'field' : 'parameter'} does not exist.` }
    if (missing !== null)
      return { ...where, code: 'missing', detail: `This ${inBody ? 'field' : 'parameter'} is required.` }
    return { ...where, code: keyword, detail: sentence(message ?? 'has the wrong shape') }
  })
  const code: ErrorCode = errors.every((one) => one.code === 'unknown') ? 'unknown_parameter' : 'invalid_request'
  const first = errors[0]
  return new AppError(
    code,
    first === undefined
      ? 'The request is malformed. Nothing was done.'
      : `${first.pointer ?? first.parameter ?? ''}: ${first.detail}`,
    { errors, cause },
  )
}

const escapePointer = (name: string): string => name.slice(0, 100).replaceAll('~', '~0').replaceAll('/', '~1')
const sentence = (text: string): string => `${text[0]!.toUpperCase()}${text.slice(1)}.`

export type ProblemContext = { origin: string; instance: string; requestId: string; words: Texts }

/**
 * Builds the problem document of an error. `type` is the URL of the code in our documentation.
 * @param words  the language of `userMessage`; everything else is English, for developers
 */
export function problemOf(error: AppError, { origin, instance, requestId, words }: ProblemContext): Problem {
  const { status, title, help, retryable } = describeError(error.code)
  return {
    type: `${origin}/docs/errors#${error.code}`,
    title,
    status,
    detail: error.message,
    instance,
    code: error.code,
    requestId,
    retryable,
    help,
    userMessage: words.userMessages[error.code],
    error: error.message,
    ...(error.errors === undefined ? {} : { errors: error.errors }),
    ...(error.funds === undefined ? {} : { funds: error.funds }),
    ...(error.resetsAt === undefined ? {} : { resetsAt: error.resetsAt }),
    ...(error.resumeAt === undefined ? {} : { resumeAt: error.resumeAt }),
    ...(error.approval === undefined ? {} : { approval: error.approval }),
    ...(error.revert === undefined ? {} : { revert: error.revert }),
  }
}

/** Names the language of `userMessage`, and that `Accept-Language` has chosen it. */
export function nameLanguage(reply: FastifyReply, { language }: Texts): FastifyReply {
  const others = String(reply.getHeader('vary') ?? '')
  const isNamed = /\baccept-language\b/i.test(others)
  if (!isNamed) reply.header('vary', others === '' ? 'Accept-Language' : `${others}, Accept-Language`)
  return reply.header('content-language', language)
}

/** Errors of an access token or its proof, which need `WWW-Authenticate` (RFC 6750 §3.1, RFC 9449 §7.1). */
const CHALLENGED = new Set<ErrorCode>(['invalid_token', 'insufficient_scope', 'invalid_dpop_proof'])

/** Sends an error: headers, problem document, counter, and a log line, with the cause if the fault is ours. */
export function sendProblem(app: App, request: FastifyRequest, reply: FastifyReply, thrown: unknown): FastifyReply {
  const error = toAppError(thrown)
  const { status } = describeError(error.code)
  app.telemetry.refusals.inc({ code: error.code })
  request.refusal = error.code
  // Log every error: a client may quote the request id of any.
  if (status < 500 || error.code === 'shutting_down')
    app.telemetry.log.info('request_rejected', {
      code: error.code,
      requestId: request.id,
      route: request.routeOptions.url ?? '',
    })
  else if (error.code !== 'database_unavailable')
    app.telemetry.log[error.code === 'internal_error' ? 'error' : 'warn'](
      'request_rejected',
      { code: error.code, requestId: request.id, route: request.routeOptions.url ?? '' },
      error.cause ?? error,
    )
  if (CHALLENGED.has(error.code))
    reply.header(
      'www-authenticate',
      error.challenge === 'DPoP' ? challengeOf(error.code) : `Bearer error="${error.code}"`,
    )
  if (error.retryAfter !== undefined) reply.header('retry-after', String(error.retryAfter))
  const instance = request.url.split('?', 1)[0]!.slice(0, 500)
  const words = textsOf(request)
  return (
    nameLanguage(reply, words)
      .code(status)
      .header('cache-control', 'no-store')
      // Errors of the router come before the hook that sets it.
      .header('x-request-id', request.id)
      .type('application/problem+json')
      .send(JSON.stringify(problemOf(error, { origin: app.origin, instance, requestId: request.id, words })))
  )
}

/** Turns all errors of all routes, and unknown routes, into problem documents. */
export function problems(server: FastifyInstance, app: App): void {
  server.decorateRequest('refusal', null)
  server.setErrorHandler((error, request, reply) => sendProblem(app, request, reply, error))
  server.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0]!
    const allowed = (server.knownRoutes ?? []).filter((route) => route.pattern.test(path)).map((route) => route.method)
    if (allowed.length > 0) {
      reply.header('allow', allowed.join(', '))
      return sendProblem(
        app,
        request,
        reply,
        new AppError(
          'method_not_allowed',
          `This path does not accept ${request.method}. Nothing was done. Use ${allowed.join(' or ')}.`,
        ),
      )
    }
    const missing = new AppError('not_found', 'This route does not exist. Nothing was done. Check the path.')
    if (!isPerson(request)) return sendProblem(app, request, reply, missing)
    app.telemetry.refusals.inc({ code: 'not_found' })
    request.refusal = 'not_found'
    return sendPage(reply, 404, nothingHere(textsOf(request), app))
  })
}

/** Returns whether a browser shows the response to a user: it asks for HTML, outside the paths of programs. */
const isPerson = ({ method, url, headers }: FastifyRequest): boolean =>
  (method === 'GET' || method === 'HEAD') &&
  !/^\/(v1|operator|oauth|devnet)(\/|\?|$)/.test(url) &&
  /\btext\/html\b/.test(headers.accept ?? '')

/** Builds the 404 page for browsers. */
export const nothingHere = (words: Texts, { authOrigin }: Pick<App, 'authOrigin'>): PageParts => ({
  words,
  title: words.missing.title,
  body: html`<div class="card stack">
    <h1>${words.missing.heading}</h1>
    <p>${words.missing.hint}</p>
    <p><a href="${authOrigin}/account">${words.around.account}</a> · <a href="/">${words.missing.front}</a></p>
  </div>`,
})

type KnownRoute = { method: string; pattern: RegExp }

declare module 'fastify' {
  interface FastifyInstance {
    /** set by `rememberRoutes` */
    knownRoutes?: KnownRoute[]
  }
}

/**
 * Remembers the routes, so that a wrong method is distinguished from an unknown path. Call it before routes are added.
 */
export function rememberRoutes(server: FastifyInstance): void {
  const known: KnownRoute[] = []
  server.decorate('knownRoutes', known)
  server.addHook('onRoute', ({ method, url }) => {
    if (!/^\/(operator\/)?v1\//.test(url)) return
    const pattern = new RegExp(
      `^${url.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`).replaceAll(/:\w+/g, '[^/]+')}/?$`,
    )
    for (const one of [method].flat()) if (one !== 'HEAD' && one !== 'OPTIONS') known.push({ method: one, pattern })
  })
}
