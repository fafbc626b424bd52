import type { App } from '../app.ts'
import { sql } from 'kysely'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { transactionIdOf, type Hex, type KeyScope } from '../ids.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import type { TransactionState } from '../store/column-values.ts'
import type { TransactionRow } from './intent.ts'
import type { OperationRow } from './operation.ts'
import { type Clock } from '../clock.ts'

/**
 * The key of a request, with the SHA-256 of what was asked. `isTold`: what is asked for was read off the row of an answer, so nothing
 * may be signed for it.
 */
export type IdempotencyKey = { scope: KeyScope; requestHash: Buffer; isTold?: boolean | undefined }

/**
 * The idempotency key of a request; undefined when there is none.
 * @param headers  `Idempotency-Key` and `X-Idempotency-Key`; both may be sent, with the same text
 * @throws idempotency_key_invalid
 */
export function readIdempotencyKey(headers: Record<string, string | string[] | undefined>): string | undefined {
  const [plain, prefixed] = [headers['idempotency-key'], headers['x-idempotency-key']]
  const key = plain ?? prefixed
  if (key === undefined) return undefined
  if (prefixed !== undefined && prefixed !== key)
    throw invalidKey('`Idempotency-Key` and `X-Idempotency-Key` differ. Nothing was sent. Send one key.')
  if (typeof key !== 'string' || !/^[\x20-\x7e]{1,255}$/.test(key))
    throw invalidKey(
      'An idempotency key must be 1 to 255 printable ASCII characters. Nothing was sent. Correct the key.',
    )
  return key
}

const invalidKey = (detail: string): AppError =>
  new AppError('idempotency_key_invalid', detail, {
    errors: [{ parameter: 'Idempotency-Key', code: 'invalid', detail }],
  })

export type SendOptions = {
  /** the caller's key, its route and the hash of what was asked; a key without a request hash makes no sense */
  idempotency: { key: string; route: string; requestHash: Uint8Array; isTold?: boolean } | null
}

export const toKey = (
  { accountId, clientId }: Caller,
  idempotency: SendOptions['idempotency'],
): IdempotencyKey | null => {
  if (idempotency === null) return null
  const { key, route, requestHash, isTold } = idempotency
  return { scope: { accountId, clientId, route, key }, requestHash: Buffer.from(requestHash), isTold }
}

/** hours for which a key answers what it answered, from when its transaction is final */
const KEPT_HOURS = 24

/** A transaction of an account, or an operation, which has a `sequence`. */
export type WriteRow = (TransactionRow & { sequence?: undefined }) | OperationRow

/** What a key stands for: a write and the hash that was returned for it, a write that has no bytes yet, or an id to use. */
export type KeyLookup = { told: WriteRow; hash: Hex } | { unsigned: WriteRow } | { free: string }

type UseFacts = { told: Uint8Array | null; is_over: boolean; is_kept: boolean; is_idle: boolean }
type KeyedRow = UseFacts & WriteRow

/** uses of one key looked for at first; four times as many each time that all of them are there */
const FIRST_USES = 4

/**
 * What a key stands for: its newest use. One that was abandoned (its nonce filled before anyone was given a hash) and
 * one that has been final for a day leave the key to the next. A transaction that may still be mined, or reorganised out
 * of its block, keeps it: given free, it would send the same thing twice.
 * @throws idempotency_key_reused  when it belongs to another body
 * @throws idempotency_in_flight   when someone took the intent up within the last seconds, or what was told is not there any more
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
  // The process that took it up is done after two seconds, or dead, or slow: then two finish it, which makes no difference. The
  // signer gives both the same bytes, and neither can vacate a nonce that the other took up too.
  if (!use.is_idle || isTold) throw inFlight()
  return { unsigned: use }
}

/** minutes: far longer than a write may take to look at its key */
const KEPT_ON_MINUTES = 2

/** Whether a key stands for an answered write, whatever its body was, and will for the next two minutes: nothing new is sent under it. */
export async function isAnswered(app: Pick<App, 'clock' | 'db'>, scope: KeyScope): Promise<boolean> {
  const { use } = await newestUse(app, scope)
  return use !== null && use.told !== null && use.is_kept
}

/** Whether an intent has a nonce by now: another request with its key was at work beside this one. */
export async function isBound(db: Db, id: string): Promise<boolean> {
  const rows = await db
    .selectFrom('transactions')
    .select('id')
    .where('id', '=', id)
    .unionAll(db.selectFrom('operations').select('id').where('id', '=', id))
    .execute()
  return rows.length > 0
}

/** The newest use of a key, whether it has bytes, and the block that it is in. */
export async function lastUse(app: Pick<App, 'clock' | 'db'>, scope: KeyScope): Promise<LastUse | null> {
  const { use } = await newestUse(app, scope)
  if (use === null) return null
  const { id, told, state, block_number: number, block_hash: hash } = use
  return { id, isTold: told !== null, state, block: number === null || hash === null ? null : { number, hash: toHex(hash) } } // prettier-ignore
}

type LastUse = { id: string; isTold: boolean; state: TransactionState; block: { number: number; hash: Hex } | null }

/** That a later use is there says that the one before was over: also where a database that went back sees it open again. */
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

/** By the primary keys. A raise costs more than what it raises: the first bytes of an intent are its cheapest. */
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
  // Of a process that knows otherwise who sends a write there may be both: the signer signs one of them.
  for (const row of operations) {
    const own = uses.get(row.id)
    if (own === undefined || certaintyOf(row) >= certaintyOf(own)) uses.set(row.id, row)
  }
  return uses
}

const certaintyOf = ({ told, state }: KeyedRow): number => (told !== null ? 2 : state === 'BOUND' ? 1 : 0)

/** By the clock of its writer as by the database's: a server that was promoted may be a day ahead. */
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

const keyReused = (): AppError =>
  new AppError(
    'idempotency_key_reused',
    'This idempotency key was used with a different request. This request had no effect. Use a new key for each new write.',
  )

export const inFlight = (): AppError =>
  new AppError(
    'idempotency_in_flight',
    'Another request with this key is still in progress. This request had no effect. Retry in a moment to get the result.',
    {
      retryAfter: 1,
    },
  )
