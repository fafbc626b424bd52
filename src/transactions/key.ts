import { sql } from 'kysely'
import { AppError } from '../errors.ts'
import { retrying, type Db } from '../store/db.ts'
import type { WriteAnswer } from './answer.ts'
import type { TransactionRow } from './intent.ts'
import type { App } from '../app.ts'

/** Whose key it is: the same text means nothing to another user, application or route. */
export type KeyScope = { accountId: string; clientId: string; route: string; key: string }

/**
 * The idempotency key of a request; undefined when there is none.
 * @param headers  `Idempotency-Key` and `X-Idempotency-Key`; both may be sent, with the same text
 * @throws idempotency_key_invalid
 */
export function readIdempotencyKey(headers: Record<string, string | string[] | undefined>): string | undefined {
  const [plain, prefixed] = [headers['idempotency-key'], headers['x-idempotency-key']]
  const key = plain ?? prefixed
  if (key === undefined) return undefined
  if (prefixed !== undefined && prefixed !== key) throw invalidKey('Idempotency-Key and X-Idempotency-Key differ.')
  if (typeof key !== 'string' || !/^[\x20-\x7e]{1,255}$/.test(key))
    throw invalidKey('An idempotency key has 1 to 255 printable ASCII characters.')
  return key
}

const invalidKey = (detail: string): AppError =>
  new AppError('idempotency_key_invalid', detail, {
    errors: [{ parameter: 'Idempotency-Key', code: 'invalid', detail }],
  })

/**
 * What a key stands for: the answer it was given, or an intent that has no bytes yet. Null when it is new.
 * @throws idempotency_key_reused  when it belongs to another body
 * @throws idempotency_in_flight   when somebody took the intent up within the last seconds
 */
export async function findKey(
  db: Db,
  scope: KeyScope,
  requestHash: Uint8Array,
): Promise<{ answer: WriteAnswer } | { unsigned: TransactionRow } | null> {
  const known = await retrying(() =>
    db
      .selectFrom('idempotency_keys')
      .select(['request_hash', 'response', 'transaction_id'])
      .where('account_id', '=', scope.accountId)
      .where('client_id', '=', scope.clientId)
      .where('route', '=', scope.route)
      .where('key', '=', scope.key)
      .executeTakeFirst(),
  )
  if (known === undefined) return null
  if (Buffer.compare(known.request_hash, requestHash) !== 0) {
    throw new AppError('idempotency_key_reused', 'This idempotency key was used with another request.')
  }
  if (known.response !== null) return { answer: known.response as unknown as WriteAnswer }
  const unsigned = await retrying(() =>
    db
      .selectFrom('transactions')
      .selectAll()
      .where('id', '=', known.transaction_id!)
      .where('state', '=', 'BOUND')
      .where('updated_at', '<', sql<Date>`now() - interval '2 seconds'`)
      .executeTakeFirst(),
  )
  // Whoever took it up is done after two seconds, or dead, or slow: then two finish it, which makes no difference. The
  // signer gives both the same bytes, and neither can vacate a nonce that the other took up too.
  if (unsigned === undefined) throw inFlight()
  return { unsigned }
}

export const inFlight = (): AppError =>
  new AppError('idempotency_in_flight', 'A request with this idempotency key is being worked on.', { retryAfter: 1 })

/** hours a key is kept */
const KEPT_HOURS = 24

/**
 * Forgets keys older than a day, at most 500 at a time. A key whose transaction may still be mined, or be taken out of
 * its block, stays as long as that is so: given free, it would send the same thing twice.
 * @returns how many went
 */
export async function sweepKeys({ db }: App): Promise<number> {
  const gone = await retrying(() =>
    sql<{ key: string }>`
      delete from idempotency_keys where (account_id, client_id, route, key) in (
        select k.account_id, k.client_id, k.route, k.key from idempotency_keys k
        where k.created_at < now() - ${`${KEPT_HOURS} hours`}::interval
          and not exists (select 1 from transactions t where t.id = k.transaction_id and not t.is_final)
        order by k.created_at limit 500)
      returning key`.execute(db),
  )
  return gone.rows.length
}
