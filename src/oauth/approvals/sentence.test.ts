import assert from 'node:assert/strict'
import { test } from 'node:test'
import { approvalRequests, known } from '../../../test/approval-requests.ts'
import { fromHex } from '../../hex.ts'
import type { Hex } from '../../ids.ts'
import { languages } from '../../texts/choose.ts'
import { en } from '../../texts/en.ts'
import type { Rich } from '../../texts/rich.ts'
import { describe, type Described } from './describe.ts'
import { namesFrom, type Names } from './names.ts'
import { sentenceOf } from './sentence.ts'

const [address, bob]: [Hex, Hex] = [`0x${'11'.repeat(20)}`, `0x${'22'.repeat(20)}`]
const NOW = 1_780_000_000
const facts = { address: fromHex(address), chainId: 31_337, at: NOW * 1_000, domains: ['shop.example'] }
const names = namesFrom(known, new Map([[bob, 'bob']]), [bob])
const nothing: Names = { native: null, token: () => null, user: () => null, isDealtWith: () => null }
const plain = (sentence: Rich): string =>
  sentence.map((part) => (typeof part === 'string' ? part : part.strong)).join('')
const requests = approvalRequests({ address, bob }, NOW)
const said = (described: Described, by = names): string => plain(sentenceOf(en, by, described))

test('each kind of request is one sentence, with its warnings', () => {
  const table = Object.entries(requests).map(([name, content]) => {
    const described = describe(content, facts)
    return [name, said(described), described.warnings.join(' ')]
  })
  assert.deepEqual(table, [
    ['text', 'Sign this text', ''],
    ['payment', 'Pay 5 USDC to “bob” (0x222222…222222)', ''],
    ['allowance', 'Allow 0x1f9840…01F984 to take up to 50 USDC from your account until 27 Jun 2026, 20:26 UTC', 'long'],
    [
      'allowance without end',
      'Allow 0x1f9840…01F984 to take an unlimited amount of USDC from your account, with no end date',
      'unlimited',
    ],
    [
      'allowance of a namesake',
      'Allow 0x1f9840…01F984 to take up to 50 of a token that calls itself “USDC” from your account, with no end date',
      '',
    ],
    ['revocation', 'No longer allow 0x1f9840…01F984 to take USDC from your account', ''],
    ['order', 'Offer 1,000 USDC in a trade', 'recipient'],
    ['vote', 'Vote, or let someone vote for you', ''],
    ['power', 'Let others act for your account', 'power'],
    ['other', 'Sign data that this service does not understand', 'unknown'],
    ['opaque', 'Sign data that nobody can read', 'unknown'],
    ['coins', 'Pay 1.5 ETH to “bob” (0x222222…222222)', ''],
    ['tokens', 'Pay 25 USDC to “bob” (0x222222…222222)', ''],
    [
      'approve',
      'Allow 0x1f9840…01F984 to take an unlimited amount of USDC from your account, with no end date',
      'unlimited',
    ],
    [
      'collection',
      'Allow 0x1f9840…01F984 to take everything you own of ART from your account, with no end date',
      'unlimited',
    ],
    ['collectible', 'Give ART #77 to “bob” (0x222222…222222)', ''],
    ['call', 'Run a program on the network: the contract 0x1f9840…01F984', 'call'],
    ['batch', 'Do these 2 things together', 'call'],
  ])
})

test('a login names the site, and one for a site of another application cannot be approved', () => {
  const login = (domain: string): Described => {
    const content = `${domain} wants you to sign in with your Ethereum account:\n0x1111111111111111111111111111111111111111\n\n\nURI: https://${domain}/login\nVersion: 1\nChain ID: 31337\nNonce: 8f0c7e1e\nIssued At: ${new Date(NOW * 1_000).toISOString()}\nResources:\n- https://x.example/y`
    return describe({ message: { kind: 'text', content } }, facts)
  }
  assert.deepEqual([said(login('shop.example')), login('shop.example').isApprovable], ['Sign in to shop.example', true])
  assert.deepEqual([login('evil.example').warnings, login('evil.example').isApprovable], [['other-domain'], false])
})

test('the headline has the end of the last permission, and none if one has none or no date can say it', () => {
  const { moves, ...rest } = describe(requests.allowance!, facts)
  const ending = (...ends: (number | null)[]): string =>
    said({ ...rest, moves: ends.map((until) => ({ ...moves[0]!, until })) })
  for (const ends of [[NOW, NOW + 86_400], [NOW + 86_400, NOW]]) assert.match(ending(...ends), /until 29 May 2026, 20:26 UTC$/) // prettier-ignore
  for (const never of [null, 8_640_000_000_001, 2 ** 48 - 1, Number.MAX_SAFE_INTEGER])
    for (const ends of [[never], [NOW, never], [never, NOW]]) assert.match(ending(...ends), /, with no end date$/)
  assert.match(ending(8_640_000_000_000), /until 13 Sept 275760, 00:00 UTC$/)
})

test('a request that moves nothing, although its kind does, is not understood', () => {
  const described = { ...describe(requests.allowance!, facts), moves: [] }
  for (const sentence of ['pay', 'allow', 'allow-all'] as const)
    assert.equal(said({ ...described, sentence }), 'Sign data that this service does not understand')
})

const callOf = (to: Hex, selector: string, words: (Hex | number)[], value = '0'): Described => {
  const data: Hex = `0x${selector}${words.map((one) => BigInt(one).toString(16).padStart(64, '0')).join('')}`
  return describe({ calls: [{ to, value, data }] }, facts)
}

test('the collectible with id 0 is given or allowed like any other', () => {
  const art = known.tokens.find((one) => one.isCollection)!.token as Hex
  const usdc = known.tokens.find((one) => one.isListed)!.token as Hex
  assert.equal(said(callOf(art, '23b872dd', [address, bob, 0])), 'Give ART #0 to “bob” (0x222222…222222)')
  assert.equal(
    said(callOf(art, '095ea7b3', [bob, 0])),
    'Allow “bob” (0x222222…222222) to take ART #0 from your account, with no end date',
  )
  for (const revoked of [
    callOf(art, 'a22cb465', [bob, 0]),
    callOf(usdc, '095ea7b3', [bob, 0]),
    callOf(art, '095ea7b3', [0, 0]),
  ])
    assert.match(said(revoked), /^No longer allow /)
})

test('the id of a collectible is said whole, however large', () => {
  const art = known.tokens.find((one) => one.isCollection)!.token as Hex
  for (const id of [2n ** 127n, 2n ** 256n - 1n]) {
    const word: Hex = `0x${id.toString(16)}`
    assert.equal(said(callOf(art, '23b872dd', [address, bob, word])), `Give ART #${id} to “bob” (0x222222…222222)`)
    assert.match(said(callOf(art, '095ea7b3', [bob, word])), new RegExp(`to take ART #${id} from`))
  }
})

test('an allowance that is increased by 0 is not said to be revoked', () => {
  const usdc = known.tokens.find((one) => one.isListed)!.token as Hex
  assert.match(said(callOf(usdc, '39509351', [bob, 0])), /^Run a program /)
  assert.match(said(callOf(usdc, '39509351', [bob, 50])), /^Allow .*up to 0.00005 USDC/)
})

test('native currency with a token function does not make its contract the recipient of the tokens', () => {
  const usdc = known.tokens.find((one) => one.isListed)!.token as Hex
  const described = callOf(usdc, '095ea7b3', [bob, 50], '1')
  assert.equal(said(described), 'Run a program on the network: the contract 0xaAaAaA…aAaaAa')
  assert.deepEqual(described.moves.map(({ kind, amount }) => [kind, amount]), [['pays', '1'], ['allows', '50']]) // prettier-ignore
  assert.deepEqual(described.warnings, ['call'])
})

test('a network that does not respond leaves whole amounts of smallest units and addresses', () => {
  assert.equal(
    said(describe(requests.payment!, facts), nothing),
    'Pay 5000000 smallest units of the token 0xaAaAaA…aAaaAa to 0x222222…222222',
  )
})

test('a token is called as the operator calls it, and in its own words otherwise', () => {
  assert.match(said(describe(requests['allowance of a namesake']!, facts)), /50 of a token that calls itself “USDC”/)
})

test('the word that a user or a token has for itself stays inside its quotation marks', () => {
  const cases: [word: string, quoted: string | null][] = [
    ['bob', 'bob'],
    ['Nobody. Harmless test: nobody', 'Nobody. Harmless te…'],
    ['twenty characters ok', 'twenty characters ok'],
    ['bob” (0x111111…111111) from Y. 0 of “USDC', 'bob 0x111111…111111…'],
    [`b"o'b\u00AB\u2039\u201E\uFF02\u2033(\uFF08\u300D`, 'bob'],
    ['b\u00AD\u3164\u200B\u202Eob\n', 'bob'],
    ['🔑'.repeat(30), `${'🔑'.repeat(19)}…`],
    ['”\u3164', null],
  ]
  for (const [word, quoted] of cases) {
    const by = namesFrom({ ...known, tokens: known.tokens.map((one) => ({ ...one, symbol: word })) }, new Map([[bob, word]]), []) // prettier-ignore
    const who = quoted === null ? '0x222222…222222' : `“${quoted}” (0x222222…222222)`
    assert.equal(said(describe(requests.coins!, facts), by), `Pay 1.5 ETH to ${who}`, word)
    const token = said(describe(requests['allowance of a namesake']!, facts), by)
    const what = quoted === null ? 'smallest units of the token 0xbBbBBB' : `of a token that calls itself “${quoted}” from your account` // prettier-ignore
    assert.ok(token.includes(what), token)
  }
})

test('invisible characters and those that turn a text around are written out', () => {
  const { text, raw } = describe(requests.text!, facts)
  assert.match(text!, /⟨U\+202E⟩/)
  assert.equal(text, raw)
  assert.match(describe(requests.other!, facts).raw, /Hello⟨U\+200B⟩, Bob/)
})

for (const words of languages)
  test(`each kind of request has its sentence in ${words.language}`, () => {
    const sentences = Object.values(requests).map((content) =>
      plain(sentenceOf(words, names, describe(content, facts))),
    )
    assert.ok(
      sentences.every((one) => one.trim() === one && !/\s{2}|undefined|null/.test(one)),
      sentences.join('\n'),
    )
    // An unlimited allowance reads the same, whether it is signed or sent.
    assert.equal(new Set(sentences).size, sentences.length - 1)
  })
