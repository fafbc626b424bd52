import { strict as assert } from 'node:assert'
import { createServer, type Server } from 'node:http'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { addMachine } from '../../test/machine.ts'
import { command } from '../../test/kit/command.ts'
import { testPooler } from '../../test/kit/database.ts'
import { freePort } from '../../test/kit/ports.ts'
import { until } from '../../test/kit/until.ts'
import { world, type Answer, type World } from '../../test/world.ts'
import type { Permission } from '../applications/permissions.ts'
import { noteUser } from '../applications/registry.ts'
import { accountIdOf } from '../ids.ts'
import { requestTest } from './manage.ts'

let here: World
let server: Server
let url: string
const received: { headers: Record<string, string>; body: string }[] = []
before(async () => {
  const port = await freePort()
  url = `http://127.0.0.1:${port}/hook`
  server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += String(chunk)
    received.push({ headers: Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)])), body }) // prettier-ignore
    response.end('thanks')
  })
  await new Promise<void>((done) => void server.listen(port, '127.0.0.1', done))
  here = await world()
})
after(async () => {
  await here.close()
  server.closeAllConnections()
  server.close()
})

/** An application with its machine token, and what it asks with it. */
async function machine(clientId: string, scopes: readonly Permission[] = ['events:read', 'webhooks:manage']) {
  const { token } = await addMachine(here, clientId, ['wallet:read', ...scopes])
  return (method: string, path: string, body?: unknown): Promise<Answer> => ask(token, method, path, body)
}

const ask = (token: string, method: string, path: string, body?: unknown): Promise<Answer> =>
  here.request(path, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })

test('an application adds a webhook, tests it, gets what happens, changes, rotates and deletes it', async () => {
  const shop = await machine('shop')
  const made = await shop('POST', '/v1/webhooks', { url, types: ['user.*'] })
  assert.equal(made.status, 201)
  const { webhook, secret } = made.body
  assert.equal(made.headers.get('location'), `${here.facts.origin}/v1/webhooks/${webhook.id}`)
  const tested = await shop('POST', `/v1/webhooks/${webhook.id}/test`)
  assert.deepEqual([tested.status, tested.body.status, tested.body.answer, tested.body.error], [200, 200, 'thanks', null]) // prettier-ignore
  const test = received.at(-1)!
  assert.equal((new Webhook(secret).verify(test.body, test.headers) as { type: string }).type, 'webhook.test')

  await noteUser(here.app.db, { clientId: 'shop', accountId: accountIdOf('DEV', 'alice') })
  const event = await until('the event has arrived', () => received.find(({ body }) => body.includes('user.created')))
  const [inFeed] = (await shop('GET', '/v1/events?types=user.created')).body
  assert.deepEqual(new Webhook(secret).verify(event.body, event.headers), inFeed)

  const changed = await shop('PATCH', `/v1/webhooks/${webhook.id}`, { types: ['*'] })
  assert.deepEqual([changed.status, changed.body.types, changed.body.url], [200, ['*'], url])
  const rotated = await shop('POST', `/v1/webhooks/${webhook.id}/rotate-secret`)
  assert.notEqual(rotated.body.secret, secret)
  assert.ok(Date.parse(rotated.body.webhook.oldSecretEndsAt) > Date.now() + 23 * 3_600_000)
  await shop('POST', `/v1/webhooks/${webhook.id}/test`)
  for (const one of [secret, rotated.body.secret])
    new Webhook(one).verify(received.at(-1)!.body, received.at(-1)!.headers)

  const listed = await shop('GET', `/v1/webhooks/${webhook.id}/deliveries?limit=1`)
  assert.deepEqual([listed.body.length, listed.body[0].kind], [1, 'test'])
  const next = await shop('GET', `/v1/webhooks/${webhook.id}/deliveries?limit=1&cursor=${listed.headers.get('x-next-cursor')}`) // prettier-ignore
  assert.equal(next.body[0].id, tested.body.id)
  const replayed = await shop('POST', `/v1/webhooks/${webhook.id}/replay`, { from: '2020-01-01T00:00:00Z' })
  assert.equal(replayed.status, 200)
  await until('the event has arrived again', () =>
    received.find(({ headers }) => headers['chatelaine-replay'] === 'true' && headers['webhook-id'] === inFeed.id),
  )
  assert.equal((await shop('POST', `/v1/webhooks/${webhook.id}/enable`)).status, 200)
  assert.deepEqual((await shop('GET', '/v1/webhooks')).body.map(({ id }: { id: string }) => id), [webhook.id]) // prettier-ignore
  assert.deepEqual((await shop('DELETE', `/v1/webhooks/${webhook.id}`)).body, { id: webhook.id })
  const gone = await shop('GET', `/v1/webhooks/${webhook.id}`)
  assert.deepEqual([gone.status, gone.body.code], [404, 'not_found'])
})

test('users, applications without the permission, and other applications reach no webhook', async () => {
  const [owner, other] = [await machine('owner'), await machine('other')]
  const { body } = await owner('POST', '/v1/webhooks', { url })
  const reader = await machine('reader', ['events:read'])
  for (const [method, path, sent] of [
    ['GET', '', undefined],
    ['PATCH', '', { types: ['*'] }],
    ['DELETE', '', undefined],
    ['POST', '/test', undefined],
    ['POST', '/rotate-secret', undefined],
    ['POST', '/enable', undefined],
    ['POST', '/replay', { from: '2020-01-01T00:00:00Z' }],
    ['POST', '/redeliver', { eventId: `evt_${'0'.repeat(32)}` }],
    ['GET', '/deliveries', undefined],
  ] as const) {
    const path_ = `/v1/webhooks/${body.webhook.id}${path}`
    const answers = [await other(method, path_, sent), await reader(method, path_, sent), await ask(here.bob.token, method, path_, sent)] // prettier-ignore
    assert.deepEqual(
      answers.map((one) => [one.status, one.body.code]),
      [
        [404, 'not_found'],
        [403, 'insufficient_scope'],
        [403, 'insufficient_scope'],
      ],
      `${method} ${path}`,
    )
  }
  assert.equal((await owner('GET', `/v1/webhooks/${body.webhook.id}`)).body.state, 'enabled')
})

test('bad input gets a clear error and creates nothing', async () => {
  const bad = await machine('bad')
  for (const [sent, code] of [
    [{}, 'invalid_request'],
    [{ url: 'nonsense' }, 'invalid_request'],
    [{ url: 'http://shop.example/hook' }, 'invalid_request'],
    [{ url: 'https://user:word@shop.example/hook' }, 'invalid_request'],
    [{ url: 'https://shop.example/hook#x' }, 'invalid_request'],
    [{ url: 'https://10.0.0.1/hook' }, 'invalid_request'],
    [{ url: 'https://0xa.1:8443/hook' }, 'invalid_request'],
    [{ url: 'https://[::ffff:10.0.0.1]/' }, 'invalid_request'],
    [{ url: 'https://shop.example/\0' }, 'invalid_request'],
    [{ url: 7 }, 'invalid_request'],
    [{ url, types: [] }, 'invalid_request'],
    [{ url, types: ['transaction.unknown'] }, 'invalid_request'],
    [{ url, types: ['transaction.mined,*'] }, 'invalid_request'],
    [{ url, more: 1 }, 'unknown_parameter'],
  ] as const) {
    const answer = await bad('POST', '/v1/webhooks', sent)
    assert.deepEqual([answer.status, answer.body.code], [400, code], JSON.stringify(sent))
  }
  assert.deepEqual((await bad('GET', '/v1/webhooks')).body, [])
  const { webhook } = (await bad('POST', '/v1/webhooks', { url, types: ['key.exported'] })).body
  for (const [method, path, sent, status] of [
    ['GET', '/v1/webhooks/%00', undefined, 404],
    ['GET', `/v1/webhooks/${'x'.repeat(65)}`, undefined, 400],
    ['GET', `/v1/webhooks/${webhook.id}/deliveries?cursor=nonsense`, undefined, 400],
    ['GET', `/v1/webhooks/${webhook.id}/deliveries?cursor=${Buffer.from('["2026-01-31T12:00:00Z","\\u0000"]').toString('base64url')}`, undefined, 400], // prettier-ignore
    ['GET', `/v1/webhooks/${webhook.id}/deliveries?limit=0`, undefined, 400],
    ['POST', `/v1/webhooks/${webhook.id}/replay`, { from: 'yesterday' }, 400],
    ['POST', `/v1/webhooks/${webhook.id}/replay`, { from: '2026-02-30T00:00:00Z' }, 400],
    ['POST', `/v1/webhooks/${webhook.id}/replay`, { from: '9999-01-01T00:00:00Z' }, 400],
    ['POST', `/v1/webhooks/${webhook.id}/redeliver`, { eventId: 'evt_1' }, 400],
    ['POST', `/v1/webhooks/${webhook.id}/redeliver`, { eventId: `evt_${'0'.repeat(32)}` }, 404],
    ['PATCH', `/v1/webhooks/${webhook.id}`, { url: 'https://167772161/' }, 400],
  ] as const) {
    const answer = await bad(method, path, sent)
    assert.equal(answer.status, status, `${method} ${path} ${JSON.stringify(answer.body)}`)
  }
  for (let count = 1; count < 20; count++) await bad('POST', '/v1/webhooks', { url, types: ['key.exported'] })
  const tooMany = await bad('POST', '/v1/webhooks', { url })
  assert.deepEqual([tooMany.status, tooMany.body.code], [409, 'already_exists'])
  const without = await machine('without', ['webhooks:manage'])
  assert.match((await without('POST', '/v1/webhooks', { url })).body.detail, /events:read/)
})

test('thirty requests at once create no more than 20 webhooks of an application, and leave at most 20 tests waiting', async () => {
  const crowd = await machine('crowd')
  const answers = await Promise.all(Array.from({ length: 30 }, () => crowd('POST', '/v1/webhooks', { url, types: ['key.exported'] }))) // prettier-ignore
  const refused = answers.filter(({ status }) => status !== 201)
  assert.deepEqual([...new Set(refused.map(({ status, body }) => `${status} ${body.code}`))], ['409 already_exists'])
  assert.match(refused[0]!.body.detail, /has 20 webhooks already\. Nothing was done\./)
  const listed = (await crowd('GET', '/v1/webhooks')).body as { id: string }[]
  assert.deepEqual([answers.length - refused.length, listed.length], [20, 20])

  // Without the permission nothing is sent, so that every request waits.
  await here.app.db.updateTable('applications').set({ suspended_at: new Date() }).where('client_id', '=', 'crowd').execute() // prettier-ignore
  const which = { id: listed[0]!.id, clientId: null }
  const asked = await Promise.allSettled(Array.from({ length: 30 }, () => requestTest(here.app.db, which)))
  const done = asked.filter(({ status }) => status === 'fulfilled')
  const waiting = await here.app.db.selectFrom('webhook_deliveries').select('id').where('webhook_id', '=', which.id).execute() // prettier-ignore
  assert.deepEqual([done.length, waiting.length], [20, 20])
})

test('an operator does the same for any application, and each change is recorded without a secret', async () => {
  await machine('kiosk')
  const token = (await readFile(join(here.dataDir, 'operator-token'), 'utf8')).trim()
  const operate = (method: string, path: string, body?: unknown) => ask(token, method, `/operator/v1${path}`, body)
  const made = await operate('POST', '/webhooks', { clientId: 'kiosk', url })
  assert.equal(made.status, 201)
  const { webhook, secret } = made.body
  const path = `/webhooks/${webhook.id}`
  assert.deepEqual((await operate('GET', '/webhooks?clientId=kiosk')).body, [webhook])
  assert.equal((await operate('POST', `${path}/test`)).status, 200)
  await until('the test has arrived', () => received.find(({ body }) => body.includes(webhook.id)))
  const log = await until('its result is in the log', async () => {
    const { body } = await operate('GET', `${path}/deliveries`)
    return body[0].doneAt === null ? null : body
  })
  assert.equal(log[0].status, 200)
  const rotated = (await operate('POST', `${path}/rotate-secret`)).body.secret
  assert.equal((await operate('PATCH', path, { types: ['user.*'] })).status, 200)
  assert.equal((await operate('POST', `${path}/enable`)).status, 200)
  assert.equal((await operate('DELETE', path)).status, 200)
  assert.equal((await operate('DELETE', path)).status, 404)
  assert.equal((await operate('POST', '/webhooks', { clientId: 'nobody', url })).body.code, 'not_found')
  const actions = (await operate('GET', '/actions')).body.filter((one: { target: string }) => one.target === webhook.id)
  assert.deepEqual(actions.map(({ action }: { action: string }) => action).toReversed(), [
    'create-webhook',
    'test-webhook',
    'rotate-webhook-secret',
    'update-webhook',
    'enable-webhook',
    'remove-webhook',
  ])
  for (const one of [secret, rotated]) assert.ok(!JSON.stringify(actions).includes(one.slice(6)))
})

test('the OpenAPI document has the requests that webhooks send', async () => {
  const { body } = await here.request('/openapi.json')
  const schema = body.webhooks['transaction.mined'].post.requestBody.content['application/json'].schema
  assert.equal(schema.allOf[0].$ref, '#/components/schemas/Event')
  assert.ok('Event' in body.components.schemas)
})

test('the commands of an operator work beside the running server', async () => {
  await machine('stand')
  const { DATABASE_URL } = here.app.config
  const env = { DATA_DIR: here.dataDir, ...(DATABASE_URL === undefined ? {} : { DATABASE_URL, DATABASE_POOLER: testPooler }) } // prettier-ignore
  const run = async (...words: string[]) => {
    const { code, out, err } = await command(env, ['webhook', ...words])
    assert.equal(code, 0, `${words.join(' ')}: ${err}`)
    return out
  }
  const { webhook, secret } = JSON.parse(await run('add', 'stand', url, '--type', 'user.*', '--json')) as { webhook: { id: string; types: string[] }; secret: string } // prettier-ignore
  assert.deepEqual(webhook.types, ['user.*'])
  assert.match(await run('list', '--client-id', 'stand'), new RegExp(`${webhook.id} .*enabled`))
  assert.match(await run('test', webhook.id), /status 200[^]*thanks/)
  const shown = await run('show', webhook.id)
  assert.match(shown, /test +webhook\.test/)
  assert.ok(!shown.includes(secret))
  assert.match(await run('rotate-secret', webhook.id), /whsec_/)
  assert.match(await run('enable', webhook.id), /enabled/)
  await noteUser(here.app.db, { clientId: 'stand', accountId: accountIdOf('DEV', 'bob') })
  await until('the event is in the feed', async () => (await here.app.db.selectFrom('events').select('seq').where('client_id', '=', 'stand').execute()).length > 0) // prettier-ignore
  assert.match(await run('replay', webhook.id, '--from', '2020-01-01T00:00:00Z'), /started/)
  assert.match(await run('remove', webhook.id), /removed/)
  const gone = await command(env, ['webhook', 'show', webhook.id])
  assert.deepEqual([gone.code, /no webhook/.test(gone.err)], [1, true])
})
