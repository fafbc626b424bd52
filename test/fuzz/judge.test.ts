// tier: all, because it sends thousands of hostile requests
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Type from 'typebox'
import { answers } from '../../src/http/wire.ts'
import type { Document } from './requests.ts'
import { openJudge, type FuzzAnswer } from './judge.ts'

const operation = answers(Type.Object({ id: Type.String() }))
const responses = Object.fromEntries(
  Object.entries(operation.response).map(([status, schema]) => [
    status,
    status === '200' ? { content: { 'application/json': { schema } } } : schema,
  ]),
)
const judge = openJudge({ paths: { '/v1/me': { get: { responses } } } } as Document, ['a-secret'])
const request = { method: 'GET', template: '/v1/me', path: '/v1/me', headers: {}, body: undefined }

const accepted: FuzzAnswer = { status: 200, headers: { 'content-type': 'application/json' }, text: '{"id":"x"}' }
const problem = {
  ...{
    type: 'http://x/docs/errors#invalid_request',
    title: 't',
    status: 400,
    detail: 'd',
    help: 'What to do.',
    userMessage: 'Try again.',
    instance: '/v1/me',
  },
  ...{ code: 'invalid_request', requestId: 'r', retryable: false, error: 'd' },
}
const refused = (more: object = {}, headers: object = {}, status = 400): FuzzAnswer => ({
  status,
  headers: { 'content-type': 'application/problem+json', 'x-request-id': 'r', ...headers },
  text: JSON.stringify({ ...problem, ...more }),
})

test('the judge lets right answers pass', () => {
  assert.equal(judge(request, accepted), null)
  assert.equal(judge(request, refused()), null)
})

test('the judge finds every kind of wrong answer', () => {
  const wrong: [string, FuzzAnswer][] = [
    ['a 500', refused({ status: 500, code: 'internal_error' }, {}, 500)],
    ['another shape', { ...accepted, text: '{"id":1}' }],
    ['no JSON', { ...accepted, text: '<html>' }],
    ['another type', { ...accepted, headers: { 'content-type': 'text/html' } }],
    ['a secret', { ...accepted, text: '{"id":"a-secret"}' }],
    ['a secret in a header', { ...accepted, headers: { ...accepted.headers, location: '/a-secret' } }],
    ['a status that is not documented', { ...accepted, status: 201 }],
    ['a refusal as JSON', refused({}, { 'content-type': 'application/json' })],
    ['an unknown code', refused({ code: 'oops', type: 'http://x/docs/errors#oops' })],
    ['a code of another status', refused({ code: 'not_found', type: 'http://x/docs/errors#not_found' })],
    ['another status inside', refused({ status: 401 })],
    ['another request id', refused({}, { 'x-request-id': 'q' })],
    ['a missing field', refused({ instance: undefined })],
    ['SQL', refused({ detail: 'select "id" from x', error: 'select "id" from x' })],
    ['a stack', refused({ detail: 'x\n    at read (/a.ts:1:1)', error: 'x\n    at read (/a.ts:1:1)' })],
    ['a 401 that does not say how', refused({ code: 'invalid_token', type: '#/docs/errors#invalid_token', status: 401 }, {}, 401)], // prettier-ignore
  ]
  for (const [what, answer] of wrong) assert.notEqual(judge(request, answer), null, what)
})
