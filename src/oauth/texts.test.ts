import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { accountBody, eraseBody, shortBody } from './account-body.ts'
import { badRequestBody, chooserBody, consentBody, errorBody, signedOutBody, signOutBody } from './pages.ts'
import { developmentProvider } from './providers.ts'
import { texts } from './texts.ts'

/** Every text of the pages in brackets, as a translation would replace it. */
type Words = Record<string, unknown>
const english = structuredCloneOf(texts)
before(() => bracket(texts as Words))
after(() => void Object.assign(texts, english))

function structuredCloneOf(words: Words): Words {
  return Object.fromEntries(
    Object.entries(words).map(([key, value]) => [
      key,
      value !== null && typeof value === 'object' && !Array.isArray(value) ? structuredCloneOf(value as Words) : value,
    ]),
  )
}

function bracket(words: Words): void {
  for (const [key, value] of Object.entries(words)) {
    if (Array.isArray(value)) words[key] = marked(value)
    else if (typeof value === 'function')
      words[key] = (...given: unknown[]) => marked((value as (...all: unknown[]) => unknown)(...given))
    else if (typeof value === 'object' && value !== null) bracket(value as Words)
    else words[key] = marked(value)
  }
}

function marked(value: unknown): unknown {
  if (!Array.isArray(value)) return `⟦${String(value)}⟧`
  return value.map((part: string | { strong: string }) =>
    typeof part === 'string' ? `⟦${part}⟧` : { strong: `⟦${part.strong}⟧` },
  )
}

/** What a person reads or hears that is no text of texts.ts and none of the given data. */
function restOf(body: string, data: string[]): string {
  const spoken = [...body.matchAll(/ (?:aria-label|alt|placeholder)="([^"]*)"/g)].map(([, text]) => text!).join(' ')
  let text = `${body.replaceAll(/<title>/g, ' ').replaceAll(/<[^>]*>/g, ' ')} ${spoken}`.replaceAll(/⟦[^⟧]*⟧/g, ' ')
  for (const one of data) text = text.replaceAll(one, ' ')
  return text
    .replaceAll(/&#?\w+;/g, ' ')
    .replaceAll(/[\s\d.,:…+−-]+/g, ' ')
    .trim()
}

const at = new Date('2026-01-02T03:04:05Z')
const address = `0x${'ab'.repeat(20)}`
const pages: Record<string, () => string> = {
  chooser: () => chooserBody({ uid: 'u', csrf: 'c', application: 'Shop', network: 'sepolia', providers: [developmentProvider('http://x')] }), // prettier-ignore
  'chooser of our own pages': () => chooserBody({ uid: 'u', csrf: 'c', application: 'Shop', network: null, providers: [] }), // prettier-ignore
  consent: () =>
    consentBody({
      uid: 'u',
      csrf: 'c',
      application: 'Shop',
      logoUri: 'https://x/logo.png',
      network: 'sepolia',
      username: 'Nell',
      provider: 'DEV',
      imageSrc: 'https://x/y.png',
      address,
      scopes: ['email', 'wallet:read', 'contracts:read', 'contracts:write', 'users:directory'],
      isAskedEachTime: false,
      known: new Set(['email']),
    }),
  'consent to what cannot prove itself': () =>
    consentBody({
      uid: 'u',
      csrf: 'c',
      application: 'Shop',
      logoUri: null,
      network: 'sepolia',
      username: 'Nell',
      provider: 'DEV',
      imageSrc: null,
      address,
      scopes: ['users:read'],
      isAskedEachTime: true,
      known: new Set(),
    }),
  refusal: () => errorBody({ code: 'sign_in_expired', detail: null, back: { href: '/', text: texts.back } }),
  'refusal with its reason': () => errorBody({ code: 'rate_limited', detail: texts.refused.over }),
  'bad request': () => badRequestBody({ words: texts.refused.badSignIn, error: 'invalid_request', detail: null }),
  'bad sign-out': () => badRequestBody({ words: texts.refused.badSignOut, error: 'invalid_request', detail: null }),
  'sign out': () => signOutBody({ application: null, form: '' }),
  'sign out of an application': () => signOutBody({ application: 'Shop', form: '' }),
  'signed out': () => signedOutBody({ application: null }),
  'signed out of an application': () => signedOutBody({ application: 'Shop' }),
  erase: () => eraseBody({ csrf: 'c', firstIdentity: 'DEV' }),
  short: () => shortBody(texts.erased, texts.erasedHint, { href: '/', text: texts.signIn }),
  account: () =>
    accountBody({
      csrf: 'c',
      username: 'Nell',
      provider: 'DEV',
      imageSrc: null,
      address,
      networks: [
        {
          network: 'sepolia',
          holdings: [{ formatted: '1', symbol: 'ETH', name: 'Ether' }],
          movements: ['Nell', `0x${'0'.repeat(40)}`].flatMap((other) => (['IN', 'OUT', 'SELF'] as const).map((direction) => ({ direction, amount: '1 ETH', other, at, explorerUrl: 'https://x' }))), // prettier-ignore
          sent: (Object.keys(texts.states) as (keyof typeof texts.states)[]).map((state) => ({ application: 'Shop', state, explorerUrl: 'https://x', sentAt: at })), // prettier-ignore
        },
        { network: 'sepolia', holdings: null, movements: null, sent: [] },
        { network: 'sepolia', holdings: [], movements: [], sent: [] },
      ],
      applications: [
        { clientId: 'shop', name: 'Shop', chainId: 1, network: 'sepolia', permissions: ['wallet:read'], signIns: 2 },
      ],
      identities: [
        { userId: 'DEV-nell', provider: 'DEV', subject: 'nell', username: 'Nell', isFirst: true },
        { userId: 'DEV-two', provider: 'DEV', subject: 'two', username: 'Nell', isFirst: false },
      ],
      providers: [developmentProvider('http://x')],
      sessions: [
        { uid: 'a', signedInAt: at },
        { uid: 'b', signedInAt: at },
      ],
      session: 'a',
      done: texts.done.revoked!,
    }),
}

for (const [name, make] of Object.entries(pages))
  test(`every word of the page “${name}” is in texts.ts`, () => {
    const body = make()
    assert.match(body, /⟦/)
    const data = ['Ether', 'ETH', 'Shop', 'sepolia', 'Nell', 'DEV', address, '0xababab', 'ababab', 'sign_in_expired', 'rate_limited', 'invalid_request', 'Jan', 'UTC'] // prettier-ignore
    assert.equal(restOf(body, data), '')
  })
