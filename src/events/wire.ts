import Type, { type Static } from 'typebox'
import { sends } from '../http/openapi-headers.ts'
import { answers, Nullable, shownAs } from '../http/wire.ts'

/** Types of events. docs/build/events.md lists them with their data and readers. */
export const EVENT_TYPES = [
  'transaction.submitted',
  'transaction.resubmitted',
  'transaction.mined',
  'transaction.reverted',
  'transaction.cancelled',
  'transaction.failed',
  'transaction.replaced',
  'transaction.retracted',
  'transaction.finalized',
  'transfer.detected',
  'transfer.retracted',
  'transfer.finalized',
  'approval.requested',
  'approval.granted',
  'approval.denied',
  'approval.expired',
  'signature.created',
  'policy.denied',
  'user.created',
  'consent.granted',
  'consent.changed',
  'grant.revoked',
  'account.frozen',
  'account.unfrozen',
  'account.stopped',
  'account.resumed',
  'account.low_balance',
  'key.exported',
  'webhook.test',
  'webhook.failed',
  'webhook.disabled',
] as const
export type EventType = (typeof EVENT_TYPES)[number]

const SAMPLE_HASH = `0x${'5e'.repeat(32)}`

/** An event as the API and webhooks send it. */
const Event = Type.Object(
  {
    id: Type.String({
      description: 'Derived from the change: if the event is sent or written again, it has the same id',
    }),
    type: Type.Unsafe<EventType>(Type.String({ enum: [...EVENT_TYPES] })),
    timestamp: Type.String({ description: 'Time at which the service noted it, ISO 8601' }),
    sequence: Type.Integer({ description: 'Rises within the feed of an application, with gaps' }),
    subject: Type.String({
      description:
        'Transaction, transfer, approval, signature or user that changed. Events of one subject are in order',
    }),
    userId: Nullable(Type.String({ description: 'User whose account it concerns' })),
    network: Nullable(Type.String()),
    chainId: Nullable(Type.Integer()),
    data: Type.Unsafe<Record<string, unknown>>(
      Type.Object({}, { additionalProperties: true, description: 'Fields of the type, see the guide to events' }),
    ),
  },
  {
    title: 'Event',
    examples: [
      {
        id: 'evt_3f1c1c8e7f2b8c559d3a0d1c5f4c2b7a',
        type: 'transaction.mined',
        timestamp: '2026-01-31T12:00:00.000Z',
        sequence: 1_769_860_800_000_001,
        subject: 'transaction:tx_8f0c7e1e-2f1b-8c55-9d3a-0d1c5f4c2b7a',
        userId: 'GITHUB-583231',
        network: 'sepolia',
        chainId: 11_155_111,
        data: {
          id: 'tx_8f0c7e1e-2f1b-8c55-9d3a-0d1c5f4c2b7a',
          hash: SAMPLE_HASH,
          state: 'MINED',
          blockNumber: 7_654_321,
          blockHash: `0x${'b1'.repeat(32)}`,
          reference: 'order-17',
        },
      },
    ],
  },
)
export type WireEvent = Static<typeof Event>

export const EventsQuery = Type.Object(
  {
    cursor: Type.Optional(
      Type.String({
        maxLength: 200,
        description:
          '`X-Next-Cursor` of the last page, or `now` for events from now on; default: the oldest stored event',
      }),
    ),
    types: Type.Optional(
      Type.String({
        maxLength: 1_000,
        description: 'Types, separated by commas; `transaction.*` stands for all of a group',
      }),
    ),
    limit: Type.Optional(
      Type.String({
        pattern: '^([1-9]|[1-9]\\d|[1-9]\\d\\d|1000)$',
        description: 'Events of a page, 1 to 1000, default 100',
        ...shownAs({ type: 'integer', minimum: 1, maximum: 1000, default: 100 }),
      }),
    ),
    wait: Type.Optional(
      Type.String({
        pattern: '^([0-9]|[12]\\d|30)$',
        description: 'Seconds to wait if there is no event, 0 to 30, default 0',
        ...shownAs({ type: 'integer', minimum: 0, maximum: 30, default: 0 }),
      }),
    ),
  },
  { additionalProperties: false },
)

export const events = {
  tags: ['Events'],
  operationId: 'listEvents',
  summary: 'Read the feed of events',
  description:
    'Returns changes of transactions, transfers and accounts after `cursor`, oldest first. `X-Next-Cursor` is always present: use it for the next request. With the token of an application and `events:read`: all events of the application. With a user token: those of the user. With `Accept: text/event-stream` the response is a stream (server-sent events) whose ids are cursors, and `Last-Event-ID` continues it.',
  querystring: EventsQuery,
  ...sends('X-Next-Cursor'),
  ...answers(Type.Array(Event), 410),
}
