import type { FastifyInstance } from 'fastify'
import { Type, type Static } from 'typebox'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { isFromOurs } from '../http/unix-socket.ts'
import { isForBrowsers } from '../oauth/mount.ts'
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
 * What is answered where: on the socket `/oauth` as programs use it and the questions of the API, elsewhere pages, at their own
 * host only. A proxy that led the pages from the API's host here would undo what they are apart for. To be registered first.
 */
export function keepApart(server: FastifyInstance, app: App): void {
  const { host } = new URL(app.pagesOrigin)
  server.addHook('onRequest', (request, _reply, done) => {
    // The route, not what was written: `/%61ccount` is `/account`. What is none is not found anyway.
    const { url: route } = request.routeOptions
    if (route === undefined) done()
    else done(isFromOurs(request) ? ofSocket(route) : ofPublic(route, request.headers.host))
  })

  const nothing = () => new AppError('not_found', 'There is nothing at this address.')
  const isOauth = (route: string): boolean =>
    /^\/(oauth|\.well-known)\//.test(route) && !isForBrowsers(route.replace(/^\/oauth/, ''))
  const ofSocket = (route: string): AppError | undefined =>
    isOauth(route) || route.startsWith('/internal/') || route === '/healthz' ? undefined : nothing()
  function ofPublic(route: string, asked: string | undefined): AppError | undefined {
    if (route.startsWith('/internal/')) return nothing()
    if (asked === host || isOauth(route) || route === '/healthz' || route === '/readyz') return undefined
    return new AppError(
      'misdirected_request',
      'The pages for people are at AUTH_ORIGIN only: a proxy in front has to pass the Host header on.',
    )
  }
}

const hidden = { schema: { hide: true } }
