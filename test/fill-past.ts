import type { App } from '../src/app.ts'
import type { Chain } from '../src/chain/network.ts'
import { FINAL_EVERY_MS, fillGroup, type FillOrder } from '../src/history/backfill.ts'
import { toHex } from '../src/hex.ts'

/** Looks up the past of all accounts as one group, and ends where nothing more is final. */
export async function fillPast(
  { clock, db, telemetry }: Pick<App, 'clock' | 'db' | 'telemetry'>,
  chain: Chain,
  { from = 0, ...more }: Partial<FillOrder> = {},
): Promise<{ nextBlock: number; target: number }> {
  const ending = new AbortController()
  const sleep: typeof clock.sleep = (ms, signal) =>
    ms === FINAL_EVERY_MS ? Promise.resolve(ending.abort()) : clock.sleep(ms, signal)
  const accounts = await db.selectFrom('accounts').select('address').execute()
  const { block_number: target } = await db
    .selectFrom('history_cursors')
    .select('block_number')
    .where('chain_id', '=', chain.chainId)
    .executeTakeFirstOrThrow()
  const order = { from, target, report: () => {}, ready: async () => {}, within: async () => {}, ...more }
  const nextBlock = await fillGroup({ clock: { ...clock, sleep }, db, telemetry }, chain, {
    ...order,
    addresses: accounts.map(({ address }) => toHex(address)),
    stopping: ending.signal,
  })
  return { nextBlock, target }
}
