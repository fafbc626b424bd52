const [SECOND, MINUTE, HOUR] = [1_000, 60_000, 3_600_000]

/** milliseconds from each failed attempt of an event to the next; after the last one it is dead: about four days */
export const DELAYS_MS = [5 * SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE, 30 * MINUTE, 1 * HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR, 20 * HOUR, 24 * HOUR] as const // prettier-ignore

/** Failed answers in a row after which a webhook stands: one probe at a time, which counts for no event. */
export const MAX_FAILURES_IN_A_ROW = 10
const [PROBE_MS, MAX_PROBE_MS] = [5 * SECOND, 5 * MINUTE]
const MAX_RETRY_AFTER_MS = HOUR

/** Returns the milliseconds until the next attempt of an event. @returns null  there is none */
export function delayOf(attempts: number, retryAfterMs: number): number | null {
  const delay = DELAYS_MS[attempts - 1]
  return delay === undefined ? null : Math.max(spread(delay), Math.min(retryAfterMs, MAX_RETRY_AFTER_MS))
}

/** Returns the milliseconds until the next probe. @param failures  failed answers in a row */
export function probeDelayOf(failures: number, retryAfterMs: number): number {
  const doublings = Math.min(10, Math.max(0, failures - MAX_FAILURES_IN_A_ROW))
  return Math.max(spread(Math.min(PROBE_MS * 2 ** doublings, MAX_PROBE_MS)), Math.min(retryAfterMs, MAX_RETRY_AFTER_MS))
}

/** Moves a delay by up to 20 %, so that what failed together does not return together. */
const spread = (ms: number): number => Math.round(ms * (0.8 + Math.random() * 0.4))

/** Reads Retry-After: seconds, or a date. @returns milliseconds, 0 if there is none */
export function retryAfterOf(header: string | null, now: number): number {
  if (header === null) return 0
  const ms = /^\d{1,9}$/.test(header.trim()) ? Number(header) * SECOND : Date.parse(header) - now
  return Number.isFinite(ms) ? Math.max(0, ms) : 0
}
