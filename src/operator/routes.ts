/**
 * operator: the operator API, and the record of operator actions.
 * Owns: operators' tokens and roles, operators of the console, the routes under /operator, the chained record of actions,
 *   including commands and the console.
 * Does not own: what an action does (`applications/`, `users/`, `oauth/`, `transactions/`), the commands (`cli/`).
 * Tables: operator_actions, operator_head, operators.
 */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import { checksumAddress } from '../digits.ts'
import type { App } from '../app.ts'
import { listApplications, readApplication } from '../applications/manage.ts'
import { describeNetworks } from '../applications/networks.ts'
import type { ApplicationChanges, NetworkChanges, NewApplication } from '../applications/wire.ts'
import { readUsage } from '../applications/usage.ts'
import { AppError } from '../errors.ts'
import { linkNext } from '../http/cursor.ts'
import { bearerToken } from '../http/bearer.ts'
import { addressOf, openLimit, spend } from '../http/limits.ts'
import { isSubject, parseUserId, userIdOf } from '../ids.ts'
import { endIn } from '../oauth/sign-out.ts'
import { listExports } from '../users/exported.ts'
import { listFrozen } from '../users/freeze.ts'
import { listSponsors } from '../sponsors/list.ts'
import type { NewSponsor } from '../sponsors/wire.ts'
import { listStopped } from '../transactions/recovery/resume.ts'
import { listWithdrawals } from '../transactions/sponsors/withdraw.ts'
import type { NewWithdrawal } from '../transactions/sponsors/withdrawal-wire.ts'
import { countPeople, listPeople, readPerson } from '../users/people.ts'
import { pregenerate } from '../users/pregenerate.ts'
import type { Pregenerated } from '../users/wire.ts'
import { listActions, recorded, verifyActions, type Actor } from './actions.ts'
import { listAccountTransactions } from './account-transactions.ts'
import { operatorActs } from './acts.ts'
import type { Operator, OperatorDoor } from './auth.ts'
import * as accountWire from './account-wire.ts'
import { listOperators } from './operators.ts'
import { operatorWebhooks } from './webhook-routes.ts'
import * as wire from './wire.ts'
import { forgetApplication } from '../applications/registry.ts'

/** Requests of one IP address, per second and at once; wrong tokens count as well. */
const PER_SECOND = 10
const BURST = 50

/** Issues a token for any user to the developer on this machine; in development only. */
export type IssueToken = (whose: { username: string; clientId: string }) => Promise<{ token: string; userId: string }>

type OfOne = { Params: { clientId: string } }
type OfIssuer = { Params: { clientId: string; provider: string } }

declare module 'fastify' {
  interface FastifyRequest {
    /** the holder of the token that opened this route */
    operator: Operator | null
  }
}

/**
 * Registers the operator API: the commands, for programs. It has tokens of its own and accepts no user's; pages of
 * other origins cannot call it.
 */
export async function operatorApi(
  server: FastifyInstance,
  app: App,
  door: OperatorDoor,
  issue: IssueToken | null = null,
): Promise<void> {
  const limit = openLimit({ name: 'operator', perSecond: PER_SECOND, burst: BURST, now: () => app.clock.wall() })
  const { db } = app
  const registry = { db, readSealKeys: () => Promise.resolve(app.sealKeys) }
  const actorOf = (request: FastifyRequest): Actor => ({
    name: request.operator!.name,
    via: 'api',
    log: app.telemetry.log,
  })
  const acts = (request: FastifyRequest) =>
    operatorActs(registry, actorOf(request), (clientId) => forgetApplication(app, clientId))

  await server.register(async (scope) => {
    scope.decorateRequest('operator', null)
    scope.addHook('onRoute', (route) => {
      route.config = { ...route.config, admission: 'vital' }
    })
    // Before the body is read: a stranger costs only a hash.
    scope.addHook('onRequest', async (request, reply) => {
      reply.header('cache-control', 'no-store')
      if (app.config.RATE_LIMITS === 'on') spend(limit, addressOf(request.ip), reply)
      const operator = door.whose(bearerToken(request))
      if (operator === null)
        throw new AppError(
          'invalid_token',
          'This is not an operator token. Nothing was done. Create one with `chatelaine operator-token create`.',
        )
      if (operator.role === 'viewer' && request.method !== 'GET' && request.method !== 'HEAD')
        throw new AppError(
          'insufficient_scope',
          'The role of this token is viewer, which can only read. Nothing was changed. Use a token of another role.',
        )
      request.operator = operator
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
    scope.post<{ Body: Static<typeof NewApplication> }>(
      '/operator/v1/applications',
      { schema: wire.createApplication },
      async (request, reply) => {
        const made = await acts(request).create(request.body)
        return reply
          .code(201)
          .header('location', `${app.authOrigin}/operator/v1/applications/${made.application.clientId}`)
          .send(made)
      },
    )

    /** GET /operator/v1/applications/:clientId. Errors: not_found, as those below. */
    scope.get<OfOne>('/operator/v1/applications/:clientId', { schema: wire.readApplication }, ({ params }) =>
      readApplication(db, params.clientId),
    )

    /** PATCH /operator/v1/applications/:clientId */
    scope.patch<OfOne & { Body: Static<typeof ApplicationChanges> }>(
      '/operator/v1/applications/:clientId',
      { schema: wire.updateApplication },
      (request) => acts(request).update(request.params.clientId, request.body),
    )

    /** GET /operator/v1/applications/:clientId/usage */
    scope.get<OfOne>('/operator/v1/applications/:clientId/usage', { schema: wire.readUsage }, ({ params }) =>
      readUsage(db, params.clientId),
    )

    for (const [action, schema, act] of [
      ['rotate-secret', wire.rotateSecret, 'rotateSecret'],
      ['reset-secret', wire.resetSecret, 'resetSecret'],
      ['suspend', wire.suspend, 'suspend'],
      ['resume', wire.resume, 'resume'],
    ] as const) {
      /** POST /operator/v1/applications/:clientId/{rotate-secret,reset-secret,suspend,resume} */
      scope.post<OfOne>(`/operator/v1/applications/:clientId/${action}`, { schema }, (request) =>
        acts(request)[act](request.params.clientId),
      )
    }

    /** PUT /operator/v1/applications/:clientId/issuers/:provider. Errors: already_exists. */
    scope.put<OfIssuer & { Body: Static<typeof wire.NewIssuer> }>(
      '/operator/v1/applications/:clientId/issuers/:provider',
      { schema: wire.trustIssuer },
      (request) => acts(request).trustIssuer(request.params.clientId, request.params.provider, request.body),
    )

    /** DELETE /operator/v1/applications/:clientId/issuers/:provider */
    scope.delete<OfIssuer>(
      '/operator/v1/applications/:clientId/issuers/:provider',
      { schema: wire.distrustIssuer },
      (request) => acts(request).distrustIssuer(request.params.clientId, request.params.provider),
    )

    /**
     * POST /operator/v1/accounts: for a user who has not signed in yet. Errors: invalid_request, signer_unavailable.
     */
    scope.post<{ Body: Static<typeof accountWire.NewAccount> }>(
      '/operator/v1/accounts',
      { schema: accountWire.createAccount },
      async (request, reply) => {
        const { provider, providerUserId } = request.body
        const made = await recorded(
          db,
          actorOf(request),
          { action: 'create-account', target: userIdOf(provider, providerUserId) },
          (db) => pregenerate({ ...app, db }, request.body),
        )
        const shown: Pregenerated = { userId: made.userId, address: checksumAddress(made.address), isNew: made.isNew }
        return reply.code(201).send(shown)
      },
    )

    /** GET /operator/v1/accounts: users of the whole installation, in pages. Errors: invalid_cursor. */
    scope.get<{ Querystring: Static<typeof accountWire.PeopleQuery> }>(
      '/operator/v1/accounts',
      { schema: accountWire.listPeople },
      async ({ query: { search, limit = '50', cursor } }, reply) => {
        const page = await listPeople(app, { search, limit: Number(limit), cursor })
        linkNext(reply, app, { path: '/operator/v1/accounts', query: { search, limit }, cursor: page.nextCursor })
        return page.people
      },
    )

    /** GET /operator/v1/accounts/count */
    scope.get('/operator/v1/accounts/count', { schema: accountWire.countPeople }, () => countPeople(db))

    /** GET /operator/v1/accounts/:userId. Errors: not_found. */
    scope.get<{ Params: { userId: string } }>(
      '/operator/v1/accounts/:userId',
      { schema: accountWire.readPerson },
      ({ params }) => readPerson(app, textOf(params.userId)),
    )

    /** GET /operator/v1/accounts/:userId/transactions. Errors: invalid_cursor, invalid_request, not_found. */
    scope.get<{ Params: { userId: string }; Querystring: Static<typeof accountWire.AccountTransactionsQuery> }>(
      '/operator/v1/accounts/:userId/transactions',
      { schema: accountWire.listAccountTransactions },
      async ({ params, query: { network, limit = '50', cursor } }, reply) => {
        const userId = textOf(params.userId)
        const page = await listAccountTransactions(db, { userId, network, limit: Number(limit), cursor })
        const path = `/operator/v1/accounts/${encodeURIComponent(userId)}/transactions`
        linkNext(reply, app, { path, query: { network, limit }, cursor: page.nextCursor })
        return page.transactions
      },
    )

    /** GET /operator/v1/accounts/frozen */
    scope.get('/operator/v1/accounts/frozen', { schema: accountWire.listFrozen }, () => listFrozen(db))

    /** GET /operator/v1/accounts/stopped */
    scope.get('/operator/v1/accounts/stopped', { schema: accountWire.listStopped }, () => listStopped(db))

    /** POST /operator/v1/accounts/:userId/resume. Errors: not_found. */
    scope.post<{ Params: { userId: string } }>(
      '/operator/v1/accounts/:userId/resume',
      { schema: accountWire.resumeAccount },
      (request) => acts(request).resumeAccount(textOf(request.params.userId)),
    )

    /** GET /operator/v1/accounts/exports. Errors: signer_unavailable. */
    scope.get('/operator/v1/accounts/exports', { schema: accountWire.listExports }, async (_request, reply) => {
      const { exports, total } = await listExports(app)
      if (total !== null) void reply.header('x-total-count', total)
      return exports
    })

    /** POST /operator/v1/accounts/:userId/cancel-export. Errors: not_found, signer_unavailable. */
    scope.post<{ Params: { userId: string } }>(
      '/operator/v1/accounts/:userId/cancel-export',
      { schema: accountWire.cancelExport },
      (request) => acts(request).cancelExport(app.signer, textOf(request.params.userId)),
    )

    for (const [action, schema] of [
      ['freeze', accountWire.freeze],
      ['unfreeze', accountWire.unfreeze],
      ['sign-out', accountWire.signOut],
    ] as const) {
      /** POST /operator/v1/accounts/:userId/{freeze,unfreeze,sign-out}. Errors: not_found. */
      scope.post<{ Params: { userId: string } }>(`/operator/v1/accounts/:userId/${action}`, { schema }, (request) => {
        const userId = textOf(request.params.userId)
        const { freeze, unfreeze, signOut } = acts(request)
        if (action === 'unfreeze') return unfreeze(userId)
        return action === 'freeze' ? freeze(userId, endIn(app)) : signOut(userId, endIn(app))
      })
    }

    for (const [change, schema] of [
      ['cancel', wire.cancelTransaction],
      ['speed-up', wire.speedUpTransaction],
    ] as const) {
      /** POST /operator/v1/transactions/:id/{cancel,speed-up}. Errors: transaction_not_found, not_cancellable. */
      scope.post<{ Params: { id: string } }>(`/operator/v1/transactions/:id/${change}`, { schema }, (request) =>
        acts(request).changeTransaction(textOf(request.params.id), change),
      )
    }

    /** GET /operator/v1/actions: the actions of operators, newest first. */
    scope.get<{ Querystring: Static<typeof wire.ActionsQuery> }>(
      '/operator/v1/actions',
      { schema: wire.listActions },
      ({ query }) =>
        listActions(db, {
          ...(query.before === undefined ? {} : { before: Number(query.before) }),
          ...(query.limit === undefined ? {} : { limit: Number(query.limit) }),
        }),
    )

    /** GET /operator/v1/actions/verify: whether the record of actions is complete and unchanged. */
    scope.get('/operator/v1/actions/verify', { schema: wire.verifyActions }, () => verifyActions(db))

    if (issue !== null) {
      // For `chatelaine operator` beside a server that holds the embedded database. In production the command works on
      // the database: a token of this API must not be able to give someone a role that outlasts it.
      /** GET /operator/v1/operators: in development only. */
      scope.get('/operator/v1/operators', { schema: { hide: true } }, () => listOperators(app))

      /** PUT /operator/v1/operators/:userId: in development only. Errors: invalid_user_id. */
      scope.put<{ Params: { userId: string }; Body: Static<typeof wire.NewOperatorRole> }>(
        '/operator/v1/operators/:userId',
        { schema: { hide: true, body: wire.NewOperatorRole } },
        (request) => acts(request).addOperator(textOf(request.params.userId), request.body.role),
      )

      /** DELETE /operator/v1/operators/:userId: in development only. Errors: not_found. */
      scope.delete<{ Params: { userId: string } }>(
        '/operator/v1/operators/:userId',
        { schema: { hide: true } },
        (request) => acts(request).removeOperator(textOf(request.params.userId)),
      )

      /** POST /operator/v1/tokens: in development only. Errors: not_found. */
      scope.post<{ Body: Static<typeof wire.NewToken> }>(
        '/operator/v1/tokens',
        { schema: { hide: true, body: wire.NewToken } },
        async ({ body: { user, clientId = 'demo' } }) => {
          const { provider, subject } = parseUserId(user) ?? { provider: 'DEV', subject: user }
          if (provider !== 'DEV' || !isSubject(subject))
            throw new AppError(
              'invalid_user_id',
              'Only users of the development sign-in get a token here: `DEV-<name>`.',
            )
          await readApplication(db, clientId)
          return issue({ username: subject, clientId })
        },
      )
    }

    /** GET /operator/v1/sponsors. Errors: address_not_proven, signer_unavailable. */
    scope.get('/operator/v1/sponsors', { schema: wire.listSponsors }, () => listSponsors(app))

    /** POST /operator/v1/sponsors. Errors: invalid_request, already_exists, address_not_proven, signer_unavailable. */
    scope.post<{ Body: NewSponsor }>(
      '/operator/v1/sponsors',
      { schema: wire.createSponsor },
      async (request, reply) => {
        const made = await operatorActs(registry, actorOf(request)).createSponsor(app, request.body)
        return reply.code(201).send(made)
      },
    )

    /** GET /operator/v1/withdrawals: requested withdrawals from sponsors, newest first. */
    scope.get('/operator/v1/withdrawals', { schema: wire.listWithdrawals }, () => listWithdrawals(db))

    /** POST /operator/v1/sponsors/:name/withdrawals. Errors: invalid_request, not_found. */
    scope.post<{ Params: { name: string }; Body: NewWithdrawal }>(
      '/operator/v1/sponsors/:name/withdrawals',
      { schema: wire.withdraw },
      (request) => acts(request).withdraw(textOf(request.params.name), { ...request.body, network: textOf(request.body.network) }), // prettier-ignore
    )

    operatorWebhooks(scope, app, actorOf)

    const networks = async () =>
      (await describeNetworks(db)).map((network) => ({ ...network, isServed: app.chains.has(network.chainId) }))

    /** GET /operator/v1/networks */
    scope.get('/operator/v1/networks', { schema: wire.listNetworks }, networks)

    /** PATCH /operator/v1/networks/:name. Errors: not_found, invalid_request. */
    scope.patch<{ Params: { name: string }; Body: NetworkChanges }>(
      '/operator/v1/networks/:name',
      { schema: wire.updateNetwork },
      async (request) => {
        const name = textOf(request.params.name)
        if (name === app.config.NETWORK_NAME)
          throw new AppError('invalid_request', `The settings of the server define the network ${name}. Nothing was changed. Change \`NETWORK_GAS\` and the other \`NETWORK_\` settings.`) // prettier-ignore
        await acts(request).updateNetwork(name, request.body)
        return (await networks()).find((one) => one.name === name)
      },
    )
  })
}

/** Removes NUL, which PostgreSQL rejects. */
const textOf = (text: string): string => text.replaceAll('\0', '')
