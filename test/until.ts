/** Waits for a state; fails when it does not come within `withinMs`. */
export async function until(what: string, isSo: () => Promise<boolean> | boolean, withinMs = 15_000): Promise<void> {
  const end = performance.now() + withinMs
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`this did not happen within ${withinMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
