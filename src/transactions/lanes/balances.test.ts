import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { fakeChain } from '../../../test/fake-chain.ts'
import type { Hex } from '../../ids.ts'
import { balanceFor, balanceThisBlock } from './balances.ts'

const ACCOUNT: Hex = `0x${'a1'.repeat(20)}`
const OTHER: Hex = `0x${'b2'.repeat(20)}`

function held(amounts: Record<Hex, bigint>) {
  const chain = fakeChain({ eth_getBalance: ([address]) => `0x${amounts[address as Hex]!.toString(16)}` })
  return { ...chain, amounts, times: () => chain.asked('eth_getBalance').length }
}

test('a balance is asked once a block, of each account', async () => {
  const { chain, mine, amounts, times } = held({ [ACCOUNT]: 5n, [OTHER]: 7n })
  mine(1)
  assert.deepEqual(await Promise.all([balanceThisBlock(chain, ACCOUNT), balanceThisBlock(chain, ACCOUNT), balanceThisBlock(chain, OTHER)]), [5n, 5n, 7n]) // prettier-ignore
  assert.equal(times(), 2)
  amounts[ACCOUNT] = 3n
  mine(2)
  assert.equal(await balanceThisBlock(chain, ACCOUNT), 3n)
  assert.equal(times(), 3)
})

test('what is known is enough, or it is asked now: coins may have come within the block', async () => {
  const { chain, mine, amounts, times } = held({ [ACCOUNT]: 5n })
  mine(1)
  assert.equal(await balanceFor(chain, ACCOUNT, 5n), 5n)
  amounts[ACCOUNT] = 9n
  assert.equal(await balanceFor(chain, ACCOUNT, 5n), 5n)
  assert.equal(times(), 1)
  assert.equal(await balanceFor(chain, ACCOUNT, 6n), 9n)
  assert.equal(times(), 2)
})

test('before a block is known it is asked each time, and a node that failed is asked again', async () => {
  const { chain, times } = held({ [ACCOUNT]: 5n })
  assert.deepEqual([await balanceThisBlock(chain, ACCOUNT), await balanceThisBlock(chain, ACCOUNT)], [5n, 5n])
  assert.equal(times(), 2)
  let isAway = true
  const failing = fakeChain({ eth_getBalance: () => (isAway ? new Error('away') : '0x5') })
  failing.mine(1)
  await assert.rejects(balanceFor(failing.chain, ACCOUNT, 1n), /away/)
  isAway = false
  assert.equal(await balanceFor(failing.chain, ACCOUNT, 1n), 5n)
})
