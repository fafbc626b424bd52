import type { Hex } from '../ids.ts'
import { openHead } from './head.ts'
import type { Chain, Explorer } from './network.ts'
import { openRpc, type OnCall } from './rpc.ts'

export type ChainSettings = {
  rpcUrl: string
  /** what the node must say; undefined takes what it says */
  chainId: number | undefined
  name: string
  symbol: string
  coin: string
  decimals: number
  finality: 'finalized' | number
  feeCapWei: bigint
  multicall3: Hex | null
  explorer: Explorer
  faucet: Chain['faucet']
  now: () => number
  onCall: OnCall
}

/**
 * Connects to a network's node and makes sure that it is the right network.
 * @throws Error when the node has another chain id; RpcUnavailable when it does not answer
 */
export async function openChain(settings: ChainSettings): Promise<{ chain: Chain; genesisHash: Hex }> {
  const { rpcUrl, chainId: wanted, name, symbol, coin, decimals, finality, feeCapWei, multicall3, explorer, faucet, now, onCall } = settings
  const rpc = openRpc({ url: rpcUrl, onCall })
  const [chainId, genesis] = await Promise.all([rpc.call<Hex>('eth_chainId', []), rpc.call<{ hash: Hex } | null>('eth_getBlockByNumber', ['0x0', false])])
  if (wanted !== undefined && Number(chainId) !== wanted) throw new Error(`the node has chain id ${Number(chainId)}, the settings say ${wanted}`)
  if (genesis === null) throw new Error('the node does not show its genesis block')
  return {
    chain: { chainId: Number(chainId), name, symbol, coin, decimals, finality, feeCapWei, multicall3, explorer, faucet, rpc, head: openHead(now) },
    genesisHash: genesis.hash,
  }
}
