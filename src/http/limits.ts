import { isIPv6 } from 'node:net'
import type { FastifyReply } from 'fastify'
import { BoundedMap } from '../bounded-map.ts'
import { AppError } from '../errors.ts'

/**
 * A token bucket per key, in the memory of this process. With N replicas, an installation allows up to N times the
 * limit. That is accepted: these limits protect the process; the signer's policy protects the money.
 */
export type Limit = {
  /**
   * Takes `count` from the bucket of `key`, all or nothing. A count above the bucket size counts as a full bucket.
   * @returns remaining: the rest of the bucket; retryAfter: seconds until there is enough, if it is rejected
   */
  take(key: string, count?: number): { allowed: boolean; remaining: number; retryAfter: number }
  /** Gives back the amount of a request that another limit rejected. */
  giveBack(key: string, count?: number): void
  name: string
  burst: number
  perSecond: number
}

const MAX_KEYS = 100_000

/**
 * Opens a limit.
 * @param perSecond  refill rate, requests per second
 * @param burst      bucket size, requests
 * @param now        clock, milliseconds
 */
export function openLimit({
  name,
  perSecond,
  burst,
  now,
}: {
  name: string
  perSecond: number
  burst: number
  now: () => number
}): Limit {
  // A bucket is stored as one number: the time at which it will be full again (GCRA).
  const fullAt = new BoundedMap<string, number>(MAX_KEYS)
  const costMs = 1_000 / perSecond
  const clock = neverBack(now)
  return {
    name,
    burst,
    perSecond,
    take: (key, count = 1) => {
      const at = clock()
      const spentMs = Math.min(count, burst) * costMs
      const full = Math.max(fullAt.get(key) ?? at, at)
      const waitMs = full + spentMs - (at + burst * costMs)
      if (waitMs > 0.001) return { allowed: false, remaining: 0, retryAfter: Math.max(1, Math.ceil(waitMs / 1_000)) }
      fullAt.set(key, full + spentMs)
      return { allowed: true, remaining: Math.floor(burst - (full + spentMs - at) / costMs + 0.001), retryAfter: 0 }
    },
    giveBack: (key, count = 1) => {
      const full = fullAt.get(key)
      if (full !== undefined) fullAt.set(key, full - Math.min(count, burst) * costMs)
    },
  }
}

/**
 * Wraps a clock that may be set back: time then continues from the last value, so that nobody waits for the difference.
 */
function neverBack(now: () => number): () => number {
  let last = Number.NEGATIVE_INFINITY
  let behind = 0
  return () => {
    const at = now() + behind
    if (at < last) behind += last - at
    else last = at
    return last
  }
}

/**
 * Returns the key of an IP address for limits: the address for IPv4, its /64 for IPv6, which one customer gets (RFC
 * 6177).
 */
export function addressOf(ip: string): string {
  if (!isIPv6(ip) || ip.includes('.')) return ip
  const [head = '', tail] = ip.split('::')
  const front = head === '' ? [] : head.split(':')
  const back = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : 8 - front.length - back.length
  const groups = [...front, ...Array.from({ length: zeros }, () => '0'), ...back]
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')
}

/**
 * Takes from a limit and sets `RateLimit-Policy` and `RateLimit` (IETF httpapi draft, structured fields).
 * @throws rate_limited
 */
export function spend(limit: Limit, key: string, reply: FastifyReply, count = 1): void {
  const taken = limit.take(key, count)
  setLimitHeaders(limit, taken, reply)
  if (!taken.allowed) throw tooMany(limit, taken)
}

/**
 * Takes from a second limit. The headers still describe the first one, unless the second one rejects.
 * @param refused  called before a rejection, to give back the amount that the first limit took
 * @throws rate_limited
 */
export function spendBehind(limit: Limit, key: string, reply: FastifyReply, refused: () => void = () => {}): void {
  const taken = limit.take(key)
  if (taken.allowed) return
  refused()
  setLimitHeaders(limit, taken, reply)
  throw tooMany(limit, taken)
}

type LimitResult = ReturnType<Limit['take']>

function setLimitHeaders(
  { name, burst, perSecond }: Limit,
  { allowed, remaining, retryAfter }: LimitResult,
  reply: FastifyReply,
): void {
  const wait = allowed ? Math.max(1, Math.ceil((burst - remaining) / perSecond)) : retryAfter
  reply.header('ratelimit-policy', `"${name}";q=${burst};w=${Math.max(1, Math.ceil(burst / perSecond))}`)
  reply.header('ratelimit', `"${name}";r=${remaining};t=${wait}`)
}

function tooMany({ perSecond }: Limit, { retryAfter }: LimitResult): AppError {
  const rate = perSecond < 1 ? `${Math.round(perSecond * 60)} per minute` : `${perSecond} per second`
  return new AppError('rate_limited', `The limit is ${rate}. Nothing was done. Retry after \`Retry-After\` seconds.`, {
    retryAfter,
  })
}
