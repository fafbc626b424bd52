import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { AppError } from '../../errors.ts'
import { SignerRefused } from '../../signer/client.ts'
import { toBound } from '../intent.ts'
import type { OperationRow } from '../operation.ts'
import { operationRows } from '../rows.ts'
import { sendCancel } from './replace.ts'

/**
 * From now on it is packed into no other transaction. Where it is alone in one that waits, that is replaced by one that uses its id up, and
 * whichever of the two is mined first wins: `Cancelled`, and nothing does it any more, or done. Among others it is done with them, unless that transaction is lost.
 * @param accessToken  of its person
 * @throws not_cancellable, fee_cap_reached, signer_unavailable, chain_unavailable, chain_timeout
 */
export async function cancelOperation(app: App, chain: Chain, row: OperationRow, accessToken: string): Promise<void> {
  if (row.state !== 'SUBMITTED') throw new AppError('not_cancellable', `The transaction is already ${row.state}.`)
  const isMine = await operationRows
    .update(app.db, 'askToCancel')
    .set({ is_cancel: true, updated_at: sql`now()` })
    .where('id', '=', row.id)
    .returning('id')
    .executeTakeFirst()
  if (isMine === undefined) throw new AppError('not_cancellable', 'The transaction is already mined.')
  const others = await app.db
    .selectFrom('carried')
    .select('operation_id')
    .where('transaction_id', '=', row.outer_id!)
    .where('operation_id', '<>', row.id)
    .limit(1)
    .executeTakeFirst()
  const outer = await app.db.selectFrom('transactions').selectAll().where('id', '=', row.outer_id!).executeTakeFirst()
  if (others !== undefined || outer === undefined || outer.state !== 'SUBMITTED' || outer.is_cancel) return
  try {
    const { sent } = await sendCancel(app, chain, toBound(outer), { accessToken, usesUp: [row.sequence] })
    if (sent === 'nonce_too_low') throw new AppError('not_cancellable', 'The transaction is already mined.')
  } catch (error) {
    if (!(error instanceof SignerRefused)) throw error
    throw new AppError('conflict', 'The transaction was changed at the same moment. Retry.', {
      cause: error,
      retryAfter: 1,
    })
  }
}
