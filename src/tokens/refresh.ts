import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import { askTokens, atHead, MOST_TOKENS, type At, type TokenAnswer } from './ask.ts'
import { TOKEN_TYPE_NUMBERS, type TokenType } from './note.ts'

/** seconds until a token that did not tell everything is asked again: doubled from a minute up to a day */
const FIRST_RETRY_SECONDS = 60
const LAST_RETRY_SECONDS = 86_400

type Part = Pick<App, 'db' | 'telemetry'>

const running = new WeakMap<Chain, Promise<void>>()

/**
 * Asks the tokens that are due, in the background: new ones, and those that failed and whose time has come.
 * One run per network and process; a call during a run returns that one. Never rejects: a node or a database that
 * is away leaves the tokens due.
 * @returns when nothing is due any more
 */
export function refreshTokens(app: Part, chain: Chain): Promise<void> {
  let run = running.get(chain)
  if (run === undefined) {
    run = refreshAll(app, chain)
      .catch((error: unknown) => app.telemetry.log.debug('tokens wait', { chainId: chain.chainId }, error))
      .finally(() => running.delete(chain))
    running.set(chain, run)
  }
  return run
}

async function refreshAll(app: Part, chain: Chain): Promise<void> {
  for (;;) {
    const due = await app.db
      .selectFrom('tokens')
      .select(['address', 'token_type', versionOfRow])
      .where('chain_id', '=', chain.chainId)
      .where('retry_at', '<=', sql<Date>`now()`)
      .orderBy('retry_at')
      .limit(MOST_TOKENS)
      .execute()
    if (due.length === 0) return
    const tokens = due.map((row) => ({
      ...{ address: toHex(row.address), tokenType: typeOf(row.token_type), version: row.version },
    }))
    const at = await atCursor(app, chain)
    await storeAnswers(app.db, chain, at, await askAll(app, chain, tokens, at))
  }
}

/**
 * The block that is stored, not the newest one: what a token says in a branch that was never stored would never be
 * taken back. Of blocks that are final, as while catching up, the newest: nodes forget old states.
 */
async function atCursor({ db }: Part, chain: Chain): Promise<At> {
  const row = await db
    .selectFrom('cursors')
    .select(['block_number', 'block_hash', 'finalized_number'])
    .where('chain_id', '=', chain.chainId)
    .executeTakeFirst()
  const head = chain.head.current()
  if (row === undefined || head === null) return atHead(chain)
  const isDevelopment = chain.faucet !== null
  const { block_number: number } = row
  if (isDevelopment || number > row.finalized_number) return { block: { blockHash: toHex(row.block_hash) }, number }
  if (chain.finality === 'finalized') return { block: 'finalized', number }
  return { block: `0x${Math.max(number, head.number - chain.finality).toString(16)}`, number }
}

/** `version` of the row when the token was asked, null when there was none */
export type Token = { address: Hex; tokenType: TokenType; version: string | null }

/** Another one after each change, also after a review. */
export const versionOfRow = sql<string>`tokens.address::text || ' ' || tokens.updated_at::text`.as('version')

/**
 * What tokens say of themselves: all at once; when that fails, one by one, so that a token that takes the node down
 * with it hurts itself only, is missing in the answer and is asked again later.
 * @param tokens  at most MOST_TOKENS
 * @throws RpcUnavailable | RpcError  when not one of them could be asked
 */
export async function askAll(
  app: Part,
  chain: Chain,
  tokens: Token[],
  at: At,
): Promise<(Token & { answer: TokenAnswer })[]> {
  try {
    const answers = await askTokens(chain, tokens, at)
    return tokens.map((token, index) => ({ ...token, answer: answers[index]! }))
  } catch (error) {
    if (tokens.length === 1) throw error
    const results = await Promise.allSettled(tokens.map((token) => askTokens(chain, [token], at)))
    const told = tokens.flatMap((token, index) => {
      const result = results[index]!
      return result.status === 'fulfilled' ? [{ ...token, answer: result.value[0]! }] : []
    })
    if (told.length === 0) throw error
    await postpone(
      app.db,
      chain,
      tokens.filter((_, index) => results[index]!.status === 'rejected'),
    )
    return told
  }
}

/** The node works, but not for these. What is known of them stays. */
async function postpone(db: Db, chain: Chain, tokens: Token[]): Promise<void> {
  if (tokens.length === 0) return
  await db
    .updateTable('tokens')
    .set({ retry_at: sql<Date>`now() + ${sql.lit(`${FIRST_RETRY_SECONDS} seconds`)}::interval` })
    .where('chain_id', '=', chain.chainId)
    .where(
      'address',
      'in',
      tokens.map(({ address }) => fromHex(address)),
    )
    .execute()
}

/**
 * Stores what tokens said. A token that did not tell everything is asked again, later each time. A row that changed
 * since it was asked stays: after a reorganisation the answer may be one of the lost branch.
 */
export async function storeAnswers(
  db: Db,
  chain: Chain,
  at: At,
  answers: (Token & { answer: TokenAnswer })[],
): Promise<void> {
  if (answers.length === 0) return
  const versions = answers.flatMap(({ version }) => version ?? [])
  const rows = answers.map(({ address, tokenType, answer: { facts, isComplete } }) => ({
    chain_id: chain.chainId,
    address: fromHex(address),
    token_type: TOKEN_TYPE_NUMBERS[tokenType],
    ...facts,
    state: isComplete ? ('KNOWN' as const) : ('FAILED' as const),
    attempts: 1,
    asked_block: at.number,
    retry_at: isComplete ? null : sql<Date>`now() + ${sql.lit(`${FIRST_RETRY_SECONDS} seconds`)}::interval`,
  }))
  await db
    .insertInto('tokens')
    .values(rows)
    .onConflict((on) =>
      on
        .columns(['chain_id', 'address'])
        .doUpdateSet((eb) => ({
          symbol: eb.ref('excluded.symbol'),
          name: eb.ref('excluded.name'),
          decimals: eb.ref('excluded.decimals'),
          state: eb.ref('excluded.state'),
          attempts: eb('tokens.attempts', '+', 1),
          asked_block: eb.ref('excluded.asked_block'),
          retry_at: sql<Date | null>`case when excluded.retry_at is null then null else
          now() + least(${sql.lit(LAST_RETRY_SECONDS)}, ${sql.lit(FIRST_RETRY_SECONDS)} * power(2, least(tokens.attempts, 20))) * interval '1 second' end`,
          updated_at: sql<Date>`now()`,
        }))
        .where(sql<string>`tokens.address::text || ' ' || tokens.updated_at::text`, 'in', ['', ...versions]),
    )
    .execute()
}

/** The name that the table's small number stands for. */
export const typeOf = (number: number): TokenType => (number === 721 ? 'ERC721' : number === 1155 ? 'ERC1155' : 'ERC20')
