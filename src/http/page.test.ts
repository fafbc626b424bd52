import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { html } from 'ghtml'
import { en } from '../texts/en.ts'
import { openBrand } from './brand.ts'
import { page, shownText } from './page.ts'

const RLO = '\u202E'
const HOSTILE = `ow${RLO}ren\u2066\u200B\u00AD`
const SHOWN = 'ow⟨U+202E⟩ren⟨U+2066⟩⟨U+200B⟩⟨U+00AD⟩'
const brand = openBrand({ BRAND_NAME: 'Chatelaine', BRAND_LOGO_FILE: undefined, BRAND_COLOR: undefined, SUPPORT_URL: undefined, PRIVACY_URL: undefined, TERMS_URL: undefined }) // prettier-ignore

test('characters that change the order of others, or that nobody sees, appear on every page as their code points', () => {
  const shown = page(brand, { words: en, title: HOSTILE, body: html`<p>${HOSTILE}</p>`, notice: HOSTILE })
  assert.equal(shown.split(SHOWN).length, 4)
  assert.doesNotMatch(shown, /\p{Bidi_Control}/u)
})

test('an attribute keeps its value: a form posts what it was given', () => {
  const shown = page(brand, { words: en, title: 'x', body: html`<input name="target" value="${HOSTILE}" />` })
  assert.match(shown, /value="ow&#x202E;ren&#x2066;&#x200B;&#xAD;"/)
})

test('letters of any language, and emoji of several parts, are as they were', () => {
  const names = 'שלום علی‌رضا 👩‍🚀 Zoë 日本 1\u202F000'
  assert.match(page(brand, { words: en, title: 'x', body: html`<p>${names}</p>` }), new RegExp(names))
})

test('no page is sent past that rule: only the API reference and the demo, which show no foreign text, are HTML of their own', () => {
  const folder = new URL('../', import.meta.url)
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => /(?<!\.test)\.ts$/.test(file)) // prettier-ignore
  const senders = files.filter((file) => readFileSync(new URL(file, folder), 'utf8').includes('text/html; charset'))
  assert.deepEqual(senders.toSorted(), ['devnet/demo.ts', 'http/documentation.ts', 'http/page.ts'])
})

test('characters that look like nothing are shown as well: fillers, separators, and marks that nobody uses', () => {
  for (const character of [
    '\u115F',
    '\u1160',
    '\u3164',
    '\uFFA0',
    '\u034F',
    '\u180E',
    '\u2028',
    '\u206A',
    '\uFFF9',
    '\u{E0001}',
  ])
    // prettier-ignore
    assert.match(shownText(`shop${character}`), /^shop⟨U\+[0-9A-F]{4,5}⟩$/)
})
