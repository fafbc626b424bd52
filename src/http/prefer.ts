import type { FastifyReply, FastifyRequest } from 'fastify'

/**
 * Returns how long a client is willing to wait, milliseconds: `Prefer: wait=5`. An unreadable preference is ignored.
 * @returns Infinity if it states none
 * Source: RFC 7240 §4.3
 */
export function readPrefer({ prefer }: FastifyRequest['headers'], reply: FastifyReply): number {
  if (prefer === undefined) return Infinity
  const match = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,4})"?\s*(?:$|[,;])/i.exec(String(prefer))
  if (match === null) return Infinity
  reply.header('preference-applied', `wait=${match[1]}`)
  return Number(match[1]) * 1_000
}
