import type { App } from '../app.ts'
import { readAt, type Reads } from '../chain/reads.ts'
import type { Caller } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { wordDigits, type Hex } from '../ids.ts'
import { toHex } from '../hex.ts'
import { fromWord } from '../store/bytes.ts'
import { formOf, movedOf } from '../tokens/moved.ts'
import { TOKEN_TYPE_NUMBERS } from '../tokens/record.ts'
import { readFactsOfTokens } from '../tokens/read.ts'
import { findSpamTokens } from '../tokens/spam-tokens.ts'

/** An item of a collection, or several equal ones (ERC-1155). `token` is lower-case. */
export type Collectible = {
  tokenType: 'ERC721' | 'ERC1155'
  token: Hex
  tokenId: bigint
  count: bigint
  name: string
  symbol: string
  /** spam by its symbol or name, and never used by the user */
  isSpam: boolean
}

/** Maximum number of transfers that are searched for items. */
const MAX_TRANSFERS = 500
const CALL_GAS = 500_000

/**
 * Lists collectibles that an account holds, newest first. The history provides candidate ids, and the contracts confirm
 * them at one block. Uses the index (account, network, block).
 */
export async function listCollectibles(
  app: App,
  caller: Pick<Caller, 'accountId' | 'address' | 'chainId'>,
  limit: number,
): Promise<Collectible[]> {
  const chain = chainOf(app, caller)
  const seen = await seenOf(app, caller, limit)
  if (seen.length === 0) return []
  const counts = await readAt(chain, 'latest', (reads) =>
    Promise.all(seen.map((one) => countOf(reads, one, caller.address))),
  )
  const held = seen.flatMap((one, index) => (counts[index]! > 0n ? [{ ...one, count: counts[index]! }] : []))
  const facts = await readFactsOfTokens(app, chain, [...new Set(held.map(({ token }) => token))])
  const told = held.map((one) => {
    const { name = '', symbol = '' } = facts.get(one.token) ?? {}
    return { ...one, name, symbol, address: one.token }
  })
  const spam = await findSpamTokens(app, chain, { accountId: caller.accountId, tokens: told })
  return told.map(({ address, ...one }) => ({ ...one, isSpam: spam.has(address) }))
}

type CollectibleKey = Pick<Collectible, 'tokenType' | 'token' | 'tokenId'>

async function seenOf(
  { db }: App,
  { accountId, chainId }: Pick<Caller, 'accountId' | 'chainId'>,
  limit: number,
): Promise<CollectibleKey[]> {
  const { ERC20, ERC721, ERC1155 } = TOKEN_TYPE_NUMBERS
  const rows = await db
    .selectFrom('transfers')
    .leftJoin('tokens', (join) =>
      join.onRef('tokens.chain_id', '=', 'transfers.chain_id').onRef('tokens.address', '=', 'transfers.token'),
    )
    .select(['token', 'token_id', 'token_type', 'value', 'is_fungible', 'is_collection'])
    .where('account_id', '=', accountId)
    .where('transfers.chain_id', '=', chainId)
    .where((eb) =>
      eb.or([
        eb('token_type', 'in', [ERC721, ERC1155]).and('is_spam', '=', false),
        // This is a collection that logs ids in place of amounts.
        eb('token_type', '=', ERC20).and('is_collection', '=', true).and('is_fungible', '=', false),
      ]),
    )
    .orderBy('block_number', 'desc')
    .orderBy('token')
    .orderBy('token_id')
    .limit(MAX_TRANSFERS)
    .execute()
  const seen = new Map<string, CollectibleKey>()
  for (const { token, token_type, token_id, value, is_fungible, is_collection } of rows) {
    const form = formOf(token_type)!
    const standards = { isFungible: is_fungible === true, isCollection: is_collection === true, isWrapper: false }
    const amount = { form, tokenId: token_id === null ? null : fromWord(token_id), value: fromWord(value) }
    const moved = movedOf(amount, standards)
    if (moved === null || moved.tokenType === 'ERC20') continue
    // Of a range of ids, take the first ones. An ERC-1155 transfer has one id with a count.
    const count = moved.tokenType === 'ERC721' ? moved.value : 1n
    for (let index = 0n; index < count && seen.size < limit; index++) {
      const key: CollectibleKey = { tokenType: moved.tokenType, token: toHex(token), tokenId: moved.tokenId! + index }
      seen.set(`${key.token} ${key.tokenType} ${key.tokenId}`, key)
    }
    if (seen.size >= limit) break
  }
  return [...seen.values()]
}

const word = (value: bigint | Hex): string => wordDigits(BigInt(value))

/**
 * Asks a contract for the count of an item, by `ownerOf(uint256)` or `balanceOf(address,uint256)`. If it does not
 * answer, the count is 0.
 */
async function countOf(reads: Reads, { tokenType, token, tokenId }: CollectibleKey, owner: Hex): Promise<bigint> {
  const data: Hex = tokenType === 'ERC721' ? `0x6352211e${word(tokenId)}` : `0x00fdd58e${word(owner)}${word(tokenId)}`
  const result = await reads.call({ to: token, data, gas: CALL_GAS })
  if ('reverted' in result || result.data.length < 66) return 0n
  const answer = BigInt(result.data.slice(0, 66))
  if (tokenType === 'ERC1155') return answer
  return answer === BigInt(owner) ? 1n : 0n
}
