import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { isFromOurs } from '../http/unix-socket.ts'
import { isSponsorName, SPONSOR_PROVIDER } from '../ids.ts'
import { makeSponsorAccount, pregenerate } from '../users/pregenerate.ts'

const AccountOf = Type.Object(
  { provider: Type.String({ maxLength: 32 }), providerUserId: Type.String({ maxLength: 255 }) },
  { additionalProperties: false },
)

/** What the program of the API asks this one, over its socket and nowhere else. */
export function serveApi(
  server: FastifyInstance,
  app: App,
  { forms, publish }: { forms: ReadonlyMap<string, RegExp | null>; publish: () => Promise<void> },
): void {
  /** POST /internal/auth/accounts: whose address it is says the signer, not who asks. Errors: invalid_request. */
  server.post<{ Body: Static<typeof AccountOf> }>(
    '/internal/auth/accounts',
    { schema: { hide: true, body: AccountOf } },
    // A sponsor's, when the database has lost it: the ledger has what it sent. Which account pays says a table that only this program fills.
    ({ body }) =>
      body.provider === SPONSOR_PROVIDER && isSponsorName(body.providerUserId)
        ? makeSponsorAccount(app, body.providerUserId)
        : pregenerate(app, body),
  )

  /** GET /internal/auth/forms: what ids of people look like, by provider; nothing else of the settings of providers. */
  server.get('/internal/auth/forms', hidden, () =>
    Object.fromEntries([...forms].map(([name, form]) => [name, form?.source ?? null])),
  )

  /** POST /internal/auth/revocations: a new list for the signer. */
  server.post('/internal/auth/revocations', hidden, async (_request, reply) => {
    await publish()
    return reply.code(204).send()
  })
}

/**
 * Keeps the authorization server to its own origin: questions of the API on AUTH_SOCKET, everything else at AUTH_ORIGIN. A path
 * that a proxy leads here from the host of the API would give that host the pages and the issuer. Register it first.
 */
export function keepApart(server: FastifyInstance, app: App): void {
  const { host } = new URL(app.authOrigin)
  server.addHook('onRequest', (request, _reply, done) => {
    // The route, not the URL as written: `/%69nternal` is `/internal`. Without a route the answer is 404.
    const { url: route } = request.routeOptions
    done(route === undefined || route === '/healthz' ? undefined : refusalOf(request, route))
  })

  function refusalOf(request: FastifyRequest, route: string): AppError | undefined {
    if (route.startsWith('/internal/') !== isFromOurs(request))
      return new AppError('not_found', 'This route does not exist. Nothing was done.')
    if (isFromOurs(request) || route === '/readyz' || request.headers.host === host) return undefined
    return new AppError(
      'misdirected_request',
      'The authorization server serves only `AUTH_ORIGIN`. Nothing was done. A proxy in front must forward the `Host` header unchanged.',
    )
  }
}

const hidden = { schema: { hide: true } }
