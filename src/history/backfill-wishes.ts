import { sql } from 'kysely'
import type { Chain } from '../chain/network.ts'
import { slot } from '../state.ts'
import type { Db } from '../store/db.ts'
import { isUncovered } from './coverage.ts'

/** accounts that a process remembers between two looks; others wait with those that no one asked for */
const MAX_REMEMBERED = 10_000
/** rows of one statement */
const BATCH = 1_000

/** the first block that is looked up on a network, as this process read it last */
const first = slot('from which block on pasts are looked up', (_chain: Chain): { block: number | null } => ({
  block: null,
}))
const wished = slot('accounts whose past was asked for', (_chain: Chain) => new Set<string>())

/**
 * The first block whose transfers are looked up on a network: its own, or that of the settings. Read at each look and group, for
 * operators change it beside what runs.
 */
export async function readFirstBlock(db: Db, chain: Chain, setting: number): Promise<number> {
  const row = await db
    .selectFrom('networks')
    .select('backfill_from')
    .where('chain_id', '=', chain.chainId)
    .executeTakeFirst()
  return (first.of(chain).block = row?.backfill_from ?? setting)
}

/** Whether a history that is whole from a block on lacks what is looked up. By what the last look read: a read asks no more for it. */
export const lacksPast = (
  chain: Chain,
  { coveredFrom, setting }: { coveredFrom: number | null; setting: number },
): boolean => coveredFrom === null || coveredFrom > (first.of(chain).block ?? setting)

/** Remembers that the history of an account was read while its past was not here. In memory: a read writes nothing. */
export function wishForPast(chain: Chain, accountId: string): void {
  const accounts = wished.of(chain)
  if (accounts.size < MAX_REMEMBERED) accounts.add(accountId)
}

/** Stores what was remembered, for the process that fills. What cannot be stored is remembered for the next time. */
export async function storeWishes(db: Db, chain: Chain): Promise<void> {
  const accounts = wished.of(chain)
  while (accounts.size > 0) {
    const some = [...accounts].slice(0, BATCH)
    await sql`
      insert into backfill_wishes (chain_id, account_id)
      select ${chain.chainId}::bigint, account_id from unnest(${`{${some.join()}}`}::uuid[]) as one (account_id)
      order by account_id
      on conflict (chain_id, account_id) do update set asked_at = now()`.execute(db)
    for (const accountId of some) accounts.delete(accountId)
  }
}

/** Deletes those of accounts that have their past from a block on, however they got it and whenever they asked, or that are gone. */
export async function sweepWishes(
  db: Db,
  { chainId, fromBlock }: { chainId: number; fromBlock: number },
): Promise<void> {
  await sql`
    delete from backfill_wishes as wish
    where chain_id = ${chainId}::bigint and not exists (
      select from accounts as account
      left join coverage on coverage.account_id = account.account_id and coverage.chain_id = ${chainId}::bigint
      where account.account_id = wish.account_id and ${isUncovered(chainId, fromBlock)}
    )`.execute(db)
}
