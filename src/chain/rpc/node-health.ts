import { isBroken, isMissingMethod, isRateLimitedAt, isUnknownBlock } from './errors.ts'
import { RpcError, RpcTooLarge, RpcUnavailable } from './failures.ts'
import type { Call } from './json-rpc.ts'
import type { Node } from './node.ts'

/** A node of a pool and its measured state. URLs may include keys, so logs show its `position` in the list, from 1. */
export type Member = {
  position: number
  node: Node
  /** `unverified`: its chain is unknown yet; `mismatched`: it serves another chain and is not used again */
  identityState: 'unverified' | 'verified' | 'mismatched'
  /** newest block it reported; null before the first probe */
  head: number | null
  /** moving average of request durations, milliseconds */
  latencyMs: number
  /** moving average of failed requests, 0 to 1 */
  errorRate: number
  /** requests in flight */
  inFlight: number
  /** durations of recent requests, milliseconds, for the 95th percentile */
  durations: number[]
  p95Ms: number | null
  failuresInARow: number
  /** times that the breaker has opened since the node was last reliable */
  openings: number
  /** end of the breaker's pause, in ticks; null while the breaker is closed */
  openUntil: number | null
  /** methods that the node lacks */
  lacks: Set<string>
}

const FAILURES_TO_OPEN = 3
const FIRST_PAUSE_MS = 1_000
const MAX_PAUSE_MS = 30_000
const DURATIONS = 128
/** minimum number of durations for a 95th percentile */
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

/**
 * Records a response, which closes the breaker.
 * @returns true if it was open
 */
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
 * Records a failed request. After three failures in a row the breaker opens, for longer each time.
 * @returns true if it opened now
 */
export function noteFailure(member: Member, now: number): boolean {
  member.failuresInARow++
  member.errorRate = 0.95 * member.errorRate + 0.05
  if (member.failuresInARow < FAILURES_TO_OPEN) return false
  const wasOpen = member.openUntil !== null
  // A late failure of an earlier request does not extend the pause.
  if (wasOpen && now < member.openUntil!) return false
  member.openUntil = now + Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** member.openings++)
  return !wasOpen
}

/** Blocks by which a node may be behind the best one. Differences of one or two are normal. */
const MAX_LAG_BLOCKS = 2

/**
 * Chooses a node for some calls: at random among the verified nodes that are not paused, near the best head and not
 * tried yet, weighted by speed and reliability. Calls at a tag such as `latest` go to a node with the best head.
 * @param random  returns a number from 0 to 1
 * @returns null if no such node remains
 */
export function pick(
  members: readonly Member[],
  calls: readonly Call[],
  tried: ReadonlySet<Member>,
  random: () => number,
): Member | null {
  const right = members.filter(({ identityState }) => identityState === 'verified')
  const closed = right.filter(({ openUntil }) => openUntil === null)
  // If every breaker is open, use the node whose pause ends first.
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

/** number of blocks: a node that is further ahead of all others counts as wrong */
const IMPLAUSIBLE_LEAD_BLOCKS = 1_000

/** Returns the highest head. With three or more nodes, ignores a single node that is implausibly far ahead. */
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

/**
 * Returns whether a call has a tag such as `latest` as its block parameter, so that its result depends on the node's
 * head.
 */
export const isAtTag = ({ method, params }: Call): boolean =>
  /^eth_(call|estimateGas|get|blockNumber)/.test(method) &&
  !/ByHash|Receipt/.test(method) &&
  (method === 'eth_blockNumber' || params.some((one) => one === 'latest' || one === 'pending'))

/**
 * Returns whether another node may have a better response: this node lags, lacks the method, is rate limited or broken,
 * or omitted the call.
 */
export function isRetryableOnAnotherNode({ method }: Call, answer: unknown): boolean {
  if (answer instanceof RpcUnavailable) return !(answer instanceof RpcTooLarge)
  if (!(answer instanceof RpcError) || answer.rpcCode === 3) return false
  return isUnknownBlock(answer) || isMissingMethod(answer) || isRateLimitedAt(method, answer) || isBroken(answer)
}
