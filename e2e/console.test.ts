// tier: all, because it looks at pages in a browser
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import type { Browser, Page } from 'playwright-core'
import { createApplication } from '../src/applications/manage.ts'
import { fromHex } from '../src/hex.ts'
import { accountIdOf } from '../src/ids.ts'
import { operatorActs } from '../src/operator/acts.ts'
import { putOperator } from '../src/operator/operators.ts'
import type { Signer } from '../src/signer-wire/client.ts'
import { toWord } from '../src/store/bytes.ts'
import { languages } from '../src/texts/choose.ts'
import { addressOf, obtainTokens, rehearse, type Rehearsal } from '../test/rehearsal.ts'
import { look, lookAround, openChromium, shots, signInAs, skip } from './chromium.ts'

let world: Rehearsal
let browser: Browser
let folder: string
before(async () => {
  if (skip !== false) return
  world = await rehearse()
  await fill()
  browser = await openChromium()
  folder = await shots()
})
after(async () => {
  await browser?.close()
  await world?.close()
})

const ID = 'tx_6f1d2b7c-0000-4000-8000-000000000001'
const HOOK = 'whk_6f1d2b7c-0000-4000-8000-000000000001'
const SENDER = () => fromHex(addressOf('DEV-una'))
const hash = (byte: string) => Buffer.from(byte.repeat(32), 'hex')

/** An installation with something of everything, and some problems. */
async function fill(): Promise<void> {
  const { app } = world
  const { db } = app
  app.signer.health = (async () => ({
    revocations: 'fresh',
    masterKey: { provider: 'file', fault: null },
    tokenKeys: app.tokenKeys.keys.map(({ kid }) => kid),
    policy: { version: 3, hash: 'ab'.repeat(32), state: 'refused', rules: 12, asksUsers: true, since: 0, problem: 'the signature of key 2 is missing' }, // prettier-ignore
  })) as unknown as Signer['health']
  app.signer.signatures = (async ({ intentId }: { intentId: string }) => ({
    signatures: [{ kind: 'send', hash: `0x${`b${intentId.at(-1)}`.repeat(32)}`, rule: 'payments-below-100' }],
    hasMore: false,
    head: '',
  })) as unknown as Signer['signatures']
  app.signer.tryPolicy = (async () => ({
    ...{ problem: null, version: 4, hash: 'cd'.repeat(32), records: { first: 501, last: 1_000 } },
    words: ['rest allows everything', 'no-drains denies approvals above 1000000'],
    doubts: ['rest allows every call of every contract'],
    ...{ signatures: 431, refused: 1, allowed: 1 },
    differences: (['draft', 'in force'] as const).map((refusedBy, index) => ({
      ...{ seq: 900 - index, at: 1_770_000_000_000, userId: 'DEV-una', clientId: 'demo', chainId: 31_337 },
      ...{ intentId: ID, refusedBy, rule: 'no-drains', reason: 'it is a deny rule' },
    })),
  })) as unknown as Signer['tryPolicy']
  await db
    .insertInto('networks')
    .values([
      { chain_id: 31_337, name: 'devnet', genesis_hash: hash('01'), gas: 'topup' },
      { chain_id: 9, name: 'orchard', genesis_hash: hash('09'), gas: 'topup' },
    ])
    .execute()
  await sql`insert into cursors (chain_id, block_number, block_hash, finalized_number, epoch, lease_until)
    select chain_id, 18200345, ${hash('02')}, 0, 1, now() + interval '1 hour' from networks`.execute(db)
  await obtainTokens(world, { username: 'una' })
  await obtainTokens(world, { username: 'bob' })
  await createApplication(app, { name: 'Orchard shop', clientId: 'shop', network: 'devnet', kind: 'confidential', redirectUris: ['https://shop.example/back'], permissions: ['events:read'], quotas: [{ counts: 'writes', limit: 1_000, per: 'day' }], sponsor: { perUser: '1000000000000000', perApplication: '20000000000000000' } }) // prettier-ignore
  const to = addressOf('DEV-bob').slice(2).padStart(64, '0')
  for (const nonce of [1, 2, 3]) {
    const id = `${ID.slice(0, -1)}${nonce}`
    await db
      .insertInto('transactions')
      .values({
        ...{ id, account_id: accountIdOf('DEV', 'una'), client_id: 'demo', chain_id: 31_337, sender: SENDER(), nonce },
        ...{ target: hash('aa').subarray(0, 20), value: toWord(0n), abi: 'transfer(address to, uint256 amount)' },
        data: fromHex(`0xa9059cbb${to}${(1_500).toString(16).padStart(64, '0')}`),
        ...{ state: 'SUBMITTED', gas_limit: 60_000, max_fee: toWord(2_500_000_000n), hash: hash(`b${nonce}`) },
        transitions: JSON.stringify([{ state: 'SUBMITTED', at: '2026-01-31T12:00:00.000Z' }]),
      } as never)
      .execute()
    await db.insertInto('attempts').values({ chain_id: 31_337, hash: hash(`b${nonce}`), transaction_id: id, gas_limit: 60_000, max_fee: toWord(2_500_000_000n) }).execute() // prettier-ignore
  }
  await db
    .updateTable('transactions')
    .set({
      state: 'REVERTED',
      block_number: 18_200_300,
      block_hash: hash('03'),
      revert: JSON.stringify({ reason: 'ERC20: transfer amount exceeds balance' }),
    } as never) // prettier-ignore
    .where('id', '=', ID)
    .execute()
  await db.insertInto('waits').values({ chain_id: 31_337, sender: SENDER(), nonce: 3, trouble: 'fee_cap_reached', detail: 'The base fee is 90000000000 wei per gas, and the operator allows 50000000000.', since: new Date() }).execute() // prettier-ignore
  await db.insertInto('stopped_lanes').values({ chain_id: 9, sender: SENDER(), nonce: 7, reason: 'x' }).execute()
  const bob = accountIdOf('DEV', 'bob')
  await db.insertInto('sponsors').values({ account_id: bob, chain_id: 9, name: 'HOUSE' }).execute()
  await db.insertInto('low_sponsors').values({ account_id: bob, chain_id: 9 }).execute()
  for (let hour = 0; hour < 24; hour++)
    await db
      .insertInto('activity')
      .values(
        (['write', 'read', 'sign-in'] as const).map((kind, index) => ({
          kind,
          at: new Date(Date.now() - hour * 3_600_000 - 400_000),
          count: ((hour * 37 + index * 11) % 60) * [5, 80, 1][index]!,
        })),
      ) // prettier-ignore
      .execute()
  for (const [name, role] of [['olga', 'owner'], ['sam', 'support'], ['vera', 'viewer']] as const) await putOperator(app, { userId: `DEV-${name}`, role }) // prettier-ignore
  await fillWebhooks()
  const acts = operatorActs(
    { db, readSealKeys: async () => app.sealKeys },
    { name: 'DEV-olga', via: 'console', role: 'owner' },
  )
  await acts.suspend('shop')
  await acts.resume('shop')
}

/** A webhook that is disabled, with dead events and a log, and one that works. */
async function fillWebhooks(): Promise<void> {
  const { db } = world.app
  await sql`insert into webhooks (id, client_id, url, types, secret, cursor, delivered, disabled_at, disabled_reason, last_success_at, last_failure_at, last_failure, old_secret_ends_at) values
    (${HOOK}, 'shop', 'https://hooks.orchard-shop.example/services/orders/incoming?token=5f0c1c8e7f2b8c559d3a0d1c5f4c2b7a', '["transaction.*","transfer.detected","user.created"]', 'x', 0, 48213, now() - interval '3 hours', 'failing', now() - interval '5 days', now() - interval '3 hours', 'no answer within 15 seconds', now() + interval '20 hours'),
    (${`${HOOK.slice(0, -1)}2`}, 'demo', 'https://demo.example/hook', '["*"]', 'x', 9, 17, null, null, now(), null, null, null)`.execute(
    db,
  )
  await sql`insert into feeds (client_id, seq) values ('shop', 9)`.execute(db)
  await sql`insert into events (client_id, seq, id, type, subject, is_own, data, at)
    select 'shop', n, gen_random_uuid(), 'transaction.mined', 'transaction:tx_6f1d2b7c-0000-4000-8000-00000000000' || n, false, '{}', now() - make_interval(days => 6, hours => n) from generate_series(1, 9) n`.execute(
    db,
  )
  await sql`insert into webhook_retries (webhook_id, seq, subject, attempts, is_dead)
    select ${HOOK}, seq, subject, 13, true from events where client_id = 'shop' and seq < 3`.execute(db)
  await sql`insert into webhook_deliveries (id, webhook_id, kind, event_id, seq, type, attempt, status, error, answer, duration_ms, done_at)
    select 'dlv_' || seq, ${HOOK}, case when seq < 3 then 'retry' else 'probe' end, 'evt_' || replace(id::text, '-', ''), seq, type, 13, 502, 'status 502',
      '<html><head><title>502 Bad Gateway</title></head><body><center>nginx/1.24.0</center></body></html>' || repeat(' <!-- padding -->', 50), 84, now()
    from events where client_id = 'shop' and seq < 5`.execute(db)
  await sql`insert into webhook_deliveries (id, webhook_id, kind, event_id, type, attempt) values ('dlv_test', ${HOOK}, 'test', 'evt_3f1c1c8e7f2b8c559d3a0d1c5f4c2b7a', 'webhook.test', 1)`.execute(
    db,
  )
}

async function open(locale: string, path: string): Promise<Page> {
  const context = await browser.newContext({ locale, viewport: { width: 390, height: 844 } })
  const page = await context.newPage()
  await page.goto(`${world.origin}${path}`)
  await signInAs(page, 'olga')
  await page.goto(`${world.origin}${path}`)
  return page
}

const PAGES = {
  overview: '/console',
  search: '/console/search?q=una',
  transaction: `/console/transactions/${ID.slice(0, -1)}3`,
  reverted: `/console/transactions/${ID}`,
  user: '/console/users/DEV-una',
  webhooks: '/console/webhooks',
  webhook: `/console/webhooks/${HOOK}`,
  healthyWebhook: `/console/webhooks/${HOOK.slice(0, -1)}2`,
  applications: '/console/applications',
  application: '/console/applications/shop',
  networks: '/console/networks',
  policy: '/console/policy',
  audit: '/console/audit?verify=1',
  operators: '/console/operators',
}

test('every page of the console is readable on a phone and a desktop, light and dark', { skip }, async () => {
  const page = await open('en', '/console')
  for (const [name, path] of Object.entries(PAGES)) {
    await page.goto(`${world.origin}${path}`)
    await lookAround(page, (view) => join(folder, `console-${name}-${view}.png`))
    await page.setViewportSize({ width: 768, height: 1_024 })
    // Forms and tables that are folded are read, too.
    await page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    await look(page, join(folder, `console-${name}-open.png`))
    await page.setViewportSize({ width: 390, height: 844 })
  }
  await page.context().close()
})

test('the outcome of a draft and of a repeated call is readable on a phone', { skip }, async () => {
  const page = await open('en', '/console/policy')
  await page.getByLabel('Policy document or signed file').fill('{"version":4,"rules":[]}')
  await page.getByRole('button', { name: 'Check and replay' }).click()
  await page.getByText('Of 431 signatures').waitFor()
  await lookAround(page, (view) => join(folder, `console-draft-${view}.png`))
  await page.goto(`${world.origin}/console/transactions/${ID}`)
  await page.getByRole('button', { name: 'Run again at its block' }).click()
  await page.getByText('This program opens no node').waitFor()
  await lookAround(page, (view) => join(folder, `console-run-again-${view}.png`))
  await page.context().close()
})

test('every page of the console is in each language, without anything wider than a phone', { skip }, async () => {
  for (const { language } of languages.slice(1)) {
    const page = await open(language, '/console')
    for (const [name, path] of Object.entries(PAGES)) {
      await page.goto(`${world.origin}${path}`)
      assert.equal(await page.locator('html').getAttribute('lang'), language)
      await look(page, join(folder, `console-${name}-${language}.png`))
    }
    await page.context().close()
  }
})

test('a test of a webhook needs no script', { skip }, async () => {
  const context = await browser.newContext({ locale: 'en', javaScriptEnabled: false })
  const page = await context.newPage()
  await page.goto(`${world.origin}/console`)
  await signInAs(page, 'sam')
  await page.goto(`${world.origin}/console/webhooks/${HOOK.slice(0, -1)}2`)
  await page.getByText('Send a test event').first().click()
  await page.getByRole('button', { name: 'Send a test event' }).click()
  await page.getByText('Reload this page to see the result').waitFor()
  await page.getByText('not sent yet').waitFor()
  await context.close()
})

test('a freeze needs no script', { skip }, async () => {
  const context = await browser.newContext({ locale: 'en', javaScriptEnabled: false })
  const page = await context.newPage()
  await page.goto(`${world.origin}/console/users/DEV-bob`)
  await signInAs(page, 'olga')
  await page.goto(`${world.origin}/console/users/DEV-bob`)
  await page.getByText('Freeze the account').first().click()
  await page.getByRole('button', { name: 'Freeze the account' }).click()
  await page.getByText('Done. The action is in the audit log.').waitFor()
  assert.equal((await page.getByText('Unfreeze the account').count()) > 0, true)
  await context.close()
})
