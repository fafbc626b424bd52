import { AppError } from '../errors.ts'

/**
 * SQLSTATEs, and system codes of a connection, by which a database is away: nothing is wrong with the request, and
 * repeated in a moment it may succeed. Source: PostgreSQL, Appendix A; Node.js, os.constants.errno and dns
 */
const AWAY = new Set([
  // a link that broke, or that was never there
  ...['08000', '08001', '08003', '08004', '08006', '08007'],
  // cancelled, shut down, starting up, dropped, idle for too long
  ...['57014', '57P01', '57P02', '57P03', '57P04', '57P05', '25P03', '25P04'],
  // out of disk, memory, connections, a configured limit; its files cannot be read or written
  ...['53000', '53100', '53200', '53300', '53400', '58000', '58030'],
  // a standby, or a primary that was demoted: it takes no writes
  '25006',
  // what a COMMIT did is unknown
  '40003',
  ...['ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'ENOENT', 'EADDRNOTAVAIL', 'ENOTCONN'],
  ...['EAI_AGAIN', 'EAI_FAIL', 'EAI_NODATA', 'ENOTFOUND', 'ENODATA', 'ESERVFAIL', 'ETIMEOUT'],
  ...['EHOSTUNREACH', 'EHOSTDOWN', 'ENETUNREACH', 'ENETDOWN', 'ENETRESET'],
])

/** What node-postgres says in words, without a code. */
const AWAY_IN_WORDS =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed|Query read timeout/

/** How long a client should wait before it repeats, seconds. */
const REPEAT_AFTER_SECONDS = 2

/** The SQLSTATE or system code of a database error. */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : undefined
}

/** A row with this key is there already. */
export const isUniqueViolation = (error: unknown): boolean => sqlState(error) === '23505'

export const isAway = (error: unknown): boolean => {
  const code = sqlState(error) ?? ''
  // A pooler tells so that its server is away, and closes; from PostgreSQL itself it is a mistake of ours.
  if (code === '08P01') return (error as { severity?: unknown }).severity === 'FATAL'
  return AWAY.has(code) || (error instanceof Error && AWAY_IN_WORDS.test(error.message))
}

/** The one refusal for a database that is away, whatever it said. */
export const unavailable = (cause: unknown): AppError =>
  new AppError(
    'database_unavailable',
    'The database did not respond. A write may have been sent. Retry with the same idempotency key.',
    {
      cause,
      retryAfter: REPEAT_AFTER_SECONDS,
    },
  )

/** What the database itself said, below our own word for it: for operators, who can mend it; null when it said nothing. */
export function reasonOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  if (error instanceof AppError && error.code === 'database_unavailable') return reasonOf(error.cause)
  return error.message !== '' ? error.message : (sqlState(error) ?? null)
}

/** What is logged of a database that was away. */
export type Absence = { seconds: number; failures: number }

/** Notices when a database goes and when it is back, and counts what failed in between: a line for each, not thousands. */
export type Watch = {
  failed(error: unknown): void
  answered(): void
}

/** milliseconds without a failure after which an answer means that it is back */
const QUIET_MS = 1_000

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

/** Why a database answers reads and no writes, by SQLSTATE. Source: PostgreSQL, Appendix A */
const REFUSES_WRITES: ReadonlyMap<string, string> = new Map([
  ['53100', 'its disk is full'],
  ['58030', 'its files cannot be written'],
  ['25006', 'the server accepts no writes'],
])
/** milliseconds: far longer than between two renewals of a lease, which fail as long as writes do */
const RECENT_MS = 30_000

/** Remembers that a database refuses writes: it answers anyone who only asks whether it is there. */
export type WriteRefusals = {
  failed(error: unknown): void
  /** why writes fail; null when none has failed so within the last 30 s */
  recent(): string | null
}

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
