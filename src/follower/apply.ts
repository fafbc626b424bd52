import { sql } from 'kysely'
import { mostTransfersIn } from '../abi/transfers.ts'
import type { App } from '../app.ts'
import type { Block } from '../chain/rpc/block.ts'
import { isDevelopment, type Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { storedBlockHash } from '../store/block-hash.ts'
import { fromHex } from '../hex.ts'
import { toWord } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import type { BlockListener, FollowedBlock, Log, KeptBlock } from './block.ts'
import { moveCursor, type Position } from './cursor.ts'
import { lockHistory, setHistoryBack } from './history-cursor.ts'

/** number of blocks stored below finality; the search for an ancestor needs fewer */
const KEPT_BELOW_FINALITY = 256
/** number of blocks stored on a development chain, which may lose finalized blocks at a restart */
const KEPT_IN_DEVELOPMENT = 10_000

/** blocks per transaction while catching up; MAX_ROWS limits the rows made from them, because 2,000 is portable */
const MAX_BLOCKS = 32
const MAX_ROWS = 2_000

/** Newest final block. `hash` is null if the node did not report it. */
export type Finality = { number: number; hash: Hex | null }

/**
 * Stores the blocks after the cursor, the rows that listeners derive from them, and the new cursor, in one transaction.
 * @param blocks  linked, in order; the first one's parent is the cursor's block
 * @param finality  the network's current finality; null: unknown
 * @returns the new cursor
 * @throws Fenced | an error of a listener; then nothing is stored
 */
export async function applyBlocks(
  app: App,
  chain: Chain,
  listeners: BlockListener[],
  { held, blocks, finality }: { held: Position; blocks: FollowedBlock[]; finality: Finality | null },
): Promise<Position> {
  const last = blocks.at(-1)!
  const leading = listeners.filter((listener) => listener.isTrailing !== true)
  return app.db.transaction().execute(async (db) => {
    const finalized = await nextFinalized(db, chain.chainId, { held, blocks, finality })
    const next = { ...held, number: last.number, hash: last.hash, finalized }
    await moveCursor(db, chain.chainId, held, next)
    for (const listener of leading) {
      if ('onBlocks' in listener) await listener.onBlocks(db, app, chain, blocks)
      else for (const block of blocks) await listener.onBlock(db, app, chain, block)
    }
    await storeBlocks(db, chain.chainId, blocks)
    if (finalized > held.finalized) {
      for (const listener of leading) await listener.onFinalize(db, app, chain, finalized)
    }
    const keepFrom = isDevelopment(chain) ? last.number - KEPT_IN_DEVELOPMENT : finalized - KEPT_BELOW_FINALITY
    if (keepFrom > 0) {
      await db.deleteFrom('blocks').where('chain_id', '=', chain.chainId).where('number', '<', keepFrom).execute()
    }
    return next
  })
}

/**
 * Retracts every block above the ancestor, with all rows derived from those blocks.
 * @throws Fenced | an error of a listener
 */
export async function retractBlocks(
  app: App,
  chain: Chain,
  listeners: BlockListener[],
  change: { held: Position; ancestor: { number: number; hash: Hex } },
): Promise<Position> {
  return app.db.transaction().execute((db) => retractIn(db, app, chain, listeners, change))
}

/** Does the same as `retractBlocks`, inside a transaction. */
export async function retractIn(
  db: Db,
  app: App,
  chain: Chain,
  listeners: BlockListener[],
  { held, ancestor }: { held: Position; ancestor: { number: number; hash: Hex } },
): Promise<Position> {
  const finalized = Math.min(held.finalized, ancestor.number)
  const next = { ...held, number: ancestor.number, hash: ancestor.hash, finalized }
  await moveCursor(db, chain.chainId, held, next)
  // Lock it even if the history is below the ancestor. A block of the old branch is then indexed before this
  // transaction, or not at all.
  const history = await lockHistory(db, chain.chainId)
  if (history !== null && history.number > ancestor.number) await setHistoryBack(db, chain.chainId, ancestor)
  for (const listener of listeners) await listener.onRetract(db, app, chain, ancestor.number + 1)
  await countRetracted(db, chain.chainId, ancestor.number)
  await db.deleteFrom('blocks').where('chain_id', '=', chain.chainId).where('number', '>', ancestor.number).execute()
  return next
}

/**
 * Counts that blocks were retracted. If a block comes back, its transactions are mined again, which is another event
 * (events/describe.ts). Counts of blocks that came back in the last year are stored.
 */
async function countRetracted(db: Db, chainId: number, above: number): Promise<void> {
  await sql`insert into retracted_blocks (chain_id, hash, times)
    select chain_id, hash, 1 from blocks where chain_id = ${chainId}::bigint and number > ${above}::bigint
    on conflict (chain_id, hash) do update set times = retracted_blocks.times + 1, updated_at = now()`.execute(db)
  await sql`delete from retracted_blocks where updated_at < now() - interval '400 days'`.execute(db)
}

/** Returns the first blocks whose transaction states may be stored in one commit: one row per receipt and per block. */
export const takeGroup = <T extends KeptBlock>(blocks: readonly T[]): T[] =>
  takeRows(blocks, ({ receipts }) => 1 + receipts.length)

/** Returns the first blocks whose transfers may be stored in one commit. */
export const takeTransfers = <T extends KeptBlock>(blocks: readonly T[]): T[] => takeRows(blocks, mostTransfersOf)

/**
 * Returns the first blocks that have at most MAX_ROWS rows together; at least one, because a block cannot be divided.
 */
function takeRows<T>(blocks: readonly T[], rowsOf: (block: T) => number): T[] {
  let rows = 0
  let count = 0
  for (const block of blocks.slice(0, MAX_BLOCKS)) {
    rows += rowsOf(block)
    if (count > 0 && rows > MAX_ROWS) break
    count++
  }
  return blocks.slice(0, count)
}

/**
 * Returns an upper bound of the rows of a block: one for the block, one per log, and two per transfer of a batch, which
 * has up to 1,000.
 */
const mostTransfersOf = ({ receipts }: KeptBlock): number =>
  receipts.reduce((sum, { logs }) => logs.reduce((all, log) => all + mostRowsOfLog(log), sum), 1)

function mostRowsOfLog(log: Log): number {
  const transfers = mostTransfersIn(log)
  return transfers === 1 ? 1 : transfers * 2
}

/**
 * Returns the new final block number. Finality only moves forward, not above the stored blocks, and only along the
 * stored chain.
 */
async function nextFinalized(
  db: Db,
  chainId: number,
  { held, blocks, finality }: { held: Position; blocks: FollowedBlock[]; finality: Finality | null },
): Promise<number> {
  const last = blocks.at(-1)!.number
  if (finality === null || finality.number <= held.finalized) return held.finalized
  if (finality.hash === null || finality.number > last) return Math.min(finality.number, last)
  const ours =
    blocks.find((block) => block.number === finality.number)?.hash ??
    (await storedBlockHash(db, chainId, finality.number))
  return ours === finality.hash ? finality.number : held.finalized
}

async function storeBlocks(db: Db, chainId: number, blocks: Block[]): Promise<void> {
  const rows = blocks.map((block) => ({
    chain_id: chainId,
    number: block.number,
    hash: fromHex(block.hash),
    parent_hash: fromHex(block.parentHash),
    mined_at: new Date(block.timestamp * 1_000),
    base_fee: block.baseFee === null ? null : toWord(block.baseFee),
  }))
  await db.insertInto('blocks').values(rows).execute()
}
