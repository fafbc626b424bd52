import assert from 'node:assert/strict'
import { wordDigits } from '../../src/ids.ts'
import { keccak } from '../../src/keccak.ts'
import { compact, packCalls, type GasOperation, type AccountSignature } from '../../src/gas/operation.ts'

export type SignedOperation = { operation: GasOperation; signature: AccountSignature }

const DISPATCH = keccak(Buffer.from('dispatch(address,bytes)')).subarray(0, 4)

/**
 * Calldata of the dispatcher for operations of any accounts, all of one space, network and dispatcher.
 * Source: contracts/Dispatcher.sol, about 200 bytes for a transfer of a token
 */
export function dispatchData(signed: readonly SignedOperation[]): Buffer {
  const [{ operation: first }] = signed as [SignedOperation]
  for (const { operation } of signed) {
    assert.ok(operation.space.equals(first.space) && operation.dispatcher.equals(first.dispatcher))
    assert.equal(operation.chainId, first.chainId)
  }
  const packed = Buffer.concat(signed.map(packOperation))
  const heads = [BigInt(`0x${first.space.toString('hex')}`), 64n, BigInt(packed.length)].map(wordDigits).join('')
  const rest = Buffer.alloc((32 - (packed.length % 32)) % 32)
  return Buffer.concat([DISPATCH, Buffer.from(heads, 'hex'), packed, rest])
}

function packOperation({ operation, signature }: SignedOperation): Buffer {
  const { account, sequence, gasLimit, deadline, calls } = operation
  const { r, vs } = compact(signature)
  const packed = packCalls(calls)
  const head = Buffer.alloc(21)
  Buffer.from(sequence.toString(16).padStart(24, '0'), 'hex').copy(head)
  head.writeUInt32BE(gasLimit, 12)
  head.writeUIntBE(deadline, 16, 5)
  const length = Buffer.alloc(3)
  length.writeUIntBE(packed.length, 0, 3)
  return Buffer.concat([account, head, r, vs, length, packed])
}
