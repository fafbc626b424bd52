import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import { BoundedMap } from '../bounded-map.ts'
import { slot } from '../state.ts'

/** How a request to /healthz arrived: `chatelaine doctor` sends one with a forged X-Forwarded-For. */
export type ProxyProbe = {
  /** client address as the rate limits see it */
  client: string
  /** other end of the connection */
  peer: string
  /** X-Forwarded-For as received; null: absent */
  forwardedFor: string | null
}

const MAX_PROBES = 64
const FORM = /^[0-9a-f]{32}$/

const probes = slot('probes of proxies', (_app: App) => new BoundedMap<string, ProxyProbe>(MAX_PROBES))

/** Remembers how a request with `?probe=` arrived. Anyone can send one, so that only the last few are remembered. */
export function noteProxyProbe(app: App, { query, ip, socket, headers }: FastifyRequest): void {
  const { probe } = query as { probe?: unknown }
  if (typeof probe !== 'string' || !FORM.test(probe)) return
  const forwardedFor = headers['x-forwarded-for']
  probes.of(app).set(probe, {
    client: ip,
    peer: socket.remoteAddress ?? '',
    forwardedFor: forwardedFor === undefined ? null : [forwardedFor].flat().join(', '),
  })
}

/** Registers GET /proxy-probe/:probe on the operators' listener. */
export function proxyProbes(server: FastifyInstance, app: App): void {
  server.get<{ Params: { probe: string } }>(
    '/proxy-probe/:probe',
    { schema: { hide: true }, config: { admission: 'vital' } },
    (request, reply) => {
      const found = probes.of(app).get(request.params.probe)
      if (found === undefined) return reply.code(404).send({ status: 'unknown' })
      return reply.header('cache-control', 'no-store').send(found)
    },
  )
}
