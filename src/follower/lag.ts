import type { FollowerStop } from './cursor.ts'
import type { Follower } from './follower.ts'

/** Updates the metric for a network that is not followed further: its reason and block. */
export function showStop(follower: Follower, { followed, halted, blockedBy }: FollowerStop): void {
  const { app, chain, shownStop } = follower
  const state = halted !== null ? 'halted' : blockedBy !== null ? 'stuck' : null
  const labels = state === null ? null : { chain_id: String(chain.chainId), state, cause: (halted ?? blockedBy)! } // prettier-ignore
  if (shownStop !== null) app.telemetry.followerStopped.remove(shownStop)
  if (labels !== null) app.telemetry.followerStopped.set(labels, followed)
  follower.shownStop = labels
}

/** Updates the metrics of a network's two cursors: the block of each, and its lag behind the node. */
export function showLag(
  { app: { telemetry }, chain }: Pick<Follower, 'app' | 'chain'>,
  at: { transactions?: number; history?: number },
): void {
  const { chainId, head } = chain
  const newest = head.node.newest()
  const labels = { chain_id: String(chainId) }
  if (at.transactions !== undefined) telemetry.followedBlock.set(labels, at.transactions)
  if (at.history !== undefined) telemetry.indexedBlock.set(labels, at.history)
  if (newest === null) return
  for (const [cursor, number] of Object.entries(at))
    telemetry.cursorLag.set({ ...labels, cursor }, Math.max(0, newest - number))
}
