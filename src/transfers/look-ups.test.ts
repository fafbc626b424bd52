import assert from 'node:assert/strict'
import { test } from 'node:test'
import { world } from '../../test/world.ts'

const TRANSFER = '/v1/tokens/transfers'

test('names are looked up ten times a minute, ids for nothing among them; what is sent by id or repeated is not counted', async (t) => {
  const here = await world({ RATE_LIMITS: 'on', WRITES_PER_SECOND: '1000', APPLICATION_PER_SECOND: '1000' })
  t.after(() => here.close())
  const { alice, bob } = here
  const coin = (more: object) => ({ tokenType: 'NATIVE', amount: '0.001', ...more })
  const bobByName = { toUserProviderType: 'DEV', toUserUsername: 'bob' }
  const nobody = { toUserProviderType: 'DEV', toUserUsername: 'nobody' }
  const key = { 'idempotency-key': 'to bob' }
  const first = await alice.post(TRANSFER, coin(bobByName), key)
  assert.equal(first.status, 200, JSON.stringify(first.body))
  for (let time = 0; time < 4; time++) assert.equal((await alice.post(TRANSFER, coin(nobody))).body.code, 'unknown_recipient') // prettier-ignore
  for (let time = 0; time < 5; time++)
    assert.equal((await alice.post(TRANSFER, coin({ toUserId: 'DEV-bob', dryRun: true }))).status, 200)
  for (const body of [bobByName, nobody, { toUserId: 'DEV-who', dryRun: true }]) {
    const { status, headers, body: refused } = await alice.post(TRANSFER, coin(body))
    assert.deepEqual([status, refused.code], [429, 'rate_limited'])
    assert.match(headers.get('ratelimit-policy')!, /^"recipients";q=10;w=60$/)
    assert.ok(Number(headers.get('retry-after')) <= 6)
  }
  const again = await alice.post(TRANSFER, coin(bobByName), key)
  assert.deepEqual([again.status, again.body.hash], [200, first.body.hash])
  assert.equal((await alice.post(TRANSFER, coin({ toUserId: 'DEV-bob' }))).status, 200)
  assert.equal((await alice.post(TRANSFER, coin({ toAddress: bob.address, dryRun: true }))).status, 200)
  // Another person's look-ups are their own.
  assert.equal((await bob.post(TRANSFER, coin({ toUserId: 'DEV-alice', dryRun: true }))).status, 200)
})
