import { sql } from 'kysely'
import type { LogForm } from '../abi/transfers.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import type { Db } from '../store/db.ts'

export type TokenType = 'ERC20' | 'ERC721' | 'ERC1155'

/** Numbers of token types in the tables. */
export const TOKEN_TYPE_NUMBERS = { ERC20: 20, ERC721: 721, ERC1155: 1155 } as const satisfies Record<TokenType, number>

/** The column that records a log form of a token. Other forms are not recorded. */
const SEEN_BY_FORM = { ERC20: 'logs_amounts', ERC721: 'logs_ids', WRAPPED: 'logs_deposits' } as const

/**
 * seconds after an answer during which a transfer causes no new query; doubled with each unchanged answer, up to an
 * hour
 */
const FIRST_AGE_SECONDS = 10
const LAST_AGE_SECONDS = 3_600

/** rows per statement */
const CHUNK = 200

/**
 * Stores tokens that were seen for the first time; `refresh.ts` asks them later, at a stored block. A known token
 * becomes due again if its last answer is old enough, because its name or decimals may have changed before a transfer.
 * @param tokens  `form`: form of a log that was seen, null if none; a token may occur several times
 */
export async function noteTokens(
  db: Db,
  chain: Chain,
  tokens: readonly { address: Hex; form: LogForm | null }[],
): Promise<void> {
  for (let start = 0; start < tokens.length; start += CHUNK) {
    const some = tokens.slice(start, start + CHUNK)
    const rows = some.map(({ address }) => ({
      chain_id: chain.chainId,
      address: fromHex(address),
      symbol: '',
      name: '',
      decimals: 0,
      state: 'NEW' as const,
      attempts: 0,
      retry_at: sql<Date>`now()`,
    }))
    await db
      .insertInto('tokens')
      .values(rows)
      .onConflict((on) => on.doNothing())
      .execute()
    // Update separately: `do update` would lock every token of every block, for the few rows that change.
    const moved = some.filter(({ form }) => form !== null)
    if (moved.length === 0) continue
    await db
      .updateTable('tokens')
      .set({ retry_at: sql<Date>`now()` })
      .where('chain_id', '=', chain.chainId)
      .where('address', 'in', addressesOf(moved))
      .where('state', '=', 'KNOWN')
      .where('retry_at', '>', sql<Date>`now()`)
      .where('updated_at', '<=', sql<Date>`now() - ${isStaleAfter}`)
      .execute()
    for (const form of ['ERC20', 'ERC721', 'WRAPPED'] as const) {
      const seen = moved.filter((token) => token.form === form)
      if (seen.length === 0) continue
      await db
        .updateTable('tokens')
        .set({ [SEEN_BY_FORM[form]]: true })
        .where('chain_id', '=', chain.chainId)
        .where('address', 'in', addressesOf(seen))
        .where(SEEN_BY_FORM[form], '=', false)
        .execute()
    }
  }
}

const addressesOf = (tokens: readonly { address: Hex }[]) => tokens.map(({ address }) => fromHex(address))

const isStaleAfter = sql`least(${sql.lit(LAST_AGE_SECONDS)}, ${sql.lit(FIRST_AGE_SECONDS)} * power(2, least(attempts, 20))) * interval '1 second'`

/**
 * Makes tokens due again after a reorganisation, because another contract may be at an address. This applies to tokens
 * whose answers come from a removed or unknown block.
 */
export async function reviewTokens(db: Db, chain: Chain, fromNumber: number): Promise<void> {
  await db
    .updateTable('tokens')
    .set(askedAnew())
    .where('chain_id', '=', chain.chainId)
    .where((eb) => eb.or([eb('asked_block', '>=', fromNumber), eb('asked_block', 'is', null)]))
    .execute()
}

const askedAnew = () => ({
  state: 'NEW' as const,
  attempts: 0,
  retry_at: sql<Date>`now()`,
  asked_block: null,
  updated_at: sql<Date>`now()`,
})
