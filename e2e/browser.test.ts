// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { until } from '../test/kit/until.ts'
import { installationAndBrowser, lookAround, lookAtWidths, signInAs, skip } from './chromium.ts'
import { openLoopbackClient } from './loopback-client.ts'

const opened = installationAndBrowser()

type View = { name: string; colorScheme: 'light' | 'dark'; width: number }
const views: View[] = [
  { name: 'desktop-light', colorScheme: 'light', width: 1280 },
  { name: 'phone-dark', colorScheme: 'dark', width: 390 },
]

async function open({ colorScheme, width }: View): Promise<Page> {
  const context = await opened.browser.newContext({ colorScheme, viewport: { width, height: 844 } })
  return context.newPage()
}

const pathOf =
  (name: string) =>
  (view: string): string =>
    join(opened.folder, `${name}-${view}.png`)

for (const view of views) {
  test(`a person signs in and every page on the way is sound: ${view.name}`, { skip }, async () => {
    const { facts } = opened.program
    const page = await open(view)
    const errors: string[] = []
    page.on('pageerror', (error) => errors.push(error.message))
    const { url, tokens: redeem, close } = await openLoopbackClient(facts, 'openid email')

    await page.goto(url)
    await lookAtWidths(page, view.colorScheme, pathOf('chooser'))
    await page.getByRole('button', { name: /Continue with/ }).click()
    await lookAtWidths(page, view.colorScheme, pathOf('development-sign-in'))
    await page.getByRole('textbox').fill(`Person-${view.name}`)
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/consent\//)
    await lookAtWidths(page, view.colorScheme, pathOf('consent'))
    await page.getByRole('button', { name: 'Allow', exact: true }).click()
    const tokens = await redeem()
    close()
    const userId = `DEV-person-${view.name}`
    assert.equal(tokens.claims()!.sub, userId)

    const call = async (path: string, body?: unknown) => {
      const response = await fetch(`${facts.baseUrl}${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { authorization: `Bearer ${tokens.access_token}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      // oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
      return (await response.json()) as any
    }
    const { address } = await call(`/users/${userId}`)
    const write = await call('/contracts/method/write?wait=mined', {
      address: facts.contracts.erc20,
      abi: 'mint(address,uint256) public',
      args: [address, '7'],
    })
    const { receipt } = await call(`/transactions/${write.id}`)
    for (const [name, path, status] of [
      ['front', '/', 200],
      ['errors', '/docs/errors', 200],
      ['explorer', '/explorer', 200],
      ['explorer-transaction', new URL(write.explorerUrl).pathname, 200],
      ['explorer-address', `/explorer/address/${address}`, 200],
      ['explorer-block', `/explorer/block/${receipt.blockNumber}`, 200],
      ['explorer-missing', `/explorer/tx/0x${'00'.repeat(32)}`, 404],
      ['sign-in-over', '/login/nothing-of-the-kind', 400],
      ['bad-request', '/oauth/auth?client_id=nobody&response_type=code', 400],
    ] as const) {
      assert.equal((await page.goto(`${facts.origin}${path}`))?.status(), status, name)
      await lookAtWidths(page, view.colorScheme, pathOf(name))
    }
    // The session of the sign-in above: nobody is asked again.
    await page.goto(`${facts.origin}/account`)
    await page.getByText('+0.000000000000000007 SMPL').waitFor()
    await lookAround(page, pathOf('account'))
    await page.getByRole('link', { name: 'Receive' }).first().click()
    await page.waitForURL(/\/account\/receive$/)
    assert.equal(await page.getByRole('textbox', { name: 'Your address' }).inputValue(), address)
    await lookAround(page, pathOf('account-receive'))
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: facts.origin })
    await page.getByRole('button', { name: 'Copy the address' }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), address)
    // Somebody who has been here for a while: another way to sign in, another browser.
    const elsewhere = await open(view)
    await elsewhere.goto(`${facts.origin}/account`)
    await signInAs(elsewhere, `Person-${view.name}`)
    await elsewhere.context().close()
    await page.getByRole('link', { name: 'Security' }).click()
    await page.getByRole('button', { name: /Add a sign-in with/ }).click()
    await page.getByRole('textbox').fill(`Second-${view.name}-with-a-name-too-long-for-one-line`)
    await page.keyboard.press('Enter')
    await page.getByRole('status').waitFor()
    await lookAround(page, pathOf('account-security'))
    await page.getByRole('link', { name: 'Delete my data' }).click()
    await lookAround(page, pathOf('account-delete'))
    await page.goto(`${facts.origin}/account/applications`)
    await lookAround(page, pathOf('account-applications'))
    await page.getByRole('button', { name: /Revoke access/ }).click()
    await page.getByRole('status').waitFor()
    await lookAtWidths(page, view.colorScheme, pathOf('account-revoked'))
    assert.deepEqual(errors, [])
    await page.context().close()
  })
}

test(
  'a person sends some to another by name and finds it in the list, in their language and their zone',
  { skip },
  async () => {
    const { origin } = opened.program.facts
    const context = await opened.browser.newContext({
      locale: 'fr-FR',
      timezoneId: 'Asia/Tokyo',
      viewport: { width: 390, height: 844 },
    })
    const page = await context.newPage()
    const signIn = async (username: string): Promise<void> => {
      await page.getByRole('button', { name: /^Continuer avec/ }).waitFor()
      await signInAs(page, username)
    }
    await page.goto(`${origin}/account`)
    await signIn('Odile')
    await page.getByRole('heading', { name: 'Votre compte', exact: true }).waitFor()
    await page.context().clearCookies()
    await page.goto(`${origin}/account`)
    await signIn('Yves')
    await page.getByRole('link', { name: 'Envoyer' }).first().click()
    await lookAround(page, pathOf('send'))
    await page.getByLabel('À qui').fill('personne')
    await page.getByLabel('Combien').fill('0,25')
    await page.getByRole('button', { name: 'Continuer' }).click()
    await page.getByRole('alert').waitFor()
    await lookAround(page, pathOf('send-refused'))
    await page.getByLabel('À qui').fill('odile')
    await page.getByRole('button', { name: 'Continuer' }).click()
    await page.getByText(/Vous envoyez 0,25 ETH à odile sur le réseau de test Ethereum/).waitFor()
    await lookAround(page, pathOf('send-confirm'))
    await page.getByRole('button', { name: 'Envoyer maintenant' }).click()
    await page.getByRole('heading', { name: 'Envoyé' }).waitFor()
    await lookAround(page, pathOf('sent'))
    // Blocks come into the history behind the states of writes.
    await until('it is listed', async () => {
      await page.goto(`${origin}/account/activity?direction=out`)
      return (await page.getByText(/−0,25 ETH/).count()) > 0
    })
    await page.getByText('à odile').waitFor()
    assert.match(await page.locator('time').first().innerText(), /UTC\+9|JST/)
    await lookAround(page, pathOf('activity'))
    await page.goto(`${origin}/account`)
    // What is left of the coins has more digits than are shown: all of them are there for a key as for a pointer.
    const cut = page.locator('.amount').first()
    await cut.focus()
    await page.screenshot({ path: pathOf('amount')('focus') })
    assert.match(await cut.locator('.full').innerText(), /^\d+,\d{4,18} ETH$/)
    await lookAround(page, pathOf('account-french'))
    await context.close()
  },
)

test(
  'after the consent, the browser follows the application to wherever its callback leads, and no policy of ours is in the way',
  { skip },
  async () => {
    const { facts } = opened.program
    const landing = createServer((_request, response) => response.end('<!doctype html><title>in</title>')).listen(0)
    const callback = createServer((_request, response) => response.writeHead(302, { location: `http://localhost:${portOf(landing)}/in` }).end()).listen(0, '127.0.0.1') // prettier-ignore
    await Promise.all([landing, callback].map((server) => once(server, 'listening')))
    const page = await open(views[0]!)
    const problems: string[] = []
    page.on('console', (message) => {
      if (/Content Security Policy/.test(message.text())) problems.push(message.text())
    })
    const query = new URLSearchParams({ client_id: 'demo', response_type: 'code', scope: 'openid', redirect_uri: `http://127.0.0.1:${portOf(callback)}/callback`, code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM', code_challenge_method: 'S256' }) // prettier-ignore
    await page.goto(`${facts.issuer}/auth?${query.toString()}`)
    await signInAs(page, 'Far-away')
    await page.waitForURL(/\/consent\//)
    await page.getByRole('button', { name: 'Allow', exact: true }).click()
    await page.waitForURL(`http://localhost:${portOf(landing)}/in`)
    assert.deepEqual(problems, [])
    await page.context().close()
    for (const server of [landing, callback]) server.close()
  },
)

const portOf = (server: Server): number => (server.address() as AddressInfo).port

test(
  'the API reference draws itself under its own policy, readable for everybody, and asks nobody else',
  { skip },
  async () => {
    const { facts } = opened.program
    const page = await open(views[0]!)
    const problems: string[] = []
    page.on('request', (request) => {
      if (
        new URL(request.url()).origin !== facts.origin &&
        !request.url().startsWith('data:') &&
        !request.url().startsWith('blob:')
      )
        problems.push(`asked ${request.url()}`)
    })
    page.on('console', (message) => {
      if (/Content Security Policy/.test(message.text())) problems.push(message.text())
    })
    await page.goto(`${facts.origin}/docs/`)
    await page.getByRole('heading', { name: 'Chatelaine' }).first().waitFor()
    await page
      .getByRole('link', { name: /Balances/ })
      .or(page.getByRole('button', { name: /Balances/ }))
      .first()
      .waitFor()
    await lookAround(page, pathOf('reference'))
    assert.deepEqual(problems, [])
    await page.context().close()
  },
)
