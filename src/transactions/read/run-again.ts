import { decodeRevert } from '../../abi/reverts.ts'
import { revertDataOf } from '../../chain/rpc/errors.ts'
import type { Chain } from '../../chain/network.ts'
import { mapChainError } from '../../chain/rpc/rpc.ts'
import { AppError, type Revert } from '../../errors.ts'
import { quantityOf } from '../../ids.ts'
import { toBound, type TransactionRow } from '../intent.ts'
import { callOf } from '../lanes/prepare.ts'
import { readErrors } from './revert.ts'

/** The outcome of a call on the state after `block`. `unknown`: the nodes cannot execute it, for example without that state. */
export type RunAgain = { block: number } & (
  | { outcome: 'succeeds' }
  | { outcome: 'reverts'; revert: Revert }
  | { outcome: 'unknown'; detail: string }
)

/**
 * Simulates a mined transaction with its gas limit on the states before and after its block. Neither is exactly the state in which it
 * ran: earlier transactions of the block are missing from the first, and later ones are in the second. Sends two calls, and stores nothing.
 */
export async function runAgain({ rpc }: Chain, row: TransactionRow): Promise<RunAgain[]> {
  const bound = toBound(row)
  const call = callOf(bound.from, { ...bound, gas: BigInt(row.gas_limit) })
  const runAt = async (block: number): Promise<RunAgain> => {
    try {
      await rpc.call('eth_call', [call, quantityOf(block)])
      return { block, outcome: 'succeeds' }
    } catch (error) {
      const data = revertDataOf(error)
      if (data !== undefined) return { block, outcome: 'reverts', revert: decodeRevert(data, readErrors(row.abi)) }
      const known = mapChainError(error)
      if (!(known instanceof AppError)) throw known
      return { block, outcome: 'unknown', detail: known.message }
    }
  }
  const block = row.block_number!
  return Promise.all([block - 1, block].map(runAt))
}
