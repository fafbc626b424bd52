import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError, describeError, isErrorCode } from '../errors.ts'
import { languages, textsFor } from './choose.ts'
import { en, type Texts } from './en.ts'
import { isTestNetwork, networkTitle } from './network-names.ts'
import { hoursText } from './time.ts'
import { explainError, PageError } from './page-error.ts'

type Leaf = { path: string; value: unknown }

function leavesOf(words: object, path = ''): Leaf[] {
  return Object.entries(words).flatMap(([key, value]: [string, unknown]) =>
    typeof value === 'object' && value !== null
      ? leavesOf(value, `${path}${key}.`)
      : [{ path: `${path}${key}`, value }],
  )
}

/** What a text says when each thing that it is given is distinguished. */
const MARKS = ['⟦a⟧', '⟦b⟧', '⟦c⟧']
const said = (value: unknown): string =>
  typeof value === 'function' ? JSON.stringify((value as (...all: unknown[]) => unknown)(...MARKS)) : String(value)

/** Words that are the same in several languages. */
const SHARED =
  /^(API|OpenAPI 3\.1|Code:|Explorer|Status|Apps|URL|Webhooks|"nonce .*"|Applications?|[Tt]ransactions?|"Transaction .*"|Sponsors|Version|Name|Problem)$/

for (const words of languages)
  test(`no text is missing in ${words.language}, none is empty, and none leaves out what it is given`, () => {
    const [english, here] = [leavesOf(en), leavesOf(words)]
    assert.deepEqual(
      here.map(({ path }) => path),
      english.map(({ path }) => path),
    )
    for (const [index, { path, value }] of here.entries()) {
      const original = english[index]!.value
      assert.equal(typeof value, typeof original, path)
      assert.notEqual(said(value).trim(), '', path)
      assert.ok(!/^\s|\s$/.test(typeof value === 'string' ? value : ''), `${path} has spaces around it`)
      for (const mark of MARKS)
        assert.equal(said(value).includes(mark), said(original).includes(mark), `${path}: ${said(value)}`)
    }
  })

for (const words of languages.slice(1))
  test(`nothing is left in English in ${words.language}`, () => {
    const english = leavesOf(en)
    const untranslated = leavesOf(words).filter(({ value }, index) => {
      const text = said(value)
      const letters = text.replaceAll(/⟦.⟧|[^\p{L}]/gu, '')
      return letters.length > 0 && text === said(english[index]!.value) && !SHARED.test(text)
    })
    assert.deepEqual(untranslated, [])
  })

test('the browser’s wish decides, by its weights and by the first part of a tag', () => {
  const asked = (accept: string) => textsFor({ accept }).language
  assert.equal(asked('de'), 'de')
  assert.equal(asked('fr-CA,fr;q=0.9,en;q=0.8'), 'fr')
  assert.equal(asked('ja-JP'), 'ja')
  assert.equal(asked('en;q=0.5, es;q=0.7'), 'es')
  assert.equal(asked('nl, pt;q=0.9, DE;q=0.2'), 'de')
  assert.equal(asked('de;q=0, es;q=0.1'), 'es')
  for (const nothing of ['', '*', 'xx', 'de;q=2', 'de;q=x', ';', ',,,', `de${'x'.repeat(600)}`, '\u0000'])
    assert.equal(asked(nothing), 'en', nothing)
  assert.equal(textsFor({}).language, 'en')
})

test('what the application says of its user goes before the browser', () => {
  assert.equal(textsFor({ accept: 'de', uiLocales: 'nl fr-CA es' }).language, 'fr')
  assert.equal(textsFor({ accept: 'de', uiLocales: 'nl' }).language, 'de')
  assert.equal(textsFor({ accept: 'de', uiLocales: null }).language, 'de')
})

test('a refusal is English in logs and in its reader’s language on a page', () => {
  const error = new PageError('sign_in_refused', ({ refused }) => refused.cancelled('Acme'))
  assert.equal(error.message, en.refused.cancelled('Acme'))
  for (const words of languages) assert.equal(explainError(words, error).detail, words.refused.cancelled('Acme'))
})

test('every refusal that has words of its own is one of the catalogue', () => {
  for (const code of Object.keys(en.codes)) {
    assert.ok(isErrorCode(code), code)
    assert.ok(describeError(code).status >= 400)
  }
})

test('a page names every other refusal by one title, with its text for users', () => {
  for (const words of languages) {
    const { title, help } = explainError(words, new AppError('clocks_apart', 'The clocks disagree.'))
    assert.deepEqual([title, help], [words.failed, words.userMessages.clocks_apart])
  }
})

test('people read a network by its family, and whether it is a test', () => {
  const title = (words: Texts, chainId: number, name: string | null = 'devnet') =>
    networkTitle(words, { chainId, name })
  assert.equal(title(en, 31_337), 'Ethereum test network')
  assert.equal(title(en, 11_155_111), 'Ethereum test network (Sepolia)')
  assert.equal(title(en, 8_453), 'Base network')
  assert.equal(title(en, 987_654, 'meadow'), 'meadow network')
  assert.equal(title(en, 987_654, null), 'network 987654')
  assert.deepEqual([31_337, 1, 987_654].map(isTestNetwork), [true, false, false])
})

test('hours are counted in words of the language, one of them too', () => {
  const told = (hours: number) => languages.map((words) => hoursText(words, hours))
  assert.deepEqual(told(24), ['24 hours', '24 Stunden', '24\u00A0heures', '24 horas', '24 時間'])
  assert.deepEqual(told(1), ['1 hour', '1 Stunde', '1\u00A0heure', '1 hora', '1 時間'])
})
