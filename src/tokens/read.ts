/**
 * tokens: type, name, symbol and decimals of tokens, as their contracts report them.
 * Owns: asking contracts for these, the table of answers and its refresh; which tokens the operator knows, and which look like them.
 * Does not own: balances (`balances/`), transfers (`history/`, `transfers/`).
 * Tables: tokens.
 */

import type { Selectable } from 'kysely'
import type { App } from '../app.ts'
import { BoundedMap } from '../bounded-map.ts'
import type { Chain } from '../chain/network.ts'
import { readAt } from '../chain/reads.ts'
import { mapChainError } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Database } from '../store/rows.ts'
import { askTokens, MAX_TOKENS, NO_FACTS, type AtBlock, type TokenFacts } from './ask.ts'
import { noteTokens } from './record.ts'
import { askAll, refreshAfter, type Answered, type AnswersAt } from './refresh.ts'
import { slot } from '../state.ts'

const REMEMBERED_MS = 30_000
const MAX_REMEMBERED = 10_000

type TokenCache = {
  facts: BoundedMap<Hex, { facts: TokenFacts; until: number }>
  asking: Map<Hex, Promise<TokenFacts>>
}
const memories = slot('what tokens call themselves', (_chain: Chain): TokenCache => ({
  facts: new BoundedMap(MAX_REMEMBERED),
  asking: new Map(),
}))

/**
 * Returns the facts of a token: from memory (30 s), from the table, or, if it was never asked, from the token itself.
 * Concurrent readers share one query. If the token does not answer, symbol and name are empty and decimals are 0.
 * @param address  20 bytes, any case
 * @throws chain_unavailable | chain_timeout  if it was never asked and the node is unavailable
 */
export async function readTokenFacts(app: App, chain: Chain, address: Hex): Promise<TokenFacts> {
  const memory = memories.of(chain)
  const key = address.toLowerCase() as Hex
  const remembered = memory.facts.get(key)
  if (remembered !== undefined && remembered.until > app.clock.wall()) return remembered.facts
  const asked = memory.asking.get(key)
  if (asked !== undefined) return asked
  const asking = lookUp(app, chain, key).finally(() => memory.asking.delete(key))
  memory.asking.set(key, asking)
  const facts = await asking
  memory.facts.set(key, { facts, until: app.clock.wall() + REMEMBERED_MS })
  return facts
}

/**
 * Returns the facts of many tokens, with one query of the table, and one batch per MAX_TOKENS tokens that the table
 * lacks. If the node fails only for some tokens, these have empty facts in this result.
 * @param addresses  20 bytes, lower-case
 * @throws chain_unavailable | chain_timeout  if some were never asked and the node is unavailable
 */
export async function readFactsOfTokens(app: App, chain: Chain, addresses: Hex[]): Promise<Map<Hex, TokenFacts>> {
  const memory = memories.of(chain)
  const now = app.clock.wall()
  const known = new Map<Hex, TokenFacts>()
  const learn = (address: Hex, facts: TokenFacts) => {
    known.set(address, facts)
    memory.facts.set(address, { facts, until: now + REMEMBERED_MS })
  }
  for (const address of addresses) {
    const remembered = memory.facts.get(address)
    if (remembered !== undefined && remembered.until > now) known.set(address, remembered.facts)
  }
  const missing = addresses.filter((address) => !known.has(address))
  if (missing.length === 0) return known
  const rows = await app.db
    .selectFrom('tokens')
    .select(['address', ...FACTS])
    .where('chain_id', '=', chain.chainId)
    .where('address', 'in', missing.map(fromHex))
    .execute()
  for (const row of rows) if (row.state !== 'NEW') learn(toHex(row.address), factsOf(row))
  const unasked = missing.filter((address) => !known.has(address))
  for (let start = 0; start < unasked.length; start += MAX_TOKENS) {
    const tokens = unasked.slice(start, start + MAX_TOKENS)
    const answered = await atNewest(chain, (at) => askAll(app, chain, tokens, at))
    await storeTokens(app, chain, answered)
    for (const { address, answer } of answered.answers) learn(address, answer.facts)
  }
  for (const address of missing) if (!known.has(address)) known.set(address, NO_FACTS)
  return known
}

async function lookUp(app: App, chain: Chain, address: Hex): Promise<TokenFacts> {
  const row = await app.db
    .selectFrom('tokens')
    .select(FACTS)
    .where('chain_id', '=', chain.chainId)
    .where('address', '=', fromHex(address))
    .executeTakeFirst()
  if (row !== undefined && row.state !== 'NEW') return factsOf(row)
  const answered = await atNewest(chain, async (at) => [
    { address, answer: (await askTokens(chain, [address], at))[0]! },
  ])
  await storeTokens(app, chain, answered)
  return answered.answers[0]!.answer.facts
}

/** Asks tokens at the newest block of the node. @throws chain_unavailable | chain_timeout */
function atNewest(chain: Chain, ask: (at: AtBlock) => Promise<Answered[]>): Promise<AnswersAt> {
  return readAt(chain, 'latest', async ({ block }) => ({ block, answers: await ask({ blockHash: block.hash }) })).catch(
    (error: unknown) => {
      throw mapChainError(error)
    },
  )
}

const FACTS = ['symbol', 'name', 'decimals', 'state', 'is_fungible', 'is_collection', 'is_wrapper'] as const

type FactsRow = Pick<Selectable<Database['tokens']>, (typeof FACTS)[number]>

const factsOf = ({ symbol, name, decimals, ...row }: FactsRow): TokenFacts => ({
  symbol,
  name,
  decimals,
  standards: { isFungible: row.is_fungible, isCollection: row.is_collection, isWrapper: row.is_wrapper },
})

/**
 * Stores answers of the newest block in the background, if the follower has stored that block. Otherwise the tokens are
 * asked again at a stored block: if a block is never stored, no reorganisation retracts its answers. Skips addresses
 * without code, with which callers could fill the table.
 */
async function storeTokens(app: App, chain: Chain, { block, answers }: AnswersAt): Promise<void> {
  const tokens = answers.filter(({ answer }) => answer.isContract)
  if (tokens.length === 0) return
  await noteTokens(app.db, chain, tokens.map(({ address }) => ({ address, form: null }))) // prettier-ignore
  void refreshAfter(app, chain, { block, answers: tokens })
}
