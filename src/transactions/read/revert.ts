import { parseAbi, type AbiErrorItem } from '../../abi/parse.ts'
import { decodeRevert } from '../../abi/reverts.ts'
import type { App } from '../../app.ts'
import { revertDataOf } from '../../chain/rpc/errors.ts'
import type { Chain } from '../../chain/network.ts'
import type { Revert } from '../../errors.ts'
import { quantityOf, type Hex } from '../../ids.ts'
import { toHex } from '../../hex.ts'
import { toBound, type TransactionRow } from '../intent.ts'
import { callOf } from '../lanes/prepare.ts'
import { transactionRows } from '../rows.ts'

/**
 * Returns why a mined transaction failed; null if it did not fail, or if the node cannot explain it at present.
 * Receipts have no reason, so the node is asked at the first request, outside of any database transaction.
 */
export async function explainRevert(app: App, chain: Chain, row: TransactionRow): Promise<Revert | null> {
  if (row.state !== 'REVERTED' || row.block_number === null) return null
  if (row.revert !== null) return row.revert as unknown as Revert
  const data = (await traceFailure(chain, toHex(row.hash!))) ?? (await repeatCall(chain, row))
  if (data === undefined) return null
  const revert = decodeRevert(data, readErrors(row.abi))
  await transactionRows
    .update(app.db, 'explain')
    .set({ revert: JSON.stringify(revert) })
    .where('id', '=', row.id)
    .where('block_hash', '=', row.block_hash)
    .execute()
  return revert
}

/** Returns the revert data from nodes that trace; undefined from other nodes. */
async function traceFailure({ rpc }: Chain, hash: Hex): Promise<Hex | null | undefined> {
  try {
    const trace = await rpc.call<{ error?: string; output?: Hex } | null>('debug_traceTransaction', [
      hash,
      { tracer: 'callTracer', tracerConfig: { onlyTopCall: true } },
    ])
    if (trace?.error === undefined) return undefined
    return typeof trace.output !== 'string' || trace.output === '0x' ? undefined : trace.output
  } catch {
    // Most nodes do not trace. The caller then repeats the call.
    return undefined
  }
}

/**
 * Repeats the call on the state before its block. That state lacks earlier transactions of the block, so the call may
 * succeed. If it does, repeats the call on the state after the block, which often gives the same reason.
 */
async function repeatCall({ rpc }: Chain, row: TransactionRow): Promise<Hex | null | undefined> {
  const bound = toBound(row)
  const call = callOf(bound.from, bound)
  for (const block of [row.block_number! - 1, row.block_number!]) {
    try {
      await rpc.call('eth_call', [call, quantityOf(block)])
    } catch (error) {
      const data = revertDataOf(error)
      if (data !== undefined) return data
    }
  }
  return undefined
}

/**
 * Returns the `error` items of the caller's ABI. The text was valid when the transaction was sent, but a later version
 * may parse it differently.
 */
export function readErrors(abi: string): AbiErrorItem[] {
  try {
    return abi === '' ? [] : parseAbi(abi).errors
  } catch {
    return []
  }
}
