import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { mapChainError } from '../chain/rpc.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../store/bytes.ts'
import { retrying } from '../store/db.ts'
import { askTokens, type TokenFacts } from './ask.ts'
import { storeAnswers } from './refresh.ts'

const REMEMBERED_MS = 30_000
const MOST_REMEMBERED = 10_000

type Memory = { facts: Map<Hex, { facts: TokenFacts; until: number }>; asking: Map<Hex, Promise<TokenFacts>> }
const memories = new WeakMap<Chain, Memory>()

/**
 * What a token calls itself: from memory (30 s), the table, or, the first time, from the token itself; concurrent
 * readers share one question. A token that does not tell has "", "" and 0.
 * @param address  20 bytes, any case
 * @throws chain_unavailable | chain_timeout  when it was never asked and the node is away
 */
export async function readTokenFacts(app: App, chain: Chain, address: Hex): Promise<TokenFacts> {
  const memory = memoryOf(chain)
  const key = address.toLowerCase() as Hex
  const remembered = memory.facts.get(key)
  if (remembered !== undefined && remembered.until > app.now()) return remembered.facts
  const asked = memory.asking.get(key)
  if (asked !== undefined) return asked
  const asking = lookUp(app, chain, key).finally(() => memory.asking.delete(key))
  memory.asking.set(key, asking)
  const facts = await asking
  remember(memory, key, { facts, until: app.now() + REMEMBERED_MS })
  return facts
}

async function lookUp(app: App, chain: Chain, address: Hex): Promise<TokenFacts> {
  const row = await retrying(() =>
    app.db
      .selectFrom('tokens')
      .select(['symbol', 'name', 'decimals', 'state', 'token_type'])
      .where('chain_id', '=', chain.chainId)
      .where('address', '=', fromHex(address))
      .executeTakeFirst(),
  )
  if (row !== undefined && row.state !== 'NEW') return { symbol: row.symbol, name: row.name, decimals: row.decimals }
  const token = {
    address,
    tokenType: row?.token_type === 721 ? 'ERC721' : row?.token_type === 1155 ? 'ERC1155' : 'ERC20',
  } as const
  const answers = await askTokens(chain, [token]).catch((error: unknown) => {
    throw mapChainError(error)
  })
  const { facts, isContract } = answers[0]!
  // An address without code is no token: callers could fill the table with them.
  if (isContract) await storeAnswers(app.db, chain, [{ ...token, answer: answers[0]! }])
  return facts
}

function memoryOf(chain: Chain): Memory {
  let memory = memories.get(chain)
  if (memory === undefined) {
    memory = { facts: new Map(), asking: new Map() }
    memories.set(chain, memory)
  }
  return memory
}

/** The oldest leave first: a caller who asks for many tokens cannot grow the memory. */
function remember({ facts }: Memory, key: Hex, entry: { facts: TokenFacts; until: number }): void {
  facts.delete(key)
  if (facts.size >= MOST_REMEMBERED) facts.delete(facts.keys().next().value!)
  facts.set(key, entry)
}
