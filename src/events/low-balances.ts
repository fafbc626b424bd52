import { sql } from 'kysely'
import type { App } from '../app.ts'
import { AppError, type Funds } from '../errors.ts'
import { fromHex } from '../hex.ts'
import type { Caller } from '../http/bearer.ts'
import type { Hex } from '../ids.ts'
import type { Db } from '../store/db.ts'
import { hasFeed } from './read.ts'

/**
 * Runs a write that its account pays for, and notes it for the feed of the application if the account has insufficient
 * funds: once until a write of the account has a nonce. The response is the same if that cannot be stored.
 */
export async function notingLowBalance<T>(app: App, caller: Caller, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const funds = error instanceof AppError && error.code === 'insufficient_funds' ? error.funds : undefined
    // A sponsor that lacks funds has an address of its own.
    const isOwn = funds?.address.toLowerCase() === caller.address
    if (funds !== undefined && isOwn && hasFeed(app, caller)) await noteRejected(app, caller, funds)
    throw error
  }
}

async function noteRejected(
  app: App,
  { accountId, clientId, chainId, address }: Caller,
  { needed, available }: Funds,
): Promise<void> {
  try {
    // Uses the key (network, sender, nonce).
    await noteLow(
      app.db,
      sql`select ${clientId}, ${accountId}::uuid, 'rejected', ${chainId}::bigint, coalesce(max(nonce) + 1, 0), null, ${needed}, ${available}
        from transactions where chain_id = ${chainId}::bigint and sender = ${fromHex(address)}::bytea`,
    )
  } catch (failure) {
    app.telemetry.log.warn('low_balance_not_noted', { clientId, accountId }, failure)
  }
}

/**
 * Notes that a signed write waits because its account cannot pay, for the feed of the application that sent it. Later
 * writes of the account wait as well, so each application has one event for the lowest open nonce. A sponsor's account is
 * no user: the operator sees its balance (`sponsor_low`).
 * @param funds  wei; null: a node did not name the amounts
 */
export async function noteWaiting(
  db: Db,
  { id, chainId, from }: { id: string; chainId: number; from: Hex },
  funds: { needed: bigint; available: bigint } | null,
): Promise<void> {
  const [needed, available] = [funds && String(funds.needed), funds && String(funds.available)]
  // Uses the index of open transactions.
  const lowest = sql`select min(nonce) as nonce from transactions
    where chain_id = ${chainId}::bigint and sender = ${fromHex(from)}::bytea and state in ('BOUND', 'SUBMITTED')`
  await noteLow(
    db,
    sql`select t.client_id, t.account_id, 'waiting', t.chain_id, lowest.nonce, t.id, ${needed}::text, ${available}::text
      from transactions t, (${lowest}) as lowest where t.id = ${id} and lowest.nonce is not null and has_feed(t.client_id)
        and not exists (select from sponsors s where s.account_id = t.account_id and s.chain_id = t.chain_id)`,
  )
}

/** Stores a state of an account at an application. It is an event if the nonce differs from that of the last one. */
const noteLow = (db: Db, rows: ReturnType<typeof sql>): Promise<unknown> =>
  sql`
    insert into low_balances as low (client_id, account_id, kind, chain_id, nonce, transaction_id, needed, available)
    ${rows}
    on conflict (client_id, account_id, kind) do update set chain_id = excluded.chain_id, nonce = excluded.nonce,
      transaction_id = excluded.transaction_id, needed = excluded.needed, available = excluded.available, at = excluded.at
    where (low.chain_id, low.nonce) <> (excluded.chain_id, excluded.nonce)`.execute(db)
