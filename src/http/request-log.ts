import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import type { ErrorCode } from '../errors.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** why it was refused; null where it was not, or not by us */
    refusal: ErrorCode | null
  }
}

/**
 * A line for each request. In development for the person in front of the terminal, with the path as it was asked for;
 * in production JSON of the route alone, because paths name people. Never a query, a header or a body: they hold codes
 * and tokens.
 */
export function logRequests(server: FastifyInstance, { clock, config, telemetry: { log } }: App): void {
  const { REQUEST_LOG, NODE_ENV } = config
  const isOn = REQUEST_LOG === 'on' || (REQUEST_LOG === 'auto' && NODE_ENV === 'development')
  if (!isOn) return
  server.addHook('onResponse', (request, reply, done) => {
    const { method, id } = request
    const code = request.refusal ?? undefined
    const ms = Math.round(reply.elapsedTime)
    if (NODE_ENV === 'development')
      process.stderr.write(
        `${new Date(clock.wall()).toTimeString().slice(0, 8)} ${method} ${pathOf(request)} ${reply.statusCode} ${ms} ms${code === undefined ? '' : ` ${code}`} ${id}\n`,
      )
    else
      log.info('request', {
        method,
        route: request.routeOptions.url ?? 'none',
        status: reply.statusCode,
        ms,
        code,
        requestId: id,
      })
    done()
  })
}

/** Of the sign-in pages the route: their paths name an attempt. What a terminal would obey is made visible. */
function pathOf({ url, routeOptions }: FastifyRequest): string {
  const path = url.split('?', 1)[0]!.slice(0, 200)
  const shown = /^\/(login|consent|oauth\/auth\/)/.test(path) ? (routeOptions.url ?? path) : path
  // oxlint-disable-next-line no-control-regex -- these are what is looked for
  return shown.replaceAll(/[\u0000-\u001f\u007f-\u009f\s]/g, '?')
}
