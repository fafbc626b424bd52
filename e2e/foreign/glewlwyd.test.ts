// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { checkProvider } from '../../src/oauth/federation/check-provider.ts'
import { readProviders } from '../../src/oauth/federation/providers.ts'
import { authorizationUrl } from '../../test/rehearsal.ts'
import { command, type Ended } from '../../test/kit/command.ts'
import { world, type World } from '../../test/world.ts'
import { openChromium, skip as withoutChromium } from '../chromium.ts'
import { freePort } from '../../test/kit/ports.ts'
import { glewlwyd, skip as withoutGlewlwyd, type Client, type Glewlwyd, type Person } from './glewlwyd.ts'

/** Glewlwyd of Debian, unmodified, as the identity provider people come from, with the entry of the guide. */

const guide = await readFile(
  fileURLToPath(new URL('../../docs/operate/identity-providers.md', import.meta.url)),
  'utf8',
)
const ENTRY = JSON.parse(/<!-- run: glewlwyd -->\n```json\n([\s\S]*?)```/.exec(guide)![1]!) as Record<string, unknown>

const skip = withoutGlewlwyd || withoutChromium
const una: Person = { username: 'una', password: 'a password of hers', name: 'Una Person', email: 'una@example.org' }
/** Nobody listens there: the way ends at the question for consent. */
const AWAY = 'http://localhost/callback'
const otto: Person = { username: 'otto', password: 'a password of his', name: 'Otto', email: 'otto@example.org' }

suite('Debian’s glewlwyd as an identity provider', { skip }, () => {
  let provider: Glewlwyd
  let here: World
  let browser: Browser
  let folder: string
  let port: number
  let inHeader: Client
  let inBody: Client
  let undecoded: Client
  before(async () => {
    port = await freePort()
    const redirect = (name: string) => `http://localhost:${port}/login/callback/${name}`
    inHeader = { id: 'wallet-1', secret: 'Hush_hush-1.2*', redirectUri: redirect('HEADER'), how: 'client_secret_basic' }
    inBody = { id: 'wallet-2', secret: 'hush: 50% + more', redirectUri: redirect('BODY'), how: 'client_secret_post' }
    undecoded = { ...inHeader, id: 'wallet-3', secret: inBody.secret }
    provider = await glewlwyd({ people: [una, otto], clients: [inHeader, inBody, undecoded] })
    folder = await mkdtemp(join(tmpdir(), 'chatelaine-upstream-'))
    here = await world({
      PORT: String(port),
      PROVIDERS_FILE: await providersFile([{ ...ENTRY, ...entry('HEADER', inHeader) }, entry('BODY', inBody)]),
    })
    browser = await openChromium()
  })
  after(async () => {
    await browser?.close()
    await here?.close()
    await provider?.remove()
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  })

  const entry = (name: string, { id, secret }: Client) => ({
    name,
    label: `Glewlwyd ${name.toLowerCase()}`,
    issuer: provider.issuer,
    clientId: id,
    clientSecret: secret,
  })

  async function providersFile(entries: object[]): Promise<string> {
    const file = join(await mkdtemp(join(folder, 'providers-')), 'providers.json')
    await writeFile(file, JSON.stringify(entries), { mode: 0o600 })
    return file
  }

  /** What `provider check` says of one entry. */
  async function check(one: object): Promise<Ended> {
    const settings = { PROVIDERS_FILE: await providersFile([one]), PORT: String(port) }
    return command(settings, ['provider', 'check', (one as { name: string }).name])
  }

  /** The same without the command: what is wrong, and what to do about it. */
  async function wrongOf(one: object): Promise<string> {
    const [settings] = readProviders(await providersFile([one]), { allowsHttp: true })
    const findings = await checkProvider(settings!, { origin: here.facts.origin })
    return findings.flatMap(({ isGood, about, says, advice }) => (isGood ? [] : [about, says, advice])).join('\n')
  }

  /** A browser that nobody has used. */
  async function open(): Promise<Page> {
    const context = await browser.newContext({ locale: 'en' })
    return context.newPage()
  }

  /** From our page on which the provider is chosen to glewlwyd's. */
  async function choose(page: Page, name: string): Promise<void> {
    await page.goto(`${here.facts.origin}/account`)
    await page.getByRole('button', { name: `Continue with Glewlwyd ${name.toLowerCase()}` }).click()
    await page.locator('#password').waitFor()
  }

  async function enter(page: Page, { username, password }: Pick<Person, 'username' | 'password'>): Promise<void> {
    await page.locator('#username').fill(username)
    await page.locator('#password').fill(password)
    await page.locator('#loginbut').click()
  }

  /** Its page may be drawn anew while somebody types, on a slow machine, and loses what was typed: then once more. */
  async function signIn(page: Page, person: Person): Promise<void> {
    const form = page.locator('#loginbut')
    for (let tries = 0; tries < 15; tries++) {
      await enter(page, person)
      if (await form.waitFor({ state: 'detached', timeout: 8_000 }).then(() => true, () => false)) return // prettier-ignore
    }
    assert.fail('glewlwyd goes on asking for the password')
  }

  /** Glewlwyd asks once for each client what of a person it may see. */
  async function grant(page: Page, scopes: string[]): Promise<void> {
    await page.getByText('Client access grant').waitFor()
    for (const scope of scopes) await page.locator(`#grant-${scope}`).check()
    await page.getByRole('button', { name: 'Grant access' }).click()
  }

  const goOn = (page: Page) => page.getByTitle('Continue to client application').click()

  async function addressOn(page: Page): Promise<string> {
    await page.waitForURL(`${here.facts.origin}/account`)
    await page.goto(`${here.facts.origin}/account/receive`)
    return page.getByRole('textbox', { name: 'Your address' }).inputValue()
  }

  /** Who of a provider is known to us, with the address of their account. */
  const known = (name: string) =>
    here.app.db
      .selectFrom('identities')
      .innerJoin('accounts', 'accounts.account_id', 'identities.account_id')
      .selectAll('identities')
      .select('address')
      .where('provider', '=', name)
      .orderBy('identities.created_at')
      .execute()

  test('the check finds nothing wrong with what is right, and says what to write where it is not', async () => {
    const right = await check({ ...ENTRY, ...entry('HEADER', inHeader) })
    assert.deepEqual([right.code, /WRONG/.test(right.out)], [0, false], right.out)
    assert.equal(await wrongOf(entry('BODY', inBody)), '')
    // It describes itself as taking both, and lets a client use what its own settings name.
    const untold = await check(entry('HEADER', inHeader))
    assert.equal(untold.code, 1)
    assert.match(
      untold.out,
      /WRONG {2}client .*unauthorized_client\n +Set "clientAuthentication": "client_secret_basic"/,
    )
    assert.match(await wrongOf({ ...entry('BODY', inBody), clientSecret: 'another' }), /^client\n.*\n.*wrong secret/)
    assert.match(await wrongOf({ ...ENTRY, ...entry('HEADER', undecoded) }), /^client\n.*unauthorized_client/)
    assert.match(
      await wrongOf({ ...entry('BODY', inBody), name: 'ELSEWHERE' }),
      /callback\n.* 403\nRegister exactly http:\S+\/login\/callback\/ELSEWHERE at the provider/,
    )
  })

  for (const name of ['HEADER', 'BODY'])
    test(`a person signs in and finds the same account at the next time, secret in the ${name.toLowerCase()}`, async () => {
      const first = await open()
      await choose(first, name)
      await enter(first, { ...una, password: 'not her password' })
      await first.getByText('Authentication error').waitFor()
      assert.equal(new URL(first.url()).origin, provider.origin)
      assert.deepEqual(await known(name), [], 'nobody came')
      await signIn(first, una)
      await grant(first, ['profile', 'email'])
      await goOn(first)
      const address = await addressOn(first)
      await first.goto(`${here.facts.origin}/account/security`)
      // The session is of today: glewlwyd on SQLite says of everybody that it asked them in 1970.
      assert.match(
        await first.locator('body').innerText(),
        new RegExp(`this browser\\s+since .*${new Date().getFullYear()}`),
      )
      await first.context().close()

      const again = await open()
      await choose(again, name)
      await signIn(again, una)
      await goOn(again)
      assert.equal(await addressOn(again), address)
      await again.context().close()
      const [identity, ...others] = await known(name)
      assert.deepEqual(others, [])
      const { subject, username, email, email_verified: isVerified, image_src: picture } = identity!
      assert.match(subject, /^\w{32}$/)
      assert.deepEqual([username, email, isVerified, picture], [una.name, una.email, false, null])
    })

  test('a person who shows nothing but who they are signs in, too', async () => {
    const page = await open()
    await choose(page, 'HEADER')
    await signIn(page, otto)
    await page.getByText('Client access grant').waitFor()
    await goOn(page)
    assert.match(await addressOn(page), /^0x/)
    const { subject, username, email } = (await known('HEADER')).at(-1)!
    assert.deepEqual([username, email], [subject, null])
    await page.context().close()
  })

  test('an application that wants a fresh sign-in has glewlwyd ask for the password again, where askAgain says how', async () => {
    const page = await open()
    for (const isAgain of [false, true]) {
      const wish: Record<string, string> = isAgain ? { prompt: 'login' } : {}
      await page.goto(
        authorizationUrl(here.facts.origin, { login_provider: 'HEADER', redirect_uri: AWAY, ...wish }).url,
      )
      await signIn(page, una)
      await goOn(page)
      await page.waitForURL(/\/consent\//)
    }
    // Without askAgain max_age=0 is sent, which OpenID Connect has and glewlwyd refuses.
    await page.goto(
      authorizationUrl(here.facts.origin, { login_provider: 'BODY', redirect_uri: AWAY, prompt: 'login' }).url,
    )
    await signIn(page, una)
    await goOn(page)
    await page.getByText('Code: sign_in_refused').waitFor()
    assert.equal(new URL(page.url()).searchParams.get('error_description'), 'max_age invalid')
    await page.context().close()
  })

  test('where it stops while somebody signs in, and where it is not there, a page says so; when it is back the account is, too', async () => {
    const page = await open()
    await choose(page, 'HEADER')
    // Glewlwyd sends the browser back with a code, and is gone before we redeem it.
    await page.route('**/api/oidc/auth?**', async (route) => {
      const response = await route.fetch({ maxRedirects: 0 })
      if (response.headers().location?.startsWith(here.facts.origin) === true) await provider.stop()
      await route.fulfill({ response })
    })
    await signIn(page, una)
    await goOn(page)
    await page.waitForURL(/\/login\/callback\/HEADER/)
    await says(page, 'Glewlwyd header is not responding at the moment')

    here = await here.startAgain()
    await page.goto(`${here.facts.origin}/account`)
    const [answer] = await Promise.all([
      page.waitForResponse((one) => one.request().method() === 'POST'),
      page.getByRole('button', { name: 'Continue with Glewlwyd header' }).click(),
    ])
    assert.equal(answer.status(), 502)
    await says(page, 'Glewlwyd header is not responding at the moment')

    await provider.start()
    await page.unrouteAll()
    await page.getByRole('link', { name: 'Back to the sign-in page' }).click()
    await page.getByRole('button', { name: 'Continue with Glewlwyd header' }).click()
    await goOn(page)
    const { address } = (await known('HEADER')).find(({ username }) => username === una.name)!
    assert.equal((await addressOn(page)).toLowerCase(), `0x${Buffer.from(address).toString('hex')}`)
    await page.context().close()
  })

  async function says(page: Page, sentence: string): Promise<void> {
    await page.getByText('Code: provider_unavailable').waitFor()
    assert.match(await page.locator('body').innerText(), new RegExp(sentence))
  }
})

test('the guide names the version of Debian that is tried', { skip: withoutGlewlwyd }, () => {
  const version = execFileSync('dpkg-query', ['-W', '-f', '${Version}', 'glewlwyd']).toString()
  const [, said] = /^\| \[Glewlwyd\]\(#glewlwyd\) (\S+) \(`glewlwyd` of Debian 12\)/m.exec(guide)!
  assert.ok(version.startsWith(`${said}-`), version)
})
