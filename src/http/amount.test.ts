import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { formatUnits, readDecimal, scaleDecimal } from '../abi/units.ts'
import { languages } from '../texts/choose.ts'
import { de } from '../texts/de.ts'
import { en } from '../texts/en.ts'
import { es } from '../texts/es.ts'
import { fr } from '../texts/fr.ts'
import { ja } from '../texts/ja.ts'
import { amountHtml, amountText, readTyped } from './amount.ts'

const short = (words: typeof en, value: bigint, decimals = 18) => amountText(words, { value, decimals }).short

test('amounts are grouped and cut behind three digits that say something, never rounded up', () => {
  assert.equal(short(en, 1_234_567_891_234_567_899_999_999n), '1,234,567.891')
  assert.equal(short(en, 1_999_999_999_999_999_999n), '1.999')
  assert.equal(short(en, 7n), '0.000000000000000007')
  assert.equal(short(en, 123_456_789n), '0.000000000123')
  assert.equal(short(en, 1_000_000_000_000_000_001n), '1')
  assert.equal(short(en, 0n), '0')
  assert.equal(short(en, 2n ** 256n - 1n, 0).length, 78 + 25)
  assert.equal(short(en, 5n, 255), `0.${'0'.repeat(254)}5`)
})

test('each language writes them its own way', () => {
  const value = 12_345_500_000_000_000_000_000n
  assert.equal(short(de, value), '12.345,5')
  assert.equal(short(fr, value), '12\u202f345,5')
  assert.equal(short(es, value), '12.345,5')
  assert.equal(short(ja, value), '12,345.5')
})

test('every digit is on the page, in the order of the exact amount', () => {
  fc.assert(
    fc.property(
      fc.bigInt(0n, 2n ** 256n - 1n),
      fc.integer({ min: 0, max: 30 }),
      fc.constantFrom(...languages),
      (value, decimals, words) => {
        const { full } = amountText(words, { value, decimals })
        const digits = (text: string) => text.replaceAll(/\D/g, '')
        assert.equal(digits(full), digits(formatUnits(value, decimals)))
      },
    ),
  )
  assert.match(amountHtml(en, { value: 1_001_000n, decimals: 6, symbol: 'USDC' }, '+'), /^\+1\.001 USDC$/)
  assert.match(
    amountHtml(en, { value: 10_000_001n, decimals: 7, symbol: '<b>' }),
    /tabindex="0".*1 &#60;b&#62;.*class="full">1\.0000001 &#60;b&#62;</s,
  )
})

test('what somebody types is read in their language, and what could be two amounts is not read at all', () => {
  const read = (words: typeof en, text: string) => readTyped(words, text)
  assert.deepEqual(
    ['1.5', ' 2 ', '.5', '0.50', '1000'].map((text) => read(en, text)),
    ['1.5', '2', '.5', '0.50', '1000'],
  )
  assert.deepEqual(['1,5', '1,000', '1.5.5', '', '.', '1.', '1e3', '0x1', '-1', '+1', '10²', '①', '１，０００', '٣', '9'.repeat(201)].map((text) => read(en, text)), Array.from({ length: 15 }, () => null)) // prettier-ignore
  assert.deepEqual(
    ['1,5', '0.5', '1000,25', '1.50'].map((text) => read(de, text)),
    ['1.5', '0.5', '1000.25', '1.50'],
  )
  assert.deepEqual(
    ['1.000', '12.345', '1.000,5', '1,5,5'].map((text) => read(de, text)),
    [null, null, null, null],
  )
  assert.deepEqual(
    ['１２', '１．５', '０.2５'].map((text) => read(ja, text)),
    ['12', '1.5', '0.25'],
  )
  assert.deepEqual([read(de, '１，５'), read(de, '１．０００')], ['1.5', null])
})

test('what a page shows in full is read back as the same amount', () => {
  for (const value of [1n, 15n * 10n ** 17n, 123_456_789n * 10n ** 12n])
    for (const words of [en, de, fr, es, ja]) {
      const typed = readTyped(words, amountText(words, { value, decimals: 18 }).full)
      // Groups are not typed; these amounts have none.
      if (value < 1_000n * 10n ** 18n) assert.equal(scaleDecimal(readDecimal(typed!), 18), value, words.language)
    }
})
