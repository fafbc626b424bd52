/**
 * Works on all of them, some at a time. The first failure is the last: no more are begun, and it is thrown when those
 * under way have ended.
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
