import { sql } from 'kysely'
import type { App } from '../app.ts'
import { isDevelopment, type Chain } from '../chain/network.ts'
import { quantityOf, type Hex } from '../ids.ts'
import { storedBlockHash } from '../store/block-hash.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Db, RootDb } from '../store/db.ts'
import { askTokens, MAX_TOKENS, type AtBlock, type TokenAnswer } from './ask.ts'
import { slot } from '../state.ts'

/** seconds until a token that did not tell everything is asked again: doubled from a minute up to a day */
const FIRST_RETRY_SECONDS = 60
const LAST_RETRY_SECONDS = 86_400
/** seconds until a token that told everything is asked again: tokens rename themselves */
const KNOWN_SECONDS = 86_400

type RefreshContext = Pick<App, 'db' | 'telemetry'>

const running = slot('tokens that are being asked again', (_chain: Chain): { run: Promise<void> | null } => ({
  run: null,
}))

/**
 * Asks the tokens that are due, in the background: new ones, and others whose time has come.
 * One run per network and process; a call during a run returns that one. Never rejects: a node or a database that
 * is away leaves the tokens due.
 * @returns when nothing is due any more
 */
export function refreshTokens(app: RefreshContext, chain: Chain): Promise<void> {
  return running.of(chain).run ?? run(app, chain, Promise.resolve())
}

/** What tokens answered at a block that may not be stored, now or ever. */
export type AnswersAt = { block: { number: number; hash: Hex }; answers: Answered[] }

/** The same, after storing what some of them have just answered: if its block is stored, they are not asked again. */
export function refreshAfter(
  app: RefreshContext,
  chain: Chain,
  { block: { number, hash }, answers }: AnswersAt,
): Promise<void> {
  const before = running.of(chain).run
  const stored = storeAnswers(app.db, chain, { at: { blockHash: hash }, number, hash }, answers)
  return run(
    app,
    chain,
    // What could not be stored is due still.
    stored.catch(() => {}).then(() => before ?? undefined),
  )
}

function run(app: RefreshContext, chain: Chain, first: Promise<void>): Promise<void> {
  const one = first
    .then(() => refreshAll(app, chain))
    .catch((error: unknown) => app.telemetry.log.debug('token_refresh_failed', { chainId: chain.chainId }, error))
    .finally(() => {
      if (running.of(chain).run === one) running.of(chain).run = null
    })
  running.of(chain).run = one
  return one
}

async function refreshAll(app: RefreshContext, chain: Chain): Promise<void> {
  for (;;) {
    const due = await app.db
      .selectFrom('tokens')
      .select('address')
      .where('chain_id', '=', chain.chainId)
      .where('retry_at', '<=', sql<Date>`now()`)
      .orderBy('retry_at')
      .limit(MAX_TOKENS)
      .execute()
    if (due.length === 0) return
    const place = await readPlace(app, chain)
    if (place === null) return
    await storeAnswers(app.db, chain, place, await askAll(app, chain, due.map(({ address }) => toHex(address)), place.at)) // prettier-ignore
  }
}

/**
 * Where tokens are asked for good. `number`: a reorganisation that takes this block back takes the answer back;
 * `hash`: of the block that was asked, null where it is final.
 */
type ReadBlock = { at: AtBlock; number: number; hash: Hex | null }

/**
 * The block that is stored, not the newest one: what a token says in a branch that was never stored would never be
 * retracted. Of blocks that are final, as while catching up, the newest: nodes forget old states.
 * @returns null while no block is stored: nobody could retract the answer
 */
async function readPlace({ db }: RefreshContext, chain: Chain): Promise<ReadBlock | null> {
  const row = await db
    .selectFrom('cursors')
    .select(['block_number', 'block_hash', 'finalized_number'])
    .where('chain_id', '=', chain.chainId)
    .executeTakeFirst()
  if (row === undefined || row.block_number < 0) return null
  const { block_number: number } = row
  if (isDevelopment(chain) || number > row.finalized_number) {
    const hash = toHex(row.block_hash)
    return { at: { blockHash: hash }, number, hash }
  }
  if (chain.finality === 'finalized') return { at: 'finalized', number, hash: null }
  const newest = chain.head.current()?.number ?? number
  return { at: quantityOf(Math.max(number, newest - chain.finality)), number, hash: null }
}

export type Answered = { address: Hex; answer: TokenAnswer }

/**
 * What tokens say of themselves: all at once; when that fails, one by one, so that a token that takes the node down
 * with it hurts itself only, is missing in the answer and is asked again later.
 * @param tokens  at most MAX_TOKENS
 * @throws RpcUnavailable | RpcError  when not one of them could be asked
 */
export async function askAll(app: RefreshContext, chain: Chain, tokens: Hex[], at: AtBlock): Promise<Answered[]> {
  try {
    const answers = await askTokens(chain, tokens, at)
    return tokens.map((address, index) => ({ address, answer: answers[index]! }))
  } catch (error) {
    if (tokens.length === 1) throw error
    const results = await Promise.allSettled(tokens.map((token) => askTokens(chain, [token], at)))
    const told = tokens.flatMap((address, index) => {
      const result = results[index]!
      return result.status === 'fulfilled' ? [{ address, answer: result.value[0]! }] : []
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
async function postpone(db: Db, chain: Chain, tokens: Hex[]): Promise<void> {
  if (tokens.length === 0) return
  await db
    .updateTable('tokens')
    .set({ retry_at: sql<Date>`now() + ${sql.lit(`${FIRST_RETRY_SECONDS} seconds`)}::interval` })
    .where('chain_id', '=', chain.chainId)
    .where('address', 'in', tokens.map(fromHex))
    .execute()
}

/**
 * Stores what tokens said, if the block at which they said it is still one of ours. The history waits meanwhile, and a
 * reorganisation: it finds these answers and takes them back, or was before them and took the block.
 */
async function storeAnswers(root: RootDb, chain: Chain, place: ReadBlock, answers: Answered[]): Promise<void> {
  await root.transaction().execute(async (db) => {
    await db.selectFrom('history_cursors').select('epoch').where('chain_id', '=', chain.chainId).forShare().execute()
    if (await isOurs(db, chain, place)) await upsert(db, chain, place, answers)
  })
}

async function isOurs(db: Db, { chainId }: Chain, { number, hash }: ReadBlock): Promise<boolean> {
  if (hash === null) return true
  return (await storedBlockHash(db, chainId, number)) === hash
}

/**
 * Each token is asked again: one that told everything after a day, another one sooner, and later each time. One that told everything once and
 * does not any more keeps what it said. `attempts` counts the answers that were the same.
 */
async function upsert(db: Db, chain: Chain, { number }: ReadBlock, answers: Answered[]): Promise<void> {
  if (answers.length === 0) return
  const rows = answers.map(({ address, answer: { facts, isComplete } }) => {
    const { standards, ...words } = facts
    return {
      chain_id: chain.chainId,
      address: fromHex(address),
      ...words,
      is_fungible: standards.isFungible,
      is_collection: standards.isCollection,
      is_wrapper: standards.isWrapper,
      state: isComplete ? ('KNOWN' as const) : ('FAILED' as const),
      attempts: 1,
      asked_block: number,
      retry_at: sql<Date>`now() + ${sql.lit(`${isComplete ? KNOWN_SECONDS : FIRST_RETRY_SECONDS} seconds`)}::interval`,
    }
  })
  const isSame = sql`(tokens.symbol, tokens.name, tokens.decimals, tokens.state) = (excluded.symbol, excluded.name, excluded.decimals, excluded.state)`
  const isBetter = sql`(excluded.state = 'KNOWN' or tokens.state <> 'KNOWN')`
  const better = <T>(column: string) =>
    sql<T>`case when ${isBetter} then excluded.${sql.ref(column)} else tokens.${sql.ref(column)} end`
  await db
    .insertInto('tokens')
    .values(rows)
    .onConflict((on) =>
      on.columns(['chain_id', 'address']).doUpdateSet({
        symbol: better('symbol'),
        name: better('name'),
        decimals: better('decimals'),
        is_fungible: better('is_fungible'),
        is_collection: better('is_collection'),
        is_wrapper: better('is_wrapper'),
        state: better('state'),
        attempts: sql<number>`case when ${isSame} or not ${isBetter} or tokens.state = 'NEW' then tokens.attempts + 1 else 1 end`,
        asked_block: better('asked_block'),
        retry_at: sql<Date>`case when excluded.state = 'KNOWN' then excluded.retry_at else
        now() + least(${sql.lit(LAST_RETRY_SECONDS)}, ${sql.lit(FIRST_RETRY_SECONDS)} * power(2, least(tokens.attempts, 20))) * interval '1 second' end`,
        updated_at: sql<Date>`now()`,
      }),
    )
    .execute()
}
