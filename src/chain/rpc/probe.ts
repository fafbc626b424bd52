import { every, type Clock } from '../../clock.ts'
import { RpcError, RpcUnavailable } from './failures.ts'
import { askIdentity, isSameChain, type ChainIdentity } from './identity.ts'
import { noteAnswer, noteFailure, type Member } from './node-health.ts'
import { askNeeds } from './needs.ts'
import type { OnNode } from './pool.ts'
import { exactQuantityIn } from '../../digits.ts'

export type Probing = {
  clock: Clock
  identity: ChainIdentity
  onNode: OnNode
  onReadsByNumber: (member: Member) => void
}

/**
 * milliseconds between two checks of which nodes are due for a probe, and between two probes while the block interval
 * is unknown
 */
const EVERY_MS = 1_000
/** share of the block interval after which healthy nodes are probed again, and its maximum in milliseconds */
const SHARE_OF_INTERVAL = 0.4
const MAX_EVERY_MS = 5_000
const TIMEOUT_MS = 1_500

/**
 * Asks every node of a pool for its head, as often as heads can differ. All are asked at the same time, so that heads
 * are comparable. A node that is paused, or was unavailable at the start, is probed every second, and used once it
 * responds with the right chain.
 * @param intervalMs  milliseconds between two blocks; null while unknown
 * @returns a function that stops
 */
export function startProbes(
  members: readonly Member[],
  {
    everyMs = EVERY_MS,
    intervalMs = () => null,
    ...probing
  }: Probing & { everyMs?: number; intervalMs?: () => number | null },
): () => void {
  const asking = new Set<Member>()
  let allAskedAt = Number.NEGATIVE_INFINITY
  const { clock } = probing
  const rounds = every(clock, everyMs, async () => {
    const paceMs = Math.min(MAX_EVERY_MS, SHARE_OF_INTERVAL * (intervalMs() ?? 0))
    // Run a probe that is due within half an interval now, instead of half an interval late.
    const isDue = clock.ticks() - allAskedAt >= paceMs - everyMs / 2
    if (isDue) allAskedAt = clock.ticks()
    for (const member of members) {
      const isHealthy = member.identityState === 'verified' && member.failuresInARow === 0 && member.head !== null
      if (asking.has(member) || (isHealthy && !isDue)) continue
      asking.add(member)
      void probe(member, probing).finally(() => asking.delete(member))
    }
  })
  return () => void rounds.stop()
}

/** Probes one node once. Never throws. */
export async function probe(member: Member, probing: Probing): Promise<void> {
  const { clock, onNode } = probing
  const startedAt = clock.ticks()
  if (member.identityState === 'mismatched' || (member.openUntil !== null && member.openUntil > startedAt)) return
  try {
    // The same URL may serve another chain after an outage, so the node's identity is checked again.
    if ((member.identityState === 'unverified' || member.openUntil !== null) && !(await isRight(member, probing)))
      return
    const [head] = await member.node.ask([{ method: 'eth_blockNumber', params: [] }], { timeoutMs: TIMEOUT_MS })
    if (head instanceof RpcError || head instanceof RpcUnavailable) throw head
    const number = exactQuantityIn(head)
    if (number === null) throw new RpcUnavailable('the node does not report its head', { timedOut: false })
    member.head = number
    if (noteAnswer(member, clock.ticks() - startedAt)) onNode(member.position, 'up')
  } catch {
    if (noteFailure(member, clock.ticks())) onNode(member.position, 'down')
  }
}

async function isRight(member: Member, { identity, onNode, onReadsByNumber }: Probing): Promise<boolean> {
  const isNew = member.identityState === 'unverified'
  const said = await askIdentity(member.node.ask, TIMEOUT_MS)
  if (isNew && isSameChain(said, identity)) {
    const { readsByHash } = await askNeeds(member.node.ask, TIMEOUT_MS)
    if (!readsByHash) onReadsByNumber(member)
  }
  member.identityState = isSameChain(said, identity) ? 'verified' : 'mismatched'
  if (member.identityState === 'mismatched') onNode(member.position, 'wrong_chain')
  else if (isNew && member.openUntil === null) onNode(member.position, 'up')
  return member.identityState === 'verified'
}
