import { RpcError, RpcUnavailable } from './failures.ts'
import type { Hex } from '../../ids.ts'
import type { AskNode } from './json-rpc.ts'
import { exactQuantityIn } from '../../digits.ts'

/** Identifies a chain: chain ids are not unique, and a development chain restarts under the same one. */
export type ChainIdentity = { chainId: number; genesisHash: Hex }

/**
 * Asks a node for its chain.
 * @throws RpcUnavailable | RpcError, Error if the node does not return its genesis block
 */
export async function askIdentity(ask: AskNode, timeoutMs: number): Promise<ChainIdentity> {
  const [chainId, genesis] = await ask(
    [
      { method: 'eth_chainId', params: [] },
      { method: 'eth_getBlockByNumber', params: ['0x0', false] },
    ],
    { timeoutMs },
  )
  for (const answer of [chainId, genesis])
    if (answer instanceof RpcError || answer instanceof RpcUnavailable) throw answer
  const number = exactQuantityIn(chainId)
  if (number === null) throw new RpcUnavailable('the node does not report its chain id', { timedOut: false })
  const { hash } = (genesis ?? {}) as { hash?: Hex }
  if (typeof hash !== 'string') throw new Error('the node does not return its genesis block')
  return { chainId: number, genesisHash: hash }
}

/** Returns whether two identities have the same chain id and genesis block. */
export const isSameChain = (a: ChainIdentity, b: ChainIdentity): boolean =>
  a.chainId === b.chainId && a.genesisHash === b.genesisHash
