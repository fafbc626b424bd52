import { strict as assert } from 'node:assert'
import { afterEach, beforeEach, test } from 'node:test'
import { sql } from 'kysely'
import { Webhook } from 'standardwebhooks'
import { endpoint, webhookStage, type WebhookStage } from '../../test/webhook-stage.ts'
import { newSealKey, sealKeysOf } from '../oauth/seal-keys.ts'
import { openState } from '../state.ts'
import { webhookKeysOf } from './keys.ts'
import { readWebhook, rotateWebhookSecret } from './manage.ts'
import { signatureHeaders } from './sign.ts'
import { encryptAgain, measureWebhooks, openDeliveries, sweepWebhooks } from './worker.ts'

let stage: WebhookStage
beforeEach(async () => {
  stage = await webhookStage()
})
afterEach(() => stage.close())

const of = (id: string) => ({ id, clientId: 'demo' })
const metric = async (name: string) => (await stage.app.telemetry.registry.getSingleMetricAsString(name)).split('\n').at(-1) // prettier-ignore

test('a secret is in the database encrypted only, for its own webhook, and no event, log line or answer repeats it', async () => {
  const { id, secret } = await stage.hook()
  const other = await stage.hook()
  const plain = Buffer.from(secret.slice('whsec_'.length), 'base64')
  assert.equal(plain.length, 32)
  const { rows } = await sql<{ row: string }>`select w::text as row from webhooks w`.execute(stage.db)
  for (const { row } of rows)
    for (const form of ['base64', 'base64url', 'hex'] as const) assert.ok(!row.includes(plain.toString(form)))
  assert.ok(!JSON.stringify(await readWebhook(stage.db, of(id))).includes('secret'))
  // Whoever can write to the database cannot give one webhook the secret of another.
  await sql`update webhooks set secret = (select secret from webhooks where id = ${id}) where id = ${other.id}`.execute(stage.db) // prettier-ignore
  await stage.emit(['a'])
  const to = endpoint()
  await stage.courier(to).work()
  assert.equal(to.letters.length, 1)
  const taken = await readWebhook(stage.db, of(other.id))
  assert.deepEqual([taken.state, taken.disabledReason], ['disabled', 'secret'])
  assert.equal(stage.told('webhook_secret_unreadable').length, 1)
})

test('while a secret is rotated, every delivery is good under the former one, and under the new one from its next look on', async () => {
  const { id, secret: former } = await stage.hook()
  let fresh: string | null = null
  const sent: { headers: Record<string, string>; body: string; isAfter: boolean }[] = []
  const to = endpoint(async ({ secrets, event }) => {
    const body = JSON.stringify(event)
    const headers = signatureHeaders(secrets, { id: event.id, at: Math.floor(Date.now() / 1_000), body })
    sent.push({ headers, body, isAfter: secrets.length === 2 })
    if (sent.length === 100)
      fresh = (await rotateWebhookSecret(stage.db, webhookKeysOf(stage.app.sealKeys), of(id))).secret
    return 200
  })
  await stage.emit(Array.from({ length: 400 }, (_, n) => `transaction:${n % 50}`))
  const courier = stage.courier(to)
  await courier.work()
  assert.equal(sent.length, 400)
  for (const { headers, body } of sent) new Webhook(former).verify(body, headers)
  const after = sent.filter(({ isAfter }) => isAfter)
  // 64 answers that were not stored, and 8 in flight.
  assert.ok(after.length >= 300 - 72, `${after.length} with both`)
  for (const { headers, body } of after) new Webhook(fresh!).verify(body, headers)
  await stage.age(24 * 3_600_000)
  await stage.emit(['later'])
  await courier.work()
  const { headers, body } = sent.at(-1)!
  new Webhook(fresh!).verify(body, headers)
  assert.throws(() => new Webhook(former).verify(body, headers))
})

test('after a rotation of the seal keys secrets are encrypted by the newest one, so that the old one can be removed', async () => {
  await stage.hook()
  const [fresh, lost] = [newSealKey(), newSealKey()]
  const app = { ...stage.app, state: openState() }
  // The former key is not among these: its secrets cannot be read, and remain as they are.
  app.sealKeys = sealKeysOf([fresh])
  assert.equal(await encryptAgain(app), 0)
  const [[kid, key]] = [...stage.app.sealKeys.macs!] as [[string, never]]
  app.sealKeys = { ...sealKeysOf([fresh]), macs: new Map([[kid, key], ...sealKeysOf([fresh]).macs!]) }
  assert.equal(await encryptAgain(app), 1)
  assert.equal(await encryptAgain(app), 0)
  await stage.emit(['a'])
  const to = endpoint()
  const after = openDeliveries({ ...app, sealKeys: sealKeysOf([fresh]) }, { post: to })
  await after.look()
  await after.idle()
  assert.equal(to.got.length, 1)
  assert.notEqual(fresh.kid, lost.kid)
})

test('metrics show the oldest event that a webhook waits for, disabled webhooks, and attempts by result', async () => {
  await stage.hook()
  await stage.emit(['a'])
  await sql`update events set at = now() - interval '2 hours'`.execute(stage.db)
  await measureWebhooks(stage.app)
  assert.match((await metric('webhook_oldest_undelivered_seconds'))!, / 720\d/)
  const courier = stage.courier(endpoint(() => 410))
  await courier.work()
  await measureWebhooks(stage.app)
  assert.match((await metric('webhook_oldest_undelivered_seconds'))!, / 0$/)
  assert.match((await metric('webhooks_disabled'))!, / 1$/)
  assert.match((await metric('webhook_deliveries_total'))!, /failed.* 1$/)
})

test('the log keeps seven days, and dead events as long as the feed', async () => {
  const { id } = await stage.hook()
  await stage.emit(['a', 'b'])
  await stage.courier(endpoint(() => 500)).work()
  await sql`update webhook_deliveries set created_at = now() - interval '8 days' where seq = (select min(seq) from webhook_deliveries)`.execute(stage.db) // prettier-ignore
  await sql`update webhook_retries set is_dead = true, created_at = now() - interval '31 days' where seq = (select min(seq) from webhook_retries)`.execute(stage.db) // prettier-ignore
  await sweepWebhooks(stage.app)
  const left = await stage.db.selectFrom('webhook_deliveries').select('id').execute()
  const { dead, waiting } = await readWebhook(stage.db, of(id))
  assert.deepEqual([left.length, dead, waiting], [1, 0, 1])
})
