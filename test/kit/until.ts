/** milliseconds between two looks: short at first, because most states are near, and never more than a server limits */
const [FIRST_PAUSE_MS, MAX_PAUSE_MS] = [5, 50]

/** Of its own: tests put forward the clock that the program reads. */
const now = performance.now.bind(performance)

/** For what hangs: longer than the slowest machine takes. A test that passes does not wait for it. */
export const PATIENCE_MS = Number(process.env.TEST_PATIENCE_MS ?? 120_000)
/** Settings of a run with a planted mistake: it has to fail, mostly by waiting for what never comes. */
export const IMPATIENT = { TEST_PATIENCE_MS: '15000' }

/** Looks again until there is something; what does not come within `withinMs` is a failure, not a sleep. */
export async function until<T>(
  what: string,
  look: () => Promise<T | null | undefined | false> | T | null | undefined | false,
  withinMs = PATIENCE_MS,
): Promise<T> {
  const end = now() + withinMs
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.5, MAX_PAUSE_MS)) {
    const found = await look()
    if (found) return found
    if (now() > end) throw new Error(`this did not happen within ${withinMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}
