import { readNumber } from '../../chain/rpc/answers.ts'
import { InvalidResponse } from '../../chain/rpc/failures.ts'
import { AppError } from '../../errors.ts'

/** gas units: intrinsic cost of a transaction. Yellow Paper, G_transaction */
export const MIN_GAS = 21_000n

/** gas units: mainnet rejects transactions above 2^24 since Fusaka. EIP-7825 */
export const MAX_GAS = 16_777_216n

/**
 * Returns the gas limit of a request, gas units.
 * @throws invalid_gas
 */
export function readGasLimit(text: string): bigint {
  if (!/^\d{1,20}$/.test(text)) throw invalidGas('not_a_number', 'The gas limit must be decimal digits.')
  const gas = BigInt(text)
  if (gas < MIN_GAS || gas > MAX_GAS)
    throw invalidGas('out_of_range', `The gas limit must be between ${MIN_GAS} and ${MAX_GAS}.`)
  return gas
}

export const invalidGas = (code: string, detail: string): AppError =>
  new AppError('invalid_gas', detail, { errors: [{ pointer: '/gas', code, detail }] })

/**
 * Reads a response to `eth_estimateGas`, gas units. An estimate below 21,000 is an error: as a limit it would be
 * signed, rejected by every node, and would block the account's later nonces.
 * @throws InvalidResponse
 */
export function readGas(answer: unknown): bigint {
  const gas = BigInt(readNumber(answer, 'gas of a call'))
  if (gas < MIN_GAS) throw new InvalidResponse('the node’s gas estimate is below 21,000')
  return gas
}
