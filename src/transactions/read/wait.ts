import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import type { TransactionState } from '../../store/column-values.ts'

/** milliseconds that `?wait=mined` waits at most */
export const WAIT_MS = 30_000
/** milliseconds between two checks without a new block; another replica may be the follower */
const LOOK_EVERY_MS = 1_000

/** Returns whether a transaction is in a block, or can never be in one. */
export const isSettled = (state: TransactionState): boolean =>
  state !== 'SUBMITTED' && state !== 'BOUND' && state !== 'VACANT'

/**
 * Waits until a transaction with bytes is in a block. Also waits while the database has lost its row or its bytes,
 * which are restored from the signer's ledger (replay.ts).
 * @returns its state when it is in a block, or after `timeoutMs`; null if it is still lost
 */
export async function waitUntilMined(
  { db, clock }: App,
  chain: Chain,
  id: string,
  timeoutMs = WAIT_MS,
): Promise<TransactionState | null> {
  const until = clock.ticks() + timeoutMs
  for (;;) {
    const row = await db
      .selectFrom('transactions')
      .select('state')
      .where('id', '=', id)
      .where('hash', 'is not', null)
      .unionAll(db.selectFrom('operations').select('state').where('id', '=', id).where('outer_id', 'is not', null))
      .executeTakeFirst()
    const state = row?.state ?? null
    const left = until - clock.ticks()
    if (left <= 0 || (state !== null && isSettled(state))) return state
    await nextBlock(chain, Math.min(left, LOOK_EVERY_MS))
  }
}

/** Resolves at the next block, or after the time-out. */
export function nextBlock({ clock, head }: Chain, timeoutMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const stop = head.onChange(() => finish())
  const timer = clock.after(timeoutMs, () => finish())
  const finish = () => {
    timer.cancel()
    stop()
    resolve()
  }
  return promise
}
