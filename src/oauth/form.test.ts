import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FastifyRequest } from 'fastify'
import { formOf } from './interactions.ts'

const read = (body: string) => formOf({ body: new URLSearchParams(body) } as unknown as FastifyRequest)

test('a field counts if a form has it once, as text that the database can store', () => {
  assert.deepEqual(read('csrf=a&to=Zo%C3%AB'), { csrf: 'a', to: 'Zoë' })
  assert.equal(read('to=a&to=b').to, undefined)
  assert.equal(read('to=a%00b').to, undefined)
})
