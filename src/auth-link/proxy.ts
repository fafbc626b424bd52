/**
 * auth-link: what the program of the API and that of the authorization server ask each other, where they are two.
 * Owns: `/oauth` of the API, passed on; where the pages are; the questions over AUTH_SOCKET, and those of the account page
 *   to the API.
 * Does not own: what is done for a question (`oauth/`, `users/`, `account/`): it is handed over.
 * Start here for the API's side, with `serve.ts` for the other.
 */

import { request as ask, type IncomingHttpHeaders } from 'node:http'
import type { Agent } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { hasBody } from '../http/gate.ts'
import { authAway, responseOf } from './connect.ts'

/** milliseconds for an answer, those of a request of ours: a provider may be asked meanwhile */
const PATIENCE_MS = 15_000

/** Of one connection, not of what is passed on (RFC 9110 §7.6.1), or said anew by us. */
const NOT_PASSED = new Set(['connection', 'content-length', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'expect', 'forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-forwarded-port', 'x-request-id']) // prettier-ignore

const FOR_BROWSERS = [
  '/oauth/auth',
  '/oauth/auth/*',
  '/oauth/session/*',
  '/login/*',
  '/consent/*',
  '/account',
  '/account/*',
]

/**
 * `/oauth` for programs, answered by the authorization server over its socket, and the way to its pages. No page is shown here
 * that a script of this origin could press anything on, and no cookie of the pages comes here.
 */
export async function passToAuth(
  server: FastifyInstance,
  app: App,
  { agent, socketPath, patienceMs = PATIENCE_MS }: { agent: Agent; socketPath: string; patienceMs?: number },
): Promise<void> {
  await server.register(async (scope) => {
    // Nobody here reads the bodies. They are whole before they are passed on, whatever their type: their length is known
    // then, and a slow client holds neither a place here nor a connection to the program behind.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))

    for (const url of FOR_BROWSERS)
      // 307: what an application or a provider posts is posted there.
      scope.route({ method: ['GET', 'POST'], url, ...hidden, exposeHeadRoute: false, handler: toPages })
    for (const url of ['/oauth/*', '/.well-known/oauth-authorization-server/oauth'])
      scope.route({
        method: ['GET', 'HEAD', 'POST', 'OPTIONS'],
        url,
        ...hidden,
        // It costs little here, and the program behind has a gate of its own.
        config: { admission: 'vital' },
        exposeHeadRoute: false,
        handler: pass,
      })
  })

  function toPages(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    return reply
      .header('cache-control', 'no-store')
      .header('referrer-policy', 'no-referrer')
      .redirect(`${app.pagesOrigin}${request.url}`, 307)
  }

  async function pass(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const body = bodyOf(request)
    const onward = ask({
      ...{ agent, socketPath, method: request.method, path: request.raw.url!, timeout: patienceMs },
      headers: {
        ...passed(request.headers),
        // Never what the client said of it, nor nothing: the program behind would take a body without its length for a request.
        ...(request.method === 'POST' ? { 'content-length': String(body.length) } : {}),
        'x-forwarded-for': request.ip,
        'x-request-id': request.id,
      },
    })
    const answered = responseOf(onward)
    answered.catch(() => {})
    try {
      onward.end(body)
      const response = await answered
      return reply.code(response.statusCode!).headers(passed(response.headers)).send(response)
    } catch (error) {
      onward.destroy()
      throw error instanceof AppError ? error : authAway(error)
    }
  }
}

const hidden = { schema: { hide: true } }

function passed(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const given = Object.entries(headers).filter(([name, value]) => value !== undefined && !NOT_PASSED.has(name))
  return Object.fromEntries(given) as Record<string, string | string[]>
}

/** @throws invalid_request */
function bodyOf(request: FastifyRequest): Buffer {
  const { body, method } = request
  if (method !== 'POST' && hasBody(request))
    throw new AppError('invalid_request', `A ${method} request has no body here.`)
  return body instanceof Buffer ? body : Buffer.alloc(0)
}
