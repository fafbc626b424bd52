import { encodeAbiParameters, hashTypedData, keccak256, pad } from 'viem'
import { GAS_PAIRS } from '../../src/gas/addresses.ts'
import type { GasOperation } from '../../src/gas/operation.ts'
import { bytesOf, hexOf } from './stage.ts'

const types = {
  Operation: [
    { name: 'dispatcher', type: 'address' },
    { name: 'id', type: 'uint256' },
    { name: 'calls', type: 'Call[]' },
    { name: 'gasLimit', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
  ],
  Call: [
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'data', type: 'bytes' },
  ],
} as const

/** What an account signs for an operation, as viem makes it: nothing of it is ours. */
export function typedDigest({
  chainId,
  account,
  space,
  sequence,
  calls,
  gasLimit,
  deadline,
  dispatcher,
}: GasOperation): Buffer {
  return bytesOf(
    hashTypedData({
      domain: { name: 'Chatelaine', version: '1', chainId, verifyingContract: hexOf(account) },
      types,
      primaryType: 'Operation',
      message: {
        dispatcher: hexOf(dispatcher),
        id: BigInt(hexOf(space)) * 2n ** 96n + sequence,
        calls: calls.map(({ to, value, data }) => ({ to: hexOf(to), value, data: hexOf(data) })),
        gasLimit: BigInt(gasLimit),
        deadline: BigInt(deadline),
      },
    }),
  )
}

/** The same for Calibur: its types and its domain, with id and gas limit in the nonce. */
export function caliburDigest({
  chainId,
  account,
  space,
  sequence,
  calls,
  gasLimit,
  deadline,
  dispatcher,
}: GasOperation): Buffer {
  const id = BigInt(hexOf(space)) * 2n ** 96n + sequence
  const key = keccak256(encodeAbiParameters([{ type: 'uint256' }, { type: 'uint256' }], [id, BigInt(gasLimit)]))
  return bytesOf(
    hashTypedData({
      domain: {
        ...{ name: 'Calibur', version: '1.0.0', chainId, verifyingContract: hexOf(account) },
        salt: pad(hexOf(GAS_PAIRS.calibur.delegate)),
      },
      types: {
        SignedBatchedCall: [
          { name: 'batchedCall', type: 'BatchedCall' },
          { name: 'nonce', type: 'uint256' },
          { name: 'keyHash', type: 'bytes32' },
          { name: 'executor', type: 'address' },
          { name: 'deadline', type: 'uint256' },
        ],
        BatchedCall: [
          { name: 'calls', type: 'Call[]' },
          { name: 'revertOnFailure', type: 'bool' },
        ],
        Call: types.Call,
      },
      primaryType: 'SignedBatchedCall',
      message: {
        batchedCall: {
          calls: calls.map(({ to, value, data }) => ({ to: hexOf(to), value, data: hexOf(data) })),
          revertOnFailure: true,
        },
        nonce: BigInt(`${key.slice(0, 50)}${'0'.repeat(16)}`),
        keyHash: pad('0x'),
        executor: hexOf(dispatcher),
        deadline: BigInt(deadline),
      },
    }),
  )
}
