import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import type { ErrorCode } from '../errors.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** error code of the response; null if there was none, or it was not ours */
    refusal: ErrorCode | null
  }
}

/**
 * Logs a line per request. In development it is text with the path. In production it is JSON with the route only,
 * because paths contain user ids. Queries, headers and bodies are never logged: they contain codes and tokens.
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
      log.info('request_completed', {
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

/**
 * Returns the path for the terminal. Sign-in pages show only their route, because their paths identify an attempt.
 * Control characters and spaces are replaced.
 */
function pathOf({ url, routeOptions }: FastifyRequest): string {
  const path = url.split('?', 1)[0]!.slice(0, 200)
  const shown = /^\/(login|consent|oauth\/auth\/)/.test(path) ? (routeOptions.url ?? path) : path
  // oxlint-disable-next-line no-control-regex -- these are what is looked for
  return shown.replaceAll(/[\u0000-\u001f\u007f-\u009f\s]/g, '?')
}
