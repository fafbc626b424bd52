// tier: all, because it kills processes and nodes under load
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { privateKeyToAccount } from 'viem/accounts'
import type { Hex } from '../../src/ids.ts'
import { startAnvil } from '../kit/chain.ts'
import { poolOver } from './pool.ts'

const account = privateKeyToAccount(`0x${'a1'.repeat(32)}`)

/** Nonces 1 and 2 of an account in anvil's pool, as if nonce 0 had been mined between the look at the chain's nonce and the entry. */
async function heldBack(t: TestContext) {
  const anvil = await startAnvil()
  t.after(() => anvil.stop())
  await anvil.rpc('anvil_setBalance', account.address, '0xde0b6b3a7640000')
  const pool = poolOver(anvil)
  const send = async (nonce: number, maxFeePerGas = 2_000_000_000n) => {
    const fees = { gas: 21_000n, maxFeePerGas, maxPriorityFeePerGas: maxFeePerGas / 2n }
    const raw = await account.signTransaction({ chainId: 31337, nonce, to: account.address, ...fees })
    const offered = await pool.read(raw)
    await anvil.rpc('eth_sendRawTransaction', raw)
    pool.took(offered)
    return raw
  }
  const raw = await send(1)
  await send(2)
  await pool.sync()
  assert.equal(await pool.unstick(), 0, 'what waits for its nonce is left alone')
  await anvil.rpc('anvil_setNonce', account.address, '0x1')
  for (let blocks = 0; blocks < 3; blocks++) await anvil.rpc('evm_mine')
  await assert.rejects(anvil.rpc('eth_sendRawTransaction', raw), /already imported/)
  const count = async () => Number(await anvil.rpc<Hex>('eth_getTransactionCount', account.address, 'latest'))
  assert.equal(await count(), 1)
  return { anvil, pool, send, count }
}

test('what anvil holds back for ever, although its nonce has come, is given to it anew', async (t) => {
  const { anvil, pool, count } = await heldBack(t)
  await pool.sync()
  assert.equal(await pool.unstick(), 1)
  await anvil.rpc('evm_mine')
  assert.equal(await count(), 3)
})

test('a dearer transaction of the same nonce ends it too', async (t) => {
  const { anvil, send, count } = await heldBack(t)
  await send(1, 3_000_000_000n)
  await anvil.rpc('evm_mine')
  assert.equal(await count(), 3)
})
