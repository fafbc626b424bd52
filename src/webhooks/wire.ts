import Type, { type Static } from 'typebox'
import type { DeliveryKind, WebhookEnd } from '../store/column-values.ts'
import { PAGED, sends } from '../http/openapi-headers.ts'
import { answers, Limit, NoQuery, Nullable } from '../http/wire.ts'

const SAMPLE_ID = 'whk_8f0c7e1e-2f1b-4c55-9d3a-0d1c5f4c2b7a'
const SAMPLE_EVENT = 'evt_3f1c1c8e7f2b8c559d3a0d1c5f4c2b7a'
const SAMPLE_AT = '2026-01-31T12:00:00.000Z'

const Url = Type.String({
  minLength: 1,
  maxLength: 2_048,
  description: 'https URL of your server, on the public internet',
  examples: ['https://shop.example/webhooks'],
})
const Types = Type.Array(Type.String({ pattern: '^(\\*|[a-z]+\\.(\\*|[a-z_]+))$', maxLength: 64 }), {
  minItems: 1,
  maxItems: 64,
  description: 'Types of events; `transaction.*` stands for all of a group, `*` for all',
  examples: [['transaction.*', 'transfer.detected']],
})

export const NewWebhook = Type.Object(
  { url: Url, types: Type.Optional(Types) },
  { additionalProperties: false, title: 'NewWebhook', examples: [{ url: 'https://shop.example/webhooks', types: ['transaction.*'] }] }, // prettier-ignore
)
export const WebhookChanges = Type.Object(
  {
    url: Type.Optional(Type.String({ ...Url, description: 'New URL' })),
    types: Type.Optional(Types),
  },
  { additionalProperties: false, title: 'WebhookChanges', examples: [{ types: ['*'] }] },
)
/** What an operator names in addition: the application. */
export const NewOperatorWebhook = Type.Object(
  { clientId: Type.String({ minLength: 1, maxLength: 200 }), url: Url, types: Type.Optional(Types) },
  { additionalProperties: false, title: 'NewOperatorWebhook', examples: [{ clientId: 'shop', url: 'https://shop.example/webhooks', types: ['*'] }] }, // prettier-ignore
)

const time = (description: string) => Nullable(Type.String({ description }))

const ReplayState = Type.Object(
  {
    delivered: Type.Integer({ description: 'Events that it has delivered' }),
    failures: Type.Integer({ description: 'Failed attempts in a row; after 20 it ends' }),
    createdAt: Type.String(),
  },
  { title: 'ReplayState', description: 'A replay that is not over' },
)

const Webhook = Type.Object(
  {
    id: Type.String(),
    clientId: Type.String({ description: 'Application whose events it receives' }),
    url: Type.String(),
    types: Type.Array(Type.String()),
    state: Type.Unsafe<'enabled' | 'failing' | 'disabled'>(
      Type.String({
        enum: ['enabled', 'failing', 'disabled'],
        description: '`failing`: the last 10 attempts failed, and one probe at a time is sent; no event is lost',
      }),
    ),
    disabledReason: Nullable(
      Type.Unsafe<WebhookEnd>(
        Type.String({
          enum: ['gone', 'failing', 'secret'],
          description:
            '`gone`: the endpoint responded with 410; `failing`: five days without success; `secret`: its secret cannot be decrypted, rotate it',
        }),
      ),
    ),
    delivered: Type.Integer({ description: 'Delivered events' }),
    waiting: Type.Integer({ description: 'Events that wait for a retry' }),
    dead: Type.Integer({ description: 'Events whose last retry failed, and that can be redelivered by hand' }),
    lastSuccessAt: time('ISO 8601'),
    lastFailureAt: time('ISO 8601'),
    lastFailure: Nullable(Type.String({ description: 'Why the last failed attempt failed' })),
    oldSecretEndsAt: time('Time until which the former secret signs as well (ISO 8601)'),
    replay: Nullable(ReplayState),
    createdAt: Type.String(),
  },
  {
    title: 'Webhook',
    examples: [
      {
        id: SAMPLE_ID,
        clientId: 'shop',
        url: 'https://shop.example/webhooks',
        types: ['transaction.*'],
        state: 'enabled',
        disabledReason: null,
        delivered: 48_213,
        waiting: 0,
        dead: 0,
        lastSuccessAt: SAMPLE_AT,
        lastFailureAt: null,
        lastFailure: null,
        oldSecretEndsAt: null,
        replay: null,
        createdAt: SAMPLE_AT,
      },
    ],
  },
)
export type WireWebhook = Static<typeof Webhook>

const WithSecret = Type.Object(
  {
    webhook: Webhook,
    secret: Type.String({
      description: 'Secret of the signatures: `whsec_` and base64 of 32 bytes. It is shown once',
      examples: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo='],
    }),
  },
  { title: 'WebhookWithSecret' },
)
export type WebhookWithSecret = Static<typeof WithSecret>

const Delivery = Type.Object(
  {
    id: Type.String(),
    kind: Type.Unsafe<DeliveryKind>(
      Type.String({
        enum: ['event', 'retry', 'probe', 'replay', 'test', 'redelivery'],
        description: '`probe`: the attempt of a failing webhook, which counts for no event',
      }),
    ),
    eventId: Type.String(),
    type: Type.String(),
    attempt: Type.Integer({ description: 'Number of the attempt for this event' }),
    status: Nullable(Type.Integer({ description: 'HTTP status of the response; null: there was none' })),
    error: Nullable(Type.String({ description: 'Why it failed; null: it was delivered, or is not sent yet' })),
    answer: Nullable(Type.String({ description: 'Start of the response, at most 1 kB' })),
    durationMs: Nullable(Type.Integer()),
    createdAt: Type.String(),
    doneAt: time('ISO 8601; null: not sent yet'),
  },
  {
    title: 'Delivery',
    examples: [
      {
        id: 'dlv_0d1c5f4c-2b7a-4c55-9d3a-8f0c7e1e2f1b',
        kind: 'test',
        eventId: SAMPLE_EVENT,
        type: 'webhook.test',
        attempt: 1,
        status: 200,
        error: null,
        answer: 'ok',
        durationMs: 84,
        createdAt: SAMPLE_AT,
        doneAt: SAMPLE_AT,
      },
    ],
  },
)
export type WireDelivery = Static<typeof Delivery>

const Moment = Type.String({ maxLength: 40, description: 'ISO 8601', examples: [SAMPLE_AT] })
export const ReplayRange = Type.Object(
  { from: Moment, until: Type.Optional(Moment) },
  { additionalProperties: false, title: 'ReplayRange', examples: [{ from: SAMPLE_AT }] },
)
export const EventToRedeliver = Type.Object(
  { eventId: Type.String({ pattern: '^evt_[0-9a-f]{32}$', examples: [SAMPLE_EVENT] }) },
  { additionalProperties: false, title: 'EventToRedeliver', examples: [{ eventId: SAMPLE_EVENT }] },
)
export const IdParam = Type.Object({ id: Type.String({ minLength: 1, maxLength: 64, examples: [SAMPLE_ID] }) })
export const DeliveriesQuery = Type.Object(
  {
    limit: Type.Optional(Limit(50, 'Attempts of a page')),
    cursor: Type.Optional(Type.String({ maxLength: 400, description: '`X-Next-Cursor` of the last page' })),
  },
  { additionalProperties: false },
)
export const WebhooksQuery = Type.Object(
  { clientId: Type.Optional(Type.String({ maxLength: 200, description: 'Only the webhooks of this application' })) },
  { additionalProperties: false },
)

/** Describes a route of the API, or the same one of the operator API, which also creates for an application. */
const created = <S extends object>(schema: S, ...statuses: number[]) => {
  const { response } = answers(schema, ...statuses)
  const { 200: success, ...errors } = response
  return { response: { 201: success, ...errors } }
}
const Nothing = Type.Object({ id: Type.String() }, { title: 'DeletedWebhook', examples: [{ id: SAMPLE_ID }] })

/** Returns the schemas of the routes. @param of  tags and security, and the end of each operation id */
export function schemasOf(of: { tags: string[]; security?: Record<string, string[]>[] }, end: '' | 'AsOperator') {
  const ofOne = { ...of, params: IdParam, querystring: NoQuery }
  return {
    list: {
      ...of,
      operationId: `listWebhooks${end}`,
      summary: 'List webhooks',
      description: 'Lists webhooks, the oldest first. Secrets are never shown again.',
      querystring: end === '' ? NoQuery : WebhooksQuery,
      ...answers(Type.Array(Webhook)),
    },
    create: {
      ...of,
      operationId: `createWebhook${end}`,
      summary: 'Create a webhook',
      description:
        'Sends each event that happens from now on to a URL, with a signature (Standard Webhooks). The application needs `events:read`. The secret is shown once.',
      querystring: NoQuery,
      body: end === '' ? NewWebhook : NewOperatorWebhook,
      ...created(WithSecret, 404, 409, 413, 415),
    },
    read: {
      ...ofOne,
      operationId: `readWebhook${end}`,
      summary: 'Read a webhook',
      description: 'Returns a webhook and the state of its deliveries.',
      ...answers(Webhook, 404),
    },
    update: {
      ...ofOne,
      operationId: `updateWebhook${end}`,
      summary: 'Change URL or types of a webhook',
      description: 'Changes the given fields. Events that wait for a retry go to the new URL.',
      body: WebhookChanges,
      ...answers(Webhook, 404, 413, 415),
    },
    remove: {
      ...ofOne,
      operationId: `deleteWebhook${end}`,
      summary: 'Delete a webhook',
      description: 'Deletes a webhook with its log and its waiting events.',
      ...answers(Nothing, 404, 413, 415),
    },
    test: {
      ...ofOne,
      operationId: `testWebhook${end}`,
      summary: 'Send a test event',
      description:
        'Sends an event `webhook.test`, also if the webhook is disabled. The response has its result, or none yet (`doneAt` is null) if the endpoint takes more than 10 seconds: then read the deliveries.',
      ...answers(Delivery, 404, 413, 415),
    },
    rotateSecret: {
      ...ofOne,
      operationId: `rotateWebhookSecret${end}`,
      summary: 'Issue a new secret',
      description: 'Issues a new secret, which is shown once. For 24 hours the former one signs as well.',
      ...answers(WithSecret, 404, 413, 415),
    },
    enable: {
      ...ofOne,
      operationId: `enableWebhook${end}`,
      summary: 'Enable a webhook',
      description: 'Continues a disabled or failing webhook where it stood, at once.',
      ...answers(Webhook, 404, 413, 415),
    },
    replay: {
      ...ofOne,
      operationId: `replayWebhook${end}`,
      summary: 'Send events again',
      description:
        'Sends the stored events of a time range again, with the same ids and the header `Chatelaine-Replay: true`. A webhook has one replay at a time.',
      body: ReplayRange,
      ...answers(Webhook, 404, 409, 413, 415),
    },
    redeliver: {
      ...ofOne,
      operationId: `redeliverEvent${end}`,
      summary: 'Send one event again',
      description: 'Sends one stored event again. A dead event that is delivered this way is no longer dead.',
      body: EventToRedeliver,
      ...answers(Delivery, 404, 413, 415),
    },
    deliveries: {
      ...of,
      params: IdParam,
      operationId: `listDeliveries${end}`,
      summary: 'List failed attempts and tests',
      description: 'Lists failed attempts, tests and repeats by hand of the last seven days, newest first.',
      querystring: DeliveriesQuery,
      ...sends(...PAGED),
      ...answers(Type.Array(Delivery), 404),
    },
  }
}
