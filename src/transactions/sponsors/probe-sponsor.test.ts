import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { readGasContracts } from '../../gas/contracts.ts'
import { RpcError, RpcUnavailable } from '../../chain/rpc/rpc.ts'
import { explainSponsoring } from './probe-sponsor.ts'

let world: Sponsored
before(async () => void (world = await sponsored()))
after(() => world?.close())

type Answer = (method: string, params: unknown[], next: () => Promise<unknown>) => Promise<unknown>
async function why(answer: Answer | null): Promise<string | null> {
  world.first.misbehave(answer)
  try {
    return await explainSponsoring(world.first.chain)
  } finally {
    world.first.misbehave(null)
  }
}
const refuse = (message: string) => Promise.reject(new RpcError(-32_602, message, undefined))

test('a network that can is told from one that lacks a part, which is named', async () => {
  assert.equal(await why(null), null)
  const { chain } = world.first
  assert.match((await explainSponsoring({ ...chain, gasSpace: null }))!, /no gas space/)
  assert.match((await explainSponsoring({ ...chain, gasSpace: '0x12' }))!, /no gas space/)
  assert.match((await why(async (method, _, next) => (method === 'eth_getCode' ? '0x' : next())))!, /deploy-gas/)
  assert.match((await why(async (method, _, next) => (method === 'eth_getBlockByNumber' ? { number: '0x1' } : next())))!, /base fee/) // prettier-ignore
  // No budget would count the cost of its data.
  assert.match((await why(async (method, params, next) => (method === 'eth_getCode' && /^0x42(00){18}0f$/.test(String(params[0])) ? '0x60' : next())))!, /OP Stack/) // prettier-ignore
  // A node that ignores overrides sees an account without code.
  assert.match((await why(async (method, params, next) => (method === 'eth_call' && params.length === 3 ? '0x' : next())))!, /state overrides/) // prettier-ignore
  // A node that ignores them only in estimates returns the gas of a transfer.
  assert.match((await why(async (method, params, next) => (method === 'eth_estimateGas' && params.length === 3 ? '0x5208' : next())))!, /state overrides/) // prettier-ignore
  assert.match((await why(async (method, _, next) => (method === 'eth_estimateGas' ? refuse('too many arguments') : next())))!, /refuses a rehearsal/) // prettier-ignore
  // A node that ignores authorizations lets every call to an account without code succeed.
  const delegates = (params: unknown[]) => 'authorizationList' in (params[0] as object)
  assert.match((await why(async (method, params, next) => (method === 'eth_call' && delegates(params) ? '0x' : next())))!, /nobody signed succeeds/) // prettier-ignore
})

test('Calibur is on a network, runs there as its dispatcher takes it to, and has that, or the network is refused with the reason', async () => {
  const own = await sponsored({}, 'calibur')
  try {
    const { chain } = own.first
    assert.equal(await explainSponsoring(chain), null)
    const { delegate, dispatcher } = readGasContracts('calibur')
    await own.rpc('anvil_setCode', dispatcher, '0x')
    assert.match((await explainSponsoring(chain))!, /deploy-gas --delegate calibur/)
    await own.rpc('anvil_setCode', dispatcher, readGasContracts('calibur').dispatcherCode)
    // Code that accepts anything would execute an operation that nobody signed.
    await own.rpc('anvil_setCode', delegate, '0x00')
    assert.match((await explainSponsoring(chain))!, /nobody signed succeeds/)
    await own.rpc('anvil_setCode', delegate, '0xfd')
    assert.match((await explainSponsoring(chain))!, /an operation is refused/)
    await own.rpc('anvil_setCode', delegate, '0x')
    assert.match(
      (await explainSponsoring(chain))!,
      /Calibur is not there, at 0x000000009B1D0aF20D8C6d0A44e162d11F9b8f00/,
    )
    // The same network has none of our own contracts.
    assert.match((await explainSponsoring({ ...chain, delegate: 'chatelaine' }))!, /deploy-gas`/)
  } finally {
    await own.close()
  }
})

test('a node that is away has said nothing, at whichever question', async () => {
  const { chain } = world.first
  const asking = async (silent: number) => {
    let asked = 0
    const call: typeof chain.rpc.call = (method, params) =>
      asked++ === silent
        ? Promise.reject(new RpcUnavailable('away', { timedOut: false }))
        : chain.rpc.call(method, params)
    return [await explainSponsoring({ ...chain, rpc: { call } }).catch((error: unknown) => error), asked] as const
  }
  const [fine, count] = await asking(-1)
  assert.equal(fine, null)
  assert.ok(count >= 7, String(count))
  for (let silent = 0; silent < count; silent++) assert.ok((await asking(silent))[0] instanceof RpcUnavailable, String(silent)) // prettier-ignore
})
