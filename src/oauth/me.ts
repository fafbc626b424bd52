import type { FastifyInstance } from 'fastify'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { isOriginAllowed, findApplication } from '../applications/registry.ts'
import { assertUser, readBearer, type Reader } from '../http/bearer.ts'
import { findUser, userWire } from '../users/find.ts'

/**
 * GET and POST /oauth/me: who the access token speaks for; the `userinfo_endpoint` of discovery.
 * `email` and `email_verified` with scope `email`. Errors: invalid_token, insufficient_scope for a machine.
 * Source: OpenID Connect Core §5.3, answers.md 2
 */
export function me(server: FastifyInstance, app: App): void {
  // The body of a POST says nothing that we use.
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('*', (_request, payload, done) => {
    payload.resume()
    done(null)
  })
  server.route({
    method: ['GET', 'POST'],
    url: '/oauth/me',
    schema: { hide: true },
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      const caller: Reader = await readBearer(app, request)
      assertUser(caller)
      const user = await findUser(app.db, caller.userId)
      if (user === null) throw new AppError('invalid_token', 'The user of this access token no longer exists.')
      const { origin } = request.headers
      if (origin !== undefined) {
        const application = await findApplication(app.db, caller.clientId)
        if (application !== null && isOriginAllowed(application, origin))
          reply.header('access-control-allow-origin', origin).header('vary', 'Origin')
      }
      const { email, emailVerified } = user
      return reply.header('cache-control', 'no-store').send({
        sub: user.userId,
        ...userWire(user),
        ...(caller.scopes.has('email') && email !== null ? { email, email_verified: emailVerified === true } : {}),
      })
    },
  })
}
