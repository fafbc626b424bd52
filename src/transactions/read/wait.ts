import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import type { TransactionState } from '../../store/column-values.ts'

/** milliseconds that `?wait=mined` waits at most */
export const WAIT_MS = 30_000
/** milliseconds between two looks when no block comes; another replica may be the one that follows */
const LOOK_EVERY_MS = 1_000

/** True when a transaction is in a block, or can never be in one. */
export const isSettled = (state: TransactionState): boolean =>
  state !== 'SUBMITTED' && state !== 'BOUND' && state !== 'VACANT'

/**
 * Waits until a transaction with bytes is in a block; also while the database has lost its row or its bytes: the signer's
 * ledger has them, and a look at it brings them back (replay.ts).
 * @returns its state then, or after `timeoutMs`; null when it is still lost then
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

/** Ends with the next block, or after so many milliseconds. */
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
