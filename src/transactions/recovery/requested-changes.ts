import { sql, type Selectable } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { every, type Rounds } from '../../clock.ts'
import { AppError, describeError } from '../../errors.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import type { Db } from '../../store/db.ts'
import type { Database } from '../../store/rows.ts'
import type { TransactionChange } from '../change-wire.ts'
import { toBound } from '../intent.ts'
import { raiseFee, sendCancel } from '../lanes/replace.ts'

export type { TransactionChange } from '../change-wire.ts'

const LOOK_MS = 1_000

/**
 * Requests that an open transaction is cancelled or its fee bumped. An API server does it, without the user's token:
 * the signer allows it within its limits for unattended signatures. A newer request replaces an older one.
 * @throws transaction_not_found, not_cancellable
 */
export async function askToChange(
  db: Db,
  { id, change }: { id: string; change: TransactionChange['change'] },
): Promise<TransactionChange> {
  const row = await db
    .selectFrom('transactions')
    .select(['chain_id', 'state', 'is_cancel', 'hash'])
    .where('id', '=', id)
    .where('hash', 'is not', null)
    .executeTakeFirst()
  if (row === undefined)
    throw new AppError('transaction_not_found', 'No signed transaction has this id. Nothing was changed. Check the id.')
  if (row.state !== 'SUBMITTED')
    throw new AppError('not_cancellable', `The transaction is already ${row.state}. Nothing was changed.`)
  if (change === 'cancel' && row.is_cancel)
    throw new AppError('not_cancellable', 'A cancellation was already sent. Nothing was changed. Bump its fee instead.')
  const asked = { chain_id: row.chain_id, change, hash: row.hash! }
  await db
    .insertInto('requested_changes')
    .values({ transaction_id: id, ...asked })
    .onConflict((on) =>
      on
        .column('transaction_id')
        .doUpdateSet({ ...asked, asked_at: sql`now()`, claimed_at: null, done_at: null, refusal: null }),
    )
    .execute()
  return (await readChange(id)(db))!
}

/** Reads the newest request for a transaction; null if there is none. */
export const readChange =
  (id: string) =>
  async (db: Db): Promise<TransactionChange | null> => {
    const row = await db.selectFrom('requested_changes').selectAll().where('transaction_id', '=', id).executeTakeFirst()
    return row === undefined ? null : wireOf(row)
  }

const wireOf = (row: Selectable<Database['requested_changes']>): TransactionChange => ({
  transactionId: row.transaction_id,
  chainId: row.chain_id,
  change: row.change,
  askedAt: row.asked_at.toISOString(),
  doneAt: row.done_at?.toISOString() ?? null,
  refusal: row.refusal,
})

/** Makes requested changes on the networks that this process serves. Any number of processes may run it. */
export const startChanging = (app: App): Rounds =>
  every(app.clock, LOOK_MS, () =>
    makeRequestedChanges(app).catch((error: unknown) => app.telemetry.log.warn('changes_failed', {}, error)),
  )

/** A request: `hash` is that of the transaction when it was made. */
type Requested = Pick<TransactionChange, 'change'> & { id: string; hash: Uint8Array }

/** Makes each requested change once. After a crash, another process takes it over a minute later. */
export async function makeRequestedChanges(app: App): Promise<void> {
  const chains = [...app.chains.keys()]
  if (chains.length === 0) return
  const { rows } = await sql<Requested & { chain_id: number }>`
    update requested_changes set claimed_at = now()
    where chain_id = any (${chains}::bigint[]) and done_at is null and refusal is null
      and (claimed_at is null or claimed_at < now() - interval '1 minute')
    returning transaction_id as id, chain_id, change, hash`.execute(app.db)
  for (const { chain_id: chainId, ...requested } of rows) await makeOne(app, app.chains.get(chainId)!, requested)
}

async function makeOne(app: App, chain: Chain, { id, change, hash: asked }: Requested): Promise<void> {
  const { log } = app.telemetry
  const ended = (columns: { refusal: string } | { done_at: Date }) =>
    app.db
      .updateTable('requested_changes')
      .set(columns)
      .where('transaction_id', '=', id)
      .where('change', '=', change)
      .where('hash', '=', asked)
      .execute()
  try {
    const row = await app.db.selectFrom('transactions').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
    if (row.state !== 'SUBMITTED')
      throw new AppError('not_cancellable', `The transaction is already ${row.state}. Nothing was changed.`)
    // A process that died after it had sent the change could not record that.
    const isMade = change === 'cancel' ? row.is_cancel : Buffer.compare(row.hash!, asked) !== 0
    if (isMade) return void (await ended({ done_at: new Date(app.clock.wall()) }))
    const { hash } = await (change === 'cancel' ? sendCancel : raiseFee)(app, chain, toBound(row))
    await ended({ done_at: new Date(app.clock.wall()) })
    log.warn('transaction_changed', { chainId: chain.chainId, id, change, hash })
  } catch (error) {
    const code = error instanceof AppError || error instanceof SignerRefused ? error.code : null
    // A node or a signer that is unavailable may be back in a minute. Any other refusal needs the operator.
    if (code === null || (error instanceof AppError && describeError(error.code).retryable))
      return log.warn('change_waits', { chainId: chain.chainId, id, change, code }, error)
    await ended({ refusal: `${code}: ${(error as Error).message}` })
    log.warn('change_refused', { chainId: chain.chainId, id, change, code })
  }
}
