import type { App } from '../app.ts'
import type { Config } from '../config.ts'
import type { WireEvent } from '../events/wire.ts'
import { openOutbound, type Outbound } from '../http/outbound.ts'
import { retryAfterOf } from './schedule.ts'
import { signatureHeaders } from './sign.ts'

/** milliseconds for one delivery, including its answer */
export const PATIENCE_MS = 15_000
/** bytes of an answer that are read: the log stores as many */
const MAX_ANSWER_BYTES = 1_024
/** connections to one place: several webhooks may lead there */
const MAX_SOCKETS = 64

/** What became of one attempt. Without a status there was no answer. */
export type Answer = {
  isOk: boolean
  status: number | null
  error: string | null
  answer: string | null
  durationMs: number
  retryAfterMs: number
}

/** An event to send, and the secrets that sign it. */
export type Letter = {
  url: string
  secrets: readonly Uint8Array[]
  event: WireEvent
  isReplay: boolean
  signal: AbortSignal
}

/** Sends one event. It never throws: a failure is an answer without success. */
export type SendEvent = (letter: Letter) => Promise<Answer>

/** Hosts to which webhooks may lead although they are not on the public internet. */
export function privateHostsOf({
  config,
}: {
  config: Pick<Config, 'WEBHOOK_PRIVATE_HOSTS' | 'NODE_ENV'>
}): ReadonlySet<string> {
  const named = (config.WEBHOOK_PRIVATE_HOSTS ?? '').toLowerCase().split(/[\s,]+/)
  const own = config.NODE_ENV === 'production' ? [] : ['localhost', '127.0.0.1', '[::1]']
  return new Set([...named.filter((host) => host !== ''), ...own])
}

/** Opens the way out for webhooks: https to public addresses, and to the private hosts of the configuration. */
export const openWebhookOutbound = (
  app: Pick<App, 'config'>,
  more: Partial<Parameters<typeof openOutbound>[0]> = {},
): Outbound =>
  // prettier-ignore
  openOutbound({
    allowsPrivate: false,
    isDevelopment: false,
    privateHosts: privateHostsOf(app),
    // The clock of the program ends a delivery; this is for what hangs beyond it.
    patienceMs: 2 * PATIENCE_MS,
    maxSockets: MAX_SOCKETS,
    cutAfterBytes: MAX_ANSWER_BYTES,
    ...more,
  })

/** Opens the sending of events. */
export function openPost({ clock }: Pick<App, 'clock'>, out: Outbound): SendEvent {
  return async ({ url, secrets, event, isReplay, signal }) => {
    const body = JSON.stringify(event)
    const began = clock.ticks()
    const patience = new AbortController()
    const timer = clock.after(PATIENCE_MS, () => patience.abort())
    const rest = { durationMs: 0, retryAfterMs: 0, answer: null }
    try {
      const response = await out(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          ...signatureHeaders(secrets, { id: event.id, at: Math.floor(clock.wall() / 1_000), body }),
          ...(isReplay ? { 'chatelaine-replay': 'true' } : {}),
        },
        body,
        signal: AbortSignal.any([signal, patience.signal]),
      })
      const { status } = response
      const isOk = status >= 200 && status < 300
      return {
        isOk,
        status,
        error: isOk ? null : `status ${status}`,
        // PostgreSQL rejects NUL, and JSON a lone surrogate.
        answer: (await response.text()).replaceAll('\0', '').toWellFormed(),
        durationMs: Math.round(clock.ticks() - began),
        retryAfterMs: retryAfterOf(response.headers.get('retry-after'), clock.wall()),
      }
    } catch (error) {
      const why = patience.signal.aborted ? `no answer within ${PATIENCE_MS / 1_000} seconds` : causeOf(error)
      return { isOk: false, status: null, error: why, ...rest, durationMs: Math.round(clock.ticks() - began) }
    } finally {
      timer.cancel()
    }
  }
}

/** Returns why a connection failed, without addresses of the private network. */
function causeOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : (error as Error)
  const { code } = cause as NodeJS.ErrnoException
  return code ?? cause.message.slice(0, 200)
}
