/**
 * webhooks: events that are sent to the servers of applications.
 * Owns: the webhooks of applications, their secrets and signatures, deliveries, retries and replays.
 * Does not own: the events and their order (`events/`), the judgement of addresses (`http/outbound.ts`).
 * Start with `deliver.ts`; `worker.ts` decides which process delivers.
 * Tables: webhook_deliveries, webhook_replays, webhook_retries, webhooks.
 */

import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { linkNext } from '../http/cursor.ts'
import { readWebhookKeys } from './keys.ts'
import {
  createWebhook,
  deleteWebhook,
  enableWebhook,
  listDeliveries,
  listWebhooks,
  readDelivery,
  readWebhook,
  redeliverEvent,
  replayWebhook,
  requestTest,
  rotateWebhookSecret,
  updateWebhook,
} from './manage.ts'
import { privateHostsOf } from './post.ts'
import * as wire from './wire.ts'
import { lookForDeliveries } from './worker.ts'

/** milliseconds for which a request waits for the result of a test, and between two looks */
const [WAIT_MS, LOOK_MS] = [10_000, 100]

type OfWebhook = { Params: Static<typeof wire.IdParam> }

/** Registers the webhooks of an application: machines with `webhooks:manage`. */
export function webhooks(server: FastifyInstance, app: App): void {
  const { db } = app
  const schemas = wire.schemasOf({ tags: ['Webhooks'] }, '')
  const config = { scope: 'machine', machineScope: 'webhooks:manage', admission: 'status' } as const
  const rules = { privateHosts: privateHostsOf(app) }
  const which = ({ reader, params }: { reader: { clientId: string }; params: { id: string } }) => ({
    id: params.id,
    clientId: reader.clientId,
  })

  /** GET /v1/webhooks */
  server.get('/v1/webhooks', { schema: schemas.list, config }, ({ reader }) => listWebhooks(db, reader.clientId))

  /** POST /v1/webhooks. Errors: invalid_request, already_exists, auth_unavailable. */
  server.post<{ Body: Static<typeof wire.NewWebhook> }>(
    '/v1/webhooks',
    { schema: schemas.create, config },
    async ({ reader, body }, reply: FastifyReply) => {
      const keys = await readWebhookKeys(app)
      const made = await createWebhook(db, { keys, ...rules }, { ...body, clientId: reader.clientId })
      return reply.code(201).header('location', `${app.origin}/v1/webhooks/${made.webhook.id}`).send(made)
    },
  )

  /** GET /v1/webhooks/:id. Errors: not_found, as those below. */
  server.get<OfWebhook>('/v1/webhooks/:id', { schema: schemas.read, config }, (request) =>
    readWebhook(db, which(request)),
  )

  /** PATCH /v1/webhooks/:id. Errors: invalid_request. */
  server.patch<OfWebhook & { Body: Static<typeof wire.WebhookChanges> }>(
    '/v1/webhooks/:id',
    { schema: schemas.update, config },
    (request) => updateWebhook(db, which(request), request.body, rules),
  )

  /** DELETE /v1/webhooks/:id */
  server.delete<OfWebhook>('/v1/webhooks/:id', { schema: schemas.remove, config }, (request) =>
    deleteWebhook(db, which(request)),
  )

  /** POST /v1/webhooks/:id/test. Errors: rate_limited. */
  server.post<OfWebhook>('/v1/webhooks/:id/test', { schema: schemas.test, config }, async (request, reply) => {
    const requested = await requestTest(db, which(request))
    lookForDeliveries(app)
    return untilSent(app, requested.id, () => reply.raw.destroyed)
  })

  /** POST /v1/webhooks/:id/rotate-secret. Errors: auth_unavailable. */
  server.post<OfWebhook>('/v1/webhooks/:id/rotate-secret', { schema: schemas.rotateSecret, config }, async (request) =>
    rotateWebhookSecret(db, await readWebhookKeys(app), which(request)),
  )

  /** POST /v1/webhooks/:id/enable */
  server.post<OfWebhook>('/v1/webhooks/:id/enable', { schema: schemas.enable, config }, (request) =>
    enableWebhook(db, which(request)),
  )

  /** POST /v1/webhooks/:id/replay. Errors: invalid_request, already_exists. */
  server.post<OfWebhook & { Body: Static<typeof wire.ReplayRange> }>(
    '/v1/webhooks/:id/replay',
    { schema: schemas.replay, config },
    (request) => replayWebhook(db, which(request), request.body),
  )

  /** POST /v1/webhooks/:id/redeliver. Errors: rate_limited. */
  server.post<OfWebhook & { Body: Static<typeof wire.EventToRedeliver> }>(
    '/v1/webhooks/:id/redeliver',
    { schema: schemas.redeliver, config },
    async (request, reply) => {
      const requested = await redeliverEvent(db, which(request), request.body.eventId)
      lookForDeliveries(app)
      return untilSent(app, requested.id, () => reply.raw.destroyed)
    },
  )

  /** GET /v1/webhooks/:id/deliveries. Errors: invalid_cursor. */
  server.get<OfWebhook & { Querystring: Static<typeof wire.DeliveriesQuery> }>(
    '/v1/webhooks/:id/deliveries',
    { schema: schemas.deliveries, config },
    async (request, reply) => {
      const { limit = '50', cursor } = request.query
      const page = await listDeliveries(db, which(request), { limit: Number(limit), cursor })
      const path = `/v1/webhooks/${encodeURIComponent(request.params.id)}/deliveries`
      linkNext(reply, app, { path, query: { limit }, cursor: page.nextCursor })
      return page.deliveries
    },
  )
}

/** Waits for the result of a requested attempt, as long as a client waits. */
async function untilSent(app: App, id: string, isGone: () => boolean): Promise<wire.WireDelivery> {
  const until = app.clock.ticks() + WAIT_MS
  for (;;) {
    const found = await readDelivery(app.db, id)
    if (found.doneAt !== null || app.clock.ticks() >= until || isGone()) return found
    await app.clock.sleep(LOOK_MS)
  }
}
