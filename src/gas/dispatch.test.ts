import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { encodeErrorResult, encodeFunctionData } from 'viem'
import { dispatchData as expected, type SignedOperation } from '../../test/gas/dispatch.ts'
import type { Evm } from '../../test/gas/evm.ts'
import { startNode } from '../../test/nodes/real-node.ts'
import { accountOf, artefact, bytesOf, hexOf, openStage, sign, type Stage } from '../../test/gas/stage.ts'
import { randomOf } from '../../test/random.ts'
import { quantityOf, type Hex } from '../ids.ts'
import { cancelData, dispatchData, isUsed, readCalls, readDispatch, usedData } from './dispatch.ts'
import { readEvents, readFailure } from './events.ts'
import { operationDigest, packCalls, type GasOperation, type OperationCall } from './operation.ts'
import { readRehearsal, rehearsalCode } from './rehearse.ts'

let evm: Evm
let stage: Stage
let url: string
before(async () => {
  const node = await startNode('anvil')
  url = node.url
  evm = { rpc: (method, ...params) => node.rpc(method, ...params), close: () => node.stop() }
  stage = await openStage(evm)
})
after(() => evm?.close())

const ROUNDS = 200
const below = randomOf(417)
const bytes = (length: number): Buffer => Buffer.from(Array.from({ length }, () => below(256)))
const anyCall = (): OperationCall => ({ to: bytes(20), value: BigInt(below(3)), data: bytes(below(90)) })
const key = accountOf('who signs')

function anyOperations(): SignedOperation[] {
  const space = bytes(20)
  return Array.from({ length: 1 + below(6) }, (_, index) => {
    const operation: GasOperation = {
      ...{
        chainId: 31_337,
        account: bytes(20),
        dispatcher: Buffer.alloc(20, 1),
        space,
        sequence: BigInt(1_000 + index),
      },
      calls: Array.from({ length: 1 + below(4) }, anyCall),
      ...{ gasLimit: 1 + below(2 ** 31), deadline: 1 + below(2 ** 31) },
    }
    return { operation, signature: sign(operationDigest(operation), key.key) }
  })
}
/** Returns the single operation of calldata; its length is in the third word. */
function packed(signed: SignedOperation): Buffer {
  const alone = expected([signed])
  return alone.subarray(100, 100 + alone.readUInt32BE(96))
}

test('operations are packed as the contracts take them, and what was packed is known again', () => {
  for (let round = 0; round < ROUNDS; round++) {
    const signed = anyOperations()
    const { space } = signed[0]!.operation
    const data = dispatchData(space, signed.map(packed))
    assert.equal(hexOf(data), hexOf(expected(signed)))
    const read = readDispatch(data)
    assert.ok(read !== null && read.space.equals(space))
    assert.deepEqual(
      read.operations.map(({ account, sequence }) => [hexOf(account), sequence]),
      signed.map(({ operation: { account, sequence } }) => [hexOf(account), sequence]),
    )
    for (const { operation } of signed) assert.deepEqual(readCalls(packCalls(operation.calls)), operation.calls)
    for (const other of [data.subarray(0, -1), data.subarray(4), Buffer.concat([data, Buffer.alloc(32)])])
      assert.equal(readDispatch(other), null)
  }
  const { abi } = artefact('Dispatcher')
  const [space, sequences] = [bytes(20), [0n, 255n, 2n ** 40n]]
  const args = [hexOf(space), sequences]
  assert.equal(hexOf(cancelData(space, sequences)), encodeFunctionData({ abi, functionName: 'cancel', args }))
  assert.equal(readDispatch(cancelData(space, sequences)), null)
})

test('events say what became of each operation, and an id is used from then on', () =>
  stage.apart(async () => {
    const [alice, bob] = (await stage.users('events', 2)) as [typeof key, typeof key]
    const reason = encodeErrorResult({ abi: [{ type: 'error', name: 'Sorry', inputs: [] }] })
    const signed = [
      await stage.operation(alice, [stage.on('ping')]),
      await stage.operation(bob, [stage.on('ping'), stage.on('failWith', [reason])]),
      await stage.operation(alice, [stage.on('ping')], { deadline: 1 }),
      await stage.operation(accountOf('no code'), [stage.on('ping')]),
      await stage.operation(bob, [stage.on('burn')]),
    ]
    const used = async ({ operation: { space, sequence } }: SignedOperation) => {
      const call = { to: hexOf(stage.dispatcher), data: hexOf(usedData(space, sequence)) }
      return isUsed(bytesOf(await evm.rpc<Hex>('eth_call', call, 'latest')), sequence)
    }
    assert.deepEqual(
      await Promise.all(signed.map(used)),
      signed.map(() => false),
    )
    const { logs } = await stage.dispatch(signed)
    const said = readEvents(hexOf(stage.dispatcher), logs)
    assert.deepEqual(
      await Promise.all(signed.map(used)),
      signed.map(() => true),
    )
    assert.deepEqual(
      said.map(({ space, sequence, account }) => [space, sequence, account]),
      signed.map(({ operation: { space, sequence, account } }) => [hexOf(space), sequence, hexOf(account)]),
    )
    assert.deepEqual(
      said.map((event) => (event.kind === 'Failed' ? readFailure(event.reason) : event.kind)),
      ['Done', { error: 'CallFailed', index: 1, data: reason }, { error: 'Expired' }, { error: 'NotDelegated' }, { error: 'OutOfGas' }].map((one, index) => (index === 4 ? { error: 'CallFailed', index: 0, data: '0x' } : one)), // prettier-ignore
    )
    assert.deepEqual(readEvents(hexOf(stage.target), logs), [])
    const again = await stage.dispatch(signed.slice(0, 1))
    assert.deepEqual(
      readEvents(hexOf(stage.dispatcher), again.logs).map(({ kind }) => kind),
      ['Skipped'],
    )
    const other = await stage.operation(alice, [stage.on('ping')])
    const { space, sequence } = other.operation
    const cancelled = await stage.send(stage.sponsor, stage.dispatcher, cancelData(space, [sequence]))
    assert.deepEqual(readEvents(hexOf(stage.dispatcher), cancelled.logs), [{ space: hexOf(space), sequence, account: null, kind: 'Cancelled' }]) // prettier-ignore
  }))

/** Simulates calls like the server: nothing is signed, and the account has no code yet. */
async function rehearse(calls: OperationCall[], method = 'eth_call'): Promise<Hex> {
  const call = { from: stage.sponsor.hex, to: key.hex, data: '0x' }
  return evm.rpc<Hex>(method, call, 'latest', { [key.hex]: { code: hexOf(rehearsalCode(calls)) } })
}
async function refused(calls: OperationCall[]): Promise<{ index: number; data: Hex }> {
  const call = { from: stage.sponsor.hex, to: key.hex, data: '0x' }
  const params = [call, 'latest', { [key.hex]: { code: hexOf(rehearsalCode(calls)) } }]
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_call', params })
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  const { error } = (await response.json()) as { error: { data: Hex } }
  const { index, data } = readRehearsal(bytesOf(error.data))
  return { index, data: hexOf(data) }
}

test('of a word of used ids each bit is of one id, and of no other', () => {
  for (const sequence of [0n, 5n, 255n, 256n, 2n ** 96n - 1n]) {
    const word = Buffer.from((1n << (sequence % 256n)).toString(16).padStart(64, '0'), 'hex')
    const used = Array.from({ length: 256 }, (_, index) => sequence - (sequence % 256n) + BigInt(index)).filter((one) => isUsed(word, one)) // prettier-ignore
    assert.deepEqual(used, [sequence])
  }
})

test('a rehearsal does what the account would do, before it delegated and without its signature', async () => {
  const answer = await rehearse([stage.on('ping'), stage.on('count')])
  // The first call was counted.
  assert.equal(BigInt(answer), (await stage.pings()) + 1n)
  const reason = encodeErrorResult({ abi: [{ type: 'error', name: 'Sorry', inputs: [] }] })
  assert.deepEqual(await refused([stage.on('ping'), stage.on('failWith', [reason]), stage.on('ping')]), { index: 1, data: reason }) // prettier-ignore
  assert.match((await refused([stage.on('onlyOrigin')])).data, /^0x08c379a0/)
  const gas = BigInt(await rehearse([stage.on('ping')], 'eth_estimateGas'))
  assert.ok(gas > 21_000n && gas < 120_000n, String(gas))
  // The account pays values itself: it has no funds at first, and some later.
  assert.deepEqual(await refused([stage.on('ping', [], 5n)]), { index: 0, data: '0x' })
  const call = { from: stage.sponsor.hex, to: key.hex, data: '0x' }
  const override = { [key.hex]: { code: hexOf(rehearsalCode([stage.on('ping', [], 5n)])), balance: quantityOf(5n) } }
  assert.equal(await evm.rpc('eth_call', call, 'latest', override), '0x')
})

test('a rehearsal takes tokens that are minted to it, as the account would', async () => {
  const call = { to: stage.items, value: 0n, data: stage.encode('SampleItems', 'mint', [key.hex, 7n, 1n]) }
  await rehearse([call])
})
