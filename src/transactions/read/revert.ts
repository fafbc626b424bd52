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
 * Why a mined transaction failed; null when it did not fail, or the node cannot say at the moment. Receipts hold no
 * reason, so the node is asked once, by the first who wants to know, outside of any database transaction.
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

/** Exactly what happened, from nodes that trace. */
async function traceFailure({ rpc }: Chain, hash: Hex): Promise<Hex | null | undefined> {
  try {
    const trace = await rpc.call<{ error?: string; output?: Hex } | null>('debug_traceTransaction', [
      hash,
      { tracer: 'callTracer', tracerConfig: { onlyTopCall: true } },
    ])
    if (trace?.error === undefined) return undefined
    return typeof trace.output !== 'string' || trace.output === '0x' ? undefined : trace.output
  } catch {
    // Most nodes do not trace for everyone: the call is repeated instead.
    return undefined
  }
}

/**
 * The same call on the state before its block. Transactions before it in the block are missing there, so it may succeed;
 * then the state after the block is tried, which is often just as telling.
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

/** The caller's `error` items; the text was read once already, but a later version may read it otherwise. */
export function readErrors(abi: string): AbiErrorItem[] {
  try {
    return abi === '' ? [] : parseAbi(abi).errors
  } catch {
    return []
  }
}
