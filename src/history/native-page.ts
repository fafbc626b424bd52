import { sql, type RawBuilder } from 'kysely'
import type { App } from '../app.ts'
import type { Reader } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import type { Hex } from '../ids.ts'
import { byteaArray } from '../store/bytea-array.ts'
import { toHex } from '../hex.ts'
import { fromWord } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import { ownAccount } from '../users/authorize.ts'
import { FEE_PLACE, FIRST_NATIVE, FIRST_WITHDRAWAL, VALUE_PLACE } from './native.ts'
import type { NativeCoverage } from './native-coverage.ts'
import { NATIVE_TYPE_NUMBER } from './native-rows.ts'
import type { HistoryParameters } from './query.ts'
import { cursorAfter, readHistory } from './read.ts'
import type { Entry } from './wire.ts'

/**
 * An entry of native currency. `cursor` leads to the page after it. `fee`: what the account paid for the transaction,
 * in wei.
 */
export type NativeEntry = Entry & { fee: bigint | null; cursor: string }
export type NativePage = { entries: NativeEntry[]; nextCursor: string | null; native: NativeCoverage | null }

type MinedAt = { blockNumber: number; hash: Hex }
type NativeHolder = { accountId: string; chainId: number }

/** rows per read, and maximum reads per page, because fees of writes are filtered out between them */
const LOOK = 200
const MAX_LOOKS = 5

/**
 * Reads a page of native currency for users. A fee is shown with its payment. It has its own entry only if neither a
 * payment nor a write of this installation shows its transaction. After 1,000 rows, the page ends with fewer entries.
 * @throws the same errors as `readHistory`
 */
export async function readNativePage(
  app: App,
  reader: Reader,
  userId: string,
  { limit, cursor, direction }: { limit: number; cursor?: string | undefined; direction: 'in' | 'out' | 'all' },
): Promise<NativePage> {
  const { accountId } = await ownAccount(app, reader, userId)
  const holder = { accountId, chainId: chainOf(app, reader).chainId }
  const asked: HistoryParameters = { type: 'NATIVE', direction, limit: String(LOOK) }
  const entries: NativeEntry[] = []
  let next = cursor
  for (let look = 1; ; look++) {
    const page = await readHistory(app, reader, userId, { ...asked, ...(next === undefined ? {} : { cursor: next }) })
    const attached = await attachedFees(app.db, holder, page.entries.filter(isFee))
    entries.push(
      ...page.entries
        .filter((one) => !isFee(one) || !attached.has(one.hash as Hex))
        .map((one) => ({ ...one, fee: null, cursor: cursorAfter(holder, asked, one) })),
    )
    next = page.nextCursor ?? undefined
    if (entries.length <= limit && next !== undefined && look < MAX_LOOKS) continue
    const shown = entries.slice(0, limit)
    const fees = await feesOf(app.db, holder, shown.filter(isPayment).map(({ blockNumber, hash }) => ({ blockNumber, hash: hash as Hex }))) // prettier-ignore
    return {
      entries: shown.map((one) => (isPayment(one) ? { ...one, fee: fees.get(one.hash as Hex) ?? null } : one)),
      nextCursor: entries.length > limit ? shown.at(-1)!.cursor : (next ?? null),
      native: page.native,
    }
  }
}

const isFee = ({ nativeKind }: Entry): boolean => nativeKind === 'FEE'
const isPayment = ({ nativeKind, direction }: Entry): boolean => nativeKind === 'VALUE' && direction !== 'IN'

/**
 * Returns which fees are shown with something else that the user sees. Indexes: attempts, transfers by their primary
 * keys.
 */
async function attachedFees(db: Db, { accountId, chainId }: NativeHolder, fees: readonly Entry[]): Promise<Set<Hex>> {
  if (fees.length === 0) return new Set()
  const { rows } = await sql<{ hash: Uint8Array }>`
    select fee.hash from unnest(
      ${byteaArray(fees.map(({ hash }) => hash as Hex))}, ${`{${fees.map(({ blockNumber }) => blockNumber).join()}}`}::bigint[]
    ) as fee (hash, block_number)
    where ${hasValue({ accountId, chainId }, { hash: sql`fee.hash`, blockNumber: sql`fee.block_number` })} or exists (
      select from attempts as attempt join transactions as own on own.id = attempt.transaction_id
      where attempt.chain_id = ${chainId}::bigint and attempt.hash = fee.hash and own.account_id = ${accountId}::uuid
    )`.execute(db)
  return new Set(rows.map(({ hash }) => toHex(hash)))
}

/**
 * Builds the SQL condition that the history has the value that a transaction sent from or to an account. Index:
 * transfers by its primary key.
 */
export const hasValue = (
  { accountId, chainId }: NativeHolder,
  { hash, blockNumber }: { hash: RawBuilder<unknown>; blockNumber: RawBuilder<unknown> },
) => sql<boolean>`exists (
    select from transfers as known
    where known.account_id = ${accountId}::uuid and known.chain_id = ${chainId}::bigint and known.block_number = ${blockNumber}
      and known.log_index >= ${sql.lit(FIRST_NATIVE)} and known.log_index < ${sql.lit(FIRST_WITHDRAWAL)}
      and known.batch_index = ${sql.lit(VALUE_PLACE)} and known.hash = ${hash} and known.token_type = ${sql.lit(NATIVE_TYPE_NUMBER)}
  )`

/**
 * Returns the total fees that an account paid for transactions, in wei, by hash. Transactions are missing whose fee is
 * not in the history, or was paid by someone else. Index: transfers by its primary key.
 */
export async function feesOf(
  db: Db,
  { accountId, chainId }: NativeHolder,
  places: readonly MinedAt[],
): Promise<Map<Hex, bigint>> {
  if (places.length === 0) return new Map()
  const { rows } = await sql<{ hash: Uint8Array; value: Uint8Array }>`
    select fee.hash, fee.value from unnest(
      ${byteaArray(places.map(({ hash }) => hash))}, ${`{${places.map(({ blockNumber }) => blockNumber).join()}}`}::bigint[]
    ) as sent (hash, block_number)
    join transfers as fee on fee.account_id = ${accountId}::uuid and fee.chain_id = ${chainId}::bigint
      and fee.block_number = sent.block_number and fee.hash = sent.hash and fee.token_type = ${sql.lit(NATIVE_TYPE_NUMBER)}
      and fee.log_index >= ${sql.lit(FIRST_NATIVE)} and fee.log_index < ${sql.lit(FIRST_WITHDRAWAL)}
      and fee.batch_index = ${sql.lit(FEE_PLACE)}`.execute(db)
  return new Map(rows.map(({ hash, value }) => [toHex(hash), fromWord(value)]))
}
