// tier: all, because it sends thousands of hostile requests
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { world, type World } from '../world.ts'

// What generated requests have found, each under its own name.

let here: World
before(async () => {
  here = await world({ LOG_LEVEL: 'silent' })
})
after(() => here.close())

test('a forged cursor of the transactions is refused, whatever the database would say of its parts', async () => {
  const id = 'tx_00000000-0000-4000-8000-000000000000'
  const forged = [
    ['', '2026-01-31T12:00:00.000Z', '\0'],
    ['', '2026-01-31T12:00:00.000Z', 'x'],
    ['', '0000-01-01T00:00:00.000Z', id],
    ['', '-271821-04-20T00:00:00.000Z', id],
    ['', '+275760-09-13T00:00:00.000Z', id],
    ['', '2026-13-31T12:00:00.000Z', id],
    ['MINED', '2026-01-31T12:00:00.000Z', id],
  ]
  for (const parts of forged) {
    const cursor = Buffer.from(JSON.stringify(parts)).toString('base64url')
    const { status, body } = await here.alice.get(`/v1/transactions?cursor=${cursor}`)
    assert.deepEqual([status, body.code], [400, 'invalid_cursor'], JSON.stringify(parts))
  }
  const cursor = Buffer.from(JSON.stringify(['', '2026-01-31T12:00:00.000Z', id])).toString('base64url')
  assert.equal((await here.alice.get(`/v1/transactions?cursor=${cursor}`)).status, 200)
})

test('the document names the refusals of a body where a body may be sent', async () => {
  const { body } = await here.request('/openapi.json')
  for (const methods of Object.values<Record<string, { responses: object }>>(body.paths))
    for (const status of ['413', '415']) assert.ok(methods.post === undefined || status in methods.post.responses)
})
