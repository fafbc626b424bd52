import { sql, type RawBuilder } from 'kysely'
import type { Static } from 'typebox'
import type { App } from '../app.ts'
import { readAt, type Reads } from '../chain/reads.ts'
import type { Reader } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { foreignCursor, readPageCursor, writeCursor } from '../http/cursor.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { readFactsOfTokens } from '../tokens/read.ts'
import { findSpamTokens } from '../tokens/spam-tokens.ts'
import { ownAccount } from '../users/authorize.ts'
import { FORM_NUMBERS } from '../tokens/moved.ts'
import { askBalance, askDecimals } from './ask.ts'
import { nativeEntry, tokenEntry, tokenTypeOf } from './entry.ts'
import type { Balances } from './read.ts'
import type { AnyEntry } from './wire.ts'

/** A page of an account's balances. */
export type BalancesPage = Balances<Static<typeof AnyEntry>> & {
  /** null on the last page */
  nextCursor: string | null
  /** block to which the history has indexed the account's tokens; null before the first block */
  indexedTo: number | null
  /** number of tokens of this page that returned no balance; a read of the single token reports why */
  unanswered: number
}

/** default number of tokens that one page asks */
const DEFAULT_LIMIT = 100
/** The history stores native currency under the zero address, which sorts before every token. */
const NATIVE_TOKEN = Buffer.alloc(20)

/**
 * Lists the user's native currency and the tokens with a balance that the history has seen in the account, all at one
 * block. Tokens are ordered by address; a page asks `limit` of them. Native currency is on the first page. A collection
 * (ERC-721) counts its pieces. Omits ERC-1155, which has no balance without a token id. Omits and counts tokens that do
 * not answer.
 * @throws forbidden_user | invalid_user_id | invalid_cursor
 */
export async function listBalances(
  app: App,
  reader: Reader,
  {
    userId,
    limit = DEFAULT_LIMIT,
    cursor,
    includesSpam = true,
  }: { userId: string; limit?: number | undefined; cursor?: string | undefined; includesSpam?: boolean },
): Promise<BalancesPage> {
  const { accountId, address: owner } = await ownAccount(app, reader, userId)
  const chain = chainOf(app, reader)
  const after = cursor === undefined ? null : readPlace(cursor)
  // Read this before the tokens, so that the tokens include everything that is indexed up to it.
  const indexedTo = await readIndexedTo(app.db, chain.chainId)
  const found = await selectTokens(app.db, { accountId, chainId: chain.chainId, after, limit: limit + 1 })
  const tokens = found.slice(0, limit)

  const { blockNumber, native, balances } = await readAt(chain, 'latest', async (reads) => {
    const [native, balances] = await Promise.all([
      after === null ? reads.balance(owner) : null,
      Promise.all(tokens.map((token) => askHeld(reads, { token, owner }))),
    ])
    return { blockNumber: reads.block.number, native, balances }
  })
  const held = balances.flatMap(({ balance, ...one }) => (balance === null || balance === 0n ? [] : [{ ...one, balance }])) // prettier-ignore
  const facts = await readFactsOfTokens(
    app,
    chain,
    held.map(({ token }) => token),
  )
  const told = held.map(({ token: address }) => ({ address, tokenType: tokenTypeOf(facts.get(address)!), ...facts.get(address)! })) // prettier-ignore
  const spam = await findSpamTokens(app, chain, { accountId, tokens: told })
  const listed = includesSpam ? held : held.filter(({ token }) => !spam.has(token))
  return {
    blockNumber,
    indexedTo,
    unanswered: balances.filter(({ balance }) => balance === null).length,
    nextCursor: found.length > limit ? writeCursor(['balances', tokens.at(-1)!]) : null,
    entries: {
      ...(native === null ? {} : { [chain.symbol]: nativeEntry(chain, native) }),
      ...Object.fromEntries(
        listed.map(({ token, ...amount }) => {
          const entry = tokenEntry(chain, { token, ...amount, facts: facts.get(token)! })
          return [token, spam.has(token) ? { ...entry, spam: spam.get(token)! } : entry]
        }),
      ),
    },
  }
}

/** Asks for a balance, and for decimals only if it is positive. */
async function askHeld(reads: Reads, { token, owner }: { token: Hex; owner: Hex }) {
  const balance = await askBalance(reads, { token, owner })
  const isThere = balance !== null && balance > 0n
  return { token, balance, decimals: isThere ? await askDecimals(reads, token) : null }
}

/**
 * Decodes a cursor to the address after which the page starts. All accounts share this order, so the cursor needs no
 * owner.
 */
function readPlace(cursor: string): Hex {
  const [kind, token] = readPageCursor(cursor, ['string', 'string']) as [string, string]
  if (kind === 'balances' && /^0x[0-9a-f]{40}$/.test(token)) return token as Hex
  throw foreignCursor()
}

async function readIndexedTo(db: Db, chainId: number): Promise<number | null> {
  const row = await db
    .selectFrom('history_cursors')
    .select('block_number')
    .where('chain_id', '=', chainId)
    .executeTakeFirst()
  // A negative cursor is before the first block.
  return row === undefined || row.block_number < 0 ? null : row.block_number
}

/**
 * Selects tokens in the order of their addresses, each found by its predecessor, until the page is full. So an account
 * with a million transfers of one token costs as much as one with a single transfer. A token that logged only deposits
 * counts if it is a wrapper.
 * Index: transfers_token.
 */
async function selectTokens(
  db: Db,
  { accountId, chainId, after, limit }: { accountId: string; chainId: number; after: Hex | null; limit: number },
): Promise<Hex[]> {
  const own = sql`account_id = ${accountId}::uuid and chain_id = ${chainId}::bigint`
  const next = (last: RawBuilder<unknown>) =>
    sql`(select token from transfers where ${own} and token > ${last} order by token limit 1)`
  const { ERC1155, WRAPPED } = FORM_NUMBERS
  const holds = sql`case when (select is_wrapper from tokens where tokens.chain_id = ${chainId}::bigint and tokens.address = met.token)
        then ${ERC1155 * 8}::int else ${WRAPPED * 8}::int end`
  const { rows } = await sql<{ token: Uint8Array }>`
    with recursive met (token) as (
      select ${next(sql`${after === null ? NATIVE_TOKEN : fromHex(after)}::bytea`)}
      union all
      select ${next(sql`met.token`)} from met where met.token is not null
    )
    select met.token
    from met cross join lateral (
      select 1 from transfers
      where ${own} and token = met.token
        and (token_type * 8 + direction * 2 + is_spam::int) < ${holds}
      order by (token_type * 8 + direction * 2 + is_spam::int)
      limit 1
    ) as first
    where met.token is not null
    limit ${limit}`.execute(db)
  return rows.map(({ token }) => toHex(token))
}
