// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { BrowserContext, Page } from 'playwright-core'
import { installationAndBrowser, signInAs, skip } from '../../../e2e/chromium.ts'
import { en } from '../../../src/texts/en.ts'
import { openSignInPage } from './sign-in-page.ts'

const opened = installationAndBrowser()
let application: Awaited<ReturnType<typeof openSignInPage>>
let context: BrowserContext
/** signed in by the first test */
let page: Page
after(() => application?.close())

async function open(of: BrowserContext, path = '/'): Promise<Page> {
  const tab = await of.newPage()
  await tab.goto(`${application.url}${path}`)
  await ready(tab)
  return tab
}
const ready = async (tab: Page) => tab.waitForFunction("globalThis.isReady && session.state.status !== 'unknown'")
const becomes = async (tab: Page, status: string) => tab.waitForFunction(`session.state.status === '${status}'`)

/** Clicks, and answers the question of the service in the window. */
async function inWindow(tab: Page, username: string, answer: string): Promise<unknown> {
  const [popup] = await Promise.all([tab.waitForEvent('popup'), tab.getByRole('button').click()])
  await signInAs(popup, username)
  await popup.getByRole('button', { name: answer, exact: true }).click()
  return tab.evaluate('signedIn')
}

test('a sign-in in a window lets the page call the API', { skip }, async () => {
  application = await openSignInPage(opened.program.facts.origin)
  context = await opened.browser.newContext()
  page = await open(context)
  assert.equal(await page.evaluate('session.state.status'), 'signed-out')
  assert.equal(await inWindow(page, 'rosa', en.consent.allow), 'done')
  assert.equal(await page.evaluate('session.state.status'), 'signed-in')
  assert.equal(await page.evaluate('call()'), 200)
  assert.equal(context.pages().length, 1)
})

test('the session outlives a reload', { skip }, async () => {
  await page.reload()
  await ready(page)
  assert.equal(await page.evaluate('session.state.status'), 'signed-in')
  assert.equal(await page.evaluate('call()'), 200)
})

test('a call after the end of the access token renews it', { skip }, async () => {
  const before = await page.evaluate('stored().then(({ refreshToken }) => refreshToken)')
  await page.evaluate('globalThis.ahead = 24 * 3600 * 1000')
  assert.equal(await page.evaluate('call()'), 200)
  assert.ok((await page.evaluate('stored().then(({ refreshToken }) => refreshToken)')) !== before)
})

test('four pages that renew at once keep the session', { skip }, async () => {
  const tabs = await Promise.all([0, 1, 2, 3].map(async () => open(context)))
  for (let round = 1; round <= 10; round++) {
    const day = `globalThis.ahead = ${round} * 24 * 3600 * 1000; call()`
    assert.deepEqual(await Promise.all(tabs.map(async (tab) => tab.evaluate(day))), [200, 200, 200, 200])
  }
  await Promise.all(tabs.map(async (tab) => tab.close()))
  await page.reload()
  await ready(page)
  assert.equal(await page.evaluate('call()'), 200)
})

test('no script can export the key', { skip }, async () => {
  for (const format of ['jwk', 'pkcs8'])
    assert.equal(
      await page.evaluate(`stored().then(({ keys }) => crypto.subtle.exportKey('${format}', keys.privateKey)).catch(({ name }) => name)`), // prettier-ignore
      'InvalidAccessError',
    )
})

test('sign-out on one page signs out the other, and the service refuses the refresh token', { skip }, async () => {
  const other = await open(context)
  await page.evaluate('stored().then((value) => { globalThis.kept = value })')
  await other.evaluate('session.signOut()')
  await becomes(page, 'signed-out')
  assert.equal(await page.evaluate('stored()'), undefined)
  assert.equal(await page.evaluate('call().catch(({ name }) => name)'), 'SignedOut')
  assert.equal(await page.evaluate('redeem(kept)'), '400 invalid_grant')
  await other.close()
})

test('a copied refresh token is refused without the key of the browser', { skip }, async () => {
  const here = await opened.browser.newContext()
  const tab = await open(here)
  assert.equal(await inWindow(tab, 'ada', en.consent.allow), 'done')
  const copied = '(keys) => stored().then(({ refreshToken }) => redeem({ refreshToken, keys }))'
  assert.match(await tab.evaluate<string>(`otherKeys().then(${copied})`), /^400 /)
  assert.match(await tab.evaluate<string>(`(${copied})(null)`), /^400 /)
  assert.match(await tab.evaluate<string>('stored().then(redeem)'), /^200 /)
  await here.close()
})

test('a sign-in by redirect comes back to the page that began it', { skip }, async () => {
  const here = await opened.browser.newContext()
  const tab = await open(here, '/redirect?item=1#two')
  await tab.getByRole('button').click()
  await tab.waitForURL((url) => url.origin !== application.url)
  await signInAs(tab, 'grace')
  await tab.getByRole('button', { name: en.consent.allow, exact: true }).click()
  await tab.waitForURL(`${application.url}/redirect?item=1#two`)
  await ready(tab)
  assert.equal(await tab.evaluate('call()'), 200)
  await here.close()
})

test('a user who denies cancels the sign-in', { skip }, async () => {
  const here = await opened.browser.newContext()
  const tab = await open(here)
  assert.equal(await inWindow(tab, 'edith', en.consent.deny), 'SignInCancelled')
  assert.equal(await tab.evaluate('session.state.status'), 'signed-out')
  await here.close()
})

test('a user who closes the window cancels the sign-in', { skip }, async () => {
  const here = await opened.browser.newContext()
  const tab = await open(here)
  const [popup] = await Promise.all([tab.waitForEvent('popup'), tab.getByRole('button').click()])
  await popup.waitForURL((url) => url.pathname.startsWith('/login'))
  await popup.close()
  assert.equal(await tab.evaluate('signedIn'), 'SignInCancelled')
  await here.close()
})

test('an answer that this browser has not asked for signs nobody in', { skip }, async () => {
  const here = await opened.browser.newContext()
  const tab = await open(here, '/callback?code=x&state=y')
  assert.equal(await tab.evaluate('returned'), 'SignInFailed')
  assert.equal(await tab.evaluate('session.state.status'), 'signed-out')
  await here.close()
})
