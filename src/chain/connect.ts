import { askIdentity, isSameChain, type Identity } from './identity.ts'
import { newMember, type Member } from './member.ts'
import { openNode } from './node.ts'
import { poolOf, type OnNode } from './pool.ts'
import { probe, startProbes } from './probe.ts'
import { rpcOver, type OnCall, type Rpc } from './rpc.ts'

export type Connected = { rpc: Rpc; identity: Identity }

const TIMEOUT_MS = 10_000

/**
 * Connects to the node or the nodes of a network. Of several, those that do not answer are left for later, as long as
 * one does; one of another chain is refused, because whoever listed it meant another network.
 * @param urls          at least one
 * @param wantedChainId undefined takes what the nodes say
 * @throws Error when a node has another chain; RpcUnavailable when none answers
 */
export async function connect(
  urls: readonly string[],
  {
    wantedChainId,
    onCall,
    onNode,
    probeEveryMs,
  }: { wantedChainId: number | undefined; onCall: OnCall; onNode: OnNode; probeEveryMs?: number },
): Promise<Connected> {
  const nodes = [...new Set(urls)].map(openNode)
  const close = () => nodes.forEach((node) => node.close())
  try {
    const members = nodes.map((node, index) => newMember(index + 1, node))
    const identity = await agreeOnChain(members, { wantedChainId, onNode })
    const [node] = nodes
    if (nodes.length === 1)
      return { identity, rpc: rpcOver({ ask: node!.ask, askOneNode: node!.ask, close }, { onCall }) }
    await Promise.all(members.map((member) => probe(member, { identity, onNode })))
    const stop = startProbes(members, {
      identity,
      onNode,
      ...(probeEveryMs === undefined ? {} : { everyMs: probeEveryMs }),
    })
    const closeAll = () => {
      stop()
      close()
    }
    return { identity, rpc: rpcOver({ ...poolOf({ members, onNode }), close: closeAll }, { onCall }) }
  } catch (error) {
    close()
    throw error
  }
}

async function agreeOnChain(
  members: Member[],
  { wantedChainId, onNode }: { wantedChainId: number | undefined; onNode: OnNode },
): Promise<Identity> {
  const answers = await Promise.allSettled(members.map(({ node }) => askIdentity(node.ask, TIMEOUT_MS)))
  const identities = answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : null))
  const first = identities.find((identity) => identity !== null)
  if (first === undefined) throw (answers[0] as PromiseRejectedResult).reason
  for (const [index, identity] of identities.entries()) {
    if (identity === null) {
      onNode(index + 1, 'down')
      continue
    }
    const which = members.length === 1 ? 'the node' : `node ${index + 1} of RPC_URL`
    if (wantedChainId !== undefined && identity.chainId !== wantedChainId)
      throw new Error(`${which} has chain id ${identity.chainId}, the settings say ${wantedChainId}`)
    if (!isSameChain(identity, first)) throw new Error(`${which} is of another chain than the nodes before it`)
    members[index]!.standing = 'right'
  }
  return first
}
