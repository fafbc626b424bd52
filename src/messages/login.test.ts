import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSiweMessage, parseSiweMessage } from 'viem/siwe'
import { classify } from './classify.ts'
import { readLogin } from './login.ts'
import type { MessageFacts } from './message-facts.ts'
import { readMessage } from './message.ts'

const ALICE = '0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045'
const AT = Date.UTC(2026, 10, 28, 12)
const facts: MessageFacts = {
  address: Buffer.from(ALICE.slice(2), 'hex'),
  chainId: 1,
  at: AT,
  domains: ['app.example', 'localhost:3000', 'xn--mnchen-3ya.example'],
}

const base = {
  domain: 'app.example',
  address: ALICE,
  uri: 'https://app.example/login',
  version: '1',
  chainId: 1,
  nonce: 'abcdef0123',
  issuedAt: new Date(AT),
} as const
type Changes = Omit<Partial<Parameters<typeof createSiweMessage>[0]>, 'uri' | 'domain'> & {
  uri?: string
  domain?: string
}
const login = (changes: Changes = {}): string => createSiweMessage({ ...base, ...changes })
const minutes = (count: number): Date => new Date(AT + count * 60_000)
const classOf = (text: string, changes: Partial<MessageFacts> = {}) => classify(readMessage({ text }), { ...facts, ...changes }) // prettier-ignore

test('a login of the application’s own domain is signed with the token alone', () => {
  const logins: Changes[] = [
    {},
    { statement: 'Welcome to the shop.' },
    { statement: 'Grüß Gott – “hier” entlang 🐄' },
    { scheme: 'https' },
    { domain: 'APP.example' },
    { domain: 'localhost:3000', uri: 'http://localhost:3000/' },
    { domain: 'xn--mnchen-3ya.example', uri: 'https://xn--mnchen-3ya.example/' },
    { uri: 'https://localhost:3000/other?a=b#c' },
    { issuedAt: minutes(5) },
    { issuedAt: minutes(-5) },
    { expirationTime: minutes(1), notBefore: minutes(-1), requestId: 'request-1' },
  ]
  for (const changes of logins) {
    const text = login(changes)
    const found = classOf(text)
    assert.deepEqual([found.class, found.needs, found.problem], ['login', 'token', null], text)
    assert.deepEqual([found.moves, found.calls, found.type], [false, [], null])
    assert.deepEqual(found.summary.warnings, [])
    assert.equal(found.domain, changes.domain?.toLowerCase() ?? 'app.example')
    assert.equal(found.summary.domain, found.domain)
    assert.deepEqual(classify(readMessage({ hex: `0x${Buffer.from(text).toString('hex')}` }), facts), found, 'as bytes')
  }
})

test('an application that registered a loopback host without a port may use any port there, and no other host', () => {
  const ownOf = (domain: string, uri: string, domains: string[]) => classOf(login({ domain, uri }), { domains }).needs
  assert.equal(ownOf('localhost:5173', 'http://localhost:5173/', ['localhost']), 'token')
  assert.equal(ownOf('127.0.0.1:3000', 'http://127.0.0.1:3000/', ['127.0.0.1']), 'token')
  for (const [domain, uri, registered] of [
    ['localhost:5173', 'http://evil.example/', 'localhost'],
    ['localhost:5173', 'http://localhost:5173/', 'localhost:3000'],
    ['localhost:5173', 'http://localhost:5173/', '127.0.0.1'],
    ['app.example:8443', 'https://app.example:8443/', 'app.example'],
    ['localhost.evil.example:1', 'http://localhost.evil.example:1/', 'localhost'],
  ] as const)
    assert.equal(ownOf(domain, uri, [registered]), 'never', `${domain} ${uri}`)
})

test('a rule judges both hosts of a login, in lower case', () => {
  const hostsOf = (changes: Changes) => classOf(login(changes)).hosts
  assert.deepEqual(hostsOf({ domain: 'App.Example', uri: 'https://APP.example/' }), ['app.example'])
  assert.deepEqual(hostsOf({ uri: 'https://LOCALHOST:3000/' }), ['app.example', 'localhost:3000'])
  assert.deepEqual(hostsOf({ uri: 'https://evil.example/' }), ['app.example', 'evil.example'])
  assert.deepEqual(classOf('Hello').hosts, [])
  // The sign of Kelvin is a k in lower case, and another host.
  const text = login({ domain: 'kiosk.example', uri: 'https://kiosk.example/' })
  assert.equal(classOf(text, { domains: ['kiosk.example'] }).needs, 'token')
  assert.equal(classOf(text.replace('kiosk', '\u212Aiosk'), { domains: ['kiosk.example'] }).needs, 'never')
})

test('a login is parsed as viem parses it', () => {
  const text = login({
    ...{ scheme: 'https', statement: 'Welcome.', expirationTime: minutes(9), notBefore: minutes(-9) },
    ...{ requestId: 'a-1', resources: ['ipfs://bafy', 'https://app.example/terms'] },
  })
  const { address, issuedAt, expirationTime, notBefore, chainId, ...rest } = parseSiweMessage(text)
  const found = readLogin(text)!
  assert.equal(found.address, address)
  assert.deepEqual(
    [found.issuedAt, found.expiresAt, found.notBefore].map((date) => Date.parse(date!)),
    [issuedAt, expirationTime, notBefore].map((date) => date!.getTime()),
  )
  assert.equal(found.chainId, String(chainId))
  const { scheme, domain, statement, uri, nonce, requestId, resources } = found
  assert.deepEqual({ scheme, domain, statement, uri, nonce, requestId, resources, version: '1' }, rest)
})

test('a login with resources needs a user: a resource can be a permission', () => {
  const found = classOf(login({ resources: ['urn:recap:eyJhdHQiOnt9fQ'] }))
  assert.deepEqual([found.class, found.needs, found.extra, found.problem], ['login', 'approval', 'resources', null])
  assert.equal(classOf(login()).extra, null)
})

test('a login for another domain is phishing, and never signed', () => {
  const foreign: Changes[] = [
    { domain: 'evil.example' },
    { domain: 'evil.example', uri: 'https://evil.example/' },
    { uri: 'https://evil.example/login' },
    { uri: 'https://evil-app.example/login' },
    { domain: 'app.example.evil.example' },
    { domain: 'evil-app.example' },
    { domain: 'sub.app.example', uri: 'https://sub.app.example/' },
    { domain: 'app.example:8443', uri: 'https://app.example:8443/' },
    { domain: 'localhost', uri: 'http://localhost/' },
    { uri: 'https://app.example@evil.example/' },
    { uri: 'https://app.example.evil.example/' },
    { uri: 'https://evil.example/?https://app.example/' },
  ]
  for (const changes of foreign) {
    const found = classOf(login(changes))
    assert.deepEqual([found.class, found.needs, found.moves], ['login', 'never', false], JSON.stringify(changes))
    assert.deepEqual(found.summary.warnings, ['other-domain'])
  }
  assert.equal(classOf(login(), { domains: [] }).needs, 'never', 'an application without an origin')
})

test('a login of another account or network, too old, too early or over is never signed', () => {
  const text = login()
  const never: [string, string][] = [
    ['another account', login({ address: `0x${'bb'.repeat(20)}` })],
    ['an address without its checksum', text.replace(ALICE, ALICE.toLowerCase())],
    ['another network', login({ chainId: 137 })],
    ['issued six minutes ago', login({ issuedAt: minutes(-5.1) })],
    ['issued in the future', login({ issuedAt: minutes(5.1) })],
    ['no time', text.replace(/Issued At: .*/, 'Issued At: 2026-13-45T99:00:00Z')],
    ['expired', login({ expirationTime: minutes(-0.1) })],
    ['expires now', login({ expirationTime: minutes(0) })],
    ['not valid yet', login({ notBefore: minutes(0.1) })],
    ['a user name in the URI', login({ uri: 'https://someone@app.example/' })],
    ['another scheme than the URI', login({ scheme: 'http' })],
    ['a URI of no page', login({ uri: 'ftp://app.example/' })],
    ['a page that is not encrypted', login({ uri: 'http://app.example/login' })],
    ['the same with its scheme', login({ scheme: 'http', uri: 'http://app.example/login' })],
  ]
  for (const [what, changed] of never) {
    const { class: name, needs, problem } = classOf(changed)
    assert.deepEqual([name, needs], ['login', 'never'], what)
    assert.ok(problem !== null)
  }
})

test('a text that looks like a login and is none is never signed, and is no text', () => {
  const text = login({ statement: 'Welcome.' })
  const broken: [string, string][] = [
    ['a line before', `Hello\n${text}`],
    ['a line after', `${text}\nHello`],
    ['an empty line at the end', `${text}\n`],
    ['line ends of Windows', text.replaceAll('\n', '\r\n')],
    ['fields in another order', text.replace(/(Version: 1)\n(Chain ID: 1)/, '$2\n$1')],
    ['a field missing', text.replace(/Nonce: .*\n/, '')],
    ['a field twice', text.replace('Version: 1', 'Version: 1\nVersion: 1')],
    ['another version', text.replace('Version: 1', 'Version: 2')],
    ['a short nonce', text.replace(/Nonce: .*/, 'Nonce: short')],
    ['two statements', text.replace('Welcome.', 'Welcome.\nTo all.')],
    ['a hidden character in the statement', text.replace('Welcome.', 'Wel\u200Bcome.')],
    ['a reversed statement', text.replace('Welcome.', '\u202Ecome.')],
    ['a hidden character in the domain', text.replace('app.example', 'app\u200B.example')],
    ['a path in the domain', text.replace('app.example', 'app.example/evil')],
    ['a user name in the domain', text.replace('app.example', 'app.example@evil.example')],
    ['another chain', text.replace('Ethereum account', 'Solana account')],
    ['capitals', text.replace('wants you to', 'WANTS YOU TO')],
    ['two spaces', text.replace('wants you to', 'wants  you to')],
    ['a line break in the sentence', text.replace('wants you', 'wants\nyou')],
    ['a hidden character in the sentence', text.replace('wants you', 'wa\u200Bnts you')],
    ['an ISO date without a zone', text.replace(/(Issued At: .*)Z/, '$1')],
    ['a chain id of 0', text.replace('Chain ID: 1', 'Chain ID: 0')],
    ['a chain id in hexadecimal digits', text.replace('Chain ID: 1', 'Chain ID: 0x1')],
    ['the sentence alone', 'evil.example wants you to sign in with your Ethereum account:'],
  ]
  for (const [what, changed] of broken) {
    assert.notEqual(changed, text, what)
    assert.deepEqual([classOf(changed).class, classOf(changed).needs], ['login', 'never'], what)
  }
})
