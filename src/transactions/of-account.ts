import type { App } from '../app.ts'
import { toHex } from '../store/bytes.ts'
import { retrying } from '../store/db.ts'
import { publicStates } from './read.ts'

/** A transaction as the person sees it whose account it is. */
export type OwnTransaction = {
  /** name of the application that sent it; its client id where the application is gone */
  application: string
  state: (typeof publicStates)[number]
  explorerUrl: string
  sentAt: Date
}

/**
 * What was sent from an account on a network, newest first, whichever application asked for it: an application sees its
 * own, the person all of them. Over the index (account, network, time, id).
 */
export async function listOfAccount(
  { db, chains }: Pick<App, 'db' | 'chains'>,
  { accountId, chainId }: { accountId: string; chainId: number },
  limit: number,
): Promise<OwnTransaction[]> {
  const rows = await retrying(() =>
    db
      .selectFrom('transactions as sent')
      .leftJoin('applications as application', 'application.client_id', 'sent.client_id')
      .select(['sent.client_id', 'sent.state', 'sent.hash', 'sent.created_at', 'application.name'])
      .where('sent.account_id', '=', accountId)
      .where('sent.chain_id', '=', chainId)
      .where('sent.hash', 'is not', null)
      .where('sent.state', 'in', publicStates)
      .orderBy('sent.created_at', 'desc')
      .orderBy('sent.id', 'desc')
      .limit(limit)
      .execute(),
  )
  return rows.map(({ client_id, name, state, hash, created_at }) => ({
    application: name ?? client_id,
    state: state as OwnTransaction['state'],
    explorerUrl: chains.get(chainId)!.explorer.tx(toHex(hash!)),
    sentAt: created_at,
  }))
}
