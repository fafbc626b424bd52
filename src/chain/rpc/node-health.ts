import { isBroken, isMissingMethod, isRateLimited, isUnknownBlock } from './errors.ts'
import { RpcError, RpcTooLarge, RpcUnavailable } from './failures.ts'
import type { Call } from './json-rpc.ts'
import type { Node } from './node.ts'

/** One URL of a pool and what is known of it. URLs hold keys, so people see its `position` among them, from 1. */
export type Member = {
  position: number
  node: Node
  /** `unverified`: it has not said yet which chain it has; `wrong`: another one, it is never asked again */
  identityState: 'unverified' | 'verified' | 'mismatched'
  /** newest block it reported; null before the first probe */
  head: number | null
  /** moving average of what a request takes, milliseconds */
  latencyMs: number
  /** moving average of requests that failed, 0 to 1 */
  errorRate: number
  /** requests in flight */
  inFlight: number
  /** the last durations of requests, milliseconds, for the 95th percentile */
  durations: number[]
  p95Ms: number | null
  failuresInARow: number
  /** since so many openings the breaker has not been closed for good */
  openings: number
  /** the breaker: null while closed, otherwise when the node is tried again, milliseconds of the pool's clock */
  openUntil: number | null
  /** methods that it does not have */
  lacks: Set<string>
}

const FAILURES_TO_OPEN = 3
const FIRST_PAUSE_MS = 1_000
const MAX_PAUSE_MS = 30_000
const DURATIONS = 128
/** durations before the 95th percentile says something */
const ENOUGH = 20

export const newMember = (position: number, node: Node): Member => ({
  position,
  node,
  identityState: 'unverified',
  head: null,
  latencyMs: 50,
  errorRate: 0,
  inFlight: 0,
  durations: [],
  p95Ms: null,
  failuresInARow: 0,
  openings: 0,
  openUntil: null,
  lacks: new Set(),
})

/** A request was answered: the breaker closes. @returns true when it was open */
export function noteAnswer(member: Member, tookMs: number): boolean {
  const wasOpen = member.openUntil !== null
  member.openUntil = null
  member.failuresInARow = 0
  if (member.errorRate < 0.01) member.openings = 0
  member.errorRate *= 0.95
  member.latencyMs += 0.2 * (tookMs - member.latencyMs)
  member.durations.push(tookMs)
  if (member.durations.length >= DURATIONS || (member.p95Ms === null && member.durations.length >= ENOUGH)) {
    const sorted = member.durations.toSorted((a, b) => a - b)
    member.p95Ms = sorted[Math.floor(sorted.length * 0.95)]!
    if (member.durations.length >= DURATIONS) member.durations = member.durations.slice(DURATIONS / 2)
  }
  return wasOpen
}

/**
 * A request failed: after three in a row the breaker opens, for longer each time it opens again.
 * @returns true when it opened now
 */
export function noteFailure(member: Member, now: number): boolean {
  member.failuresInARow++
  member.errorRate = 0.95 * member.errorRate + 0.05
  if (member.failuresInARow < FAILURES_TO_OPEN) return false
  const wasOpen = member.openUntil !== null
  // A late failure of a request from before does not prolong the pause.
  if (wasOpen && now < member.openUntil!) return false
  member.openUntil = now + Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** member.openings++)
  return !wasOpen
}

/** How far a node may be behind the best. One block is a matter of luck, two of bad luck. */
const MAX_LAG_BLOCKS = 2

/**
 * The node for some calls: among those that are right, not paused, near the best head and not tried yet, by chance,
 * the faster and more reliable the likelier. Calls at a tag such as `latest` go to a node with the best head.
 * @param random  0 to 1
 * @returns null when none is left
 */
export function pick(
  members: readonly Member[],
  calls: readonly Call[],
  tried: ReadonlySet<Member>,
  random: () => number,
): Member | null {
  const right = members.filter(({ identityState }) => identityState === 'verified')
  const closed = right.filter(({ openUntil }) => openUntil === null)
  // With every breaker open the one that is to be tried first may as well be tried now.
  if (closed.length === 0)
    return right.filter((member) => !tried.has(member)).toSorted((a, b) => a.openUntil! - b.openUntil!)[0] ?? null
  const best = bestHead(closed)
  const near = closed.filter(
    (member) => !tried.has(member) && (member.head === null || best - member.head <= MAX_LAG_BLOCKS),
  )
  const newest = calls.some(isAtTag)
    ? some(
        near.filter(({ head }) => head === null || head >= best),
        near,
      )
    : near
  const able = some(
    newest.filter(({ lacks }) => lacks.size === 0 || !calls.some(({ method }) => lacks.has(method))),
    newest,
  )
  return draw(able, random)
}

/** blocks: who is so far ahead of all others errs */
const IMPLAUSIBLE_LEAD_BLOCKS = 1_000

/** The highest head; of three nodes or more one alone cannot make all others look late. */
function bestHead(members: readonly Member[]): number {
  const [highest = 0, next, third] = members
    .flatMap(({ head }) => (head === null ? [] : [head]))
    .toSorted((a, b) => b - a)
  return third !== undefined && highest - next! > IMPLAUSIBLE_LEAD_BLOCKS ? next! : highest
}

const some = <T>(wanted: T[], otherwise: T[]): T[] => (wanted.length > 0 ? wanted : otherwise)

function draw(members: readonly Member[], random: () => number): Member | null {
  if (members.length < 2) return members[0] ?? null
  const weights = members.map(
    ({ latencyMs, errorRate, inFlight }) => (1 - errorRate) ** 2 / ((latencyMs + 0.5) * (1 + inFlight)),
  )
  let left = random() * weights.reduce((sum, weight) => sum + weight, 0)
  return members.find((_, index) => (left -= weights[index]!) < 0) ?? members.at(-1)!
}

/** Methods that have a block parameter, asked at `latest` or its like: what they answer depends on the node's head. */
export const isAtTag = ({ method, params }: Call): boolean =>
  /^eth_(call|estimateGas|get|blockNumber)/.test(method) &&
  !/ByHash|Receipt/.test(method) &&
  (method === 'eth_blockNumber' || params.some((one) => one === 'latest' || one === 'pending'))

/** An answer that another node may give better: this one lags, lacks the method, is rate limited, broken, or left it out. */
export function isRetryableOnAnotherNode(answer: unknown): boolean {
  if (answer instanceof RpcUnavailable) return !(answer instanceof RpcTooLarge)
  if (!(answer instanceof RpcError) || answer.rpcCode === 3) return false
  return isUnknownBlock(answer) || isMissingMethod(answer) || isRateLimited(answer) || isBroken(answer)
}
