import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { AppError } from '../errors.ts'
import { formatUnits, readDecimal, scaleDecimal } from '../abi/units.ts'
import { bigNumber } from '../abi/bignumber.ts'
import type { Hex } from '../ids.ts'
import { readAddress } from '../abi/address.ts'
import { intentOf, movedBy } from './calldata.ts'
import { readOrder, type Asset } from './order.ts'

const TOKEN = `0x${'1c'.repeat(20)}` as const
const TO = `0x${'7e'.repeat(20)}` as const
const erc20 = { tokenType: 'ERC20' as const, tokenAddress: TOKEN, amount: '1.5', toAddress: TO }
type Body = Parameters<typeof readOrder>[0]

suite('an amount', () => {
  test('is read exactly, whatever its length, and scaled without rounding', () => {
    for (const [text, decimals, value] of [
      ['1', 0, 1n],
      ['1.5', 1, 15n],
      ['.01', 2, 1n],
      ['00.010', 2, 1n],
      ['1.000000000000000000000', 0, 1n],
      ['0.000000000000000001', 18, 1n],
      ['90071992547409931234567.123456789012345678', 18, 90071992547409931234567123456789012345678n],
      ['1.01', 1, null],
      ['0.1', 0, null],
    ] as const)
      assert.equal(scaleDecimal(readDecimal(text), decimals), value, text)
  })

  test('survives being shown and read again, at any number of decimals', () => {
    for (let decimals = 0; decimals <= 77; decimals++)
      for (const value of [1n, 10n, 999n, 10n ** BigInt(decimals), 2n ** 256n - 1n])
        assert.equal(scaleDecimal(readDecimal(formatUnits(value, decimals)), decimals), value)
  })
})

suite('a transfer is refused before anybody is asked', () => {
  const refusals: [string, Record<string, unknown>, string, string][] = [
    ['without a recipient', { toAddress: undefined }, 'invalid_request', ''],
    ['with an empty one', { toAddress: '' }, 'invalid_request', ''],
    ['with two recipients', { toUserId: 'DEV-bob' }, 'invalid_request', ''],
    ['with an address and half a name', { toUserUsername: 'bob' }, 'invalid_request', ''],
    ['with a name and no provider', { toAddress: '', toUserUsername: 'bob' }, 'invalid_request', '/toUserProviderType'],
    ['with a provider and no name', { toAddress: '', toUserProviderType: 'DEV' }, 'invalid_request', '/toUserUsername'],
    ['to a text that is no user id', { toAddress: '', toUserId: 'bob' }, 'invalid_user_id', '/toUserId'],
    ['to a text that is no address', { toAddress: '0x12' }, 'invalid_address', '/toAddress'],
    ['to the zero address', { toAddress: `0x${'0'.repeat(40)}` }, 'invalid_recipient', '/toAddress'],
    ['to the token itself', { toAddress: TOKEN }, 'invalid_recipient', '/toAddress'],
    ['without a token', { tokenAddress: '' }, 'invalid_request', '/tokenAddress'],
    ['of a token that is none', { tokenAddress: '0x' }, 'invalid_address', '/tokenAddress'],
    ['of no amount', { amount: '' }, 'invalid_request', '/amount'],
    ['of nothing', { amount: '0.000' }, 'invalid_amount', '/amount'],
    ['of an ERC-20 with an id', { tokenId: '1' }, 'invalid_request', '/tokenId'],
    ['of coins with a contract', { tokenType: 'NATIVE' }, 'invalid_request', '/tokenAddress'],
    ['of coins with an id', { tokenType: 'NATIVE', tokenAddress: '', tokenId: '0' }, 'invalid_request', '/tokenId'],
    ['of coins without an amount', { tokenType: 'NATIVE', tokenAddress: '', amount: '' }, 'invalid_request', '/amount'],
    ['of a collectible without an id', { tokenType: 'ERC721', amount: '' }, 'invalid_request', '/tokenId'],
    ['of two of one of a kind', { tokenType: 'ERC721', amount: '2', tokenId: '1' }, 'invalid_amount', '/amount'],
    ['of half of one of a kind', { tokenType: 'ERC721', amount: '.5', tokenId: '1' }, 'invalid_amount', '/amount'],
    [
      'of an id of 2^256',
      { tokenType: 'ERC721', amount: '', tokenId: String(2n ** 256n) },
      'invalid_request',
      '/tokenId',
    ],
    ['of pieces without a number', { tokenType: 'ERC1155', amount: '', tokenId: '1' }, 'invalid_request', '/amount'],
  ]
  for (const [name, change, code, pointer] of refusals)
    test(name, () => {
      assert.throws(
        () => readOrder({ ...erc20, ...change } as Body),
        (error) => error instanceof AppError && error.code === code && error.errors?.[0]?.pointer === pointer,
      )
    })
})

test('empty texts count as absent, also for the key of the request', () => {
  const empty = { tokenId: '', toUserId: '', toUserProviderType: '', toUserUsername: '' }
  assert.deepEqual(readOrder({ ...erc20, ...empty }), readOrder(erc20))
  const requests = [
    erc20,
    { ...erc20, amount: '1.50' },
    { ...erc20, toAddress: '', toUserId: 'DEV-x' },
    { ...erc20, reference: 'a' },
    { ...erc20, reference: 'b' },
  ]
  assert.equal(new Set(requests.map((body) => readOrder(body).requestHash.toString('hex'))).size, 5)
})

test('of each kind the transaction tells what it moves and to whom', () => {
  const assets: Asset[] = [
    { tokenType: 'NATIVE', amount: readDecimal('1') },
    { tokenType: 'ERC20', token: TOKEN, amount: readDecimal('1') },
    { tokenType: 'ERC721', token: TOKEN, tokenId: 2n ** 256n - 1n },
    { tokenType: 'ERC1155', token: TOKEN, tokenId: 7n, amount: readDecimal('1') },
  ]
  for (const asset of assets)
    for (const value of asset.tokenType === 'ERC721' ? [1n] : [1n, 2n ** 255n + 5n]) {
      const { to, data, value: coins } = intentOf(asset, { from: `0x${'99'.repeat(20)}`, to: TO, value })
      assert.deepEqual(movedBy(asset.tokenType, { to: readAddress(to) as Hex, data, value: bigNumber(coins) }), {
        to: TO,
        value,
      })
    }
})
