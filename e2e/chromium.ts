import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdtemp, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { AxeBuilder } from '@axe-core/playwright'
import { chromium, type Browser, type Page } from 'playwright-core'
import { en } from '../src/texts/en.ts'
import { PATIENCE_MS, until } from '../test/kit/until.ts'
import { place, start, type Place, type Program } from './start.ts'

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium'
const isThere = existsSync(executablePath)
// On a machine without Chromium the rest of the suite must still run; a check before landing must not pass without it.
if (!isThere && process.env.CI === 'true')
  throw new Error(`there is no Chromium at ${executablePath}: install it, or set CHROMIUM`)
export const skip = isThere ? false : `there is no Chromium at ${executablePath}`

const ARGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/**
 * A browser that waits as long as all other tests do for what a page has to show. Pages change at once: a transition
 * fails where a window changes its size during it.
 */
export async function openChromium(more: string[] = []): Promise<Browser> {
  const browser = await chromium.launch({ executablePath, timeout: PATIENCE_MS, args: [...ARGS, ...more] })
  const newContext = browser.newContext.bind(browser)
  browser.newContext = async (options) => {
    const context = await newContext({ reducedMotion: 'reduce', ...options })
    context.setDefaultTimeout(PATIENCE_MS)
    return context
  }
  return browser
}

/** Where pictures for people go: SCREENSHOTS, or a folder of its own. */
export const shots = async (): Promise<string> =>
  process.env.SCREENSHOTS ?? (await mkdtemp(join(tmpdir(), 'chatelaine-shots-')))

/** An installation, a browser and a folder for pictures, for all tests of a file. */
export function installationAndBrowser(settings: Record<string, string> = {}) {
  let here: Place | undefined
  const opened = {} as { here: Place; program: Program; browser: Browser; folder: string }
  before(async () => {
    if (skip !== false) return
    here = await place()
    Object.assign(here.env, settings)
    opened.here = here
    opened.program = await start(here)
    opened.folder = await shots()
    opened.browser = await openChromium()
  })
  after(async () => {
    await opened.browser?.close()
    await opened.program?.interrupt()
    await here?.drop()
  })
  return opened
}

/** From the chooser, in any language, to wherever the sign-in with the development provider leads. */
export async function signInAs(page: Page, username: string): Promise<void> {
  await page.locator('form[action$="/DEV"] button').click()
  await page.getByRole('textbox').fill(username)
  await page.keyboard.press('Enter')
  await page.waitForURL((url) => !url.pathname.startsWith('/devnet/'))
}

/** Approves, in a window that closes then. A press that arrives with the window's focus counts for nothing: it is repeated. */
export const approveIn = (window: Page): Promise<true> =>
  until('the window closes', async () => {
    const approve = window.getByRole('button', { name: en.approvals.approve, exact: true })
    if (!window.isClosed()) await approve.click({ timeout: 1_000 }).catch(() => {})
    return window.isClosed()
  })

/**
 * A picture for people, and what a machine can say about it: nothing wider than the screen or than its own box, nothing
 * to press that is too small for a finger, no accessibility violation.
 */
export async function look(page: Page, path: string): Promise<void> {
  // In the middle of a change of colours a page looks as it never does.
  for (let look = 0; look < 400; look++) {
    if (await page.evaluate("document.getAnimations().every(({ playState }) => playState !== 'running')")) break
    await page.waitForTimeout(50)
  }
  // Below the fold only people look, and drawing a long page costs more than all the rest.
  await page.screenshot({ path, fullPage: process.env.SCREENSHOTS !== undefined })
  assert.ok((await stat(path)).size > 5_000, `${path} is an empty picture`)
  const overflow = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')
  assert.ok(Number(overflow) <= 1, `${path} is ${String(overflow)} px wider than the screen`)
  assert.deepEqual(await page.evaluate(WIDER_THAN_ITS_BOX), [], path)
  if (page.viewportSize()!.width < 640) assert.deepEqual(await page.evaluate(TOO_SMALL), [], path)
  const { violations } = await axeOf(page, await page.evaluate<boolean>("'axe' in globalThis")).analyze()
  assert.deepEqual(
    violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`),
    [],
    path,
  )
}

/** Code for the page: elements of pages for users whose contents reach over the neighbour. */
const WIDER_THAN_ITS_BOX = `[...document.querySelectorAll(':is(.wallet, .narrow) main *')]
  .filter((one) => one.clientWidth > 1 && getComputedStyle(one).overflowX === 'visible' && one.scrollWidth > one.clientWidth + 1)
  .filter((one) => one.querySelector('.full') === null)
  .map((one) => one.outerHTML.slice(0, 200))`

/** Code for the page: what pages for users have to press that is lower than 44 px, apart from links within sentences. */
const TOO_SMALL = `[...document.querySelectorAll(':is(.wallet, .narrow) :is(a, button:not(.default), input:not([type=hidden], [type=checkbox]), select, summary)')]
  .filter((one) => one.getClientRects().length > 0 && getComputedStyle(one).display !== 'inline')
  .filter((one) => {
    const whole = getComputedStyle(one, '::after')
    const height = whole.content !== 'none' && whole.position === 'absolute' ? parseFloat(whole.height) : 0
    return Math.max(one.getBoundingClientRect().height, height) < 44
  })
  .map((one) => one.outerHTML.slice(0, 200))`

/**
 * In one go within the page: otherwise axe opens another page to count what it found, which costs four times as much. Of
 * frames of other origins it sees nothing then; no page of ours has any.
 */
const axeOf = (page: Page, isLoaded: boolean): AxeBuilder =>
  new AxeBuilder({ page, ...(isLoaded ? { axeSource: ';' } : {}) })
    .setLegacyMode()
    .options({ resultTypes: ['violations'] })

/** The same page on a phone and on a desktop, in one scheme. */
export async function lookAtWidths(
  page: Page,
  colorScheme: 'light' | 'dark',
  path: (view: string) => string,
): Promise<void> {
  const before = page.viewportSize()!
  await page.emulateMedia({ colorScheme })
  for (const width of [390, 1280]) {
    await page.setViewportSize({ width, height: 844 })
    await look(page, path(`${width === 390 ? 'phone' : 'desktop'}-${colorScheme}`))
  }
  await page.setViewportSize(before)
}

/** The same page on a phone and on a desktop, in light and in dark. */
export async function lookAround(page: Page, path: (view: string) => string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) await lookAtWidths(page, colorScheme, path)
  await page.emulateMedia({ colorScheme: null })
}
