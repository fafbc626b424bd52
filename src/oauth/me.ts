import type { FastifyInstance } from 'fastify'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { allowsOrigin } from '../applications/origins.ts'
import { assertUser, readBearer, type Reader } from '../http/bearer.ts'
import { findUser, provenUser, userWire } from '../users/find.ts'

/**
 * Registers GET and POST /oauth/me, the `userinfo_endpoint` of discovery: the user that the access token is for.
 * `email` and `email_verified` need the scope `email`. Errors: invalid_token; insufficient_scope for a machine.
 * Source: OpenID Connect Core §5.3
 */
export function me(server: FastifyInstance, app: App): void {
  // The body of a POST is ignored.
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('*', (_request, payload, done) => {
    payload.resume()
    done(null)
  })
  // Allow the same origins as the API. The token decides what they see.
  server.addHook('onRequest', async (request, reply) => {
    const { origin } = request.headers
    reply.header('vary', 'Origin')
    if (origin === undefined || !(await allowsOrigin(app, origin))) return
    reply.header('access-control-allow-origin', origin).header('access-control-expose-headers', 'WWW-Authenticate')
  })
  server.options('/oauth/me', { schema: { hide: true } }, (_request, reply) =>
    reply
      .header('access-control-allow-methods', 'GET, POST')
      .header('access-control-allow-headers', 'Authorization, Content-Type, DPoP')
      .header('access-control-max-age', '600')
      .code(204)
      .send(),
  )
  server.route({
    method: ['GET', 'POST'],
    url: '/oauth/me',
    schema: { hide: true },
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      const caller: Reader = await readBearer(app, request)
      assertUser(caller)
      const user = await findUser(app, caller.userId)
      if (user === null)
        throw new AppError(
          'invalid_token',
          'The user of this access token no longer exists. Nothing was done. Ask the user to sign in again.',
        )
      const { email, emailVerified } = user
      const shown = userWire(await provenUser(app, user))
      return reply.header('cache-control', 'no-store').send({
        sub: user.userId,
        ...shown,
        // The names of OpenID Connect for the same values, which libraries look for.
        name: shown.username,
        preferred_username: shown.username,
        ...(shown.imageSrc === null ? {} : { picture: shown.imageSrc }),
        ...(caller.scopes.has('email') && email !== null ? { email, email_verified: emailVerified === true } : {}),
      })
    },
  })
  // Without a token, the challenge has no error code (RFC 6750 §3.1).
  server.addHook('onSend', async (request, reply, body) => {
    if (reply.statusCode === 401 && request.headers.authorization === undefined)
      reply.header('www-authenticate', 'Bearer')
    return body
  })
}
