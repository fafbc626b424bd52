import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signInBody } from '../devnet/provider.ts'
import { readConfig } from '../config.ts'
import { openBrand } from '../http/brand.ts'
import { frontBody } from '../http/front.ts'
import { page } from '../http/page.ts'
import { nothingHere } from '../http/problems.ts'
import { en } from '../texts/en.ts'
import { OWN_CLIENT, type Hex } from '../ids.ts'
import { doneHtml, eraseBody, shortBody, coverageHtml } from './account/body.ts'
import { applicationsBody } from './account/applications.ts'
import { noticesHtml } from './account/overview.ts'
import { overviewBody } from './account/overview-body.ts'
import { receiveBody } from './account/receive.ts'
import { securityBody } from './account/security-body.ts'
import { inTabs } from './account/tabs.ts'
import { exportBody, exportNotice } from './account/export-body.ts'
import type { KeyExport } from '../signer-wire/wire.ts'
import type { ActivityEntry, Rehearsed, SentTransaction, ShownSignature } from './account/slices.ts'
import { activityBody } from './account/activity.ts'
import { signatureItem, signaturesBody } from './account/signatures.ts'
import { badRequestBody, chooserBody, consentBody, errorBody, signedOutBody, signOutBody } from './pages.ts'
import { developmentProvider } from './federation/providers.ts'
import { receiptBody } from './account/receipt.ts'
import { assetsBody, confirmBody, sendBody } from './account/send-body.ts'
import { approvalRequests, known } from '../../test/approval-requests.ts'
import type { ApprovalQuestion } from '../approvals/decide.ts'
import { fromHex } from '../hex.ts'
import { approvalBody, decidedBody, inboxBody, unreadableBody } from './approvals/body.ts'
import { describe } from './approvals/describe.ts'

/** Every text in brackets, as a translation would replace it. */
const texts = bracket(en)

const exporting: KeyExport = {
  state: 'ready',
  id: 'r',
  askedAt: 0,
  readyAt: 1,
  lapsesAt: 2,
  exportedAt: 3,
  delaySeconds: 86_400,
}
const exportPage = {
  csrf: 'c',
  userId: 'DEV-nell',
  address: `0x${'a1'.repeat(20)}`,
  signInAgain: '/',
  isOffered: true,
  isFresh: true,
}

function bracket<T extends object>(words: T): T {
  return Object.fromEntries(
    Object.entries(words).map(([key, value]: [string, unknown]) => {
      if (key === 'language' || key === 'locale') return [key, value]
      if (typeof value === 'function')
        return [key, (...given: unknown[]) => marked((value as (...all: unknown[]) => unknown)(...given))]
      if (Array.isArray(value) || typeof value === 'string') return [key, marked(value)]
      return [key, bracket(value as object)]
    }),
  ) as T
}

/** Brackets within brackets, where a text is given another, are one pair. */
function marked(value: unknown): unknown {
  if (!Array.isArray(value)) return `⟦${String(value).replaceAll(/[⟦⟧]/g, '')}⟧`
  return value.map((part: string | { strong: string }) =>
    typeof part === 'string' ? marked(part) : { strong: marked(part.strong) as string },
  )
}

/** What a person reads or hears that is no text of the table and none of the given data. */
function restOf(body: string, data: string[]): string {
  const spoken = [...body.matchAll(/ (?:aria-label|alt|placeholder)="([^"]*)"/g)].map(([, text]) => text!).join(' ')
  let text = `${body
    .replaceAll(/<span class="initial"[^>]*>.<\/span>/g, ' ')
    .replaceAll(/<span class="coin[^>]*>[^<]*<\/span>/g, ' ')
    .replaceAll(/<title>/g, ' ')
    .replaceAll(/<[^>]*>/g, ' ')} ${spoken}`.replaceAll(/⟦[^⟧]*⟧/g, ' ')
  for (const one of data) text = text.replaceAll(one, ' ')
  return text
    .replaceAll(/&#?\w+;/g, ' ')
    .replaceAll(/[\s\d.,:·…()+−-]+/g, ' ')
    .trim()
}

const at = new Date('2026-01-02T03:04:05Z')
const address: Hex = `0x${'ab'.repeat(20)}`
const balance = { value: 1n, decimals: 0, symbol: 'ETH', name: 'Ether', token: null, isSpam: true, isCollection: false }
const collectible = {
  tokenType: 'ERC1155',
  token: address,
  tokenId: 7n,
  count: 3n,
  name: 'Shop',
  symbol: 'ETH',
  isSpam: true,
} as const
const transfers = ['Nell', `0x${'0'.repeat(40)}`].flatMap((other) => (['IN', 'OUT', 'SELF'] as const).map((direction) => ({ direction, amount: balance, token: address, tokenId: '7', other, otherAddress: address, at, place: null, explorerUrl: 'https://x' }))) // prettier-ignore
const coins = (['FEE', 'MINT', 'INTERNAL', 'WITHDRAWAL', 'REWARD'] as const).map((coinKind) => ({ direction: 'IN' as const, amount: balance, token: null, tokenId: null, other: address, otherAddress: address, at, place: { blockNumber: 1, hash: address }, explorerUrl: 'https://x', coinKind, fee: balance })) // prettier-ignore
const sent = (Object.keys(texts.account.states) as SentTransaction['state'][]).map((state, index): SentTransaction => ({ id: 'tx', clientId: index === 0 ? OWN_CLIENT : 'shop', application: index === 1 ? null : 'Shop', state, called: index === 2 ? null : 'Nell', to: address, value: balance, fee: index === 3 ? null : balance, explorerUrl: 'https://x', sentAt: at })) // prettier-ignore
const entries: ActivityEntry[] = [...transfers.map((one) => ({ at, sent: null, transfers: [one] })), ...coins.map((one) => ({ at, sent: null, transfers: [one] })), ...sent.map((one) => ({ at, sent: one, transfers: [] }))] // prettier-ignore
const typed = { asset: '5:NATIVE::', to: 'Nell', provider: 'DEV', amount: '1' }
const found: Rehearsed = { thing: { name: 'Ether', symbol: 'ETH' }, fee: balance, recipient: { address, userId: null, name: 'Nell' } } // prettier-ignore
const confirm = { csrf: 'c', key: 'k', network: 'sepolia', asset: '5:NATIVE::', order: { amount: '1', toAddress: address }, amount: { value: 1n, decimals: 0 }, found, imageSrc: 'https://x/y.png', isSelf: false } // prettier-ignore
const choice = [{ value: 5, title: 'sepolia' }]

const signature: ShownSignature = { record: 2, signedAt: new Date(0), chainId: 5, kind: 'send', calls: [], delegate: null, message: null, nonce: 1, hash: '0xababab', explorerUrl: 'https://x/y', proof: '' } // prettier-ignore

const asked = {
  ...{ uid: 'u', csrf: 'c', application: 'Shop', logoUri: null, network: 'sepolia', isTest: false, username: 'Nell' },
  ...{ provider: 'DEV', imageSrc: null, address, isAskedEachTime: false, known: new Set<string>(), operator: null },
}

const request = {
  approval: { id: 'apr', intentId: 'sig', accountId: 'a', clientId: 'shop', chainId: 5, content: { calls: [] }, rule: '', askedFrom: '203.0.113.7', state: 'waiting', createdAt: at, expiresAt: at, decidedAt: null } as ApprovalQuestion, // prettier-ignore
  asker: { name: 'Shop', logoUri: null, hosts: ['sepolia'], origins: [] },
  pictureOf: () => '/assets/x',
  names: { native: null, token: () => known.tokens[1]!, user: () => null, isDealtWith: () => false },
  ...{ address, network: 'sepolia', mark: 'm', csrf: 'c', isFresh: false, canApprove: true, simulated: null },
}

/** A page without what is signed and without addresses, which are in no language. */
const ownWords = (body: string): string => body.replaceAll(/<pre[^]*?<\/pre>|0x[\da-fA-F]{40}/g, ' ')

const pages: Record<string, () => string> = {
  send: () =>
    [
      { value: '5:NATIVE::', network: 'sepolia', picture: null, isOpen: true, balance },
      { value: '5:ERC1155::7', network: 'sepolia', picture: '/assets/x', isOpen: false, collectible },
    ]
      .map((one, index) =>
        sendBody(texts, {
          csrf: 'c',
          choice: one,
          hasOthers: true,
          providers: [{ value: 'DEV', title: 'DEV' }, ...(index === 0 ? [] : [{ value: 'X', title: 'DEV' }])],
          typed,
          error: { title: texts.failed, help: texts.userMessages.internal_error, detail: null },
        }),
      ) // prettier-ignore
      .join(''),
  assets: () => assetsBody(texts, { choices: [{ value: '5:NATIVE::', network: 'sepolia', picture: null, isOpen: true, balance }, { value: '5:ERC1155::7', network: 'sepolia', picture: '/assets/x', isOpen: false, collectible }], error: null }), // prettier-ignore
  'nothing to send': () => assetsBody(texts, { choices: [], error: { title: texts.failed, help: texts.userMessages.internal_error, detail: null } }), // prettier-ignore
  'confirmation of sending': () => confirmBody(texts, confirm),
  'confirmation of sending to oneself': () => confirmBody(texts, { ...confirm, isSelf: true }),
  'confirmation of sending to a stranger': () => confirmBody(texts, { ...confirm, found: { ...found, recipient: { address: null, userId: 'DEV-nell', name: null } } }), // prettier-ignore
  receipts: () =>
    [
      ...transfers.map((one) => ({ at, sent: null, transfers: [one] })),
      ...coins.map((one) => ({ at, sent: null, transfers: [one] })),
      ...sent.map((one) => ({ at, sent: one, transfers: [] })),
      { at, sent: sent[0]!, transfers: transfers.slice(0, 2) },
    ]
      .map((entry) => receiptBody(texts, { entry, network: 'sepolia', signs: [], imageSrc: null }))
      .join(''),
  ...Object.fromEntries((['all', 'in'] as const).map((direction) => [`activity: ${direction}`, () => activityBody(texts, { filters: { network: 5, direction, application: null }, networks: [...choice, ...choice], applications: [], entries: direction === 'in' ? [] : entries, nextCursor: 'x', coverage: undefined, isFirst: false, pictureOf: () => null })])), // prettier-ignore
  'what of native currency is not listed': () =>
    [null, { from: null, internalFrom: null }, { from: 7, internalFrom: 9 }, { from: 7, internalFrom: null }]
      .map((coverage) => coverageHtml(texts, coverage))
      .join(''),
  signatures: () => signaturesBody(texts, { rows: (['send', 'replace', 'cancel', 'operation', 'authorization', 'message'] as const).flatMap((kind) => [null, 'ababab'].map((called) => signatureItem(texts, 'sepolia', { ...signature, kind, nonce: kind === 'operation' ? null : 1, delegate: kind === 'authorization' ? address : null, message: kind === 'message' ? { class: called === null ? 'allowance' : 'text', text: called } : null, calls: Array.from({ length: kind === 'operation' ? 2 : 1 }, () => ({ to: address, value: balance, called })) }))), nextCursor: 'x', isFirst: false }), // prettier-ignore
  'no signatures': () => signaturesBody(texts, { rows: [], nextCursor: null, isFirst: true }),
  shell: () =>
    page(
      openBrand({
        ...readConfig({}, 'server'),
        SUPPORT_URL: 'https://x',
        PRIVACY_URL: 'https://x',
        TERMS_URL: 'https://x',
      }),
      { words: texts, title: '', body: '', notice: texts.development.strip },
    ),
  front: () => frontBody(texts, { account: 'https://x/account', issuer: 'https://x/oauth', networks: [{ title: 'sepolia', chainId: 5 }], hasExplorer: true }), // prettier-ignore
  missing: () => nothingHere(texts, { authOrigin: 'https://x' }).body,
  'development sign-in': () => signInBody(texts, { uid: 'u', csrf: 'c', username: 'Nell', isInvalid: true }),
  chooser: () => chooserBody(texts, { uid: 'u', csrf: 'c', client: { application: 'Shop', network: 'sepolia', logoUri: null }, providers: [developmentProvider('http://x')], why: texts.chooser.why.spends }), // prettier-ignore
  'chooser of our own pages': () => chooserBody(texts, { uid: 'u', csrf: 'c', client: null, providers: [], why: null }), // prettier-ignore
  'chooser of who signs in again': () => (['send', 'export', 'again', 'approve'] as const).map((one) => chooserBody(texts, { uid: 'u', csrf: 'c', client: null, providers: [], why: texts.chooser.why[one] })).join(''), // prettier-ignore
  ...Object.fromEntries(Object.entries(approvalRequests({ address, bob: address }, 0)).map(([name, content]) => [`request: ${name}`, () => ownWords(approvalBody(texts, { ...request, described: describe(content, { address: fromHex(address), chainId: 31_337, at: 0, domains: [] }) }))])), // prettier-ignore
  ...Object.fromEntries([null, { isReverted: true, changes: [], omitted: 0 }, { isReverted: false, changes: [], omitted: 0 }, { isReverted: false, changes: [{ token: null, item: null, amount: 5n }], omitted: 2 }].map((simulated, index) => [`simulation ${index}`, () => ownWords(approvalBody(texts, { ...request, simulated, described: describe({ calls: [{ to: address, value: '1', data: '0x' }] }, { address: fromHex(address), chainId: 31_337, at: 0, domains: [] }) }))])), // prettier-ignore
  'request that cannot be read': () => unreadableBody(texts, request),
  'decided requests': () =>
    (['approved', 'used', 'denied', 'expired'] as const)
      .map((state) => decidedBody(texts, { approval: request.approval, state, asker: request.asker }))
      .join(''),
  inbox: () => inboxBody(texts, (['waiting', 'approved', 'used', 'denied', 'expired'] as const).map((state) => ({ ...request, approval: { ...request.approval, state }, sentence: state === 'used' ? null : texts.approvals.sentences.text })), 0), // prettier-ignore
  'inbox of nothing': () => inboxBody(texts, [], 0),
  consent: () =>
    consentBody(texts, {
      ...asked,
      logoUri: 'https://x/logo.png',
      imageSrc: 'https://x/y.png',
      scopes: ['email', 'wallet:read', 'contracts:read', 'contracts:write', 'users:directory'],
      known: new Set(['email']),
    }),
  'consent to what is the operator’s own': () =>
    consentBody(texts, { ...asked, scopes: ['contracts:write'], operator: 'Chatelaine' }),
  'consent to what cannot prove itself': () =>
    consentBody(texts, { ...asked, scopes: ['users:read'], isAskedEachTime: true }),
  refusal: () => errorBody(texts, { code: 'sign_in_expired', title: texts.failed, help: texts.userMessages.internal_error, detail: null, back: { href: '/', text: texts.account.back } }), // prettier-ignore
  'refusal with its reason': () => errorBody(texts, { code: 'rate_limited', title: texts.failed, help: texts.userMessages.internal_error, detail: texts.refused.over }), // prettier-ignore
  'bad request': () => badRequestBody(texts, { of: 'badSignIn', error: 'invalid_request', detail: null }),
  'bad sign-out': () => badRequestBody(texts, { of: 'badSignOut', error: 'invalid_request', detail: null }),
  'sign out': () => signOutBody(texts, { application: null, form: '' }),
  'sign out of an application': () => signOutBody(texts, { application: 'Shop', form: '' }),
  'signed out': () => signedOutBody(texts, { application: null }),
  'signed out of an application': () => signedOutBody(texts, { application: 'Shop' }),
  erase: () => eraseBody(texts, { csrf: 'c', firstIdentity: 'DEV' }),
  'export, requested': () => exportBody(texts, { ...exportPage, state: { ...exporting, state: 'waiting' } }),
  'export, ready': () => exportBody(texts, { ...exportPage, state: exporting }),
  'export, ready, after a while': () => exportBody(texts, { ...exportPage, state: exporting, isFresh: false }),
  'export, not requested': () => exportBody(texts, { ...exportPage, state: { ...exporting, state: 'none' } }),
  'export, off': () => exportBody(texts, { ...exportPage, state: { ...exporting, state: 'none' }, isOffered: false }),
  short: () => shortBody(texts.account.erased, texts.account.erasedHint, { href: '/', text: texts.account.signIn }),
  overview: () =>
    overviewBody(texts, {
      notices: `${exportNotice(texts, { ...exporting, state: 'waiting' })}${doneHtml(texts, { done: 'revoked' })}${noticesHtml(texts, { isFrozen: true, waiting: 2, exportedAt: new Date(0) })}`,
      canSend: true,
      username: 'Nell',
      imageSrc: null,
      pictureOf: () => '/assets/x',
      networks: [
        {
          chainId: 5,
          network: 'sepolia',
          balances: [balance, { ...balance, token: address }, { ...balance, token: `0x${'cd'.repeat(20)}`, isCollection: true }], // prettier-ignore
          collectibles: [collectible],
          activity: entries,
          coverage: { from: 7, internalFrom: null },
        },
        { chainId: 5, network: 'sepolia', balances: null, collectibles: [], activity: null, coverage: null },
        { chainId: 5, network: 'sepolia', balances: [], collectibles: [], activity: [], coverage: { from: null, internalFrom: null } }, // prettier-ignore
      ],
    }),
  tabs: () => inTabs(texts, 'send').tabs!,
  receive: () => receiveBody(texts, { username: 'Nell', provider: 'DEV', imageSrc: null, address, networks: ['sepolia'] }), // prettier-ignore
  applications: () =>
    [0, 2].map((waiting) => applicationsBody(texts, { csrf: 'c', waiting, undo: 'u', operator: 'Shop', applications: [{ clientId: 'shop', name: 'Shop', isFirstParty: true, chainId: 1, network: 'sepolia', permissions: ['wallet:read'], keys: [], signIns: 2 }] })).join(''), // prettier-ignore
  'no applications': () =>
    applicationsBody(texts, { csrf: 'c', waiting: 0, applications: [], undo: null, operator: 'Shop' }),
  security: () =>
    securityBody({
      words: texts,
      csrf: 'c',
      canExport: true,
      username: 'Nell',
      provider: 'DEV',
      imageSrc: null,
      identities: [
        { userId: 'DEV-nell', provider: 'DEV', subject: 'nell', username: 'Nell', isFirst: true },
        { userId: 'DEV-two', provider: 'DEV', subject: 'two', username: 'Nell', isFirst: false },
      ],
      providers: [developmentProvider('http://x')],
      sessions: [
        { uid: 'a', signedInAt: at, browser: 'Firefox', system: 'Linux' },
        { uid: 'b', signedInAt: at, browser: null, system: null },
      ],
      session: 'a',
    }),
}

for (const [name, make] of Object.entries(pages))
  test(`every word of the page “${name}” is in the table of texts`, () => {
    const body = make()
    assert.match(body, /⟦/)
    const data = ['Chatelaine', 'https://x/oauth', 'alice', 'Ether', 'ETH', 'Shop', 'sepolia', 'Nell', 'DEV-nell', 'DEV', address, '0xababab', 'ababab', 'chatelaine verify-log --proof FILE --key KEY', 'sign_in_expired', 'rate_limited', 'invalid_request', 'Jan', 'UTC', 'Firefox', 'Linux', '#', '×'] // prettier-ignore
    assert.equal(restOf(body, data), '')
  })

test('who sends to themselves is told so without a word twice', () => {
  assert.match(confirmBody(en, { ...confirm, isSelf: true }), /You send <b>1 ETH<\/b> to <b>yourself<\/b> on/)
})
