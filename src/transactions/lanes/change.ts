import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { AppError } from '../../errors.ts'
import type { Caller } from '../../http/bearer.ts'
import { chainOf } from '../../http/caller.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import { toBound, type Terms, type TransactionRow } from '../intent.ts'
import type { OperationRow } from '../operation.ts'
import { operationRows } from '../rows.ts'
import { findTransaction, readTransaction } from '../read/read.ts'
import type { Transaction } from '../wire.ts'
import { findOperation } from '../read/read-operation.ts'
import { paidGasNow } from './prepare.ts'
import { raiseFee, sendCancel } from './replace.ts'
import { strategyFor } from './gas.ts'
import { sendForSponsor } from './send.ts'

/**
 * Cancels a pending transaction: sends an empty one with the same nonce at a higher fee. The first one to be mined
 * wins; `state` shows which. A repeated request changes nothing.
 * @throws transaction_not_found, not_cancellable, fee_cap_reached, signer_unavailable, chain_unavailable, chain_timeout
 */
export async function cancelTransaction(app: App, caller: Caller, idOrHash: string): Promise<Transaction> {
  const operation = await findOperation(app, caller, idOrHash)
  if (operation !== null) {
    await cancelOperation(app, chainOf(app, caller), operation, caller.token)
    return readTransaction(app, caller, operation.id)
  }
  const row = await findTransaction(app, caller, idOrHash)
  refuseUnlessPending(row)
  if (!row.is_cancel) {
    const cancel = (options: { accessToken?: string }) => sendCancel(app, chainOf(app, caller), toBound(row), options)
    const { sent } = await asked(async () => {
      try {
        return await cancel({ accessToken: caller.token })
      } catch (error) {
        // A policy limit on fees counts only requests with the user's token. A cancellation without the token has
        // separate limits.
        if (error instanceof AppError && error.code === 'policy_denied') return cancel({})
        throw error
      }
    })
    if (sent === 'nonce_too_low') throw tooLate('The transaction is already mined. This request had no effect.')
  }
  return readTransaction(app, caller, row.id)
}

/**
 * Cancels an operation: no further transaction will include it. If it is the only operation of a pending transaction,
 * replaces that transaction by one that uses up the operation's id. The first one to be mined wins.
 * If the transaction has other operations, the operation is executed with them, unless the transaction is lost.
 * @param accessToken  of the operation's user
 * @throws not_cancellable, fee_cap_reached, signer_unavailable, chain_unavailable, chain_timeout
 */
async function cancelOperation(app: App, chain: Chain, row: OperationRow, accessToken: string): Promise<void> {
  refuseUnlessPending(row)
  const isMine = await operationRows
    .update(app.db, 'askToCancel')
    .set({ is_cancel: true, updated_at: sql`now()` })
    .where('id', '=', row.id)
    .returning('id')
    .executeTakeFirst()
  if (isMine === undefined) throw tooLate('The transaction is already mined. This request had no effect.')
  const others = await app.db
    .selectFrom('carried')
    .select('operation_id')
    .where('transaction_id', '=', row.outer_id!)
    .where('operation_id', '<>', row.id)
    .limit(1)
    .executeTakeFirst()
  const outer = await app.db.selectFrom('transactions').selectAll().where('id', '=', row.outer_id!).executeTakeFirst()
  if (others !== undefined || outer === undefined || outer.state !== 'SUBMITTED' || outer.is_cancel) return
  const { sent } = await asked(() => sendCancel(app, chain, toBound(outer), { accessToken, usesUp: [row.sequence] }))
  if (sent === 'nonce_too_low') throw tooLate('The transaction is already mined. This request had no effect.')
}

/**
 * Bumps the fee of a pending transaction now. On networks with gas mode `topup`, a sponsor first sends the missing
 * funds.
 * @throws transaction_not_found, not_cancellable, fee_cap_reached, signer_unavailable, chain_unavailable, chain_timeout
 */
export async function speedUpTransaction(app: App, caller: Caller, idOrHash: string): Promise<Transaction> {
  // Several operations share the fee of a sponsor's transaction, so only the keeper bumps it.
  if ((await findOperation(app, caller, idOrHash)) !== null)
    throw tooLate('A sponsor pays for this transaction, and bumps the fee if necessary. This request had no effect.')
  const row = await findTransaction(app, caller, idOrHash)
  refuseUnlessPending(row)
  const chain = chainOf(app, caller)
  const bound = toBound(row)
  const strategy = strategyFor(chain, bound.to)
  const relieve = async ({ gas, fees }: Terms) => {
    if (strategy.name !== 'topup') return
    // The caller may have set a limit far above the gas that the transaction needs.
    const paid = await paidGasNow(chain, bound)
    const more = { gas: paid < gas ? paid : gas, fees }
    await strategy.relieve({ app, chain, caller, send: sendForSponsor, more, to: bound.to })
  }
  const { sent } = await asked(() => raiseFee(app, chain, bound, { accessToken: caller.token, relieve }))
  if (sent === 'nonce_too_low') throw tooLate('The transaction is already mined. This request had no effect.')
  return readTransaction(app, caller, row.id)
}

function refuseUnlessPending({ state }: Pick<TransactionRow, 'state'>): void {
  if (state !== 'SUBMITTED') throw tooLate(`The transaction is already ${state}. This request had no effect.`)
}

const tooLate = (detail: string): AppError => new AppError('not_cancellable', detail)

/**
 * Maps the signer's refusal if two requests change the same transaction at once: the ledger accepts only one of them.
 */
async function asked<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof SignerRefused)) throw error
    throw new AppError(
      'conflict',
      'Another request changed this transaction at the same time. This request had no effect. Retry.',
      {
        cause: error,
        retryAfter: 1,
      },
    )
  }
}
