import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Hex } from '../ids.ts'
import { intentOf, transferIn } from './calldata.ts'
import type { Asset } from './order.ts'

const address = (digit: string): Hex => `0x${digit.repeat(40)}`
const [from, to, token, other] = [address('a'), address('b'), address('c'), address('d')] as const
const amount = { digits: 7n, places: 0 }
const assets: Asset[] = [
  { tokenType: 'NATIVE', amount },
  { tokenType: 'ERC20', token, amount },
  { tokenType: 'ERC721', token, tokenId: 5n },
  { tokenType: 'ERC1155', token, tokenId: 5n, amount },
]

test('a transfer is read back out of the call that makes it, of each kind', () => {
  for (const asset of assets) {
    const value = asset.tokenType === 'ERC721' ? 1n : 7n
    const call = intentOf(asset, { from, to, value })
    assert.deepEqual(transferIn(from, call), {
      tokenType: asset.tokenType,
      token: asset.tokenType === 'NATIVE' ? null : token,
      tokenId: 'tokenId' in asset ? asset.tokenId : null,
      to,
      value,
    })
    // What another account holds is not sent from this one.
    if ('tokenId' in asset) assert.equal(transferIn(other, call), null)
  }
})

test('a call that is none, or is cut off, is no transfer', () => {
  const calls = assets.slice(1).map((asset) => intentOf(asset, { from, to, value: 1n }))
  for (const { data } of calls)
    for (const length of [9, 10, 74, 137]) assert.equal(transferIn(from, { to: token, value: 0n, data: data.slice(0, length) as Hex }), null, data) // prettier-ignore
  assert.equal(transferIn(from, { to: token, value: 7n, data: '0x12345678' }), null)
})
