import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeFunctionData } from 'viem'
import { dispatchData } from '../../test/gas/dispatch.ts'
import { accountOf, artefact, bytesOf, hexOf, sign } from '../../test/gas/stage.ts'
import { randomOf } from '../../test/random.ts'
import { operationDigest, type GasOperation } from './operation.ts'
import { packOperation, readDispatch, readSigned } from './packed-operation.ts'

const below = randomOf(71)
const bytes = (length: number): Buffer => Buffer.from(Array.from({ length }, () => below(256)))
const [space, dispatcher] = [bytes(20), bytes(20)]
const key = accountOf('a packer').key
const { abi } = artefact('Dispatcher')

function anySigned() {
  const calls = Array.from({ length: 1 + below(4) }, () => ({
    to: bytes(20),
    value: BigInt(hexOf(Buffer.concat([Buffer.of(0), bytes(below(33))]))),
    data: bytes(below(90)),
  }))
  const operation: GasOperation = {
    ...{ chainId: 1, account: bytes(20), dispatcher, space, sequence: BigInt(hexOf(bytes(12))) },
    ...{ calls, gasLimit: 1 + below(2 ** 31), deadline: 1 + below(2 ** 31) },
  }
  return { operation, signature: sign(operationDigest(operation), key) }
}
const written = (operations: Buffer): Buffer =>
  bytesOf(encodeFunctionData({ abi, functionName: 'dispatch', args: [hexOf(space), hexOf(operations)] }))

test('calldata is read as what was packed, each operation to its last byte', () => {
  for (let round = 0; round < 200; round++) {
    const all = Array.from({ length: 1 + below(5) }, anySigned)
    const packed = all.map(({ operation, signature }) => packOperation(operation, signature))
    const data = written(Buffer.concat(packed))
    assert.deepEqual(dispatchData(all), data)
    const read = readDispatch(data)!
    assert.deepEqual(read.space, space)
    assert.equal(read.operations.length, all.length)
    for (const [index, found] of read.operations.entries()) {
      const { account, sequence, gasLimit, deadline, calls } = all[index]!.operation
      assert.deepEqual(found, { account, sequence, gasLimit, deadline, packed: packed[index]! })
      const { signature } = all[index]!
      assert.deepEqual(readSigned(found), {
        signature: { r: Buffer.from(signature.r), s: Buffer.from(signature.s), recovery: signature.recovery },
        calls,
      })
    }
  }
})

test('what is not written so is not read: no other selector, place, length, padding or bits, nothing cut off, nothing behind', () => {
  const { operation, signature } = anySigned()
  // This length requires padding.
  const packed = packOperation({ ...operation, calls: [{ to: bytes(20), value: 1n, data: bytes(3) }] }, signature)
  const data = written(packed)
  assert.notEqual(packed.length % 32, 0)
  const changed = (place: number, byte: number): Buffer => {
    const copy = Buffer.from(data)
    copy[place] = byte
    return copy
  }
  const wrong: [string, Buffer][] = [
    ['nothing', Buffer.alloc(0)],
    ['another function', changed(3, data[3]! ^ 1)],
    ['bits above the space', changed(4, 1)],
    ['another place', changed(4 + 63, 96)],
    ['a place above 2^48', changed(4 + 32, 1)],
    ['a longer length', changed(4 + 95, data[99]! + 1)],
    ['a shorter length', changed(4 + 95, data[99]! - 1)],
    ['a length above 2^48', changed(4 + 64, 1)],
    ['padding that says something', changed(data.length - 1, 1)],
    ['a word behind it', Buffer.concat([data, Buffer.alloc(32)])],
    ['a byte behind it', Buffer.concat([data, Buffer.alloc(1)])],
    ['cut off', data.subarray(0, -1)],
    ['without its last word', data.subarray(0, -32)],
    ['without operations', written(Buffer.alloc(0))],
    ['an operation without its calls', written(packed.subarray(0, 108))],
    ['a header that is cut off', written(packed.subarray(0, 107))],
    ['bytes between two', written(Buffer.concat([packed, Buffer.of(0), packed]))],
  ]
  for (const [what, each] of wrong) assert.equal(readDispatch(each), null, what)
  assert.equal(readDispatch(data)!.operations.length, 1)
  for (let round = 0; round < 3_000; round++) {
    const place = below(100)
    const other = changed(place, below(256))
    const read = readDispatch(other)
    // Encoding the decoded operations yields the same bytes.
    if (read !== null) assert.deepEqual(written(Buffer.concat(read.operations.map((each) => each.packed))).subarray(36), other.subarray(36)) // prettier-ignore
  }
})
