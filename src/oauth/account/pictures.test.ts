import assert from 'node:assert/strict'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { after, afterEach, before, test } from 'node:test'
import { askApproval } from '../../approvals/ask.ts'
import { checksumAddress } from '../../digits.ts'
import { accountIdOf, type Hex } from '../../ids.ts'
import type { ApprovalContent } from '../../store/column-values.ts'
import { openTelemetry } from '../../telemetry.ts'
import { addressOf, rehearse, type Rehearsal } from '../../../test/rehearsal.ts'
import { openBrowser, textOf, type Page } from '../../../test/kit/browser.ts'
import { stoppedClock, type TestClock } from '../../../test/kit/clock.ts'
import { freePort } from '../../../test/kit/ports.ts'
import { until } from '../../../test/kit/until.ts'
import { nothing } from '../oauth.ts'
import { openPictures } from './pictures.ts'
import type { AccountSlices, ActivityEntry } from './slices.ts'

const CHAIN = 31_337
const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64') // prettier-ignore
const GIF = Buffer.from('R0lGODlhAQABAAAAACw=', 'base64')
const SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
const MAX_BYTES = 262_144
const HOUR = 3_600_000
const DAY = 24 * HOUR

/** A host of pictures, which also misbehaves. */
let host: Server
let origin: string
let asked: string[] = []
const answers: Record<string, (response: ServerResponse) => unknown> = {
  '/good.png': (response) => response.writeHead(200, { 'content-type': 'text/html' }).end(PNG),
  '/good.gif': (response) => response.end(GIF),
  '/largest': (response) => response.end(Buffer.concat([PNG, Buffer.alloc(MAX_BYTES - PNG.length)])),
  '/silent': () => undefined,
  '/unfinished': (response) => response.write(PNG.subarray(0, 20)),
  '/huge': (response) => response.end(Buffer.concat([PNG, Buffer.alloc(MAX_BYTES - PNG.length + 1)])),
  '/endless': (response) => pour(response),
  '/elsewhere': (response) => response.writeHead(302, { location: `${origin}/good.png` }).end(PNG),
  '/page': (response) => response.writeHead(200, { 'content-type': 'image/png' }).end('<!doctype html><h1>Hello</h1>'),
  '/drawing': (response) => response.writeHead(200, { 'content-type': 'image/svg+xml' }).end(SVG),
  '/empty': (response) => response.end(),
  '/missing': (response) => response.writeHead(404, { 'content-type': 'image/png' }).end(PNG),
  '/cut': (response) => {
    response.writeHead(200, { 'content-length': '1000' }).write(PNG)
    response.destroy()
  },
}
const HOSTILE = ['/huge', '/endless', '/elsewhere', '/page', '/drawing', '/empty', '/missing', '/cut']

function pour(response: ServerResponse): void {
  while (response.write(Buffer.alloc(65_536)) && !response.destroyed);
  response.once('drain', () => pour(response))
}

before(async () => {
  const port = await freePort()
  origin = `http://localhost:${port}`
  host = createServer((request, response) => {
    asked.push(request.url!)
    response.on('error', () => {})
    return (answers[request.url!] ?? answers['/missing']!)(response)
  })
  await new Promise<void>((done) => void host.listen(port, done))
})
after(() => {
  host.closeAllConnections()
  host.close()
})
afterEach(() => void (asked = []))

const tokenAt = (index: number): Hex => `0x${(0xaa_0000 + index).toString(16).padStart(40, '0')}`
const nameAt = (index: number): string => `${CHAIN}:${tokenAt(index)}`
const listOf = (...urls: string[]) =>
  new Map(
    urls.map((url, index) => [
      nameAt(index),
      {
        symbol: `T${index}`,
        name: '',
        picture: { url: url.startsWith('/') ? origin + url : url, allowsPrivate: false },
      },
    ]),
  )

/** The slices of an account that holds some tokens, and has received one of each. */
function holding(count: number): AccountSlices {
  const tokens = Array.from({ length: count }, (_, index) => tokenAt(index))
  const amount = { value: 5n, decimals: 0 }
  const received = (token: Hex, index: number): ActivityEntry => ({
    ...{ at: new Date(0), sent: null },
    transfers: [{ direction: 'IN', amount: { ...amount, symbol: `T${index}` }, token, tokenId: null, other: 'bob', otherAddress: addressOf('DEV-bob'), at: new Date(0), place: { blockNumber: 1, hash: `0x${'ab'.repeat(32)}` }, explorerUrl: 'https://explorer.example/' }], // prettier-ignore
  })
  return {
    ...nothing,
    // As a separate API writes it.
    readBalances: async () => tokens.map((token, index) => ({ ...amount, symbol: `T${index}`, name: '', token: checksumAddress(token), isSpam: false, isCollection: false })), // prettier-ignore
    readCollectibles: async () => [{ tokenType: 'ERC721', token: tokenAt(count), tokenId: 1n, count: 1n, name: 'Art', symbol: 'ART', isSpam: false }], // prettier-ignore
    readActivity: async () => ({ entries: tokens.map(received), nextCursor: null, coverage: { from: 0, internalFrom: 0 } }), // prettier-ignore
    readReceipt: async () => received(tokens[0]!, 0),
    readKnown: async () => ({ native: null, dealtWith: null, tokens: tokens.map((token) => ({ token, symbol: 'T0', decimals: 0, isListed: true, isSpam: false, isCollection: false })) }), // prettier-ignore
    sending: {
      rehearse: () => assert.fail(),
      send: () => assert.fail(),
      look: async () => null,
      sendable: async () => 'all',
    },
  }
}

async function withAccount(
  list: ReturnType<typeof listOf>,
  count: number,
  work: (world: Rehearsal, open: (path: string) => Promise<Page>) => Promise<void>,
  clock?: TestClock,
): Promise<void> {
  const world = await rehearse({ slices: holding(count), knownTokens: list, ...(clock === undefined ? {} : { clock }) })
  try {
    const browser = openBrowser(world.origin)
    await browser.signIn('/account', 'alice')
    await work(world, (path) => browser.go(path))
  } finally {
    await world.close()
  }
}

const picturesIn = ({ text }: Page): string[] => [...text.matchAll(/<img class="coin[^"]*" src="([^"]*)"/g)].map(([, src]) => src!.replace('&#61;', '=')) // prettier-ignore

test('every page with tokens shows their listed pictures, from our own origin', async () => {
  await withAccount(listOf('/good.png', '/good.gif'), 1, async (world, open) => {
    await until('both pictures are held', async () => new Set(picturesIn(await open('/account'))).size === 2)
    const content = { calls: [{ to: tokenAt(0), value: '0', data: `0xa9059cbb${addressOf('DEV-bob').slice(2).padStart(64, '0')}${'5'.padStart(64, '0')}` }] } as ApprovalContent // prettier-ignore
    const caller = { accountId: accountIdOf('DEV', 'alice'), clientId: 'demo', chainId: CHAIN }
    const question = { caller, intentId: 'tx_1', content, requestHash: null, rule: 'built-in', askedFrom: null }
    const { id } = (await askApproval(world.app, question)).link
    for (const [path, count] of [
      ['/account', 3],
      ['/account/send', 2],
      [`/account/send?asset=${CHAIN}:ERC20:${tokenAt(0)}:`, 1],
      ['/account/activity', 1],
      [`/account/receipt?network=${CHAIN}&block=1&hash=0x${'ab'.repeat(32)}`, 1],
      [`/account/approvals/${id}`, 1],
    ] as const) {
      const page = await open(path)
      assert.equal(page.status, 200, textOf(page.text))
      assert.equal(picturesIn(page).length, count, path)
      assert.ok(!page.text.includes(origin), 'the browser is led to no other host')
    }
    const [first] = picturesIn(await open('/account'))
    assert.match(first!, new RegExp(`^/assets/tokens/${CHAIN}/${tokenAt(0)}\\?v=[\\w-]{12}$`))
    const answer = await fetch(new URL(first!, world.origin))
    assert.deepEqual(Buffer.from(await answer.arrayBuffer()), PNG)
    assert.deepEqual(
      ['content-type', 'x-content-type-options', 'content-security-policy', 'cache-control'].map((name) => answer.headers.get(name)), // prettier-ignore
      ['image/png', 'nosniff', "default-src 'none'; sandbox", 'public, max-age=86400'],
    )
    assert.deepEqual(asked.toSorted(), ['/good.gif', '/good.png'], 'each was fetched once')
  })
})

for (const path of HOSTILE)
  test(`a picture at ${path} changes nothing of the page`, async () => {
    await withAccount(listOf(path), 1, async (world, open) => {
      await until('its failure is logged', () => world.logged.some((line) => (line as { event: string }).event === 'token_picture_unavailable')) // prettier-ignore
      const page = await open('/account')
      assert.equal(page.status, 200)
      assert.match(page.text, /<span class="coin "[^>]*>T0<\/span>/)
      assert.deepEqual(picturesIn(page), [])
      assert.equal((await fetch(`${world.origin}/assets/tokens/${CHAIN}/${tokenAt(0)}`)).status, 404)
      assert.deepEqual(asked, [path], 'a redirect is not followed, and nothing is asked twice')
    })
  })

for (const path of ['/silent', '/unfinished'])
  test(`no page waits for a picture at ${path}, and those of other hosts are shown`, async () => {
    const otherHost = origin.replace('localhost', '127.0.0.1')
    await withAccount(listOf(path, `${otherHost}/good.png`, '/good.gif'), 3, async (world, open) => {
      await until(`${path} is asked for`, () => asked.includes(path))
      const shown = await until('the picture of the other host is held', async () => {
        const found = picturesIn(await open('/account'))
        return found.length === 0 ? null : found
      })
      assert.ok(shown.every((src) => src.includes(tokenAt(1))))
      assert.equal((await fetch(`${world.origin}/assets/tokens/${CHAIN}/${tokenAt(0)}`)).status, 404)
      assert.deepEqual(
        asked.toSorted(),
        ['/good.png', path].toSorted(),
        'the slow host has not finished its first answer',
      )
    })
  })

test('a private address is not asked, unless the operator allows it for this picture', async () => {
  let connections = 0
  host.on('connection', () => connections++)
  const { port } = new URL(origin)
  const urls = ['127.0.0.1', '[::1]', '2130706433', 'localhost'].map((name) => `https://${name}:${port}/good.png`)
  const failures: [string, string][] = []
  const list = listOf(...urls)
  list.set(nameAt(9), { symbol: 'T9', name: '', picture: { url: urls[0]!, allowsPrivate: true } })
  const pictures = openPictures({ ...parts(list, stoppedClock(), failures) })
  await until('all have failed', () => failures.length === 5)
  for (const [name, cause] of failures.filter(([one]) => one !== nameAt(9))) assert.match(cause, /not public/, name)
  // It was asked, and speaks no TLS.
  assert.equal(connections, 1)
  pictures.close()
})

/** What the pictures of a process need; failures are told with their causes. */
function parts(knownTokens: ReturnType<typeof listOf>, clock: TestClock, failures: [string, string][] = []) {
  const telemetry = openTelemetry('test', 'silent')
  const warn = (_event: string, { token }: Record<string, unknown> = {}, error?: unknown) =>
    void failures.push([String(token), (error as { cause?: Error }).cause?.message ?? (error as Error).message])
  return { knownTokens, clock, telemetry: { ...telemetry, log: { ...telemetry.log, warn } as typeof telemetry.log } }
}

test('only listed tokens are asked about, by nobody’s choice of address', async () => {
  await withAccount(listOf('/good.png'), 3, async (world, open) => {
    await until('the picture is held', async () => picturesIn(await open('/account')).length > 0)
    for (const path of [
      `1/${tokenAt(0)}`,
      `${CHAIN}/${tokenAt(1)}`,
      `${CHAIN}/__proto__`,
      `${CHAIN}/..%2f`,
      `${CHAIN}/${encodeURIComponent(origin)}`,
    ])
      // prettier-ignore
      assert.equal((await fetch(`${world.origin}/assets/tokens/${path}`)).status, 404, path)
    assert.deepEqual(asked, ['/good.png'])
  })
})

test('a failed picture is asked for again after ten minutes, a good one after a day; a lost one is shown for a week', async () => {
  const clock = stoppedClock()
  const failures: [string, string][] = []
  const pictures = openPictures(parts(listOf('/missing'), clock, failures))
  const shown = () => pictures.pictureOf(CHAIN, tokenAt(0)) !== null
  await until('it failed', () => failures.length === 1)
  await clock.advance(600_000 - 1)
  assert.equal(shown(), false)
  await clock.advance(1)
  const good = answers['/good.png']!
  const missing = answers['/missing']!
  answers['/missing'] = good
  await until('it is shown', shown)
  assert.deepEqual(asked, ['/missing', '/missing'])
  answers['/missing'] = missing
  await clock.advance(DAY - 1)
  assert.equal(shown(), true)
  assert.equal(asked.length, 2)
  await clock.advance(1)
  assert.equal(shown(), true, 'while it is fetched again')
  await until('it failed again', () => failures.length === 2)
  await clock.advance(6 * DAY - 1)
  assert.equal(shown(), true)
  await until('it failed once more', () => failures.length === 3)
  await clock.advance(1)
  assert.equal(shown(), false)
  pictures.close()
})

test('the pictures of a process fit into 16 MiB; what was shown last remains', async () => {
  const pictures = openPictures(parts(listOf(...Array.from({ length: 65 }, () => '/largest')), stoppedClock()))
  const isHeld = (index: number) => pictures.find(nameAt(index)) !== null
  await until('64 are held', () => Array.from({ length: 64 }, (_, index) => index).every(isHeld))
  assert.ok(isHeld(0), 'shown last')
  assert.equal(asked.length, 64)
  await until('one more is held', () => isHeld(64))
  assert.ok(isHeld(0))
  const held = Array.from({ length: 65 }, (_, index) => index).filter(isHeld).length
  assert.equal(held, 64)
  pictures.close()
})
