import { AppError } from '../errors.ts'

/**
 * SQLSTATEs and system codes that mean that the database is unavailable: the request is valid, and a retry may succeed.
 * Source: PostgreSQL, Appendix A; Node.js, os.constants.errno and dns
 */
const AWAY = new Set([
  // connection lost, or never established
  ...['08000', '08001', '08003', '08004', '08006', '08007'],
  // cancelled, shut down, starting up, dropped, idle for too long
  ...['57014', '57P01', '57P02', '57P03', '57P04', '57P05', '25P03', '25P04'],
  // out of disk, memory, connections, a configured limit; its files cannot be read or written
  ...['53000', '53100', '53200', '53300', '53400', '58000', '58030'],
  // a standby, or a demoted primary, takes no writes
  '25006',
  // what a COMMIT did is unknown
  '40003',
  ...['ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'ENOENT', 'EADDRNOTAVAIL', 'ENOTCONN'],
  ...['EAI_AGAIN', 'EAI_FAIL', 'EAI_NODATA', 'ENOTFOUND', 'ENODATA', 'ESERVFAIL', 'ETIMEOUT'],
  ...['EHOSTUNREACH', 'EHOSTDOWN', 'ENETUNREACH', 'ENETDOWN', 'ENETRESET'],
])

/** Messages of node-postgres that have no code. */
const AWAY_IN_WORDS =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed|Query read timeout/

/** Retry-After, seconds. */
const REPEAT_AFTER_SECONDS = 2

/** Returns the SQLSTATE or system code of a database error. */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : undefined
}

/** Returns whether a row with the same key exists already. */
export const isUniqueViolation = (error: unknown): boolean => sqlState(error) === '23505'

/** Returns whether an error means that the database is unavailable. */
export const isAway = (error: unknown): boolean => {
  const code = sqlState(error) ?? ''
  // A pooler reports an unavailable server by this code and closes. From PostgreSQL itself, the code means a bug of
  // ours.
  if (code === '08P01') return (error as { severity?: unknown }).severity === 'FATAL'
  return AWAY.has(code) || (error instanceof Error && AWAY_IN_WORDS.test(error.message))
}

/** Returns the error for an unavailable database, whatever the cause. */
export const unavailable = (cause: unknown): AppError =>
  new AppError(
    'database_unavailable',
    'The database did not respond. A write may have been sent. Retry with the same idempotency key.',
    {
      cause,
      retryAfter: REPEAT_AFTER_SECONDS,
    },
  )

/** Returns the database's own message, which operators need to solve the problem; null if there is none. */
export function reasonOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  if (error instanceof AppError && error.code === 'database_unavailable') return reasonOf(error.cause)
  return error.message !== '' ? error.message : (sqlState(error) ?? null)
}

/** An outage of the database, for the log. */
export type Absence = { seconds: number; failures: number }

/**
 * Detects when the database becomes unavailable and when it recovers, and counts failures in between: one log line
 * each.
 */
export type Watch = {
  failed(error: unknown): void
  answered(): void
}

/** milliseconds without a failure after which a response means that the database has recovered */
const QUIET_MS = 1_000

/** Starts watching a database. `failed` reports an outage at its first failure; `answered` reports its end. */
export function watch({
  onAway,
  onBack,
  ticks: now,
}: {
  onAway: (error: Error) => void
  onBack: (absence: Absence) => void
  ticks: () => number
}): Watch {
  let absence: { since: number; last: number; failures: number } | null = null
  return {
    failed(error) {
      const at = now()
      if (absence === null) {
        absence = { since: at, last: at, failures: 1 }
        onAway(error instanceof Error ? error : new Error('no reason given'))
        return
      }
      absence.last = at
      absence.failures++
    },
    answered() {
      if (absence === null || now() - absence.last < QUIET_MS) return
      const { since, failures } = absence
      absence = null
      onBack({ seconds: Math.round((now() - since) / 100) / 10, failures })
    },
  }
}

/** Reasons for which a database accepts reads but no writes, by SQLSTATE. Source: PostgreSQL, Appendix A */
const REFUSES_WRITES: ReadonlyMap<string, string> = new Map([
  ['53100', 'its disk is full'],
  ['58030', 'its files cannot be written'],
  ['25006', 'the server accepts no writes'],
])
/** milliseconds; longer than the interval between lease renewals, so a renewal fails again while writes fail */
const RECENT_MS = 30_000

/** Remembers that a database rejects writes. A health check that only reads would not notice. */
export type WriteRefusals = {
  failed(error: unknown): void
  /** why the last rejected write failed; null if none was rejected in the last 30 s */
  recent(): string | null
}

/** Remembers the last error by which the database rejected a write. */
export function watchWrites(ticks: () => number): WriteRefusals {
  let last: { why: string; at: number } | null = null
  return {
    failed(error) {
      const why = REFUSES_WRITES.get(sqlState(error) ?? '')
      if (why !== undefined) last = { why, at: ticks() }
    },
    recent: () => (last === null || ticks() - last.at > RECENT_MS ? null : last.why),
  }
}
