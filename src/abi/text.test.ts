import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { ethers as ethers5 } from 'ethers5'
import * as fc from 'fast-check'
import type { Hex } from '../ids.ts'
import { fuzz } from '../../test/abi-fuzz.ts'
import { bigNumber } from './bignumber.ts'
import { cleanText, decodeText, decodeTokenText } from './text.ts'
import { formatUnits } from './units.ts'

const encode = (text: string) => ethers5.utils.defaultAbiCoder.encode(['string'], [text]) as Hex
const word = (value: bigint | number) => BigInt(value).toString(16).padStart(64, '0')

test('big numbers equal those of ethers 5', () => {
  const edges = [0n, 1n, -1n, 127n, 128n, 255n, 256n, -255n, -256n, (1n << 256n) - 1n, -(1n << 255n)]
  for (const value of edges) assert.deepEqual(bigNumber(value), ethers5.BigNumber.from(value).toJSON())
  fc.assert(
    fc.property(fc.bigInt(), (value) => assert.deepEqual(bigNumber(value), ethers5.BigNumber.from(value).toJSON())),
  )
})

test('amounts are exact, without trailing zeros', () => {
  const cases: [value: bigint, decimals: number, text: string][] = [
    [25_000_000_000_000_000n, 18, '0.025'],
    [7_569_809_500_000_000_000_000_000n, 18, '7569809.5'],
    [0n, 18, '0'],
    [0n, 0, '0'],
    [120n, 0, '120'],
    [1n, 18, '0.000000000000000001'],
    [-1_500n, 3, '-1.5'],
    [(1n << 256n) - 1n, 0, ((1n << 256n) - 1n).toString()],
    [1n, 255, `0.${'0'.repeat(254)}1`],
    [10n ** 255n, 255, '1'],
  ]
  for (const [value, decimals, text] of cases) assert.equal(formatUnits(value, decimals), text)
})

test('an amount comes back digit by digit, whatever the decimals', () => {
  fc.assert(
    fc.property(fc.bigInt(), fc.nat({ max: 255 }), (value, decimals) => {
      const text = formatUnits(value, decimals)
      assert.match(text, /^(-?[1-9]\d*|-?0)(\.\d*[1-9])?$/)
      const [whole, fraction = ''] = text.split('.')
      assert.equal(BigInt(whole!.replace(/^-/, '') + fraction.padEnd(decimals, '0')), value < 0n ? -value : value)
    }),
    fuzz(300),
  )
})

test('control, bidirectional, zero-width and broken characters are removed', () => {
  const invisible = [
    '\0',
    '\u001b',
    '\u007f',
    '\u0085',
    '\u00ad',
    '\u200b',
    '\u200d',
    '\u200e',
    '\u202a',
    '\u202e',
    '\u2028',
  ]
  invisible.push(
    '\u2029',
    '\u2060',
    '\u2066',
    '\u2069',
    '\u3164',
    '\ufe0f',
    '\ufeff',
    '\ufffe',
    '\u{e0041}',
    '\ud800',
    '\udc00',
  )
  for (const character of invisible) assert.equal(cleanText(`US${character}DC`), 'USDC', character)
  assert.equal(cleanText('  \u200b USD₮0 \n'), 'USD₮0')
  assert.equal(cleanText('日本 🐸 é'), '日本 🐸 é')
})

test('cleaned text has at most so many characters, whole ones, and is clean when cleaned again', () => {
  assert.equal(cleanText('🐸'.repeat(100)), '🐸'.repeat(64))
  assert.equal(cleanText('a'.repeat(100), 10), 'a'.repeat(10))
  assert.equal(cleanText('ab cd', 3), 'ab')
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), fc.nat({ max: 80 }), (text, max) => {
      const clean = cleanText(text, max)
      assert(Array.from(clean).length <= max)
      assert(clean.isWellFormed())
      assert.doesNotMatch(clean, /[\p{Cc}\p{Cf}\p{Cs}]/u)
      assert.equal(cleanText(clean, max), clean)
    }),
    fuzz(300),
  )
})

test('a token’s text is an ABI string, else bytes32, else null', () => {
  assert.equal(decodeTokenText(encode('USD Coin')), 'USD Coin')
  assert.equal(decodeTokenText(encode('')), '')
  assert.equal(decodeTokenText(ethers5.utils.formatBytes32String('MKR') as Hex), 'MKR')
  assert.equal(decodeTokenText(`0x${'0'.repeat(64)}`), '')
  assert.equal(decodeTokenText(`0x${'61'.repeat(32)}`), 'a'.repeat(32))
  for (const data of [
    '0x',
    '0x00',
    `0x${'ff'.repeat(32)}`,
    `0x${word(32)}${word(5)}`,
    `0x${word(1n << 255n)}${word(1)}`,
    `0x${'zz'.repeat(32)}`,
    'nonsense',
    `0x${word(32)}${word((1n << 256n) - 1n)}`,
  ]) {
    assert.equal(decodeTokenText(data as Hex), null, data)
  }
})

test('hostile token text is cleaned, and 10 MB of it are read to the first 4 kB', () => {
  assert.equal(decodeTokenText(encode('US\0D\u202eC\u200b')), 'USDC')
  assert.equal(decodeTokenText(`0x${word(32)}${word(3)}${'61ff62'.padEnd(64, '0')}`), 'a\uFFFDb')
  const megabytes = Buffer.from('€'.repeat(3_500_000)).toString('hex')
  assert.equal(decodeTokenText(`0x${word(32)}${word(megabytes.length / 2)}${megabytes}`), '€'.repeat(64))
  // The cut in the middle of a character leaves no trace.
  assert.equal(decodeTokenText(encode(`${'\u200b'.repeat(1365)}€€`)), '')
})

test('a longer text is null, not cut off', () => {
  const uri = `ipfs://${'€'.repeat(100)}`
  assert.deepEqual([decodeText(encode(uri), 307), decodeText(encode(uri), 306)], [uri, null])
  assert.deepEqual([decodeText(`0x${'61'.repeat(32)}`, 99), decodeText('0x', 99), decodeText(encode(''), 99)], [null, null, '']) // prettier-ignore
})

test('no data makes it throw', () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc.array(fc.nat({ max: 130 }), { maxLength: 6 }).map((sizes) => Buffer.from(sizes.map(word).join(''), 'hex')),
  )
  fc.assert(
    fc.property(bytes, (data) => {
      const text = decodeTokenText(`0x${Buffer.from(data).toString('hex')}`)
      assert(text === null || text === cleanText(text))
      const uri = decodeText(`0x${Buffer.from(data).toString('hex')}`, 4096)
      assert(uri === null || uri === cleanText(uri, 4096))
    }),
    fuzz(1000),
  )
})
