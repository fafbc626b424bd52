import { RpcError, type Rpc } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'

/** calls per JSON-RPC batch; providers reject more than 50 to 100 */
const BATCH = 50

/** Fetches receipts by transaction hash, as the node sends them: null for an unknown one. */
export function fetchReceipts(rpc: Rpc, hashes: readonly Hex[]): Promise<unknown[]> {
  return inBatches(
    rpc,
    hashes.map((hash) => ({ method: 'eth_getTransactionReceipt', params: [hash] })),
  )
}

/**
 * Sends calls as several batches, one after another.
 * @throws the first error among the results
 */
export async function inBatches(rpc: Rpc, calls: { method: string; params: unknown[] }[]): Promise<unknown[]> {
  const answers: unknown[] = []
  for (let start = 0; start < calls.length; start += BATCH) {
    answers.push(...(await rpc.batch(calls.slice(start, start + BATCH))))
  }
  const failed = answers.find((answer) => answer instanceof RpcError)
  if (failed !== undefined) throw failed
  return answers
}
