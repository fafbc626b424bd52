import { sql, type RawBuilder } from 'kysely'
import type { Db } from '../store/db.ts'

/** Number of log forms of deposits, which are transfers only if the contract is a wrapper (tokens/moved.ts). */
const WRAPPED = 900

/**
 * Notes transfers of all blocks from a number on, for the feeds of applications: those that the history has just stored,
 * or is about to delete. Inside a transaction that holds the history's cursor. Spam is not noted, and neither is what a
 * backfill stores.
 */
export async function noteTransfers(
  db: Db,
  chainId: number,
  verb: 'detected' | 'retracted',
  fromNumber: number,
): Promise<void> {
  await sql`${insertFacts(chainId, verb)} and t.block_number >= ${fromNumber}::bigint`.execute(db)
}

/**
 * Notes transfers whose blocks have become final since the last call. A network's first call notes none: its earlier
 * transfers were not noted when they arrived. Inside a transaction that holds the history's cursor.
 */
export async function noteFinalTransfers(db: Db, chainId: number): Promise<void> {
  const { rows } = await sql<{ was: number | null; is: number }>`
    insert into final_transfers as final (chain_id, block_number)
    select cursor.chain_id, least(cursor.finalized_number, history.block_number)
      from cursors cursor join history_cursors history on history.chain_id = cursor.chain_id where cursor.chain_id = ${chainId}::bigint
    on conflict (chain_id) do update set block_number = excluded.block_number where final.block_number <> excluded.block_number
    returning block_number as is, (select block_number from final_transfers before where before.chain_id = final.chain_id) as was`.execute(
    db,
  )
  const [moved] = rows
  if (moved === undefined || moved.was === null || moved.is <= moved.was) return
  await sql`${insertFacts(chainId, 'finalized')} and t.block_number > ${moved.was}::bigint and t.block_number <= ${moved.is}::bigint`.execute(
    db,
  )
}

/** SQL up to the condition on block numbers. The first condition is checked once, before any transfer is read. */
const insertFacts = (chainId: number, verb: string): RawBuilder<unknown> => sql`
  insert into facts (kind, chain_id, account_id, subject, data)
  select 'transfer', t.chain_id, t.account_id, 'transfer:0x' || encode(t.hash, 'hex') || ':' || t.log_index || ':' || t.batch_index,
    jsonb_build_object(
      'verb', ${verb}::text, 'id', '0x' || encode(t.hash, 'hex') || ':' || t.log_index || ':' || t.batch_index, 'direction', t.direction,
      'tokenType', case t.token_type when 721 then 'ERC721' when 1155 then 'ERC1155' when 1 then 'NATIVE' else 'ERC20' end,
      'token', encode(t.token, 'hex'), 'tokenId', encode(t.token_id, 'hex'), 'value', encode(t.value, 'hex'), 'from', encode(t.sender, 'hex'),
      'to', encode(t.recipient, 'hex'), 'hash', encode(t.hash, 'hex'), 'logIndex', t.log_index, 'blockNumber', t.block_number,
      'blockHash', encode(t.block_hash, 'hex'), 'minedAt', (extract(epoch from t.mined_at) * 1000)::int8, 'times', times_retracted(t.chain_id, t.block_hash)
    )
  from transfers t
  where exists (select from applications where chain_id = ${chainId}::bigint and permissions ? 'events:read')
    and t.chain_id = ${chainId}::bigint and not t.is_spam
    and exists (select from application_users u join applications a on a.client_id = u.client_id
      where u.account_id = t.account_id and a.chain_id = t.chain_id and a.permissions ? 'events:read')
    and (t.token_type <> ${WRAPPED}::smallint or exists (select from tokens where tokens.chain_id = t.chain_id and tokens.address = t.token and tokens.is_wrapper))`
