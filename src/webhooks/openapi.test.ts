import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { describe } from '../events/describe.ts'
import { EVENT_TYPES } from '../events/wire.ts'
import { webhookRequests } from './openapi.ts'

type Described = {
  post: { requestBody: { content: { 'application/json': { schema: { allOf: [object, { properties: { data: { properties: object } } }] } } } } } // prettier-ignore
}
const fieldsOf = (type: string) => {
  const { post } = webhookRequests()[type] as Described
  return Object.keys(post.requestBody.content['application/json'].schema.allOf[1].properties.data.properties).toSorted()
}

test('the document has a request for each type of event', () => {
  assert.deepEqual(Object.keys(webhookRequests()), [...EVENT_TYPES])
})

test('the documented data of an event are those that it has', () => {
  const fact = { chainId: 1, accountId: null, subject: 'a' }
  const place = { state: 'SUBMITTED', blockHash: null, times: 0, failures: 0 }
  const mined = { ...place, state: 'MINED', blockHash: 'ab' }
  const write = { id: 'tx_1', hash: 'cd', blockNumber: 1, steps: [{ state: 'MINED', at: '' }], before: place }
  const row = { id: 'a', state: 'approved', rule: 'r', expires_at: '', kind: 'k', class: 'c', hash: '\\x00', reference: null, permissions: ['x'], updated_at: '', created_at: '' } // prettier-ignore
  const transfer = {
    ...{ id: 't', direction: 0, tokenType: 'ERC20', token: 'ab'.repeat(20), tokenId: null, value: '01' },
    ...{ from: 'ab'.repeat(20), to: 'ab'.repeat(20), hash: 'ab', logIndex: 0, blockNumber: 1, blockHash: 'ab' },
    ...{ minedAt: '2026-01-31T12:00:00Z', times: 0 },
  }
  const account = { frozenAt: 'now', wasFrozenAt: null, unfrozenAt: null, exportedAt: 'now', wasExportedAt: null }
  const facts = [
    ['write', { ...write, ...mined }],
    ['write', { ...write, ...place, steps: [{ state: 'SUBMITTED', at: '' }], before: mined }],
    ['transfer', { ...transfer, verb: 'detected' }],
    ['transfer', { ...transfer, verb: 'retracted' }],
    ['approval', { row }],
    ['signature', { row }],
    ['user', { row }],
    ['consent', { row, before: null }],
    ['revoked', { row }],
    ['account', account],
    ['lane', { isStopped: true, reason: 'r', nonce: 1, hash: null }],
    ['denial', { row: { rule: 'r', hour: '', request: 'write', reference: null, detail: 'd', count: 1 } }],
    ['low_balance', { row: { kind: 'waiting', nonce: 1, transaction_id: 't', needed: '2', available: '1' } }],
    ['webhook', { verb: 'failed', key: 1, id: 'w', eventId: 'e', eventType: 't', attempts: 13 }],
    ['webhook', { verb: 'disabled', key: 1, id: 'w', reason: 'gone' }],
  ] as const
  const seen = facts.flatMap(([kind, data]) => describe({ ...fact, kind, data: data as Record<string, unknown> }))
  assert.ok(seen.length >= facts.length)
  for (const { type, data } of seen) assert.deepEqual(Object.keys(data).toSorted(), fieldsOf(type), type)
})
