import type { FastifyInstance } from 'fastify'

/**
 * Responds to prefetch requests with 425: these addresses begin, continue or end something, and the user may never open
 * them. A browser whose prefetch fails requests the address again when the user opens it.
 * Source: Fetch standard, `Sec-Purpose`; RFC 8470 §5.2
 */
export function refusePrefetch(scope: FastifyInstance): void {
  scope.addHook('onRequest', async ({ headers }, reply) => {
    // Browsers older than the standard send one of the other two.
    const purposes = [headers['sec-purpose'], headers.purpose, headers['x-moz']]
    if (purposes.some((one) => /\bprefetch\b/.test(String(one))))
      return reply.code(425).header('cache-control', 'no-store').send()
  })
}
