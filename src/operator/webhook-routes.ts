import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { linkNext } from '../http/cursor.ts'
import { webhookKeysOf } from '../webhooks/keys.ts'
import { listDeliveries, listWebhooks, readWebhook } from '../webhooks/manage.ts'
import { privateHostsOf } from '../webhooks/post.ts'
import * as webhookWire from '../webhooks/wire.ts'
import type { Actor } from './actions.ts'
import { webhookActs } from './webhook-acts.ts'
import { shared } from './wire.ts'

type OfOneWebhook = { Params: Static<typeof webhookWire.IdParam> }

/** Registers the webhooks of all applications in the operator API. */
export function operatorWebhooks(scope: FastifyInstance, app: App, actorOf: (request: FastifyRequest) => Actor): void {
  const { db } = app
  const schemas = webhookWire.schemasOf(shared, 'AsOperator')
  const privateHosts = privateHostsOf(app)
  const acts = (request: FastifyRequest) =>
    webhookActs({ db, readKeys: async () => webhookKeysOf(app.sealKeys), privateHosts }, actorOf(request))
  const base = '/operator/v1/webhooks'

  /** GET /operator/v1/webhooks */
  scope.get<{ Querystring: Static<typeof webhookWire.WebhooksQuery> }>(base, { schema: schemas.list }, ({ query }) =>
    listWebhooks(db, query.clientId?.replaceAll('\0', '') ?? null),
  )

  /** POST /operator/v1/webhooks. Errors: invalid_request, not_found, already_exists. */
  scope.post<{ Body: Static<typeof webhookWire.NewOperatorWebhook> }>(
    base,
    { schema: schemas.create },
    async (request, reply) => {
      const { clientId } = request.body
      const made = await acts(request).create({ ...request.body, clientId: clientId.replaceAll('\0', '') })
      return reply.code(201).header('location', `${app.authOrigin}${base}/${made.webhook.id}`).send(made)
    },
  )

  /** GET /operator/v1/webhooks/:id. Errors: not_found, as those below. */
  scope.get<OfOneWebhook>(`${base}/:id`, { schema: schemas.read }, ({ params }) => readWebhook(db, { ...params, clientId: null })) // prettier-ignore

  /** PATCH /operator/v1/webhooks/:id. Errors: invalid_request. */
  scope.patch<OfOneWebhook & { Body: Static<typeof webhookWire.WebhookChanges> }>(
    `${base}/:id`,
    { schema: schemas.update },
    (request) => acts(request).update(request.params.id, request.body),
  )

  /** DELETE /operator/v1/webhooks/:id */
  scope.delete<OfOneWebhook>(`${base}/:id`, { schema: schemas.remove }, (request) =>
    acts(request).remove(request.params.id),
  )

  for (const [action, schema, act] of [
    ['test', schemas.test, 'test'],
    ['rotate-secret', schemas.rotateSecret, 'rotateSecret'],
    ['enable', schemas.enable, 'enable'],
  ] as const) {
    /** POST /operator/v1/webhooks/:id/{test,rotate-secret,enable}. A test is sent by an API server within a second. */
    scope.post<OfOneWebhook>(`${base}/:id/${action}`, { schema }, (request) => acts(request)[act](request.params.id))
  }

  /** POST /operator/v1/webhooks/:id/replay. Errors: invalid_request, already_exists. */
  scope.post<OfOneWebhook & { Body: Static<typeof webhookWire.ReplayRange> }>(
    `${base}/:id/replay`,
    { schema: schemas.replay },
    (request) => acts(request).replay(request.params.id, request.body),
  )

  /** POST /operator/v1/webhooks/:id/redeliver. Errors: rate_limited. */
  scope.post<OfOneWebhook & { Body: Static<typeof webhookWire.EventToRedeliver> }>(
    `${base}/:id/redeliver`,
    { schema: schemas.redeliver },
    (request) => acts(request).redeliver(request.params.id, request.body.eventId),
  )

  /** GET /operator/v1/webhooks/:id/deliveries. Errors: invalid_cursor. */
  scope.get<OfOneWebhook & { Querystring: Static<typeof webhookWire.DeliveriesQuery> }>(
    `${base}/:id/deliveries`,
    { schema: schemas.deliveries },
    async ({ params: { id }, query: { limit = '50', cursor } }, reply) => {
      const page = await listDeliveries(db, { id, clientId: null }, { limit: Number(limit), cursor })
      linkNext(reply, app, { path: `${base}/${encodeURIComponent(id)}/deliveries`, query: { limit }, cursor: page.nextCursor }) // prettier-ignore
      return page.deliveries
    },
  )
}
