import { RpcError, RpcUnavailable } from './failures.ts'
import { askIdentity, isSameChain, type Identity } from './identity.ts'
import { noteAnswer, noteFailure, type Member } from './member.ts'
import type { OnNode } from './pool.ts'

const EVERY_MS = 1_000
const TIMEOUT_MS = 1_500

/**
 * Asks every node of a pool for its head, all at the same time so that heads can be compared; lets a paused one in
 * again when it answers, and one that was down at the start when it is of the right chain.
 * @returns the way to stop
 */
export function startProbes(
  members: readonly Member[],
  { identity, everyMs = EVERY_MS, onNode }: { identity: Identity; everyMs?: number; onNode: OnNode },
): () => void {
  const asking = new Set<Member>()
  const timer = setInterval(() => {
    for (const member of members) {
      if (asking.has(member)) continue
      asking.add(member)
      void probe(member, { identity, onNode }).finally(() => asking.delete(member))
    }
  }, everyMs)
  timer.unref()
  return () => clearInterval(timer)
}

/** One look at one node. Never throws. */
export async function probe(
  member: Member,
  { identity, onNode }: { identity: Identity; onNode: OnNode },
): Promise<void> {
  const startedAt = performance.now()
  if (member.standing === 'wrong' || (member.openUntil !== null && member.openUntil > startedAt)) return
  try {
    // Behind the same URL may be another chain by now: a node that was away is asked for its identity again.
    if (
      (member.standing === 'unverified' || member.openUntil !== null) &&
      !(await isRight(member, { identity, onNode }))
    )
      return
    const [head] = await member.node.ask([{ method: 'eth_blockNumber', params: [] }], { timeoutMs: TIMEOUT_MS })
    if (head instanceof RpcError || head instanceof RpcUnavailable) throw head
    if (typeof head !== 'string' || !/^0x[0-9a-f]{1,12}$/i.test(head))
      throw new RpcUnavailable('the node does not say its head', { timedOut: false })
    member.head = Number(head)
    if (noteAnswer(member, performance.now() - startedAt)) onNode(member.position, 'up')
  } catch {
    if (noteFailure(member, performance.now())) onNode(member.position, 'down')
  }
}

async function isRight(member: Member, { identity, onNode }: { identity: Identity; onNode: OnNode }): Promise<boolean> {
  const isNew = member.standing === 'unverified'
  const said = await askIdentity(member.node.ask, TIMEOUT_MS)
  member.standing = isSameChain(said, identity) ? 'right' : 'wrong'
  if (member.standing === 'wrong') onNode(member.position, 'wrong_chain')
  else if (isNew && member.openUntil === null) onNode(member.position, 'up')
  return member.standing === 'right'
}
