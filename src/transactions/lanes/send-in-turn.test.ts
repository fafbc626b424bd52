import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import type { Chain } from '../../chain/network.ts'
import type { Hex } from '../../ids.ts'
import { sendInTurn } from './send-in-turn.ts'
import { openedHead } from '../../../test/opened.ts'

/** Returns a node that answers when the test releases it. */
function slowNode() {
  const inTheAir: { raw: Hex; resolve: () => void; reject: (error: Error) => void }[] = []
  const call = (_method: string, [raw]: [Hex]) =>
    new Promise<void>((resolve, reject) => inTheAir.push({ raw, resolve, reject }))
  return { chain: { rpc: { call }, ...openedHead() } as unknown as Chain, inTheAir }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

test('what an account sends waits for what it sent before, and other accounts do not', async () => {
  const { chain, inTheAir } = slowNode()
  const raws = () => inTheAir.map(({ raw }) => raw)
  const first = [sendInTurn(chain, { from: '0xa', raw: '0xa0' }), sendInTurn(chain, { from: '0xa', raw: '0xa1' })]
  await turn()
  const later = [sendInTurn(chain, { from: '0xa', raw: '0xa2' }), sendInTurn(chain, { from: '0xb', raw: '0xb0' })]
  await turn()
  const ends = Promise.allSettled([...first, ...later])
  assert.deepEqual(raws(), ['0xa0', '0xa1', '0xb0'])
  inTheAir[0]!.resolve()
  await turn()
  assert.deepEqual(raws(), ['0xa0', '0xa1', '0xb0'])
  inTheAir[1]!.reject(new Error('nonce too low'))
  await turn()
  assert.deepEqual(raws(), ['0xa0', '0xa1', '0xb0', '0xa2'])
  for (const { resolve } of inTheAir) resolve()
  assert.deepEqual(
    (await ends).map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
  )
})

test('an account that sends more than a batch holds keeps its order', async () => {
  const { chain, inTheAir } = slowNode()
  const all = Array.from({ length: 120 }, (_, nonce) => sendInTurn(chain, { from: '0xa', raw: `0x${nonce}` }))
  const order: Hex[] = []
  for (await turn(); inTheAir.length > 0; await turn()) {
    assert.ok(inTheAir.length <= 50)
    for (const { raw, resolve } of inTheAir.splice(0)) {
      order.push(raw)
      resolve()
    }
  }
  await Promise.all(all)
  assert.deepEqual(
    order,
    Array.from({ length: 120 }, (_, nonce) => `0x${nonce}`),
  )
})
