// tier: all, because it builds an application with Next.js and opens it in a browser
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Locator, Page } from 'playwright-core'
import { en } from '../src/texts/en.ts'
import { freePort } from '../test/kit/ports.ts'
import { until } from '../test/kit/until.ts'
import { installationAndBrowser, look, signInAs, skip } from './chromium.ts'
import { buildClient, givePackages } from './client-package.ts'
import { keepCompiled } from './programs.ts'

const EXAMPLE = fileURLToPath(new URL('../examples/next', import.meta.url))
const TOKEN_SECONDS = 5

const opened = installationAndBrowser({ ACCESS_TOKEN_SECONDS: String(TOKEN_SECONDS) })
/** Builds an application and starts it. @param fill  writes its files @returns its address, and what it printed */
async function startNext(
  t: TestContext,
  fill: (folder: string, origin: string) => Promise<void>,
): Promise<{ origin: string; printed: () => string }> {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-next-'))
  t.after(() => rm(folder, { recursive: true }))
  const port = await freePort()
  const origin = `http://localhost:${port}`
  await fill(folder, origin)
  const client = await buildClient()
  t.after(client.drop)
  await givePackages(folder, client.folder, ['next', 'react', 'react-dom'])
  const env = {
    ...{ PATH: process.env.PATH, NEXT_TELEMETRY_DISABLED: '1' },
    ...{ WALLET_ORIGIN: opened.program.facts.origin, APP_ORIGIN: origin },
    COOKIE_SECRET: 'random, of this test only: 0123456789abcdef',
  }
  const next = join(folder, 'node_modules/next/dist/bin/next')
  execFileSync(process.execPath, [next, 'build'], { cwd: folder, env, stdio: 'pipe' })
  const site = spawn(process.execPath, [next, 'start', '-p', String(port)], { cwd: folder, env })
  const gone = once(site, 'exit')
  t.after(async () => {
    site.kill('SIGKILL')
    await gone
  })
  let printed = ''
  for (const stream of [site.stdout, site.stderr]) stream.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  await until('the application listens', async () => (await fetch(origin).catch(() => null))?.status === 200)
  return { origin, printed: () => printed }
}

async function send(page: Page, amount: string): Promise<void> {
  await page.getByLabel('Amount').fill(amount)
  await page.getByLabel('Currency').selectOption('SMPL')
  await page.getByRole('button', { name: 'Send' }).click()
}

/** Gives a user five sample tokens. */
async function mint(username: string): Promise<void> {
  const { facts, dataDir, port } = opened.program
  const { PATH } = process.env
  const env = { PATH, ...keepCompiled(), DATA_DIR: dataDir, PORT: String(port), ...databaseOf(opened.here.env) }
  const main = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))
  const token = execFileSync(process.execPath, ['--disable-warning=ExperimentalWarning', main, 'token', username], { env, encoding: 'utf8' }) // prettier-ignore
  const headers = { authorization: `Bearer ${token.trim()}`, 'content-type': 'application/json' }
  const me = (await (await fetch(`${facts.baseUrl}/me`, { headers })).json()) as { address: string }
  const call = { address: facts.contracts.erc20, abi: 'mint(address to, uint256 amount) public' }
  const body = JSON.stringify({ ...call, args: [me.address, String(5n * 10n ** 18n)] })
  const minted = await fetch(`${facts.baseUrl}/contracts/method/write?wait=mined`, { method: 'POST', headers, body })
  assert.equal(minted.status, 200, await minted.text())
}

const databaseOf = ({ DATABASE_URL }: Record<string, string>) => (DATABASE_URL === undefined ? {} : { DATABASE_URL })

/** Reloads a page, which shows what the history has, until the history has it. */
const reloadUntil = (page: Page, shown: Locator): Promise<unknown> =>
  until('the page shows what was mined', async () => {
    if (await shown.isVisible()) return true
    await page.reload()
    return false
  })

test('a user signs in, sends, and stays signed in past the end of several access tokens', { skip }, async (t) => {
  const { origin, printed } = await startNext(t, async (folder) => {
    for (const name of ['app', 'auth.js', 'package.json'])
      await cp(join(EXAMPLE, name), join(folder, name), { recursive: true })
  })
  const context = await opened.browser.newContext()
  const page = await context.newPage()
  const errors: string[] = []
  page.on('pageerror', (error) => errors.push(error.message))
  await page.goto(origin)
  await page.getByRole('link', { name: 'Sign in' }).click()
  await signInAs(page, 'nadia')
  await page.getByRole('button', { name: en.consent.allow, exact: true }).click()
  await page.getByRole('heading', { name: 'nadia' }).waitFor()
  await page.getByText('10 ETH').waitFor()
  await look(page, join(opened.folder, 'example-next.png'))

  await mint('nadia')
  await reloadUntil(page, page.getByText('5 SMPL'))

  for (const round of [1, 2]) {
    // The processes have no clock of ours.
    await page.waitForTimeout((TOKEN_SECONDS + 1) * 1_000)
    await send(page, `0.${round}`)
    await page.getByText('sent', { exact: true }).waitFor()
    await page.waitForTimeout((TOKEN_SECONDS + 1) * 1_000)
    await page.goto(origin)
    await page.getByRole('heading', { name: 'nadia' }).waitFor()
    await reloadUntil(page, page.getByRole('listitem').filter({ hasText: `${round}00000000000000000 SMPL` }))
  }
  await send(page, '1000')
  await page.getByText('insufficient_tokens').waitFor()

  const cookies = await context.cookies(origin)
  assert.ok(cookies.some(({ name, httpOnly }) => /^chatelaine-\d+-session$/.test(name) && httpOnly))
  assert.doesNotMatch(await page.content(), /eyJ/)
  assert.equal(await page.evaluate('document.cookie'), '')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('link', { name: 'Sign in' }).waitFor()
  assert.deepEqual(errors, [])
  assert.doesNotMatch(printed(), /Error|eyJ/)
  await context.close()
})

test('the quickstart works as it stands: sign-in, one transfer, sign-out', { skip }, async (t) => {
  const guide = await readFile(new URL('../docs/build/quickstart-nextjs.md', import.meta.url), 'utf8')
  const files = [...guide.matchAll(/Save this as `([^`]+)`[^]*?```jsx?\n([^]*?)\n {3}```/g)]
  const { origin } = await startNext(t, async (folder, here) => {
    await writeFile(join(folder, 'package.json'), '{"type":"module"}')
    for (const [, name, code] of files) {
      await mkdir(dirname(join(folder, name!)), { recursive: true })
      const text = code!.replaceAll(/^ {3}/gm, '').replaceAll('http://localhost:3000', here)
      await writeFile(join(folder, name!), text.replaceAll('http://localhost:4000', opened.program.facts.origin))
    }
  })
  assert.equal(files.length, 4)
  const context = await opened.browser.newContext()
  const page = await context.newPage()
  await page.goto(origin)
  await page.getByRole('link', { name: 'Sign in' }).click()
  await signInAs(page, 'quick-next')
  await page.getByRole('button', { name: en.consent.allow, exact: true }).click()
  await page.getByText('10 ETH').waitFor()
  await page.waitForTimeout((TOKEN_SECONDS + 1) * 1_000)
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText('Sent', { exact: true }).waitFor()
  await page.getByText(/^9\.98\d+ ETH$/).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('link', { name: 'Sign in' }).waitFor()
  await context.close()
})

test('the example has at most 120 lines of its own', async () => {
  const files = await readdir(EXAMPLE, { recursive: true })
  const own = files.filter((name) => /\.jsx?$/.test(name) && !/node_modules|\.next/.test(name))
  const lines = await Promise.all(
    own.map(async (name) => (await readFile(join(EXAMPLE, name), 'utf8')).split('\n').length - 1),
  )
  assert.ok(own.length >= 4)
  assert.ok(lines.reduce((sum, one) => sum + one, 0) <= 120)
})
