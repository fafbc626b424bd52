import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { RpcError } from '../chain/rpc/rpc.ts'
import { quantityOf, type Hex } from '../ids.ts'
import { openState } from '../state.ts'
import type { Operation } from './operation.ts'
import { outerGas } from './operation-gas.ts'
import { OuterReverts, outerGasOf } from './outer-gas.ts'

const operation = (authorizationNonce: number | null = null): Operation => ({
  ...{ id: 'tx_1', accountId: 'account', clientId: 'demo', chainId: 5, from: `0x${'1a'.repeat(20)}`, delegate: 'chatelaine' }, // prettier-ignore
  ...{ space: `0x${'5b'.repeat(20)}`, sequence: 7, gas: 60_000n, deadline: 2_000_000_000, authorizationNonce },
  ...{ calls: [{ to: Buffer.alloc(20, 1), value: 0n, data: Buffer.alloc(4) }], requestHash: null },
})

/** A network on which a sponsor's transaction takes so much gas; null: it is reverted whatever it has. */
function network(takes: bigint | null) {
  const asked: { method: string; gas: Hex | undefined }[] = []
  const call = async (method: string, [{ gas }]: [{ gas?: Hex }]) => {
    asked.push({ method, gas })
    if (takes === null || (gas !== undefined && BigInt(gas) < takes)) throw new RpcError(3, 'execution reverted', '0x')
    return method === 'eth_estimateGas' ? quantityOf(takes) : '0x'
  }
  const of = (operations: Operation[], isRepacked = false) => {
    asked.length = 0
    return outerGasOf(chain as never, { from: `0x${'5e'.repeat(20)}`, to: `0x${'5f'.repeat(20)}`, data: '0x', operations, isRepacked }) // prettier-ignore
  }
  const chain = { chainId: 5, rpc: { call }, state: openState() }
  return { of, asked, takes: (gas: bigint | null) => void (takes = gas) }
}

test('a network that takes no more than Ethereum is asked once; what delegates or was in a transaction before is run with what it gets', async () => {
  const [plain, delegating] = [[operation()], [operation(), operation(3)]]
  const least = outerGas(plain)
  const { of, asked, takes } = network(least / 2n)
  assert.equal(await of(plain), least)
  assert.deepEqual(asked.map(({ method }) => method), ['eth_estimateGas']) // prettier-ignore
  assert.equal(await of(plain), least)
  assert.deepEqual(asked, [])
  for (const [operations, isRepacked] of [
    [delegating, false],
    [plain, true],
  ] as const) {
    const gas = outerGas(operations)
    assert.equal(await of([...operations], isRepacked), gas)
    assert.deepEqual(asked, [{ method: 'eth_call', gas: quantityOf(gas) }])
  }
  // It takes more by now: what is run finds that, and everything is estimated until it does not any more.
  takes(least * 2n)
  const more = (least * 22n) / 10n
  assert.equal(await of(plain, true), more)
  assert.deepEqual(asked.map(({ method }) => method), ['eth_call', 'eth_estimateGas']) // prettier-ignore
  assert.equal(await of(plain), more)
  assert.deepEqual(asked.map(({ method }) => method), ['eth_estimateGas']) // prettier-ignore
  takes(null)
  await assert.rejects(of(plain), OuterReverts)
})
