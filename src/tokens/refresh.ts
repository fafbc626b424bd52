import { sql } from 'kysely'
import type { App } from '../app.ts'
import { isDevelopment, type Chain } from '../chain/network.ts'
import { quantityOf, type Hex } from '../ids.ts'
import { storedBlockHash } from '../store/block-hash.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Db, RootDb } from '../store/db.ts'
import { askTokens, MAX_TOKENS, type AtBlock, type TokenAnswer } from './ask.ts'
import { slot } from '../state.ts'

/** seconds until a token with an incomplete answer is asked again; doubled each time, up to a day */
const FIRST_RETRY_SECONDS = 60
const LAST_RETRY_SECONDS = 86_400
/** seconds until a token with a complete answer is asked again, because tokens rename themselves */
const KNOWN_SECONDS = 86_400

type RefreshContext = Pick<App, 'db' | 'telemetry'>

const running = slot('tokens that are being asked again', (_chain: Chain): { run: Promise<void> | null } => ({
  run: null,
}))

/**
 * Asks all tokens that are due, in the background: new ones, and those whose retry time has come. There is one run per
 * network and process; a call during a run returns that run. Never rejects: if node or database is unavailable, the
 * tokens remain due.
 * @returns resolves when no token is due
 */
export function refreshTokens(app: RefreshContext, chain: Chain): Promise<void> {
  return running.of(chain).run ?? run(app, chain, Promise.resolve())
}

/** Answers of tokens at a block that may not be stored yet, and may never be. */
export type AnswersAt = { block: { number: number; hash: Hex }; answers: Answered[] }

/**
 * Refreshes tokens after storing these answers. If the block of the answers is stored, those tokens are not asked
 * again.
 */
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
    // If storing fails, the tokens remain due.
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
 * Block at which tokens are asked. `number`: a reorganisation of this block invalidates the answers. `hash`: hash of
 * that block; null if it is final.
 */
type ReadBlock = { at: AtBlock; number: number; hash: Hex | null }

/**
 * Returns the newest stored block, because a reorganisation retracts only answers at stored blocks. If that block is
 * final, as while catching up, returns the newest final block instead, because nodes drop old states.
 * @returns null while no block is stored
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
 * Asks tokens for their standards and metadata, all in one batch. If the batch fails, asks one by one. Omits a token
 * for which the node fails, which is asked again later.
 * @param tokens  at most MAX_TOKENS
 * @throws RpcUnavailable | RpcError  if no token could be asked
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

/** Postpones tokens for which an otherwise working node fails. Their stored facts remain. */
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
 * Stores answers if their block is still canonical. The lock makes the history and reorganisations wait. So a
 * reorganisation either comes later and retracts these answers, or came first and removed the block.
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
 * Stores answers. Every token is asked again: after a day if its answer was complete, otherwise sooner, with growing
 * intervals. An incomplete answer does not replace a complete one. `attempts` counts equal answers.
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
