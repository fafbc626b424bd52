import { sql } from 'kysely'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { byteaElement } from '../store/bytea-array.ts'
import type { Db } from '../store/db.ts'
import type { TransferRow } from './rows.ts'

/** rows per insert; other database engines accept this number in one transaction as well */
const CHUNK = 2_000

/**
 * Stores rows that are not stored yet. Passes columns as arrays: with one parameter per value, PostgreSQL spends more
 * time parsing the statement than on the rows.
 * @returns number of new rows
 */
export async function insertTransfers(db: Db, chain: Chain, rows: readonly TransferRow[]): Promise<number> {
  // Sort by primary key, so that neighbours share index pages.
  const sorted = rows.toSorted((a, b) => (a.accountId < b.accountId ? -1 : a.accountId > b.accountId ? 1 : 0))
  let stored = 0
  for (let start = 0; start < sorted.length; start += CHUNK) {
    stored += await insert(db, chain, sorted.slice(start, start + CHUNK))
  }
  return stored
}

async function insert(db: Db, { chainId }: Chain, rows: TransferRow[]): Promise<number> {
  const list = (read: (row: TransferRow) => string | number | boolean): string => `{${rows.map(read).join()}}`
  const bytes = (read: (row: TransferRow) => Hex | null): string =>
    `{${rows.map((row) => byteaElement(read(row))).join()}}`
  const { numAffectedRows } = await sql`
    insert into transfers (
      account_id, chain_id, block_number, log_index, batch_index, direction, token_type, token, sender, recipient,
      token_id, value, hash, block_hash, mined_at, is_spam, omitted
    )
    select
      account_id, ${chainId}::bigint, block_number, log_index, batch_index, direction, token_type, token, sender,
      recipient, token_id, value, hash, block_hash, to_timestamp(mined_at), is_spam, omitted
    from unnest(
      ${list((row) => row.accountId)}::uuid[],
      ${list((row) => row.blockNumber)}::bigint[],
      ${list((row) => row.logIndex)}::int[],
      ${list((row) => row.batchIndex)}::int[],
      ${list((row) => row.direction)}::smallint[],
      ${list((row) => row.tokenType)}::smallint[],
      ${bytes((row) => row.token)}::bytea[],
      ${bytes((row) => row.sender)}::bytea[],
      ${bytes((row) => row.recipient)}::bytea[],
      ${bytes((row) => row.tokenId)}::bytea[],
      ${bytes((row) => row.value)}::bytea[],
      ${bytes((row) => row.hash)}::bytea[],
      ${bytes((row) => row.blockHash)}::bytea[],
      ${list((row) => row.minedAt)}::bigint[],
      ${list((row) => row.isSpam)}::boolean[],
      ${list((row) => row.omitted)}::int[]
    ) as row (
      account_id, block_number, log_index, batch_index, direction, token_type, token, sender, recipient, token_id,
      value, hash, block_hash, mined_at, is_spam, omitted
    )
    on conflict do nothing`.execute(db)
  return Number(numAffectedRows)
}
