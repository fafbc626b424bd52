/** milliseconds between two looks: short at first, because most states are near, and never more than a server limits */
const [FIRST_PAUSE_MS, MAX_PAUSE_MS] = [5, 50]

/** Looks again until there is something; what does not come within `withinMs` is a failure, not a sleep. */
export async function until<T>(
  what: string,
  look: () => Promise<T | null | undefined | false> | T | null | undefined | false,
  withinMs = 15_000,
): Promise<T> {
  const end = performance.now() + withinMs
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.5, MAX_PAUSE_MS)) {
    const found = await look()
    if (found) return found
    if (performance.now() > end) throw new Error(`this did not happen within ${withinMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}
