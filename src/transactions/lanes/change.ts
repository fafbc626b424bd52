import type { App } from '../../app.ts'
import { AppError } from '../../errors.ts'
import type { Caller } from '../../http/bearer.ts'
import { chainOf } from '../../http/caller.ts'
import { SignerRefused } from '../../signer/client.ts'
import { toBound, type Terms, type TransactionRow } from '../intent.ts'
import { findTransaction, readTransaction } from '../read/read.ts'
import type { Transaction } from '../wire.ts'
import { cancelOperation } from './cancel-operation.ts'
import { findOperation } from '../read/read-operation.ts'
import { paidGasNow } from './prepare.ts'
import { raiseFee, sendCancel } from './replace.ts'
import { strategyFor } from './gas.ts'
import { sendForSponsor } from './send.ts'

/**
 * Tries to put nothing in a pending transaction's place: the same nonce, a higher fee. Whichever is mined first wins;
 * the state tells. Asking twice is asking once.
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
        // A limit of fees that is full counts what the person asks for. Without their token a cancel has bounds of its own.
        if (error instanceof AppError && error.code === 'policy_denied') return cancel({})
        throw error
      }
    })
    if (sent === 'nonce_too_low') throw tooLate('The transaction is already mined.')
  }
  return readTransaction(app, caller, row.id)
}

/**
 * Raises the fee of a pending transaction now. Where sponsors pay, what it lacks by now is sent first.
 * @throws transaction_not_found, not_cancellable, fee_cap_reached, signer_unavailable, chain_unavailable, chain_timeout
 */
export async function speedUpTransaction(app: App, caller: Caller, idOrHash: string): Promise<Transaction> {
  // Its fee is that of many: the keeper raises it when it is time.
  if ((await findOperation(app, caller, idOrHash)) !== null)
    throw tooLate('A sponsor pays for this transaction, and raises its fee when it is time.')
  const row = await findTransaction(app, caller, idOrHash)
  refuseUnlessPending(row)
  const chain = chainOf(app, caller)
  const bound = toBound(row)
  const strategy = strategyFor(chain, bound.to)
  const relieve = async ({ gas, fees }: Terms) => {
    if (strategy.name !== 'topup') return
    // Its limit may be its caller's own, far above what it takes.
    const paid = await paidGasNow(chain, bound)
    const more = { gas: paid < gas ? paid : gas, fees }
    await strategy.relieve({ app, chain, caller, send: sendForSponsor, more, to: bound.to })
  }
  const { sent } = await asked(() => raiseFee(app, chain, bound, { accessToken: caller.token, relieve }))
  if (sent === 'nonce_too_low') throw tooLate('The transaction is already mined.')
  return readTransaction(app, caller, row.id)
}

function refuseUnlessPending({ state }: TransactionRow): void {
  if (state !== 'SUBMITTED') throw tooLate(`The transaction is already ${state}.`)
}

const tooLate = (detail: string): AppError => new AppError('not_cancellable', detail)

/** Two who change the same transaction at once: the ledger lets one through. */
async function asked<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof SignerRefused)) throw error
    throw new AppError('conflict', 'The transaction was changed at the same moment. Retry.', {
      cause: error,
      retryAfter: 1,
    })
  }
}
