import { AppError } from '../../errors.ts'
import { quantityOf, type Hex } from '../../ids.ts'
import { readBytes } from './answers.ts'
import { isExecutionError, isGivenUp, revertDataOf } from './errors.ts'
import { RpcTooLarge } from './failures.ts'
import { RpcError, type Rpc } from './rpc.ts'

/** A tag, a block number, or the hash that pins a read to one block. */
export type At = { blockHash: Hex } | { blockNumber: number } | 'latest' | 'finalized'

const blockParameter = (at: At): unknown => {
  if (typeof at === 'string') return at
  return 'blockHash' in at ? { blockHash: at.blockHash } : quantityOf(at.blockNumber)
}

/** gas limit of a transaction (EIP-7825). Nodes reject calls with more, whatever they use: go-ethereum #32625, EDR */
export const CALL_GAS = 2 ** 24

/** bytes; longer results and reverts of a contract are rejected */
const MAX_RETURN_BYTES = 1_048_576
const MAX_RETURN_CHARACTERS = 2 * MAX_RETURN_BYTES + 2

/** Outcome of a call. `reverted` is the node's error, from which the revert data is read. */
export type CallResult = { data: Hex } | { reverted: RpcError }

export type EthCall = { to?: Hex; data: Hex; from?: Hex; value?: bigint; gas?: number }

/**
 * Runs eth_call at one block.
 * @param to  absent: `data` is the creation code of a contract, whose result is returned and not stored
 * @param value  wei
 * @param gas  highest gas that the call may use on the node
 * @throws RpcUnavailable, or RpcError if the node does not know the block or failed itself
 * @throws invalid_return_data  if the contract returns more than MAX_RETURN_BYTES
 * @throws chain_timeout  if the node aborted the call
 */
export async function ethCall(
  rpc: Rpc,
  { to, data, from, value = 0n, at, gas = CALL_GAS }: EthCall & { at: At },
): Promise<CallResult> {
  const call = {
    ...(to === undefined ? {} : { to }),
    data,
    ...(from === undefined ? {} : { from }),
    ...(value === 0n ? {} : { value: quantityOf(value) }),
    gas: quantityOf(gas),
  }
  const params = [call, blockParameter(at)]
  try {
    const asked = rpc.expensive.has({ to, data })
      ? rpc.call('eth_call', params, { alone: true })
      : rpc.call('eth_call', params)
    const answer = readBytes(await asked, 'result of a call')
    if (answer.length > MAX_RETURN_CHARACTERS) throw tooLong('answered')
    return { data: answer }
  } catch (error) {
    if (error instanceof RpcTooLarge) {
      rpc.expensive.note({ to, data })
      throw tooLong('answered', error)
    }
    if (!(error instanceof RpcError)) throw error
    if (!isExecutionError(error)) {
      if (!isGivenUp(error)) throw error
      // A gateway's time-out concerns all calls of its batch; this time-out concerns the call itself.
      if (/execution aborted/i.test(error.message)) rpc.expensive.note({ to, data })
      throw new AppError(
        'chain_timeout',
        'The node ended the call, because it took too long. Nothing was sent. Retry, or read less at once.',
        { cause: error, retryAfter: 1 },
      )
    }
    if (/out ?of ?gas/i.test(error.message)) rpc.expensive.note({ to, data })
    const reason = typeof error.data === 'string' ? error.data : (revertDataOf(error) ?? '')
    if (reason.length > MAX_RETURN_CHARACTERS) throw tooLong('reverted')
    return { reverted: error }
  }
}

// Omit the response from the cause: a collection of such errors would occupy many megabytes.
const tooLong = (how: 'answered' | 'reverted', cause?: RpcTooLarge): AppError =>
  new AppError('invalid_return_data', `The contract ${how} with more than 1 MiB.`, cause === undefined ? {} : { cause })
