/**
 * Processes all items, `width` at a time. After the first failure, starts no more items, waits for the running ones,
 * and throws.
 */
export async function sideBySide<T>(
  all: readonly T[],
  width: number,
  work: (one: T) => Promise<unknown>,
): Promise<void> {
  const failures: unknown[] = []
  let next = 0
  const worker = async () => {
    while (next < all.length && failures.length === 0) {
      try {
        await work(all[next++]!)
      } catch (error) {
        failures.push(error)
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(width, all.length) }, worker))
  if (failures.length > 0) throw failures[0]
}
