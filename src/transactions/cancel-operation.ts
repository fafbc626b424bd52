import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { AppError } from '../errors.ts'
import { SignerRefused } from '../signer/client.ts'
import { retrying } from '../store/db.ts'
import { toBound } from './intent.ts'
import type { OperationRow } from './operation.ts'
import { sendCancel } from './replace.ts'

/**
 * From now on it is packed into no other transaction. Where nobody else relies on the one that carries it, a cancel of that is sent, and whichever
 * of the two is mined first wins; else it is done with them, unless that transaction is lost.
 * @throws not_cancellable, fee_cap_reached, signer_unavailable, chain_unavailable, chain_timeout
 */
export async function cancelOperation(app: App, chain: Chain, row: OperationRow): Promise<void> {
  if (row.state !== 'SUBMITTED') throw new AppError('not_cancellable', `The transaction is already ${row.state}.`)
  const isMine = await retrying(() =>
    app.db
      .updateTable('operations')
      .set({ is_cancel: true, updated_at: sql`now()` })
      .where('id', '=', row.id)
      .where('state', '=', 'SUBMITTED')
      .returning('id')
      .executeTakeFirst(),
  )
  if (isMine === undefined) throw new AppError('not_cancellable', 'The transaction is already mined.')
  const outer = await retrying(() =>
    app.db.selectFrom('transactions').selectAll().where('id', '=', row.outer_id!).executeTakeFirst(),
  )
  if (outer === undefined || outer.state !== 'SUBMITTED' || outer.is_cancel) return
  if (await isRelied(app, row)) return
  try {
    const { sent } = await sendCancel(app, chain, toBound(outer))
    if (sent === 'nonce_too_low') throw new AppError('not_cancellable', 'The transaction is already mined.')
  } catch (error) {
    if (!(error instanceof SignerRefused)) throw error
    throw new AppError('conflict', 'The transaction was changed at the same moment. Retry.', {
      cause: error,
      retryAfter: 1,
    })
  }
}

/**
 * Whether what carries an operation carries others, or is where its account delegates while another of its operations is open: that one would
 * find no code, and its id would be used up.
 */
async function isRelied({ db }: App, row: OperationRow): Promise<boolean> {
  const beside = await retrying(() =>
    db
      .selectFrom('carried')
      .select('operation_id')
      .where('transaction_id', '=', row.outer_id!)
      .where('operation_id', '<>', row.id)
      .limit(1)
      .executeTakeFirst(),
  )
  if (beside !== undefined || row.authorization_nonce === null) return beside !== undefined
  const after = await retrying(() =>
    db
      .selectFrom('operations')
      .select('id')
      .where('account_id', '=', row.account_id)
      .where('chain_id', '=', row.chain_id)
      .where('state', 'in', ['BOUND', 'SUBMITTED'])
      .where('id', '<>', row.id)
      .limit(1)
      .executeTakeFirst(),
  )
  return after !== undefined
}
