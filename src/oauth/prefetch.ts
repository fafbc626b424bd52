import type { FastifyInstance } from 'fastify'

/**
 * Answers what a browser fetches ahead with 425 and nothing else: these addresses begin, continue or end something, and their visitor
 * may never come. A browser that gets no success fetches the address again when its visitor does.
 * Source: Fetch standard, `Sec-Purpose`; RFC 8470 §5.2
 */
export function refusePrefetch(scope: FastifyInstance): void {
  scope.addHook('onRequest', async ({ headers }, reply) => {
    // The other two are of browsers that came before the standard.
    const purposes = [headers['sec-purpose'], headers.purpose, headers['x-moz']]
    if (purposes.some((one) => /\bprefetch\b/.test(String(one))))
      return reply.code(425).header('cache-control', 'no-store').send()
  })
}
