/** What was used of a limit, in buckets of a sixtieth of its period. A value: it is never changed, charging gives another. */
export type MeterWindow = {
  /** seconds */
  period: number
  /** the newest bucket that was charged */
  newest: number
  /** smallest units by bucket, oldest first */
  buckets: readonly (readonly [bucket: number, used: bigint])[]
}

const BUCKETS = 60

/**
 * Adds to a window. Time is the later of `at` and the newest bucket: a clock that was set back frees nothing. A window of another
 * period begins with all that the old one still holds, as if it were used now.
 * @param at      milliseconds since 1970
 * @param period  seconds
 */
export function charge(
  window: MeterWindow | null,
  { at, period, amount }: { at: number; period: number; amount: bigint },
): MeterWindow {
  const { bucket, live } = look(window, { at, period })
  const last = live.at(-1)
  const buckets = last?.[0] === bucket ? [...live.slice(0, -1), [bucket, last[1] + amount] as const] : [...live, [bucket, amount] as const] // prettier-ignore
  return { period, newest: bucket, buckets }
}

/**
 * What counts now: the last 61 buckets, of which the oldest may be over by up to a sixtieth of the period and the newest has just
 * begun. So no span of time as long as the period ever holds more than the limit.
 * @returns `resetsAt`, milliseconds since 1970, when the oldest of it stops counting; null when nothing counts
 */
export function usedIn(
  window: MeterWindow | null,
  { at, period }: { at: number; period: number },
): { used: bigint; resetsAt: number | null } {
  const { live } = look(window, { at, period })
  let used = 0n
  for (const [, amount] of live) used += amount
  return { used, resetsAt: live.length === 0 ? null : (live[0]![0] + BUCKETS + 1) * bucketMs(period) }
}

function look(window: MeterWindow | null, { at, period }: { at: number; period: number }) {
  const width = bucketMs(period)
  const current = Math.floor(at / width)
  if (window === null) return { bucket: current, live: [] }
  if (window.period === period) {
    const bucket = Math.max(current, window.newest)
    const { buckets } = window
    const isWhole = buckets.length === 0 || buckets[0]![0] >= bucket - BUCKETS
    return { bucket, live: isWhole ? buckets : buckets.filter(([each]) => each >= bucket - BUCKETS) }
  }
  const { used } = usedIn(window, { at, period: window.period })
  const bucket = Math.max(current, Math.floor((window.newest * bucketMs(window.period)) / width))
  return { bucket, live: used === 0n ? [] : [[bucket, used] as const] }
}

const bucketMs = (period: number): number => (period * 1_000) / BUCKETS

/** As text for the store; amounts in decimal digits. */
export const windowToText = ({ period, newest, buckets }: MeterWindow): string =>
  JSON.stringify([period, newest, buckets.map(([bucket, used]) => [bucket, used.toString()])])

/** The reverse. @throws when the text is another one */
export function windowFromText(text: string): MeterWindow {
  const [period, newest, buckets] = JSON.parse(text) as [number, number, [number, string][]]
  return { period, newest, buckets: buckets.map(([bucket, used]) => [bucket, BigInt(used)] as const) }
}
