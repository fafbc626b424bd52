import { RpcTooLarge, RpcUnavailable, WrongChain } from './failures.ts'
import { askIdentity, isSameChain, type ChainIdentity } from './identity.ts'
import type { AskNode } from './json-rpc.ts'

const TIMEOUT_MS = 5_000

/**
 * Guards the only node of a network. After an outage, another chain may be behind its address: a restarted development
 * node, or a load balancer with another target. Until chain id and genesis block are verified, the node gets no other
 * request.
 * @param onWrong  called whenever another chain is found
 */
export function guarded(
  ask: AskNode,
  { identity, onWrong }: { identity: ChainIdentity; onWrong: () => void },
): AskNode {
  let identityState: 'verified' | 'unsure' | 'mismatched' = 'verified'
  let checking: Promise<void> | null = null

  async function check(): Promise<void> {
    const said = await askIdentity(ask, TIMEOUT_MS)
    if (isSameChain(said, identity)) {
      identityState = 'verified'
      return
    }
    if (identityState !== 'mismatched') onWrong()
    identityState = 'mismatched'
    throw new WrongChain()
  }

  return async (calls, options) => {
    if (identityState !== 'verified') {
      checking ??= check().finally(() => (checking = null))
      await checking
    }
    try {
      return await ask(calls, options)
    } catch (error) {
      if (identityState === 'verified' && error instanceof RpcUnavailable && !(error instanceof RpcTooLarge))
        identityState = 'unsure'
      throw error
    }
  }
}
