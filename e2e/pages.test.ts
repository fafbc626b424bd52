// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { saveApplication } from '../src/applications/registry.ts'
import { askApproval } from '../src/approvals/ask.ts'
import { accountIdOf } from '../src/ids.ts'
import { presets } from '../src/oauth/federation/presets.ts'
import type { ProviderSettings } from '../src/oauth/federation/providers.ts'
import { approvalRequests } from '../test/approval-requests.ts'
import { addressOf, authorizationUrl, rehearse, type Rehearsal } from '../test/rehearsal.ts'
import { languages } from '../src/texts/choose.ts'
import { en } from '../src/texts/en.ts'
import { look, lookAround, openChromium, shots, skip } from './chromium.ts'

const LOGO =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40"><rect width="40" height="40" rx="9" fill="#7a1f4b"/><path d="M10 28 20 10l10 18z" fill="#fff"/></svg>'

let world: Rehearsal
let browser: Browser
let folder: string
before(async () => {
  if (skip !== false) return
  const file = join(await mkdtemp(join(tmpdir(), 'chatelaine-brand-')), 'logo.svg')
  await writeFile(file, LOGO)
  world = await rehearse({
    env: {
      BRAND_NAME: 'Meadow Bank',
      BRAND_LOGO_FILE: file,
      BRAND_COLOR: '#7a1f4b',
      SUPPORT_URL: 'https://meadow.example/help',
      PRIVACY_URL: 'https://meadow.example/privacy',
      TERMS_URL: 'https://meadow.example/terms',
    },
    others: () => everyProvider(),
  })
  await saveApplication(world.app, { ...world.demo, clientId: 'pictured', name: 'Orchard', logoUri: 'https://orchard.example/logo.svg', allowedOrigins: ['https://orchard.example'] }) // prettier-ignore
  await saveApplication(world.app, { ...world.demo, clientId: 'broken', name: 'Broken', logoUri: 'https://broken.example/logo.svg' }) // prettier-ignore
  browser = await openChromium()
  folder = await shots()
})
after(async () => {
  await browser?.close()
  await world?.close()
})

/** One of each preset, and one that has no sign. */
const everyProvider = (): ProviderSettings[] => [
  ...Object.entries(presets).map(([name, { scopes, ...described }]) => ({
    ...described,
    name: name.toUpperCase(),
    issuer: described.issuer.replace('{tenant}', 'x'),
    clientId: 'x',
    clientSecret: 'x',
    scopes: [...scopes],
    usernameClaims: [...described.usernameClaims],
    isDevelopment: false,
  })),
  {
    name: 'MEADOW',
    label: 'Meadow',
    issuer: 'https://id.meadow.example',
    clientId: 'x',
    clientSecret: 'x',
    scopes: ['openid'],
    subjectClaim: 'sub',
    usernameClaims: ['name'],
    pictureClaim: 'picture',
    parameters: {},
    isDevelopment: false,
  },
]

async function open(locale = 'en'): Promise<Page> {
  const context = await browser.newContext({ locale, viewport: { width: 390, height: 844 } })
  await context.route('https://orchard.example/**', (route) =>
    route.fulfill({ contentType: 'image/svg+xml', body: LOGO }),
  )
  await context.route('https://broken.example/**', (route) => route.abort())
  return context.newPage()
}
const pathOf =
  (name: string) =>
  (view: string): string =>
    join(folder, `${name}-${view}.png`)

async function toConsent(page: Page, clientId: string): Promise<void> {
  await page.goto(authorizationUrl(world.origin, { client_id: clientId, login_provider: 'DEV' }).url)
  await page.getByRole('textbox').fill('anna')
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/consent\//)
}

test(
  'an installation shows its name, logo, colour and links on every page, readable in light and dark',
  { skip },
  async () => {
    const page = await open()
    await page.goto(authorizationUrl(world.origin, { client_id: 'pictured' }).url)
    assert.equal(await page.locator('.masthead').innerText(), 'Meadow Bank')
    assert.equal(await page.locator('.providers svg').count(), Object.keys(presets).length)
    await lookAround(page, pathOf('brand-chooser'))
    await toConsent(page, 'pictured')
    await lookAround(page, pathOf('brand-consent'))
    await page.goto(`${world.origin}/nowhere`)
    await lookAround(page, pathOf('brand-missing'))
    for (const [name, path] of [
      ['Support', 'help'],
      ['Privacy', 'privacy'],
      ['Terms', 'terms'],
    ] as const)
      assert.equal(
        await page.getByRole('link', { name, exact: true }).getAttribute('href'),
        `https://meadow.example/${path}`,
      )
    await page.context().close()
  },
)

test('a picture of an application that does not load leaves no broken sign', { skip }, async () => {
  const page = await open()
  await page.goto(authorizationUrl(world.origin, { client_id: 'broken' }).url)
  await look(page, pathOf('brand-broken')('phone-light'))
  await page.context().close()
})

test('the button of Google keeps to Google’s rules', { skip }, async () => {
  const page = await open()
  await page.goto(authorizationUrl(world.origin).url)
  await page.getByRole('button', { name: 'Continue with Google', exact: true }).waitFor()
  const looks = () =>
    page.evaluate(`(() => {
      const style = getComputedStyle(document.querySelector('.google'))
      return [style.backgroundColor, style.borderTopColor, style.color, style.fontWeight, style.fontFamily.split(',')[0]]
    })()`)
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' })
  assert.deepEqual(await looks(), ['rgb(255, 255, 255)', 'rgb(116, 119, 117)', 'rgb(31, 31, 31)', '500', 'Roboto'])
  await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' })
  assert.deepEqual(await looks(), ['rgb(19, 19, 20)', 'rgb(142, 145, 143)', 'rgb(227, 227, 227)', '500', 'Roboto'])
  await page.context().close()
})

test(
  'the window that asked learns that a request was decided, if it is of an origin of the application',
  { skip },
  async () => {
    const page = await open()
    await page.goto(`${world.origin}/account`)
    await page.locator('form[action$="/DEV"] button').click()
    await page.getByRole('textbox').fill('olga')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/account$/)
    for (const [host, isTold] of [
      ['orchard.example', true],
      ['evil.example', false],
    ] as const) {
      const asked = await ask('olga', `sig_${host}`)
      await page.context().route(`https://${host}/**`, (route) => route.fulfill({ contentType: 'text/html', body: '<title>x</title>' })) // prettier-ignore
      await page.goto(`https://${host}/shop`)
      await page.evaluate(
        "void addEventListener('message', ({ origin, data }) => (globalThis.told = { origin, data }))",
      )
      const [popup] = await Promise.all([
        page.waitForEvent('popup'),
        page.evaluate(`void window.open(${JSON.stringify(asked.url)})`),
      ])
      const closed = popup.waitForEvent('close')
      await popup.getByRole('button', { name: en.approvals.deny, exact: true }).click()
      await closed
      const told = await page.evaluate('globalThis.told')
      const data = { type: 'chatelaine:approval', id: asked.id, state: 'denied' }
      assert.deepEqual(told, isTold ? { origin: world.origin, data } : undefined)
    }
    await page.context().close()
  },
)

/** Asks a user to approve an unlimited allowance for the application “pictured”, as the API does. */
async function ask(username: string, intentId: string): Promise<{ id: string; url: string }> {
  const requests = approvalRequests({ address: addressOf(`DEV-${username}`), bob: addressOf('DEV-bob') }, 2_000_000_000)
  const content = requests['allowance without end']!
  const caller = { accountId: accountIdOf('DEV', username), clientId: 'pictured', chainId: 31_337 }
  return (
    await askApproval(world.app, { caller, intentId, content, requestHash: null, rule: 'r', askedFrom: '203.0.113.7' })
  ).link
}

for (const words of languages)
  test(`every page of a sign-in is sound in ${words.language}`, { skip }, async () => {
    const page = await open(words.language)
    const name = (what: string): string => pathOf(`${what}-${words.language}`)('phone')
    await page.goto(authorizationUrl(world.origin).url)
    await look(page, name('chooser'))
    await page.goto(authorizationUrl(world.origin, { login_provider: 'DEV' }).url)
    await look(page, name('development-sign-in'))
    await page.getByRole('textbox').fill(`reader-${words.language}`)
    await page.getByRole('button', { name: words.development.signIn, exact: true }).click()
    await page.waitForURL(/\/consent\//)
    await look(page, name('consent'))
    await page.goto(`${world.origin}/account`)
    await look(page, name('account'))
    for (const tab of ['receive', 'activity', 'applications', 'security', 'signatures']) {
      await page.goto(`${world.origin}/account/${tab}`)
      await look(page, name(tab))
    }
    await page.goto(`${world.origin}/account/erase`)
    await look(page, name('erase'))
    const { url } = await ask(`reader-${words.language}`, `sig_${words.language}`)
    await page.goto(`${world.origin}/account/approvals`)
    await look(page, name('approvals'))
    await page.goto(url)
    await look(page, name('approval'))
    await page.context().close()
  })
