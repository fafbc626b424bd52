import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { openBrowser, textOf, type Page } from '../../test/kit/browser.ts'
import { rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { createApplication } from '../applications/manage.ts'
import { listActions } from '../operator/actions.ts'
import { CONSOLE_ROLES, putOperator, type ConsoleRole } from '../operator/operators.ts'
import { webhookActs } from '../operator/webhook-acts.ts'
import { grantRoles } from '../store/roles.ts'
import { decryptSecret } from '../store/secret-keys.ts'
import { en } from '../texts/en.ts'
import { readBacklogs } from '../webhooks/backlog.ts'
import { webhookKeysOf } from '../webhooks/keys.ts'
import { createWebhook } from '../webhooks/manage.ts'
import { showSecret } from '../webhooks/sign.ts'
import { findProblems } from './problems.ts'

const TOKEN = 'token-of-the-endpoint'
const URL_OF = { shop: `https://shop.example/hook?key=${TOKEN}`, stall: 'https://stall.example/hook' }
type Browser = ReturnType<typeof openBrowser>

let world: Rehearsal
const browsers = new Map<ConsoleRole, Browser>()
before(async () => {
  world = await rehearse({ env: { RATE_LIMITS: 'off' } })
  await world.app.db
    .insertInto('networks')
    .values({ chain_id: 31_337, name: 'devnet', genesis_hash: Buffer.alloc(32) })
    .execute()
  for (const clientId of ['shop', 'stall'])
    await createApplication(world.app, { name: `The ${clientId}`, clientId, network: 'devnet', kind: 'confidential', redirectUris: ['https://shop.example/back'], permissions: ['events:read', 'webhooks:manage'] }) // prettier-ignore
  for (const role of CONSOLE_ROLES) {
    await putOperator(world.app, { userId: `DEV-the-${role}`, role })
    const browser = openBrowser(world.origin)
    await browser.signIn('/console', `the-${role}`)
    browsers.set(role, browser)
  }
})
after(() => world.close())

async function add(clientId: keyof typeof URL_OF, types = ['*']): Promise<{ id: string; secret: string }> {
  const { db, sealKeys } = world.app
  const keys = webhookKeysOf(sealKeys)
  const made = await createWebhook(db, { keys, privateHosts: new Set() }, { clientId, url: URL_OF[clientId], types })
  return { id: made.webhook.id, secret: made.secret }
}

/** Writes events into the feed of an application, `hours` old. @returns their ids */
async function happen(clientId: string, events: { seq: number; type: string; subject?: string; hours: number }[]) {
  const { db } = world.app
  for (const { seq, type, subject = `transaction:tx_${seq}`, hours } of events)
    await sql`insert into events (client_id, seq, id, type, subject, is_own, data, at)
      values (${clientId}, ${seq}, ${uuidOf(seq)}::uuid, ${type}, ${subject}, false, '{}', now() - make_interval(hours => ${hours}::int))`.execute(
      db,
    )
  const newest = Math.max(...events.map(({ seq }) => seq))
  await sql`insert into feeds (client_id, seq) values (${clientId}, ${newest})
    on conflict (client_id) do update set seq = greatest(feeds.seq, excluded.seq)`.execute(db)
}
const uuidOf = (seq: number) => `00000000-0000-4000-8000-${seq.toString().padStart(12, '0')}`
const eventOf = (seq: number) => `evt_${uuidOf(seq).replaceAll('-', '')}`

/** A retry of an event that has failed; dead ones have their last attempt in the log. */
async function fail(id: string, seq: number, { isDead, answer = '' }: { isDead: boolean; answer?: string }) {
  const { db } = world.app
  const attempts = isDead ? 13 : 2
  await sql`insert into webhook_retries (webhook_id, seq, subject, attempts, is_dead) values (${id}, ${seq}, ${`transaction:tx_${seq}`}, ${attempts}, ${isDead})`.execute(db) // prettier-ignore
  await sql`insert into webhook_deliveries (id, webhook_id, kind, event_id, seq, type, attempt, status, error, answer, duration_ms, done_at)
    values (${`dlv_${id.slice(4, 12)}-${seq}`}, ${id}, 'retry', ${eventOf(seq)}, ${seq}, 'transaction.mined', ${attempts}, 500, 'status 500', ${answer}, 12, now())`.execute(db) // prettier-ignore
}

const change = (id: string, columns: string) =>
  sql`update webhooks set ${sql.raw(columns)} where id = ${id}`.execute(world.app.db)

async function go(path: string, role: ConsoleRole = 'operator'): Promise<Page> {
  const page = await browsers.get(role)!.go(path)
  assert.equal(page.status, 200, `${path}: ${textOf(page.text)}`)
  assert.ok(!/<script(?! defer src=)|style=| on\w+=/.test(page.text), path)
  return page
}

const said = async (): Promise<string> =>
  (await findProblems(world.app)).map(({ say }) => say(en.console.problems)).join('\n')

test('a webhook shows its state, events behind, dead events, and the log with escaped responses', async () => {
  const { id } = await add('stall', ['transaction.*'])
  await happen('stall', [
    { seq: 1, type: 'transaction.mined', hours: 30 },
    { seq: 2, type: 'transaction.mined', hours: 20 },
    { seq: 3, type: 'user.created', hours: 10 },
    { seq: 4, type: 'transaction.finalized', hours: 5 },
    { seq: 5, type: 'transaction.failed', subject: `webhook:${id}`, hours: 4 },
  ])
  await change(id, 'cursor = 2')
  await fail(id, 1, { isDead: true, answer: '<script>alert(1)</script>' })
  await fail(id, 2, { isDead: false })
  const backlog = (await readBacklogs(world.app.db, [id], 10)).get(id)!
  assert.deepEqual([backlog.behind, backlog.isMore, backlog.isAllowed], [2, false, true])
  assert.ok(Math.abs(Date.now() - backlog.oldestAt!.getTime() - 20 * 3_600_000) < 600_000)
  assert.equal((await readBacklogs(world.app.db, [id], 2)).get(id)!.isMore, true)

  const page = await go(`/console/webhooks/${id}`)
  const text = textOf(page.text)
  for (const one of [
    /State enabled/,
    /Events behind 2, oldest/,
    /Dead events 1/,
    new RegExp(`Dead events .*${eventOf(1)} transaction\\.mined transaction:tx_1`),
    new RegExp(`chatelaine webhook redeliver ${id} --event ${eventOf(1)}`),
    /status 500 12 ms .*&#60;script&#62;alert\(1\)&#60;\/script&#62;/,
    /Event types transaction\.\*/,
    /Last success never/,
  ])
    assert.match(text, one)
  assert.ok(!page.text.includes('/act/enable-webhook'), 'it is enabled')
  assert.match(textOf((await go(`/console/webhooks/${id}?kind=test`)).text), /Log of attempts .*redelivery None\./)

  await change(id, `disabled_at = now(), disabled_reason = 'gone'`)
  assert.match(textOf((await go(`/console/webhooks/${id}`)).text), /State disabled Since .* Disabled because the endpoint responded with 410/) // prettier-ignore
  await world.app.db.updateTable('applications').set({ suspended_at: new Date() }).where('client_id', '=', 'stall').execute() // prettier-ignore
  assert.match(textOf((await go(`/console/webhooks/${id}`)).text), /Nothing is sent: the application is suspended/)
  await world.app.db.updateTable('applications').set({ suspended_at: null }).where('client_id', '=', 'stall').execute()
  for (const wrong of ['whk_none', '%00', 'x'.repeat(90)])
    assert.equal((await browsers.get('viewer')!.go(`/console/webhooks/${wrong}`)).status, 404, wrong)
  await world.app.db.deleteFrom('webhooks').execute()
})

test('the list has filters and pages; an application and the search lead to a webhook', async () => {
  const ids = await Promise.all(Array.from({ length: 12 }, async () => (await add('shop')).id))
  const others = await Promise.all(Array.from({ length: 20 }, async () => (await add('stall')).id))
  await sql`insert into webhooks (id, client_id, url, types, secret, cursor)
    select 'whk_' || gen_random_uuid(), 'none', url, types, secret, 0 from webhooks`.execute(world.app.db)
  await change(ids[3]!, 'failing_since = now(), probe_at = now()')
  await change(ids[4]!, `disabled_at = now(), disabled_reason = 'failing'`)
  const listed = ({ text }: Page) => [...text.matchAll(/href="\/console\/webhooks\/(whk_[^"]+)"/g)].map(([, id]) => id!)
  const first = await go('/console/webhooks')
  const next = /href="(\/console\/webhooks\?cursor[^"]+)"/.exec(first.text)![1]!.replaceAll('&#61;', '=')
  const second = await go(next)
  assert.deepEqual([listed(first).length, listed(second).length], [50, 14])
  assert.equal(new Set([...listed(first), ...listed(second)]).size, 64)
  assert.deepEqual(listed(await go('/console/webhooks?application=shop')).toSorted(), ids.toSorted())
  assert.deepEqual(listed(await go('/console/webhooks?application=shop&state=failing')), [ids[3]])
  assert.deepEqual(listed(await go('/console/webhooks?state=disabled')), [ids[4]])
  const foreign = await browsers.get('viewer')!.go(`${next}&state=failing`)
  assert.equal(foreign.status, 400)
  const shop = await go('/console/applications/shop')
  assert.match(textOf(shop.text), /Webhooks Webhooks \(12\) 1 failing 1 disabled/)
  assert.ok(shop.text.includes('href="/console/webhooks?application&#61;shop"'))
  assert.ok((await go(`/console/search?q=${others[0]}`)).text.includes(`/console/webhooks/${others[0]}"`))
  await world.app.db.deleteFrom('webhooks').execute()
})

test('a viewer sees no query of a URL, no response of such an endpoint, and no action; the record has no query', async () => {
  const { id } = await add('shop')
  await happen('shop', [{ seq: 21, type: 'transaction.mined', hours: 1 }])
  await fail(id, 21, { isDead: true, answer: `wrong key ${TOKEN}` })
  for (const role of CONSOLE_ROLES)
    for (const path of [`/console/webhooks/${id}`, '/console/webhooks']) {
      const { text } = await go(path, role)
      assert.equal(text.includes(TOKEN), role !== 'viewer', `${path} as ${role}`)
      assert.ok(text.includes('https://shop.example/hook'), path)
    }
  const page = await go(`/console/webhooks/${id}`, 'viewer')
  assert.ok(!page.text.includes('/act/'))
  assert.match(textOf(page.text), /status 500/)
  const support = (await go(`/console/webhooks/${id}`, 'support')).text
  assert.deepEqual(
    ['test-webhook', 'redeliver-event', 'replay-webhook', 'rotate-webhook-secret'].map((one) => support.includes(`/act/${one}"`)), // prettier-ignore
    [true, true, false, false],
  )
  const { db } = world.app
  const acts = webhookActs({ db, readKeys: async () => webhookKeysOf(world.app.sealKeys), privateHosts: new Set() }, { name: 'mira', via: 'command' }) // prettier-ignore
  await acts.update(id, { url: `https://shop.example/moved?key=${TOKEN}` })
  const [action] = await listActions(db)
  assert.deepEqual([action!.before, action!.after], [{ url: 'https://shop.example/hook?…' }, { url: 'https://shop.example/moved?…' }]) // prettier-ignore
  assert.ok(!(await go('/console/audit', 'viewer')).text.includes(TOKEN))
  await world.app.db.deleteFrom('webhooks').execute()
})

test('a webhook is tested, enabled, replayed and rotated, and an event sent again: by the operator API’s functions', async () => {
  const { db, sealKeys } = world.app
  const { id, secret } = await add('shop')
  await happen('shop', [{ seq: 31, type: 'transaction.mined', hours: 1 }])
  await fail(id, 31, { isDead: true })
  await change(id, `disabled_at = now(), disabled_reason = 'failing', failures = 10`)
  const browser = browsers.get('operator')!
  const page = await go(`/console/webhooks/${id}`)
  assert.match(textOf((await browser.submit(page, '/act/test-webhook')).text), /Requested\. A server of the API sends the event.*test webhook\.test not sent yet evt_[0-9a-f]{32}/) // prettier-ignore
  await browser.submit(page, '/act/redeliver-event', { event: eventOf(31) })
  const requested = await db.selectFrom('webhook_deliveries').select(['kind', 'event_id']).where('done_at', 'is', null).where('webhook_id', '=', id).orderBy('created_at').execute() // prettier-ignore
  assert.deepEqual(requested.map(({ kind }) => kind), ['test', 'redelivery']) // prettier-ignore
  assert.equal(requested[1]!.event_id, eventOf(31))
  const unknown = await browser.submit(page, '/act/redeliver-event', { event: eventOf(99) })
  assert.equal(unknown.status, 404)
  assert.match(textOf(unknown.text), /To send older events, use a replay/)
  const wrong = await browser.submit(page, '/act/replay-webhook', { from: 'yesterday' })
  assert.deepEqual([wrong.status, /Expected a time/.test(textOf(wrong.text))], [400, true])
  const replayed = await browser.submit(page, '/act/replay-webhook', { from: '2020-01-01T00:00:00Z', until: '' })
  assert.match(textOf(replayed.text), /Replay since .* 0 delivered, 0 failures in a row/)
  const enabled = await browser.submit(page, '/act/enable-webhook', { confirm: id })
  assert.match(textOf(enabled.text), /State enabled/)
  const rotated = await browser.submit(page, '/act/rotate-webhook-secret', { confirm: id })
  const shown = /<pre>(whsec_[^<]+)<\/pre>/.exec(rotated.text)![1]!.replaceAll('&#61;', '=')
  const stored = await db.selectFrom('webhooks').select(['secret']).where('id', '=', id).executeTakeFirstOrThrow()
  assert.equal(showSecret(decryptSecret(webhookKeysOf(sealKeys), stored.secret, id)!), shown)
  assert.notEqual(shown, secret)
  assert.equal(rotated.headers.get('cache-control'), 'no-store')
  assert.ok(rotated.text.includes(`href="/console/webhooks/${id}"`))
  assert.match(textOf((await go(`/console/webhooks/${id}`)).text), /Former secret signs until/)
  const actions = await listActions(db, { limit: 5 })
  assert.deepEqual(
    actions.map(({ actor, via, action, target }) => [actor, via, action, target]),
    ['rotate-webhook-secret', 'enable-webhook', 'replay-webhook', 'redeliver-event', 'test-webhook'].map((action) => ['DEV-the-operator', 'console', action, id]), // prettier-ignore
  )
  assert.ok(!JSON.stringify([actions, world.logged]).includes(shown))
  await db.deleteFrom('webhooks').execute()
})

test('the overview names disabled webhooks, those that fail for over an hour, and events that died in the last day', async (t) => {
  const { db } = world.app
  const { id } = await add('shop')
  await happen('shop', [{ seq: 41, type: 'transaction.mined', hours: 1 }])
  assert.ok(!(await said()).includes(id))
  await t.test('failing', async () => {
    await change(id, `probe_at = now(), failing_since = now() - interval '50 minutes'`)
    assert.ok(!(await said()).includes(id), 'not for an hour yet')
    await change(id, `failing_since = now() - interval '70 minutes'`)
    assert.match(await said(), new RegExp(`Webhook ${id} of shop has failed since 20`))
  })
  await t.test('disabled', async () => {
    await change(id, `disabled_at = now(), disabled_reason = 'failing'`)
    assert.match(await said(), new RegExp(`^Webhook ${id} of shop is disabled\\. Have`, 'm'))
    assert.ok(!(await said()).includes('has failed since'))
    await change(id, `disabled_reason = 'secret'`)
    assert.match(await said(), /cannot be decrypted\. Rotate the secret/)
  })
  await t.test('dead', async () => {
    await change(id, 'disabled_at = null, disabled_reason = null, probe_at = null')
    await fail(id, 41, { isDead: true })
    assert.match(await said(), new RegExp(`Webhook ${id} of shop has dead events of the last day: 1\\.`))
    await sql`update webhook_deliveries set created_at = created_at - interval '25 hours'`.execute(db)
    assert.ok(!(await said()).includes(id))
  })
  await t.test('many', async () => {
    await Promise.all(Array.from({ length: 12 }, () => add('shop')))
    await sql`update webhooks set disabled_at = now(), disabled_reason = 'gone'`.execute(db)
    assert.match(await said(), /3 further webhooks have problems/)
    const page = await go('/console', 'viewer')
    assert.ok(page.text.includes('href="/console/webhooks/whk_'))
  })
  await db.deleteFrom('webhooks').execute()
})

test(
  'the pages and actions of webhooks work with the database rights of a separate authorization server',
  // The embedded database has one connection, whose role is that of every statement.
  { skip: process.env.TEST_DATABASE_URL === undefined ? false : 'sets the role of the only connection' },
  async () => {
    const { db } = world.app
    const { id } = await add('shop')
    await happen('shop', [{ seq: 51, type: 'transaction.mined', hours: 1 }])
    await fail(id, 51, { isDead: true })
    await change(id, `disabled_at = now(), disabled_reason = 'gone'`)
    for (const role of ['hooks_auth', 'hooks_api']) await sql.raw(`create role ${role}`).execute(db)
    await grantRoles(db, { auth: 'hooks_auth', api: 'hooks_api' })
    await sql`set role hooks_auth`.execute(db)
    try {
      for (const path of ['', '/webhooks', '/applications/shop', `/search?q=${id}`]) await go(`/console${path}`)
      for (const [action, fields] of [
        ['test-webhook', {}],
        ['redeliver-event', { event: eventOf(51) }],
        ['replay-webhook', { from: '2020-01-01T00:00:00Z' }],
        ['enable-webhook', { confirm: id }],
      ] as const) {
        const done = await browsers
          .get('operator')!
          .submit(await go(`/console/webhooks/${id}`), `/act/${action}`, fields)
        assert.match(textOf(done.text), new RegExp(en.console.done), `${action}: ${textOf(done.text)}`)
      }
    } finally {
      await sql`reset role`.execute(db)
    }
  },
)
