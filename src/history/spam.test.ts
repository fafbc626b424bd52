import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import type { Hex } from '../ids.ts'
import { knownTokens } from '../tokens/suspicion.ts'
import { judgeTransfer, looksAlike, suspicionOf, type JudgedTransfer, type TransferFacts } from './spam.ts'

const USDC: Hex = '0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48'
const TOKEN: Hex = '0x7070707070707070707070707070707070707070'
const FRIEND: Hex = '0xabc4567890123456789012345678901234567def'
const IMITATOR: Hex = '0xabc4999999999999999999999999999999997def'
const known = knownTokens(new Map([[USDC, { symbol: 'USDC', name: 'USD Coin' }]]), { symbol: 'ETH', name: 'Ether' })
const nothing: Omit<TransferFacts, 'told'> = { isOwn: false, isBesideOwn: false, isTokenUsed: false, wasHeld: false, isPastWhole: true, isOtherPaid: false, alike: [] } // prettier-ignore
const plain: JudgedTransfer = {
  ...{ token: TOKEN, tokenType: 'ERC20', symbol: 'ABC', name: 'Abc', decimals: 18, direction: 'IN' },
  ...{ other: IMITATOR, value: 1n, isZero: false },
}
const usdc: JudgedTransfer = { ...plain, token: USDC, symbol: 'USDC', name: 'USD Coin', decimals: 6 }
const judge = (changes: Partial<JudgedTransfer>, facts: Partial<TransferFacts> = {}) => {
  const one = { ...plain, ...changes }
  return judgeTransfer(one, { ...nothing, told: suspicionOf(one, known), ...facts }, known)
}
const reasons = (...given: Parameters<typeof judge>) => judge(...given)?.reasons ?? []
const friend = { address: FRIEND, isPaid: true, moved: null, isNewer: false }

suite('a transfer is judged', () => {
  test('an unknown token of a stranger is no spam by itself', () => {
    assert.equal(judge({}), null)
    assert.equal(judge({ tokenType: 'ERC721', symbol: '', name: '' }), null)
  })

  test('nothing that the person or a sponsor initiated is spam, whatever else there is', () => {
    const worst = { direction: 'OUT', symbol: 'USDC', name: 'claim at https://x.com', isZero: true } as const
    assert.equal(judge(worst, { alike: [friend] })!.score, 100)
    assert.equal(judge(worst, { alike: [friend], isOwn: true }), null)
  })

  test('a token claims a transfer: the person never used it, nothing is unknown, and it never came in', () => {
    const out = { direction: 'OUT' } as const
    assert.deepEqual(judge(out), { score: 60, reasons: ['claimed_transfer'] })
    assert.equal(judge(out, { isTokenUsed: true }), null)
    assert.equal(judge(out, { isPastWhole: false }), null)
    assert.equal(judge(out, { wasHeld: true }), null)
    assert.equal(judge({ ...out, token: USDC }), null)
    assert.equal(judge({ ...out, token: null, tokenType: 'NATIVE' }), null)
    assert.equal(judge({ direction: 'SELF' }), null)
  })

  test('a token that the person has used may be called anything, and one that came in is still judged by its words', () => {
    const lure = { symbol: 'USDC', name: 'Visit usdc.gift to claim' }
    assert.deepEqual(reasons(lure), ['same_symbol', 'link_in_name', 'lure_in_name'])
    assert.deepEqual(reasons(lure, { wasHeld: true }), ['same_symbol', 'link_in_name', 'lure_in_name'])
    assert.equal(judge(lure, { isTokenUsed: true }), null)
    assert.equal(judge({ ...lure, token: USDC }), null)
  })

  test('dust of an address like another: a hundredth of what went before, or a thousandth of one where nothing did', () => {
    const alike = (moved: bigint | null, isPaid = true) => ({
      alike: [{ address: FRIEND, isPaid, moved, isNewer: false }],
    })
    assert.deepEqual(judge({ ...usdc, value: 500n }, alike(50_000n)), { score: 70, reasons: ['look_alike_address'] })
    assert.equal(judge({ ...usdc, value: 501n }, alike(50_000n)), null)
    assert.notEqual(judge({ ...usdc, value: 500n }, alike(50_000n, false)), null)
    assert.notEqual(judge({ ...usdc, value: 999n }, alike(null)), null)
    assert.equal(judge({ ...usdc, value: 1_000n }, alike(null)), null)
    assert.equal(judge({ ...usdc, value: 1n }, alike(null, false)), null)
    assert.equal(judge({ ...usdc, value: 1n }, { ...alike(50_000n), isOtherPaid: true }), null)
    assert.equal(judge({ ...usdc, value: 1n, direction: 'OUT' }, alike(50_000n)), null)
    const coin = { token: null, tokenType: 'NATIVE', symbol: 'ETH', name: 'Ether' } as const
    assert.notEqual(judge({ ...coin, value: 10n ** 15n - 1n }, alike(null)), null)
    assert.equal(judge({ ...coin, value: 10n ** 15n }, alike(null)), null)
  })

  test('an unknown token has no value that counts: of an address like one that was paid it is spam, in and out', () => {
    assert.deepEqual(reasons({ value: 10n ** 30n }, { alike: [friend] }), ['look_alike_address'])
    assert.deepEqual(reasons({ direction: 'OUT' }, { alike: [friend] }), ['claimed_transfer', 'look_alike_address'])
    assert.equal(judge({}, { alike: [{ ...friend, isPaid: false, moved: 9n }] }), null)
    assert.equal(judge({ other: FRIEND }, { alike: [friend] }), null)
  })

  test('what the table calls spam is told with its reason, and scores end at 100', () => {
    assert.deepEqual(judge({ isZero: true, value: 0n }), { score: 100, reasons: ['zero_value'] })
    assert.deepEqual(judge({ isZero: true, value: 0n, direction: 'OUT' }, { alike: [friend] }), {
      score: 100,
      reasons: ['zero_value', 'look_alike_address'],
    })
  })
})

suite('addresses look alike', () => {
  const middle = (length: number, digit: string) => digit.repeat(length)
  const pair = (front: number, back: number): [Hex, Hex] => {
    const [a, b] = ['1', '2'].map((digit): Hex => `0x${'abcdef'.slice(0, front)}${middle(40 - front - back, digit)}${'fedcba'.slice(6 - back)}`) // prettier-ignore
    return [a!, b!]
  }
  for (const [front, back, isAlike] of [
    [3, 4, true],
    [4, 3, true],
    [6, 6, true],
    [3, 3, false],
    [2, 6, false],
    [6, 2, false],
    [0, 0, false],
  ] as const)
    test(`${front} digits in front and ${back} at the end: ${isAlike}`, () => {
      const [a, b] = pair(front, back)
      assert.equal(looksAlike(a, b), isAlike)
      assert.equal(looksAlike(b, a), isAlike)
    })

  test('an address is not like itself, and zeros in front are no likeness', () => {
    assert.equal(looksAlike(FRIEND, FRIEND), false)
    assert.equal(looksAlike(`0x0000000${middle(29, '1')}abcd`, `0x0000000${middle(29, '2')}abcd`), false)
  })
})
