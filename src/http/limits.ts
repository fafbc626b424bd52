import type { FastifyReply } from 'fastify'
import { AppError } from '../errors.ts'

/**
 * Token bucket per key, in memory of this process: with N replicas behind a balancer the installation allows up to
 * N times the limit. That is accepted: limits here protect the process; the signer's policy protects the money.
 */
export type Limit = {
  /** Takes one from the bucket of `key`. @returns how many are left and, when refused, seconds until the next */
  take(key: string): { allowed: boolean; remaining: number; retryAfter: number }
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
  const fullAt = new Map<string, number>()
  const costMs = 1_000 / perSecond
  return {
    name,
    burst,
    perSecond,
    take: (key) => {
      const at = now()
      const full = Math.max(fullAt.get(key) ?? at, at)
      const waitMs = full + costMs - (at + burst * costMs)
      if (waitMs > 0.001) return { allowed: false, remaining: 0, retryAfter: Math.max(1, Math.ceil(waitMs / 1_000)) }
      // Re-inserted so that the map stays in order of use and the oldest leaves first.
      fullAt.delete(key)
      fullAt.set(key, full + costMs)
      if (fullAt.size > MAX_KEYS) fullAt.delete(fullAt.keys().next().value!)
      return { allowed: true, remaining: Math.floor(burst - (full + costMs - at) / costMs + 0.001), retryAfter: 0 }
    },
  }
}

/**
 * Takes one and says so in `RateLimit-Policy` and `RateLimit` (IETF httpapi draft, structured fields).
 * @throws rate_limited
 */
export function spend(limit: Limit, key: string, reply: FastifyReply): void {
  const { allowed, remaining, retryAfter } = limit.take(key)
  reply.header(
    'ratelimit-policy',
    `"${limit.name}";q=${limit.burst};w=${Math.max(1, Math.ceil(limit.burst / limit.perSecond))}`,
  )
  reply.header(
    'ratelimit',
    `"${limit.name}";r=${remaining};t=${allowed ? Math.max(1, Math.ceil((limit.burst - remaining) / limit.perSecond)) : retryAfter}`,
  )
  if (!allowed)
    throw new AppError('rate_limited', `Too many requests: at most ${limit.perSecond} per second here.`, { retryAfter })
}
