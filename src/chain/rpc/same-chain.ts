import { RpcTooLarge, RpcUnavailable, WrongChain } from './failures.ts'
import { askIdentity, isSameChain, type ChainIdentity } from './identity.ts'
import type { AskNode } from './json-rpc.ts'

const TIMEOUT_MS = 5_000

/**
 * Asks the only node of a network. Whenever it was away, another chain may be behind its address when it is back: a
 * development node that was started again, a balancer that was pointed elsewhere. Until it has shown that it is the same,
 * by chain id and genesis block, it is asked for nothing else and sent nothing.
 * @param onWrong  told once each time another chain is found there
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
