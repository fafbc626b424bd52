import type { Hex } from '../ids.ts'
import { connect } from './rpc/connect.ts'
import { openState } from '../state.ts'
import { openHead } from './head.ts'
import { openMemory } from './memory.ts'
import type { Chain } from './network.ts'
import { isHeadUrl } from './rpc/new-heads.ts'
import type { OnNode } from './rpc/pool.ts'
import type { OnCall } from './rpc/rpc.ts'

/** Settings of a network, before its nodes were asked. */
export type ChainSettings = Omit<Chain, 'chainId' | 'decimals' | 'rpc' | 'newHeads' | 'head' | 'memory' | 'state'> & {
  /** one or several nodes of the network; the URLs may include keys, so they appear in no message */
  rpcUrls: readonly string[]
  /** chain id that the nodes must have; undefined: any */
  chainId: number | undefined
  /** decimals of native currencies that do not have 18, by the chain id of the nodes */
  nativeDecimals: ReadonlyMap<number, number>
  onCall: OnCall
  onNode?: OnNode
}

/** decimals of a native currency, which is counted in wei */
const USUAL_DECIMALS = 18
const LOST_AMONG_SEVERAL_MS = 60_000

/**
 * Connects to a network's nodes and checks that they serve the right network.
 * @throws Error  if a node has another chain id; RpcUnavailable if no node responds
 */
export async function openChain(settings: ChainSettings): Promise<{ chain: Chain; genesisHash: Hex }> {
  const {
    rpcUrls,
    chainId: wantedChainId,
    name,
    symbol,
    coin,
    nativeDecimals,
    finality,
    feeCapWei,
    tipCapWei,
    verification,
    gas,
    gasSpace = null,
    delegate = 'chatelaine',
    topUpContracts = new Set(),
  } = settings
  const { explorer, faucet, isDevelopment, clock, onCall, onNode = () => {} } = settings
  const head = openHead(clock)
  const intervalMs = () => (isDevelopment === true || faucet !== null ? null : head.pace.intervalMs())
  const { rpc, identity, newHeads } = await connect(rpcUrls, { clock, wantedChainId, onCall, onNode, intervalMs })
  const { chainId, genesisHash } = identity
  return {
    chain: {
      chainId,
      name,
      symbol,
      coin,
      decimals: nativeDecimals.get(chainId) ?? USUAL_DECIMALS,
      finality,
      feeCapWei,
      ...(tipCapWei === undefined ? {} : { tipCapWei }),
      verification,
      gas,
      gasSpace: gasSpace === null ? null : (gasSpace.toLowerCase() as Hex),
      delegate,
      topUpContracts,
      explorer,
      faucet,
      ...(isDevelopment === undefined ? {} : { isDevelopment }),
      // If there are several nodes, the one ahead of the others may be unavailable for a moment, so wait longer.
      ...(rpcUrls.filter((url) => !isHeadUrl(url)).length > 1 ? { lostAfterMs: LOST_AMONG_SEVERAL_MS } : {}),
      clock,
      rpc,
      ...(newHeads === null ? {} : { newHeads }),
      head,
      memory: openMemory(head),
      state: openState(),
    },
    genesisHash,
  }
}

/** Closes the connections to a network's nodes, and discards all facts about it. */
export function closeChain({ rpc, state }: Chain): void {
  rpc.close()
  state.clear()
}
