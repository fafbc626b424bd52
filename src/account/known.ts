import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { MAX_NAMED, type AccountOwner, type KnownAddresses, type KnownToken } from '../oauth/account/slices.ts'
import { knownTokensOf } from '../tokens/known.ts'
import { readFactsOfTokens } from '../tokens/read.ts'
import { SPAM_POINTS } from '../tokens/spam-wire.ts'
import { suspectToken } from '../tokens/suspicion.ts'
import { selectDealtWith } from '../tokens/used.ts'

/**
 * Returns what is known of the tokens and other addresses of an approval. The symbol of a listed token is the operator's.
 * @throws chain_unavailable | chain_timeout  if a token was never asked and the node is unavailable
 */
export async function readKnown(
  app: App,
  { accountId }: AccountOwner,
  chain: Chain | undefined,
  { tokens, others }: { tokens: Hex[]; others: Hex[] },
): Promise<KnownAddresses> {
  if (chain === undefined) return { native: null, tokens: [], dealtWith: null }
  const { chainId, symbol, decimals } = chain
  const asked = tokens.slice(0, MAX_NAMED)
  const [facts, dealtWith] = await Promise.all([
    readFactsOfTokens(app, chain, asked),
    selectDealtWith(app.db, { accountId, chainId }, others.slice(0, MAX_NAMED)),
  ])
  const known = knownTokensOf(app, chain)
  const tokenOf = (token: Hex): KnownToken => {
    const { symbol: ownSymbol, name, decimals: ownDecimals, standards } = facts.get(token)!
    const listed = known.byAddress.get(token)
    const told = { address: token, tokenType: 'ERC20' as const, symbol: ownSymbol, name }
    return {
      token,
      symbol: listed?.symbol ?? (ownSymbol || name),
      decimals: ownDecimals,
      isListed: listed !== undefined,
      isSpam: suspectToken(told, known).points >= SPAM_POINTS,
      isCollection: standards.isCollection && !standards.isFungible,
    }
  }
  return { native: { symbol, decimals }, tokens: asked.map(tokenOf), dealtWith: [...dealtWith] }
}
