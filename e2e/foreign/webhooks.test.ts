import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import { after, afterEach, before, test } from 'node:test'
import { verifyWebhook } from '../../packages/client/src/webhook.ts'
import { systemClock } from '../../src/clock.ts'
import type { WireEvent } from '../../src/events/wire.ts'
import { webhookKeysOf } from '../../src/webhooks/keys.ts'
import { createWebhook, rotateWebhookSecret } from '../../src/webhooks/manage.ts'
import { openPost, openWebhookOutbound } from '../../src/webhooks/post.ts'
import { newSigningSecret, showSecret } from '../../src/webhooks/sign.ts'
import { freePort } from '../../test/kit/ports.ts'
import { webhookStage, type WebhookStage } from '../../test/webhook-stage.ts'

/** What others' verifiers make of the requests that an endpoint gets from a process that delivers. */

const standard = await import('standardwebhooks')
const svix = await import('svix')

/** A request as it arrived. */
type Received = { headers: Record<string, string>; body: Buffer }

const VERIFIERS: Record<string, (received: Received, secret: string) => Promise<WireEvent>> = {
  standardwebhooks: async ({ headers, body }, secret) =>
    new standard.Webhook(secret).verify(body, headers) as WireEvent,
  svix: async ({ headers, body }, secret) => {
    // It throws, or returns nothing.
    new svix.Webhook(secret).verify(body, headers)
    return JSON.parse(body.toString()) as WireEvent
  },
  'our client': async ({ headers, body }, secret) => (await verifyWebhook({ headers, body }, secret)) as WireEvent,
}

let stage: WebhookStage
let server: Server
let url: string
const received: Received[] = []
before(async () => {
  stage = await webhookStage()
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
    received.push({ headers, body: Buffer.concat(chunks) })
    response.writeHead(204).end()
  })
  const port = await freePort()
  await new Promise<void>((done) => void server.listen(port, '127.0.0.1', done))
  url = `http://127.0.0.1:${port}/`
})
after(async () => {
  await stage.close()
  server.closeAllConnections()
  server.close()
})

afterEach(() => stage.db.deleteFrom('webhooks').execute())

async function newHook(): Promise<{ id: string; secret: string }> {
  const { webhook, secret } = await createWebhook(
    stage.db,
    { keys: webhookKeysOf(stage.app.sealKeys), privateHosts: new Set(['127.0.0.1']) },
    { clientId: 'demo', url, types: ['*'] },
  )
  return { id: webhook.id, secret }
}

/** Sends one event of each data, as a process of its own does. @returns the requests that arrived */
async function deliver(clock = systemClock): Promise<Received[]> {
  for (const one of Object.values(DATA)) await stage.emit(['transaction:tx_1'], 'transaction.mined', 'demo', one)
  received.length = 0
  await stage.courier(openPost({ clock }, openWebhookOutbound(stage.app))).work()
  assert.equal(received.length, Object.keys(DATA).length)
  return [...received]
}

/** Data that a verifier could read otherwise than it was sent. */
const DATA: Record<string, Record<string, unknown>> = {
  empty: {},
  unicode: { note: 'ünïcødé 漢字 🦄 \u2028\u0001 "\\', reference: '\ufeffBOM\ufffd' },
  large: { note: 'é🦄x'.repeat(100_000) },
}

async function assertAccepted(deliveries: readonly Received[], secrets: readonly string[]): Promise<void> {
  for (const [name, verify] of Object.entries(VERIFIERS))
    for (const secret of secrets) {
      const events = await Promise.all(deliveries.map((one) => verify(one, secret)))
      assert.deepEqual(events.map(({ data }) => data), Object.values(DATA), name) // prettier-ignore
      assert.deepEqual(events.map(({ id }) => id), deliveries.map(({ headers }) => headers['webhook-id']), name) // prettier-ignore
    }
}

async function assertRefused(deliveries: readonly Received[], secret: string, why: string): Promise<void> {
  for (const [name, verify] of Object.entries(VERIFIERS))
    for (const one of deliveries)
      await assert.rejects(
        verify(one, secret),
        { name: name === 'our client' ? 'InvalidWebhook' : 'WebhookVerificationError' },
        `${name}: ${why}`,
      )
}

test('standardwebhooks, svix and our client accept every delivery before, during and after a rotation, each with the secrets of its time only', async () => {
  const { id, secret: former } = await newHook()
  await assertAccepted(await deliver(), [former])
  const { secret: fresh } = await rotateWebhookSecret(stage.db, webhookKeysOf(stage.app.sealKeys), { id, clientId: 'demo' }) // prettier-ignore
  await assertAccepted(await deliver(), [fresh, former])
  await stage.age(24 * 3_600_000 + 1_000)
  const after = await deliver()
  await assertAccepted(after, [fresh])
  await assertRefused(after, former, 'the former secret')
})

test('the same three refuse a changed body, a changed id, an old or early time and another secret', async () => {
  const { secret } = await newHook()
  const deliveries = await deliver()
  await assertAccepted(deliveries, [secret])
  const changed = (edit: (one: Received) => Partial<Received>) => deliveries.map((one) => ({ ...one, ...edit(one) }))
  const withHeader = (name: string, edit: (value: string) => string) =>
    changed(({ headers }) => ({ headers: { ...headers, [name]: edit(headers[name]!) } }))
  await assertRefused(changed(({ body }) => ({ body: Buffer.from(body.toString().replace('mined', 'final')) })), secret, 'a changed body') // prettier-ignore
  await assertRefused(changed(({ body }) => ({ body: Buffer.concat([body, Buffer.from(' ')]) })), secret, 'a longer body') // prettier-ignore
  await assertRefused(
    withHeader('webhook-id', (id) => `${id}0`),
    secret,
    'a changed id',
  )
  await assertRefused(
    withHeader('webhook-timestamp', (at) => String(Number(at) + 1)),
    secret,
    'a changed time',
  )
  await assertRefused(
    withHeader('webhook-signature', (text) => text.replace('v1,', 'v0,')),
    secret,
    'another scheme',
  )
  await assertRefused(deliveries, showSecret(newSigningSecret()), 'another secret')
  // Signed as everything is, at a time that is not now.
  for (const ms of [-302_000, 302_000])
    await assertRefused(await deliver({ ...systemClock, wall: () => Date.now() + ms }), secret, `${ms} ms from now`)
})

test('our client refuses bytes that only decode to the text that was signed', async () => {
  const { secret } = await newHook()
  const [, unicode] = await deliver()
  const { headers, body } = unicode!
  const broken = Buffer.from(body.toString('latin1').replace('\u00ef\u00bf\u00bd', '\u00ff'), 'latin1')
  assert.equal(broken.toString(), body.toString())
  for (const bytes of [broken, Buffer.concat([Buffer.from('\ufeff'), body])])
    await assert.rejects(verifyWebhook({ headers, body: bytes }, secret))
})
