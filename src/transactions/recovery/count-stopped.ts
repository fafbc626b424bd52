import type { App } from '../../app.ts'
import { every, type Rounds } from '../../clock.ts'

const COUNT_MS = 30_000

/**
 * Sets the metric `accounts_stopped` of the served networks, at the start and then every 30 s. Accounts that an operator has
 * asked to resume are not counted. Reads `stopped_lanes`, which is nearly always empty.
 */
export function startCountingStopped({ chains, clock, db, telemetry }: App): Rounds {
  const rounds = every(clock, COUNT_MS, async () => {
    try {
      const rows = await db
        .selectFrom('stopped_lanes')
        .select(({ fn }) => ['chain_id', fn.countAll<string | number>().as('stopped')])
        .where('resume_asked_at', 'is', null)
        .groupBy('chain_id')
        .execute()
      for (const chainId of chains.keys()) {
        const row = rows.find(({ chain_id }) => chain_id === chainId)
        telemetry.accountsStopped.set({ chain_id: chainId }, Number(row?.stopped ?? 0))
      }
    } catch (error) {
      telemetry.log.warn('stopped_accounts_not_counted', {}, error)
    }
  })
  void rounds.round()
  return rounds
}
