import { every, type Clock } from '../clock.ts'

const EVERY_MS = 60_000

/**
 * Runs `work` at the start and then every minute, never twice at a time. If it fails, it runs again a minute later.
 * @param work    returns the number of processed rows
 * @param done    called with that number if it is above 0
 * @param failed  called once per outage
 */
export function eachMinute({
  clock,
  work,
  done,
  failed,
}: {
  clock: Clock
  work(): Promise<number>
  done(count: number): void
  failed(error: unknown): void
}): { stop(): Promise<void> } {
  let hasFailed = false
  const { round, stop } = every(clock, EVERY_MS, async () => {
    try {
      const count = await work()
      hasFailed = false
      if (count > 0) done(count)
    } catch (error) {
      if (!hasFailed) failed(error)
      hasFailed = true
    }
  })
  void round()
  return { stop }
}
