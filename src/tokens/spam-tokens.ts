import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { knownTokensOf } from './known.ts'
import { SPAM_POINTS, type TokenReason } from './spam-wire.ts'
import { suspectToken, type ToldToken } from './suspicion.ts'
import { selectUsed } from './used.ts'

/** Why a token counts as spam. `score`: 50 to 100. */
export type TokenSpam = { score: number; reasons: TokenReason[] }

/**
 * Returns the tokens that are spam by their symbol or name, except those that the user has used.
 * @param tokens  `address` in lower case
 */
export async function findSpamTokens(
  app: Pick<App, 'db' | 'knownTokens'>,
  chain: Chain,
  { accountId, tokens }: { accountId: string; tokens: readonly ToldToken[] },
): Promise<Map<Hex, TokenSpam>> {
  const known = knownTokensOf(app, chain)
  const suspected = tokens.flatMap((token) => {
    const { points, reasons } = suspectToken(token, known)
    return points < SPAM_POINTS ? [] : [[token.address, { score: points, reasons }] as const]
  })
  const holder = { accountId, chainId: chain.chainId }
  const used = await selectUsed(app.db, holder, suspected.map(([address]) => address)) // prettier-ignore
  return new Map(suspected.filter(([address]) => !used.has(address)))
}
