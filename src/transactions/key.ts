import type { App } from '../app.ts'
import { sql } from 'kysely'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { keyReused } from '../http/idempotency-key.ts'
import { transactionIdOf, type Hex, type KeyScope } from '../ids.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import type { TransactionState } from '../store/column-values.ts'
import type { TransactionRow } from './intent.ts'
import type { OperationRow } from './operation.ts'
import { type Clock } from '../clock.ts'

/**
 * Idempotency key of a request, with the SHA-256 of its content. `isTold`: the content was read from the row of an
 * earlier response, so nothing may be signed for it.
 */
export type IdempotencyKey = { scope: KeyScope; requestHash: Buffer; isTold?: boolean | undefined }

export type SendOptions = {
  /** the caller's key, its route and the SHA-256 of the request */
  idempotency: { key: string; route: string; requestHash: Uint8Array; isTold?: boolean } | null
  /** IP address of the request, shown to a user who is asked to approve the write */
  askedFrom?: string | undefined
  /** the caller's own text, stored with the write; it never influences what is signed */
  reference?: string | undefined
}

/** Options of a write route: the caller's key, validated, and the IP address of the request. */
export type WriteOptions = { idempotencyKey?: string | undefined; askedFrom?: string | undefined }

export const toKey = (
  { accountId, clientId }: Caller,
  idempotency: SendOptions['idempotency'],
): IdempotencyKey | null => {
  if (idempotency === null) return null
  const { key, route, requestHash, isTold } = idempotency
  return { scope: { accountId, clientId, route, key }, requestHash: Buffer.from(requestHash), isTold }
}

/** hours after finality for which a key returns the stored response */
const KEPT_HOURS = 24

/** A transaction of an account, or an operation. Only operations have a `sequence`. */
export type WriteRow = (TransactionRow & { sequence?: undefined }) | OperationRow

/**
 * Result of a search for a key: an answered write with the hash that was returned for it, a write without signed bytes,
 * or a free id for the next use of the key.
 */
export type KeyLookup = { told: WriteRow; hash: Hex } | { unsigned: WriteRow } | { free: string }

type UseFacts = { told: Uint8Array | null; is_over: boolean; is_kept: boolean; is_idle: boolean }
type KeyedRow = UseFacts & WriteRow

/** uses of a key in the first read; each further read has four times as many, while all of them exist */
const FIRST_USES = 4

/**
 * Finds the newest use of a key. A use frees the key if it has been final for 24 hours, or if it was abandoned: its
 * nonce was filled before a hash was returned.
 * A transaction that may still be mined or reorganised out of its block does not free its key. Otherwise a retry would
 * send the write twice.
 * @throws idempotency_key_reused  if the key belongs to another request
 * @throws idempotency_in_flight  if a request worked on the intent within the last 2 s, or if `isTold` and no
 *   answered use exists
 */
export async function findKey(
  app: Pick<App, 'clock' | 'db'>,
  { scope, requestHash, isTold = false }: IdempotencyKey,
): Promise<KeyLookup> {
  const { use, next } = await newestUse(app, scope)
  const isVoid = use !== null && use.told === null && use.state !== 'BOUND'
  if (use === null || isVoid || use.is_over) {
    if (isTold) throw inFlight()
    return { free: transactionIdOf(scope, next) }
  }
  if (use.request_hash === null || !requestHash.equals(use.request_hash)) throw keyReused()
  if (use.told !== null) return { told: use, hash: toHex(use.told) }
  // After 2 s, the process that worked on the intent has ended, or is slow. If it is slow, two processes finish the
  // write. That is safe: the signer returns the same bytes to both, and neither can vacate a nonce that the other has
  // claimed as well.
  if (!use.is_idle || isTold) throw inFlight()
  return { unsigned: use }
}

/** minutes for which `isAnswered` is still true later; a write needs far less time to look up its key */
const KEPT_ON_MINUTES = 2

/**
 * Returns whether a key belongs to an answered write, whatever the request's body, and will for the next 2 minutes.
 * Then nothing new is sent under the key.
 */
export async function isAnswered(app: Pick<App, 'clock' | 'db'>, scope: KeyScope): Promise<boolean> {
  const { use } = await newestUse(app, scope)
  return use !== null && use.told !== null && use.is_kept
}

/** Returns whether an intent already has a row, because a concurrent request with the same key bound it. */
export async function isBound(db: Db, id: string): Promise<boolean> {
  const rows = await db
    .selectFrom('transactions')
    .select('id')
    .where('id', '=', id)
    .unionAll(db.selectFrom('operations').select('id').where('id', '=', id))
    .execute()
  return rows.length > 0
}

/** Returns the newest use of a key, whether it has signed bytes, and its block. */
export async function lastUse(app: Pick<App, 'clock' | 'db'>, scope: KeyScope): Promise<LastUse | null> {
  const { use } = await newestUse(app, scope)
  if (use === null) return null
  const { id, told, state, block_number: number, block_hash: hash } = use
  return { id, isTold: told !== null, state, block: number === null || hash === null ? null : { number, hash: toHex(hash) } } // prettier-ignore
}

type LastUse = { id: string; isTold: boolean; state: TransactionState; block: { number: number; hash: Hex } | null }

/**
 * Finds the newest use of a key. A later use proves that the previous one has ended, even if a restored database shows
 * the previous one as open again.
 */
async function newestUse(
  app: Pick<App, 'clock' | 'db'>,
  scope: KeyScope,
): Promise<{ use: KeyedRow | null; next: number }> {
  let newest: { use: KeyedRow | null; next: number } = { use: null, next: 0 }
  for (let first = 0, many = FIRST_USES; first <= newest.next; first += many, many *= 4) {
    const ids = Array.from({ length: many }, (_, index) => transactionIdOf(scope, first + index))
    const used = await readUses(app, ids)
    const last = ids.findLastIndex((id) => used.has(id))
    if (last >= 0) newest = { use: used.get(ids[last]!)!, next: first + last + 1 }
    if (last < many - 1) break
  }
  return newest
}

/**
 * Reads uses by primary key. The hash that was returned for a use is that of its cheapest attempt, because every fee
 * bump costs more than the attempt before it.
 */
async function readUses({ clock, db }: Pick<App, 'clock' | 'db'>, ids: string[]): Promise<Map<string, KeyedRow>> {
  const rows = await db
    .selectFrom('transactions as t')
    .selectAll('t')
    .select(({ selectFrom }) =>
      selectFrom('attempts as a')
        .select('a.hash')
        .whereRef('a.transaction_id', '=', 't.id')
        .where('a.is_cancel', '=', false)
        .orderBy('a.max_fee')
        .limit(1)
        .as('told'),
    )
    .select(ageOf('t', clock))
    .where('t.id', 'in', ids)
    .execute()
  const operations = await db
    .selectFrom('operations as o')
    .selectAll('o')
    .select(({ selectFrom }) =>
      selectFrom('attempts as a')
        .select('a.hash')
        .whereRef('a.transaction_id', '=', 'o.outer_id')
        .where('a.is_cancel', '=', false)
        .orderBy('a.max_fee')
        .limit(1)
        .as('told'),
    )
    .select(ageOf('o', clock))
    .where('o.id', 'in', ids)
    .execute()
  const uses = new Map<string, KeyedRow>(rows.map((row) => [row.id, row]))
  // Two replicas that disagree on the gas mode may have created both a transaction and an operation. The signer signs
  // only one of them.
  for (const row of operations) {
    const own = uses.get(row.id)
    if (own === undefined || certaintyOf(row) >= certaintyOf(own)) uses.set(row.id, row)
  }
  return uses
}

const certaintyOf = ({ told, state }: KeyedRow): number => (told !== null ? 2 : state === 'BOUND' ? 1 : 0)

/**
 * Takes the age from both the writer's clock and the database's: after a failover, the promoted server's clock may be a
 * day ahead.
 */
const ageOf = (table: 't' | 'o', { wall }: Clock) => {
  const row = sql.raw(table)
  return [
    sql<boolean>`${row}.is_final and ${row}.updated_at < now() - ${`${KEPT_HOURS} hours`}::interval
        and (${row}.transitions->-1->>'at')::timestamptz < ${new Date(wall() - KEPT_HOURS * 3_600_000).toISOString()}::timestamptz`.as(
      'is_over',
    ),
    sql<boolean>`not ${row}.is_final or ${row}.updated_at > now() - ${`${KEPT_HOURS} hours`}::interval + ${`${KEPT_ON_MINUTES} minutes`}::interval`.as(
      'is_kept',
    ),
    sql<boolean>`${row}.updated_at < now() - interval '2 seconds'`.as('is_idle'),
  ] as const
}

/** Returns the error for a key whose request is in progress elsewhere. */
export const inFlight = (): AppError =>
  new AppError(
    'idempotency_in_flight',
    'Another request with this key is still in progress. This request had no effect. Retry in a moment to get the result.',
    {
      retryAfter: 1,
    },
  )
