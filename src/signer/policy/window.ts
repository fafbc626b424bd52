/** The use of a limit, in buckets of a sixtieth of its period. It is immutable; charging returns a new one. */
export type MeterWindow = {
  /** seconds */
  period: number
  /** the newest charged bucket */
  newest: number
  /** smallest units by bucket, oldest first */
  buckets: readonly (readonly [bucket: number, used: bigint])[]
}

const BUCKETS = 60

/**
 * Adds an amount to a window. The time is the later of `at` and the newest bucket, so setting the clock back frees nothing. If the
 * period changes, the new window begins with the contents of the old one, each bucket as if used at its last moment.
 * @param at      milliseconds since 1970
 * @param period  seconds
 */
export function charge(
  window: MeterWindow | null,
  { at, period, amount }: { at: number; period: number; amount: bigint },
): MeterWindow {
  const { bucket, live } = look(window, { at, period })
  // After a longer period, the newest bucket may end later than now; move older buckets so that they do not expire earlier because
  // of it.
  const held = window?.period === period ? live : merge(live.map(([each, used]) => [Math.max(each, bucket - BUCKETS), used])) // prettier-ignore
  const last = held.at(-1)
  const buckets = last?.[0] === bucket ? [...held.slice(0, -1), [bucket, last[1] + amount] as const] : [...held, [bucket, amount] as const] // prettier-ignore
  return { period, newest: bucket, buckets }
}

/**
 * Moves contents dated later than a time to that time, because they come from a clock that was ahead.
 * @param at  milliseconds since 1970
 */
export function countFrom(window: MeterWindow, at: number): MeterWindow {
  const latest = Math.floor(at / bucketMs(window.period))
  if (window.newest <= latest) return window
  const buckets = merge(window.buckets.map(([bucket, used]) => [Math.min(bucket, latest), used]))
  return { period: window.period, newest: latest, buckets }
}

/**
 * Sums the last 61 buckets. The oldest may have ended up to a sixtieth of the period ago, and the newest has just begun. So no span
 * as long as the period ever exceeds the limit.
 * @returns `resetsAt`, milliseconds since 1970, when the oldest use stops counting; null if there is none
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
  const before = bucketMs(window.period)
  const now = Math.max(current, Math.floor((window.newest * before) / width))
  const converted = window.buckets.map(([each, used]) => [Math.floor(((each + 1) * before - 1) / width), used] as const)
  const live = merge(converted.filter(([each]) => each >= now - BUCKETS))
  return { bucket: Math.max(now, live.at(-1)?.[0] ?? now), live }
}

/** Sums amounts of the same bucket; the buckets are in order. */
function merge(buckets: readonly (readonly [bucket: number, used: bigint])[]): MeterWindow['buckets'] {
  const merged = new Map<number, bigint>()
  for (const [bucket, used] of buckets) merged.set(bucket, (merged.get(bucket) ?? 0n) + used)
  return [...merged]
}

const bucketMs = (period: number): number => (period * 1_000) / BUCKETS

/** Formats a window for the store; amounts in decimal digits. */
export const windowToText = ({ period, newest, buckets }: MeterWindow): string =>
  JSON.stringify([period, newest, buckets.map(([bucket, used]) => [bucket, used.toString()])])

/** Parses the stored form of a window. @throws if the text has another form */
export function windowFromText(text: string): MeterWindow {
  const [period, newest, buckets] = JSON.parse(text) as [number, number, [number, string][]]
  return { period, newest, buckets: buckets.map(([bucket, used]) => [bucket, BigInt(used)] as const) }
}
