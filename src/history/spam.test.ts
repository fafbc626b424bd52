import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import type { Hex } from '../ids.ts'
import { knownTokens } from '../tokens/suspicion.ts'
import { judgeTransfer, suspicionOf, type JudgedTransfer, type TransferFacts } from './spam.ts'

const USDC: Hex = '0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48'
const TOKEN: Hex = '0x7070707070707070707070707070707070707070'
const known = knownTokens(new Map([[USDC, { symbol: 'USDC', name: 'USD Coin' }]]), { symbol: 'ETH', name: 'Ether' })
const nothing: Omit<TransferFacts, 'told'> = { isOwn: false, isBesideOwn: false, isTokenUsed: false, wasHeld: false, isPastWhole: true } // prettier-ignore
const plain: JudgedTransfer = {
  ...{ token: TOKEN, tokenType: 'ERC20', symbol: 'ABC', name: 'Abc', direction: 'IN', value: 1n, isZero: false },
}
const judge = (changes: Partial<JudgedTransfer>, facts: Partial<TransferFacts> = {}) => {
  const one = { ...plain, ...changes }
  return judgeTransfer(one, { ...nothing, told: suspicionOf(one, known), ...facts }, known)
}
const reasons = (...given: Parameters<typeof judge>) => judge(...given)?.reasons ?? []

suite('a transfer is judged', () => {
  test('an unknown token of a stranger is no spam by itself', () => {
    assert.equal(judge({}), null)
    assert.equal(judge({ tokenType: 'ERC721', symbol: '', name: '' }), null)
  })

  test('nothing that the person or a sponsor initiated is spam, whatever else there is', () => {
    const worst = { direction: 'OUT', symbol: 'USDC', name: 'claim at https://x.com', isZero: true } as const
    assert.equal(judge(worst)!.score, 100)
    assert.equal(judge(worst, { isOwn: true }), null)
  })

  test('a token claims a transfer: the person never used it, nothing is unknown, and it never came in', () => {
    const out = { direction: 'OUT' } as const
    assert.deepEqual(judge(out), { score: 60, reasons: ['claimed_transfer'] })
    assert.equal(judge(out, { isTokenUsed: true }), null)
    assert.equal(judge(out, { isPastWhole: false }), null)
    assert.equal(judge(out, { wasHeld: true }), null)
    assert.equal(judge({ ...out, token: USDC }), null)
    assert.equal(judge({ direction: 'SELF' }), null)
  })

  test('a token that the person has used may be called anything, and one that came in is still judged by its words', () => {
    const lure = { symbol: 'USDC', name: 'Visit usdc.gift to claim' }
    assert.deepEqual(reasons(lure), ['same_symbol', 'link_in_name', 'lure_in_name'])
    assert.deepEqual(reasons(lure, { wasHeld: true }), ['same_symbol', 'link_in_name', 'lure_in_name'])
    assert.equal(judge(lure, { isTokenUsed: true }), null)
    assert.equal(judge({ ...lure, token: USDC }), null)
  })

  test('what the table calls spam is told with its reason, and scores end at 100', () => {
    assert.deepEqual(judge({ isZero: true, value: 0n }), { score: 100, reasons: ['zero_value'] })
    assert.deepEqual(judge({ isZero: true, value: 0n, direction: 'OUT', symbol: 'USDC', name: '' }), {
      score: 100,
      reasons: ['zero_value', 'same_symbol'],
    })
  })
})
