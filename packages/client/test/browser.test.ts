// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { once, type EventEmitter } from 'node:events'
import { after, test } from 'node:test'
import type { BrowserContext, Page, Route } from 'playwright-core'
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

/** `SESSION_ROUNDS=100` is the long form. */
const ROUNDS = Number(process.env.SESSION_ROUNDS ?? 10)
const [TABS, FROZEN_MS] = ROUNDS > 10 ? [8, 15_000] : [4, 1_000]

test(
  'pages that renew at once keep the session, also while one of them is frozen in its renewal',
  { skip },
  async () => {
    const tabs = await Promise.all(Array.from({ length: TABS }, async () => open(context)))
    const frozen = tabs[0]!
    const cdp = await context.newCDPSession(frozen)
    await cdp.send('Debugger.enable')
    let late: Promise<unknown> | null = null
    let thaws = 0
    let stood = false
    await frozen.evaluate('globalThis.ticks = 0; setInterval(() => ticks++, 50)')
    /** The service has used the refresh token up, and the page gets the answer only when it is active again. */
    const freezeInRenewal = async (route: Route) => {
      const response = await route.fetch()
      const [[{ callFrames }]] = (await Promise.all([
        once(cdp as unknown as EventEmitter, 'Debugger.paused'),
        cdp.send('Debugger.pause'),
      ])) as [[{ callFrames: { callFrameId: string }[] }], unknown]
      const [{ callFrameId } = { callFrameId: '' }] = callFrames
      const ticks = async () => (await cdp.send('Debugger.evaluateOnCallFrame', { callFrameId, expression: 'ticks' })).result.value // prettier-ignore
      const before = await ticks()
      await page.waitForTimeout(FROZEN_MS)
      stood = (await ticks()) === before
      await cdp.send('Debugger.resume')
      thaws++
      await route.fulfill({ response })
    }
    const day = (round: number) => `globalThis.ahead = ${round} * 24 * 3600 * 1000; call()`
    for (let round = 1; round <= ROUNDS || (late !== null && thaws === 0); round++) {
      if (round === ROUNDS / 2) {
        await frozen.route('**/oauth/token', freezeInRenewal, { times: 1 })
        late = frozen.evaluate(day(round))
      }
      const awake: Page[] = late === null || thaws > 0 ? tabs : tabs.slice(1)
      if (late !== null && thaws > 0) assert.equal(await late, 200)
      const statuses = await Promise.all(awake.map(async (tab) => tab.evaluate(day(round))))
      assert.deepEqual(statuses, awake.map(() => 200), `round ${round}`) // prettier-ignore
    }
    assert.deepEqual([await late, thaws, stood], [200, 1, true])
    assert.deepEqual(new Set(await Promise.all(tabs.map(async (tab) => tab.evaluate('session.state.status')))), new Set(['signed-in'])) // prettier-ignore
    await Promise.all(tabs.map(async (tab) => tab.close()))
    await page.reload()
    await ready(page)
    assert.equal(await page.evaluate('call()'), 200)
  },
)

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
