import { isIPv6 } from 'node:net'
import type { FastifyReply } from 'fastify'
import { BoundedMap } from '../bounded-map.ts'
import { AppError } from '../errors.ts'

/**
 * Token bucket per key, in memory of this process: with N replicas behind a balancer the installation allows up to
 * N times the limit. That is accepted: limits here protect the process; the signer's policy protects the money.
 */
export type Limit = {
  /**
   * Takes some from the bucket of `key`, all or none; more than it ever holds counts as all of it. Nothing is taken for who is refused.
   * @returns how many are left and, when refused, seconds until there are enough
   */
  take(key: string, count?: number): { allowed: boolean; remaining: number; retryAfter: number }
  /** Puts back what was taken for a request that another limit refused. */
  giveBack(key: string, count?: number): void
  name: string
  burst: number
  perSecond: number
}

const MAX_KEYS = 100_000

/**
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
  // A bucket is one number: the time at which it will be full again (GCRA).
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

/** The clock of a machine may be put back by an hour: it continues from there, and nobody waits for that hour to pass again. */
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
 * Whom an IP address stands for: one in IPv4, everyone in the same /64 in IPv6, which is what one customer is given
 * (RFC 6177).
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
 * Takes some, or none, and says so in `RateLimit-Policy` and `RateLimit` (IETF httpapi draft, structured fields).
 * @throws rate_limited
 */
export function spend(limit: Limit, key: string, reply: FastifyReply, count = 1): void {
  const taken = limit.take(key, count)
  setLimitHeaders(limit, taken, reply)
  if (!taken.allowed) throw tooMany(limit, taken)
}

/**
 * The same for a limit that is behind another: the headers continue telling of that one, unless this one refuses.
 * @param refused  called then: what the other one took
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
