import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { computeAddress } from 'ethers'
import { sql } from 'kysely'
import { newKeyPair, unseal } from '../../signer/export/hpke.ts'
import { exportInfo } from '../../signer/export/exports.ts'
import { en } from '../../texts/en.ts'
import { makePlace, startSigner, type Place, type Running } from '../../../test/kit/signer.ts'
import { rehearse, type Rehearsal } from '../../../test/rehearsal.ts'
import { openBrowser, textOf, type Page } from '../../../test/kit/browser.ts'
import { reseal } from '../../../test/reseal.ts'
import { publicKeys } from '../keys.ts'

let world: Rehearsal
let place: Place
let signer: Running
const begin = async (more: Record<string, string>): Promise<void> => {
  await signer?.end('SIGTERM')
  signer = await startSigner(place, { more: { SIGNER_EXPORT: 'on', SIGNER_EXPORT_DELAY_SECONDS: '0', ...more } })
  world.app.signer = signer
}
before(async () => {
  world = await rehearse({ env: { KEY_EXPORT: 'on' } })
  place = await makePlace()
  writeFileSync(place.env.SIGNER_JWKS_FILE!, JSON.stringify(publicKeys(world.keys)))
  Object.assign(place.env, { SIGNER_ISSUER: `${world.origin}/oauth`, SIGNER_AUDIENCE: `${world.origin}/v1` })
  await begin({})
})
after(async () => {
  await signer.end('SIGKILL')
  place.clear()
  await world.close()
})

type Browser = ReturnType<typeof openBrowser>

const visit = async (username: string): Promise<{ browser: Browser; page: Page }> => {
  const browser = openBrowser(world.origin)
  await browser.signIn('/account', username)
  return { browser, page: await browser.go('/account/export') }
}

/** What the script of the page does with its form. */
async function take(
  browser: Browser,
  page: Page,
  recipient: string,
): Promise<{ status: number; body: Record<string, string> }> {
  const attribute = (name: string) => new RegExp(`data-${name}="([^"]*)"`).exec(page.text)?.[1] ?? ''
  const fields = { csrf: attribute('csrf'), request: attribute('request'), recipient }
  const answered = await browser.go('/account/export/take', { method: 'POST', body: new URLSearchParams(fields) })
  return {
    status: answered.status,
    body: answered.text.startsWith('{') ? (JSON.parse(answered.text) as Record<string, string>) : {},
  }
}

const growOld = async (seconds: number) => {
  await sql`update oauth_records set payload = jsonb_set(payload, '{loginTs}', to_jsonb(((payload->>'loginTs')::bigint - ${seconds}::int))) where kind = 'Session' and payload ? 'loginTs'`.execute(world.app.db) // prettier-ignore
  await reseal(world.app)
}

const marked = async (userId: string) =>
  (await world.app.db.selectFrom('accounts').select('exported_at').where('user_id', '=', userId).executeTakeFirstOrThrow())
    .exported_at // prettier-ignore

test('a person asks, is told so on every page, and gets what only their browser opens; nobody here has seen the key', async () => {
  const { browser, page } = await visit('amy')
  assert.match(textOf(page.text), new RegExp(en.exporting.danger.slice(0, 40)))
  const ready = await browser.submit(page, '/account/export/ask')
  assert.equal(ready.url.pathname, '/account/export')
  assert.match(ready.headers.get('content-security-policy') ?? '', /script-src \S+copy\.js \S+export\.js; connect-src \S+\/account\/export\/take$/) // prettier-ignore
  for (const path of ['/account', '/account/activity', '/account/erase'])
    assert.match(textOf((await browser.go(path)).text), new RegExp(en.exporting.noticeReady), path)
  assert.equal(await marked('DEV-amy'), null)
  const pair = newKeyPair()
  const { status, body } = await take(browser, ready, pair.getPublicKey('base64url'))
  assert.equal(status, 200)
  const address = Buffer.from(body.address!.slice(2), 'hex')
  const key = unseal(
    pair,
    { enc: Buffer.from(body.enc!, 'base64url'), ciphertext: Buffer.from(body.ciphertext!, 'base64url') },
    { info: exportInfo({ userId: 'DEV-amy', address, id: body.id! }) },
  )
  assert.equal(computeAddress(`0x${key.toString('hex')}`).toLowerCase(), body.address)
  assert.ok((await marked('DEV-amy')) !== null)
  assert.match(textOf((await browser.go('/account')).text), /The key of this account was exported on/)
  // In the database, in the logs of both programs and in what was answered: no form of the key.
  const rows = await Promise.all(
    (await sql<{ name: string }>`select table_name as name from information_schema.tables where table_schema = current_schema()`.execute(world.app.db)).rows
      .map(({ name }) => sql`select row_to_json(t)::text as row from ${sql.table(name)} t`.execute(world.app.db)),
  ) // prettier-ignore
  const handled = [JSON.stringify(rows.flatMap((one) => one.rows)), JSON.stringify(world.logged), signer.stderr(), JSON.stringify(body)].join() // prettier-ignore
  assert.ok(handled.includes(body.address!.slice(2)) && handled.includes('key_exported'))
  for (const form of [key.toString('hex'), key.toString('base64'), key.toString('base64url'), key.toString('latin1')])
    assert.ok(!handled.toLowerCase().includes(form.toLowerCase()))
  // It left once.
  const again = await take(browser, ready, newKeyPair().getPublicKey('base64url'))
  assert.deepEqual([again.status, again.body], [401, { code: 'invalid_token' }])
  assert.ok((await marked('DEV-amy')) !== null)
})

test('the delay is the signer’s: before it nothing comes, and no mark is left', async () => {
  await begin({ SIGNER_EXPORT_DELAY_SECONDS: '3600' })
  const { browser, page } = await visit('ben')
  const waiting = await browser.submit(page, '/account/export/ask')
  assert.match(textOf(waiting.text), /can be downloaded here from/)
  assert.match(textOf((await browser.go('/account')).text), /was requested and can be downloaded from/)
  const csrf = /name="csrf" value="([^"]*)"/.exec(waiting.text)![1]!
  const early = { ...waiting, text: `data-csrf="${csrf}"` }
  const refused = await take(browser, early, newKeyPair().getPublicKey('base64url'))
  assert.deepEqual([refused.status, refused.body], [409, { code: 'export_not_ready' }])
  assert.equal(await marked('DEV-ben'), null)
  // Anyone who is signed in cancels, however long ago they signed in.
  await growOld(4_000)
  const cancelled = await browser.submit(waiting, '/account/export/cancel')
  assert.match(textOf(cancelled.text), new RegExp(en.exporting.ask))
  assert.doesNotMatch(textOf((await browser.go('/account')).text), /was requested/)
  await begin({})
})

test('a sign-in of more than 5 minutes ago gets a sign-in, and no key', async () => {
  const { browser, page } = await visit('cas')
  await growOld(301)
  assert.match((await browser.submit(page, '/account/export/ask')).url.pathname, /^\/login\//)
  assert.equal((await signer.keyExports()).exports.length, 0)
  const fresh = await visit('cas')
  const asked = await fresh.browser.submit(fresh.page, '/account/export/ask')
  await growOld(301)
  const later = await fresh.browser.go('/account/export')
  assert.match(textOf(later.text), new RegExp(en.exporting.signInAgain))
  assert.ok(!later.text.includes('id="export"'))
  const { status, body } = await take(fresh.browser, asked, newKeyPair().getPublicKey('base64url'))
  assert.deepEqual([status, body], [200, {}], 'the chooser of a sign-in')
  assert.equal(await marked('DEV-cas'), null)
  await signer.cancelKey({ userId: 'DEV-cas', by: 'operator' })
})

test('a form of somebody else, and a recipient that is none, get nothing', async () => {
  const [dan, eve] = [await visit('dan'), await visit('eve')]
  const ready = await dan.browser.submit(dan.page, '/account/export/ask')
  const foreign = await take(eve.browser, ready, newKeyPair().getPublicKey('base64url'))
  assert.equal(foreign.status, 400)
  for (const recipient of ['', 'x'.repeat(87), newKeyPair().getPublicKey('base64url').slice(1), 'A'.repeat(87)]) {
    const { status, body } = await take(dan.browser, ready, recipient)
    assert.ok(status >= 400 && body.code !== undefined, recipient)
  }
  assert.equal(await marked('DEV-dan'), null)
})

test('the frozen get nothing, and what they asked for is over', async () => {
  const { browser, page } = await visit('fay')
  const ready = await browser.submit(page, '/account/export/ask')
  await world.app.db.updateTable('accounts').set({ frozen_at: new Date() }).where('user_id', '=', 'DEV-fay').execute()
  const { status, body } = await take(browser, ready, newKeyPair().getPublicKey('base64url'))
  assert.deepEqual([status, body], [403, { code: 'account_frozen' }])
  assert.equal((await browser.submit(ready, '/account/export/cancel')).status, 200)
  assert.equal((await browser.submit(page, '/account/export/ask')).status, 403)
})

test('where either program says off there is no key, and no link', async () => {
  await begin({ SIGNER_EXPORT: 'off' })
  const { browser, page } = await visit('gil')
  assert.match(textOf(page.text), new RegExp(en.exporting.off))
  await begin({})
  const asking = await browser.go('/account/export')
  const { KEY_EXPORT } = world.app.config
  Object.assign(world.app.config, { KEY_EXPORT: 'off' })
  assert.equal((await browser.submit(asking, '/account/export/ask')).status, 403)
  assert.match(textOf((await browser.go('/account/export')).text), new RegExp(en.exporting.off))
  assert.ok(!(await browser.go('/account')).text.includes('/account/export'))
  Object.assign(world.app.config, { KEY_EXPORT })
})

test('a signer that is away keeps nobody from their account', async () => {
  const { browser } = await visit('hal')
  await signer.end('SIGKILL')
  assert.equal((await browser.go('/account')).status, 200)
  assert.ok(world.logged.some((line) => (line as { event: string }).event === 'key_export_unreadable'))
  await begin({})
})
