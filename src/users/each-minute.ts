const EVERY_MS = 60_000

/**
 * Does something at the start, and then every minute, never twice at a time. What it needs may be away: it is done again a minute
 * later.
 * @param work    how many it did
 * @param done    told of a number above 0
 * @param failed  told once per outage
 */
export function eachMinute({
  work,
  done,
  failed,
}: {
  work(): Promise<number>
  done(count: number): void
  failed(error: unknown): void
}): { stop(): Promise<void> } {
  let hasFailed = false
  let isStopped = false
  async function once(): Promise<void> {
    // Minutes that waited for a long one are not made up for at the end.
    if (isStopped) return
    try {
      const count = await work()
      hasFailed = false
      if (count > 0) done(count)
    } catch (error) {
      if (!hasFailed) failed(error)
      hasFailed = true
    }
  }
  let running = once()
  const timer = setInterval(() => (running = running.then(once)), EVERY_MS)
  return {
    async stop() {
      isStopped = true
      clearInterval(timer)
      await running
    },
  }
}
