import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { isFromOurs } from '../http/unix-socket.ts'
import type { SecretKeys } from '../store/secret-keys.ts'
import { isSponsorName, SPONSOR_PROVIDER } from '../ids.ts'
import { makeSponsorAccount, pregenerate } from '../users/pregenerate.ts'

const AccountOf = Type.Object(
  { provider: Type.String({ maxLength: 32 }), providerUserId: Type.String({ maxLength: 255 }) },
  { additionalProperties: false },
)

/** Registers the requests that the API makes to the authorization server, over its socket only. */
export function serveApi(
  server: FastifyInstance,
  app: App,
  {
    forms,
    publish,
    webhookKeys,
  }: {
    forms: ReadonlyMap<string, RegExp | null>
    publish: () => Promise<void>
    webhookKeys: () => SecretKeys
  },
): void {
  /**
   * POST /internal/auth/accounts: creates an account. The signer, not the API, says which address it has. Errors:
   * invalid_request.
   */
  server.post<{ Body: Static<typeof AccountOf> }>(
    '/internal/auth/accounts',
    { schema: { hide: true, body: AccountOf } },
    // A sponsor's account is made if the database has lost it: the ledger has its transactions. Which account pays is
    // in a table that only this program writes.
    ({ body }) =>
      body.provider === SPONSOR_PROVIDER && isSponsorName(body.providerUserId)
        ? makeSponsorAccount(app, body.providerUserId)
        : pregenerate(app, body),
  )

  /** GET /internal/auth/forms: the forms of user ids by provider, and no other settings of providers. */
  server.get('/internal/auth/forms', hidden, () =>
    Object.fromEntries([...forms].map(([name, form]) => [name, form?.source ?? null])),
  )

  /**
   * GET /internal/auth/webhook-keys: the keys of the secrets of webhooks, for the program that sends events. They are
   * derived: nothing leads from them to the keys that sign tokens and seal rows.
   */
  server.get('/internal/auth/webhook-keys', hidden, () =>
    [...webhookKeys()].map(([kid, key]) => [kid, key.export().toString('base64url')]),
  )

  /** POST /internal/auth/revocations: publishes a new list to the signer. */
  server.post('/internal/auth/revocations', hidden, async (_request, reply) => {
    await publish()
    return reply.code(204).send()
  })
}

/**
 * Restricts the authorization server to its own origin: requests of the API on AUTH_SOCKET, all others at AUTH_ORIGIN.
 * If a proxy led a path of the API's host here, that host would serve the pages and the issuer. Register it first.
 */
export function keepApart(server: FastifyInstance, app: App): void {
  const { host } = new URL(app.authOrigin)
  server.addHook('onRequest', (request, _reply, done) => {
    // Check the route, not the URL as written: `/%69nternal` is `/internal`. Without a route the response is 404.
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
