import { hashTypedData } from 'viem'
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
