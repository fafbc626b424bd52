/** milliseconds between two looks at the clock */
const EVERY_MS = 20
/** looks that say something together: one that is late alone was held up once, by a garbage collection perhaps */
const MIN_LOOKS = 3

/**
 * How late the event loop runs all the time: the least delay of several timers in a row. A single long turn is none.
 * @param onLook  told about every `everyMs`, and less often by a loop that is late
 */
export function openLoopDelay({ everyMs, onLook }: { everyMs: number; onLook: (delayMs: number) => void }): {
  stop: () => void
} {
  let last = performance.now()
  let toldAt = last
  let looks = 0
  let least = Infinity
  const timer = setInterval(() => {
    const now = performance.now()
    least = Math.min(least, Math.max(0, now - last - EVERY_MS))
    last = now
    looks++
    if (looks < MIN_LOOKS || now - toldAt < everyMs) return
    const delay = least
    ;[toldAt, looks, least] = [now, 0, Infinity]
    onLook(delay)
  }, EVERY_MS)
  timer.unref()
  return { stop: () => clearInterval(timer) }
}
