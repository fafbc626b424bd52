import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isAddress, isWord, amountIn, canonicalAmountIn, exactQuantityIn, quantityIn, wholeIn } from './digits.ts'

const MOST = 2n ** 256n - 1n
const LAX = ['', ' 1', '1 ', '1\n', '+1', '-1', '1.0', '1e3', '1_000', '١', null, undefined, 1, 1n, ['1'], {}]

test('an amount is decimal digits below 2^256, exactly, and a whole number what is exact as one', () => {
  for (const value of [...LAX, '0x1', String(MOST + 1n), '9'.repeat(79)]) assert.equal(amountIn(value), null)
  assert.deepEqual([amountIn('0'), amountIn('007'), amountIn(String(MOST))], [0n, 7n, MOST])
  assert.deepEqual([canonicalAmountIn('0'), canonicalAmountIn(String(MOST))], [0n, MOST])
  for (const value of [...LAX, '00', '007', String(MOST + 1n)]) assert.equal(canonicalAmountIn(value), null)
  for (const value of [...LAX, '0x1', '1'.repeat(16)]) assert.equal(wholeIn(value), null)
  assert.deepEqual([wholeIn('0'), wholeIn('007'), wholeIn('9'.repeat(15))], [0, 7, 999_999_999_999_999])
})

test('a quantity is 0x and at most 64 hexadecimal digits, and a number only where that is exact', () => {
  for (const value of [...LAX, '1', '0x', '0xg', `0x1${'0'.repeat(64)}`])
    assert.deepEqual([quantityIn(value), exactQuantityIn(value)], [null, null])
  assert.deepEqual([quantityIn('0x0'), quantityIn('0XfF'), quantityIn(`0x${'f'.repeat(64)}`)], [0n, 255n, MOST])
  assert.deepEqual([exactQuantityIn('0x1fffffffffffff'), exactQuantityIn('0x20000000000000')], [2 ** 53 - 1, null])
})

test('an address has 40 digits and a word 64, behind 0x', () => {
  const digits = 'aB'.repeat(20)
  assert.deepEqual([isAddress(`0x${digits}`), isWord(`0x${digits.padEnd(64, '0')}`)], [true, true])
  for (const value of [...LAX, digits, `0x${digits}0`, `0x${digits.slice(1)}`, `0x${digits}\n`, `0X${digits}`])
    assert.deepEqual([isAddress(value), isWord(value)], [false, false])
})
