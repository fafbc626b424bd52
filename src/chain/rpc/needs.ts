import { isMissingMethod, isRateLimited, isUnknownBlock } from './errors.ts'
import { CALL_GAS } from './call.ts'
import { RpcError } from './failures.ts'
import type { AskNode, Call } from './json-rpc.ts'
import { quantityOf } from '../../ids.ts'

const NOBODY = `0x${'00'.repeat(20)}`
const NOTHING = `0x${'00'.repeat(32)}`

/** Required methods, as calls that cost the node nothing and change nothing. */
const needed: readonly Call[] = [
  { method: 'eth_getBalance', params: [NOBODY, 'latest'] },
  { method: 'eth_getCode', params: [NOBODY, 'latest'] },
  { method: 'eth_getTransactionCount', params: [NOBODY, 'latest'] },
  { method: 'eth_call', params: [{ to: NOBODY, data: '0x', gas: quantityOf(CALL_GAS) }, 'latest'] },
  { method: 'eth_estimateGas', params: [{ from: NOBODY, to: NOBODY }] },
  { method: 'eth_getBlockByHash', params: [NOTHING, false] },
  { method: 'eth_getTransactionByHash', params: [NOTHING] },
  { method: 'eth_getTransactionReceipt', params: [NOTHING] },
  { method: 'eth_gasPrice', params: [] },
  // Empty bytes are not a transaction, so a node with the method reports an error about them.
  { method: 'eth_sendRawTransaction', params: ['0x'] },
]

export type Needs = {
  /** required methods that the node lacks */
  missing: readonly string[]
  /** false if it does not accept a block's hash in place of a number (EIP-1898) */
  readsByHash: boolean
}

/**
 * Checks that a node has the required methods. Only a clear refusal counts: a busy node, or one with an invalid
 * response, is checked when the method is used.
 * @throws RpcUnavailable
 */
export async function askNeeds(ask: AskNode, timeoutMs: number): Promise<Needs> {
  const [newest, ...answers] = await ask([{ method: 'eth_getBlockByNumber', params: ['latest', false] }, ...needed], {
    timeoutMs,
  })
  const missing = needed.filter((_, index) => isMissing(answers[index])).map(({ method }) => method)
  const hash = (newest as { hash?: unknown } | null)?.hash
  if (typeof hash !== 'string' || typeof answers[0] !== 'string') return { missing, readsByHash: true }
  const [pinned] = await ask([{ method: 'eth_getBalance', params: [NOBODY, { blockHash: hash }] }], { timeoutMs })
  const isRefused = pinned instanceof RpcError && !isUnknownBlock(pinned) && !isRateLimited(pinned)
  return { missing, readsByHash: !isRefused }
}

/** EIP-1474: -32004, method not supported, in addition to JSON-RPC's -32601 */
const isMissing = (answer: unknown): boolean =>
  answer instanceof RpcError && (isMissingMethod(answer) || answer.rpcCode === -32004)
