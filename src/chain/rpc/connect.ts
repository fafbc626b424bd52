import type { Clock } from '../../clock.ts'
import { askIdentity, isSameChain, type ChainIdentity } from './identity.ts'
import { newMember, type Member } from './node-health.ts'
import { pinnedByNumber } from './by-number.ts'
import { RpcUnavailable } from './failures.ts'
import { guarded } from './same-chain.ts'
import { askNeeds } from './needs.ts'
import { isHeadUrl, watchNewHeads, type NewHeads } from './new-heads.ts'
import { openNode } from './node.ts'
import { poolOf, type OnNode } from './pool.ts'
import { probe, startProbes } from './probe.ts'
import { rpcOver, type OnCall, type Rpc } from './rpc.ts'

export type Connected = { rpc: Rpc; identity: ChainIdentity; newHeads: NewHeads | null }

const TIMEOUT_MS = 10_000

/**
 * Connects to the nodes of a network. If at least one node responds, retries the unavailable ones later. Rejects a node
 * of another chain, because it was listed by mistake. WebSocket URLs are used only for new heads, and need not respond.
 * @param urls  at least one of them http or https
 * @param wantedChainId  undefined: any chain id
 * @param intervalMs  returns the milliseconds between two blocks, if known: several nodes are probed no more often
 *   than heads move
 * @throws Error  if a node has another chain or lacks a required method; RpcUnavailable if none responds
 */
export async function connect(
  urls: readonly string[],
  {
    clock,
    wantedChainId,
    onCall,
    onNode,
    probeEveryMs,
    intervalMs,
  }: {
    clock: Clock
    wantedChainId: number | undefined
    onCall: OnCall
    onNode: OnNode
    probeEveryMs?: number
    intervalMs?: () => number | null
  },
): Promise<Connected> {
  const sources = [...new Set(urls)].map((url, index) => ({ url, position: index + 1 }))
  const members = sources
    .filter(({ url }) => !isHeadUrl(url))
    .map(({ url, position }) => newMember(position, openNode(url, clock)))
  const headSources = sources.filter(({ url }) => isHeadUrl(url))
  let newHeads: NewHeads | null = null
  const close = () => {
    newHeads?.close()
    for (const { node } of members) node.close()
  }
  try {
    const isOnly = sources.length === 1
    const identity = await agreeOnChain(members, { wantedChainId, onNode, isOnly })
    let readsByNumber = false
    const onReadsByNumber = ({ position }: Member) => {
      readsByNumber = true
      onNode(position, 'reads_by_number')
    }
    await checkNeeds(members, onReadsByNumber)
    if (headSources.length > 0) newHeads = watchNewHeads(headSources, { clock, chainId: identity.chainId, onNode })
    if (members.length === 1) {
      const { node, position } = members[0]!
      const ask = guarded(node.ask, { identity, onWrong: () => onNode(position, 'wrong_chain') })
      const pinned = pinnedByNumber({ ask, askOneNode: ask }, () => readsByNumber)
      return { identity, newHeads, rpc: rpcOver({ ...pinned, close }, { clock, onCall }) }
    }
    const probing = { clock, identity, onNode, onReadsByNumber }
    await Promise.all(members.map((member) => probe(member, probing)))
    const stop = startProbes(members, {
      ...probing,
      ...(probeEveryMs === undefined ? {} : { everyMs: probeEveryMs }),
      ...(intervalMs === undefined ? {} : { intervalMs }),
    })
    const closeAll = () => {
      stop()
      close()
    }
    const pinned = pinnedByNumber(poolOf({ clock, members, onNode }), () => readsByNumber)
    return { identity, newHeads, rpc: rpcOver({ ...pinned, close: closeAll }, { clock, onCall }) }
  } catch (error) {
    close()
    throw error
  }
}

async function agreeOnChain(
  members: Member[],
  { wantedChainId, onNode, isOnly }: { wantedChainId: number | undefined; onNode: OnNode; isOnly: boolean },
): Promise<ChainIdentity> {
  const answers = await Promise.allSettled(members.map(({ node }) => askIdentity(node.ask, TIMEOUT_MS)))
  const identities = answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : null))
  const first = identities.find((identity) => identity !== null)
  if (first === undefined) throw (answers[0] as PromiseRejectedResult).reason
  for (const [index, identity] of identities.entries()) {
    if (identity === null) {
      onNode(members[index]!.position, 'down')
      continue
    }
    const which = isOnly ? 'the node' : `node ${members[index]!.position} of the network`
    if (wantedChainId !== undefined && identity.chainId !== wantedChainId)
      throw new Error(`${which} has chain id ${identity.chainId}, expected ${wantedChainId}`)
    if (!isSameChain(identity, first)) throw new Error(`${which} is on another chain than the nodes before it`)
    members[index]!.identityState = 'verified'
  }
  return first
}

/**
 * Checks that the responding nodes together have all required methods. The other nodes are checked when they respond.
 * @throws Error  naming the methods that no node has
 */
async function checkNeeds(members: Member[], onReadsByNumber: (member: Member) => void): Promise<void> {
  const answers = await Promise.all(
    members
      .filter(({ identityState }) => identityState === 'verified')
      .map(async (member) => {
        const needs = await askNeeds(member.node.ask, TIMEOUT_MS).catch((error: unknown) => {
          if (error instanceof RpcUnavailable) return null
          throw error
        })
        if (needs?.readsByHash === false) onReadsByNumber(member)
        return needs
      }),
  )
  const [first, ...others] = answers.filter((needs) => needs !== null)
  const missing = (first?.missing ?? []).filter((method) => others.every((needs) => needs.missing.includes(method)))
  if (missing.length > 0)
    throw new Error(`no node supports ${missing.join(', ')}: docs/operate/nodes.md lists what a node must support`)
}
