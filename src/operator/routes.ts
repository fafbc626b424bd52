import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import { checksumAddress } from '../abi/address.ts'
import type { App } from '../app.ts'
import { distrustIssuer, trustIssuer } from '../applications/issuers.ts'
import {
  createApplication,
  listApplications,
  readApplication,
  resetSecret,
  resumeApplication,
  rotateSecret,
  suspendApplication,
  updateApplication,
} from '../applications/manage.ts'
import { listNetworks } from '../applications/networks.ts'
import { AppError } from '../errors.ts'
import { bearerToken } from '../http/bearer.ts'
import { addressOf, openLimit, spend } from '../http/limits.ts'
import { freezeAccount, listFrozen, thawAccount } from '../users/freeze.ts'
import { pregenerate } from '../users/pregenerate.ts'
import type { OperatorDoor } from './door.ts'
import * as wire from './wire.ts'

/** Requests of one IP address, per second and at once; wrong tokens count as well. */
const PER_SECOND = 10
const BURST = 50

type OfOne = { Params: { clientId: string } }
type OfIssuer = { Params: { clientId: string; provider: string } }

/**
 * The operator API: what the commands do, for programs. Opened by tokens of its own and by no user's; pages of other
 * origins cannot call it.
 */
export async function operatorApi(server: FastifyInstance, app: App, door: OperatorDoor): Promise<void> {
  const limit = openLimit({ name: 'operator', perSecond: PER_SECOND, burst: BURST, now: app.now })
  const { db } = app

  await server.register(async (scope) => {
    // Before the body is read: a stranger costs us a hash.
    scope.addHook('onRequest', async (request, reply) => {
      reply.header('cache-control', 'no-store')
      if (app.config.RATE_LIMITS === 'on') spend(limit, addressOf(request.ip), reply)
      if (!door.isOperator(bearerToken(request)))
        throw new AppError('invalid_token', 'This is not a token of the operator.')
    })

    /** GET /operator/v1/applications */
    scope.get<{ Querystring: Static<typeof wire.ApplicationsQuery> }>(
      '/operator/v1/applications',
      { schema: wire.listApplications },
      ({ query }) =>
        listApplications(db, {
          ...(query.after === undefined ? {} : { after: textOf(query.after) }),
          ...(query.limit === undefined ? {} : { limit: Number(query.limit) }),
        }),
    )

    /** POST /operator/v1/applications. Errors: already_exists. */
    scope.post<{ Body: Static<typeof wire.NewApplication> }>(
      '/operator/v1/applications',
      { schema: wire.createApplication },
      async (request, reply) => {
        const made = await createApplication(db, {
          kind: 'public',
          permissions: ['wallet:read'],
          allowedOrigins: [],
          logoUri: null,
          ...request.body,
        })
        note(request, 'create', made.application.clientId)
        return reply
          .code(201)
          .header('location', `${app.origin}/operator/v1/applications/${made.application.clientId}`)
          .send(made)
      },
    )

    /** GET /operator/v1/applications/:clientId. Errors: not_found, as those below. */
    scope.get<OfOne>('/operator/v1/applications/:clientId', { schema: wire.readApplication }, ({ params }) =>
      readApplication(db, params.clientId),
    )

    /** PATCH /operator/v1/applications/:clientId */
    scope.patch<OfOne & { Body: Static<typeof wire.ApplicationChanges> }>(
      '/operator/v1/applications/:clientId',
      { schema: wire.updateApplication },
      async (request) => {
        const application = await updateApplication(db, request.params.clientId, request.body)
        note(request, 'update', application.clientId)
        return application
      },
    )

    for (const [action, schema, act] of [
      ['rotate-secret', wire.rotateSecret, rotateSecret],
      ['reset-secret', wire.resetSecret, resetSecret],
      ['suspend', wire.suspend, suspendApplication],
      ['resume', wire.resume, resumeApplication],
    ] as const) {
      /** POST /operator/v1/applications/:clientId/{rotate-secret,reset-secret,suspend,resume} */
      scope.post<OfOne>(`/operator/v1/applications/:clientId/${action}`, { schema }, async (request) => {
        const done = await act(db, request.params.clientId)
        note(request, action, request.params.clientId)
        return done
      })
    }

    /** PUT /operator/v1/applications/:clientId/issuers/:provider. Errors: already_exists. */
    scope.put<OfIssuer & { Body: Static<typeof wire.NewIssuer> }>(
      '/operator/v1/applications/:clientId/issuers/:provider',
      { schema: wire.trustIssuer },
      async (request) => {
        const { clientId, provider } = request.params
        const application = await trustIssuer(db, clientId, provider, request.body)
        note(request, 'trust-issuer', clientId)
        return application
      },
    )

    /** DELETE /operator/v1/applications/:clientId/issuers/:provider */
    scope.delete<OfIssuer>(
      '/operator/v1/applications/:clientId/issuers/:provider',
      { schema: wire.distrustIssuer },
      async (request) => {
        const { clientId, provider } = request.params
        const application = await distrustIssuer(db, clientId, provider)
        note(request, 'distrust-issuer', clientId)
        return application
      },
    )

    /** POST /operator/v1/accounts: for someone who has not signed in yet. Errors: invalid_request, signer_unavailable. */
    scope.post<{ Body: Static<typeof wire.NewAccount> }>(
      '/operator/v1/accounts',
      { schema: wire.createAccount },
      async (request, reply) => {
        const made = await pregenerate(app, request.body)
        app.telemetry.log.info('operator_acted', { action: 'create-account', requestId: request.id })
        return reply.code(201).send({ ...made, address: checksumAddress(made.address) })
      },
    )

    /** GET /operator/v1/accounts/frozen */
    scope.get('/operator/v1/accounts/frozen', { schema: wire.listFrozen }, () => listFrozen(db))

    for (const [action, schema, act] of [
      ['freeze', wire.freeze, freezeAccount],
      ['thaw', wire.thaw, thawAccount],
    ] as const) {
      /** POST /operator/v1/accounts/:userId/{freeze,thaw}. Errors: not_found. */
      scope.post<{ Params: { userId: string } }>(
        `/operator/v1/accounts/:userId/${action}`,
        { schema },
        async (request) => {
          const done = await act(db, textOf(request.params.userId))
          app.telemetry.log.info('operator_acted', { action, userId: done.userId, requestId: request.id })
          return done
        },
      )
    }

    /** GET /operator/v1/networks */
    scope.get('/operator/v1/networks', { schema: wire.listNetworks }, async () =>
      (await listNetworks(db)).map((network) => ({ ...network, isServed: app.chains.has(network.chainId) })),
    )
  })

  /** One line per change: what was done to which application, never what was sent or answered. */
  function note(request: FastifyRequest, action: string, clientId: string): void {
    app.telemetry.log.info('operator_acted', { action, clientId, requestId: request.id })
  }
}

/** PostgreSQL refuses NUL. */
const textOf = (text: string): string => text.replaceAll('\0', '')
