import { EVENT_TYPES, type EventType } from '../events/wire.ts'

type JsonSchema = Record<string, unknown>

const text: JsonSchema = { type: 'string' }
const maybe = (type: string): JsonSchema => ({ type: [type, 'null'] })
const object = (properties: Record<string, JsonSchema>): JsonSchema => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
})

const transaction = {
  ...{ id: text, hash: maybe('string'), state: text, blockNumber: maybe('integer'), blockHash: maybe('string') },
  reference: maybe('string'),
}
const transfer = {
  ...{ id: text, direction: { type: 'string', enum: ['IN', 'OUT', 'SELF'] } },
  tokenType: { type: 'string', enum: ['NATIVE', 'ERC20', 'ERC721', 'ERC1155'] },
  ...{ tokenAddress: maybe('string'), tokenId: maybe('string'), value: text, from: text, to: text },
  ...{ hash: text, logIndex: { type: 'integer' }, blockNumber: { type: 'integer' }, blockHash: text, timestamp: text },
}
const approval = { id: text, state: text, rule: text, expiresAt: text }
const consent = { permissions: { type: 'array', items: text } }
const retracts = { ...text, description: 'Id of the event that no longer holds' }

/** What `data` has, by type or by the group of a type. */
const DATA: Partial<Record<EventType, Record<string, JsonSchema>>> & Record<string, Record<string, JsonSchema>> = {
  transaction,
  transfer,
  approval,
  signature: { id: text, kind: text, class: text, hash: text, reference: maybe('string') },
  policy: {
    request: { type: 'string', enum: ['write', 'signature'] },
    rule: maybe('string'),
    ...{ detail: text, reference: maybe('string'), count: { type: 'integer' } },
  },
  user: {},
  consent,
  grant: {},
  account: {},
  'transaction.retracted': { ...transaction, retracts },
  'transfer.retracted': { ...transfer, retracts },
  'account.frozen': { frozenAt: text },
  'account.stopped': { reason: text, nonce: { type: 'integer' } },
  'account.low_balance': {
    transactionId: maybe('string'),
    needed: maybe('string'),
    available: maybe('string'),
  },
  'account.resumed': { nonce: { type: 'integer' } },
  key: { exportedAt: text },
  'webhook.test': { id: text },
  'webhook.failed': { id: text, eventId: text, eventType: text, attempts: { type: 'integer' } },
  'webhook.disabled': { id: text, reason: text },
}

/** Returns the requests that webhooks send, by type of event. Source: OpenAPI 3.1, `webhooks` */
export function webhookRequests(): Record<string, object> {
  const header = (name: string, description: string) => ({ name, in: 'header', required: true, description, schema: text }) // prettier-ignore
  return Object.fromEntries(
    EVENT_TYPES.map((type) => [
      type,
      {
        post: {
          tags: ['Webhooks'],
          operationId: `on${type.split(/[._]/).map((word) => word[0]!.toUpperCase() + word.slice(1)).join('')}`, // prettier-ignore
          summary: `Receive ${type}`,
          description: 'Request that a webhook sends to your server. Any 2xx status within 15 seconds confirms it.',
          security: [],
          parameters: [
            header('webhook-id', 'Id of the event'),
            header('webhook-timestamp', 'Seconds since 1970'),
            header('webhook-signature', 'Signatures, separated by spaces (Standard Webhooks)'),
          ],
          requestBody: {
            required: true,
            content: {
              'application/json': {
                schema: {
                  allOf: [
                    { $ref: '#/components/schemas/Event' },
                    object({ type: { const: type }, data: object(DATA[type] ?? DATA[type.split('.')[0]!]!) }),
                  ],
                },
              },
            },
          },
          responses: { '2XX': { description: 'Received' } },
        },
      },
    ]),
  )
}
