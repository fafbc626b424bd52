import { sql } from 'kysely'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'

export type TokenType = 'ERC20' | 'ERC721' | 'ERC1155'

/** A token type as the small number that the tables hold. */
export const TOKEN_TYPE_NUMBERS = { ERC20: 20, ERC721: 721, ERC1155: 1155 } as const satisfies Record<TokenType, number>

/** In `tokens` only: nobody saw a transfer of it yet, so what it is has to be asked. */
export const UNSEEN_TYPE = 0

/** rows of one statement */
const CHUNK = 200

/**
 * Remembers tokens that were seen for the first time; what they call themselves is asked later, at a stored block.
 * The first transfer of one that was known by its address only says what it is, and it is asked again as that.
 * @param tokens  `tokenType` is null for a token of which no transfer was seen
 */
export async function noteTokens(
  db: Db,
  chain: Chain,
  tokens: { address: Hex; tokenType: TokenType | null }[],
): Promise<void> {
  for (let start = 0; start < tokens.length; start += CHUNK) {
    const some = tokens.slice(start, start + CHUNK)
    const rows = some.map(({ address, tokenType }) => ({
      chain_id: chain.chainId,
      address: fromHex(address),
      token_type: tokenType === null ? UNSEEN_TYPE : TOKEN_TYPE_NUMBERS[tokenType],
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
    // Apart from the insert: with `do update` every token of every block would be locked, for the few it changes.
    for (const tokenType of ['ERC20', 'ERC721', 'ERC1155'] as const) {
      const seen = some.filter((token) => token.tokenType === tokenType).map(({ address }) => fromHex(address))
      if (seen.length === 0) continue
      await db
        .updateTable('tokens')
        .set({ ...askedAnew(), token_type: TOKEN_TYPE_NUMBERS[tokenType] })
        .where('chain_id', '=', chain.chainId)
        .where('address', 'in', seen)
        .where('token_type', '=', UNSEEN_TYPE)
        .execute()
    }
  }
}

/**
 * After a reorganisation another contract may be at an address: tokens that were asked at a block that is lost, or
 * nobody knows where, are asked again.
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
