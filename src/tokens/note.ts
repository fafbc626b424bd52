import { sql } from 'kysely'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'

export type TokenType = 'ERC20' | 'ERC721' | 'ERC1155'

/** A token type as the small number that the tables hold. */
export const TOKEN_TYPE_NUMBERS = { ERC20: 20, ERC721: 721, ERC1155: 1155 } as const satisfies Record<TokenType, number>

/** rows of one insert */
const CHUNK = 200

/** Remembers tokens that were seen for the first time; what they call themselves is asked later. */
export async function noteTokens(
  db: Db,
  chain: Chain,
  tokens: { address: Hex; tokenType: TokenType }[],
): Promise<void> {
  for (let start = 0; start < tokens.length; start += CHUNK) {
    const rows = tokens.slice(start, start + CHUNK).map(({ address, tokenType }) => ({
      chain_id: chain.chainId,
      address: fromHex(address),
      token_type: TOKEN_TYPE_NUMBERS[tokenType],
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
  }
}

/**
 * After a reorganisation another contract may stand at an address: tokens that were asked at a block that is lost, or
 * nobody knows where, are asked again.
 */
export async function reviewTokens(db: Db, chain: Chain, fromNumber: number): Promise<void> {
  const now = sql<Date>`now()`
  await db
    .updateTable('tokens')
    .set({ state: 'NEW', attempts: 0, retry_at: now, asked_block: null, updated_at: now })
    .where('chain_id', '=', chain.chainId)
    .where((eb) => eb.or([eb('asked_block', '>=', fromNumber), eb('asked_block', 'is', null)]))
    .execute()
}
