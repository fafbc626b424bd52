import type { App } from '../app.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Chain } from '../chain/network.ts'
import type { Rpc } from '../chain/rpc/rpc.ts'
import { fetchBlock, fetchHeaders } from '../follower/fetch.ts'
import { sourceOf, type ReceiptSource } from '../follower/receipt-source.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { noteTokens } from '../tokens/record.ts'
import { lockFinalized, readFinalized } from './backfill.ts'
import { insertTransfers } from './columns.ts'
import { NATIVE_TYPE_NUMBER } from './native-rows.ts'
import { findTransfers, rowsOf, type FoundTransfer, type TransferRow } from './rows.ts'
import { type Clock } from '../clock.ts'

/** blocks compared at a time */
const WINDOW = 16
/** maximum consecutive failures of a node */
const PATIENCE = 5

/** A difference between table and chain. `stored` is null for a missing row, `expected` for a surplus one. */
export type Difference = { stored: TransferRow | null; expected: TransferRow | null }

type AuditJob = {
  /** both inclusive */
  from: number
  to: number
  /** node to compare with, which is trusted; one other than the follower's gives a stronger result */
  rpc: Rpc
  /** true: also corrects the table */
  repairs: boolean
  onDifference: (difference: Difference) => void
  onProgress: (progress: { nextBlock: number; transfers: number; differences: number }) => void
}

/**
 * Fetches final blocks again, whole, from a trusted node, and compares them with the table.
 * @returns how many blocks and transfers were compared, and the number of differences
 * @throws Error if the range is not final here; RpcError | RpcUnavailable | InvalidResponse from the node
 */
export async function audit(
  app: Pick<App, 'clock' | 'db'>,
  chain: Chain,
  { from, to, rpc, repairs, onDifference, onProgress }: AuditJob,
): Promise<{ blocks: number; transfers: number; differences: number }> {
  const finalized = await readFinalized(app.db, chain)
  if (to > finalized) throw new Error(`Only final blocks can be compared: they end at ${finalized}.`)
  const source = sourceOf(chain)
  let transfers = 0
  let differences = 0
  for (let start = from; start <= to; start += WINDOW) {
    const end = Math.min(to, start + WINDOW - 1)
    const found = await patiently(app.clock, () => fetchFound(rpc, { start, end, source }))
    const work = (db: Db) => compare(db, chain, { found, start, end, repairs })
    // Without repairs nothing is written, so no lock is needed.
    const result = repairs ? await app.db.transaction().execute(work) : await work(app.db)
    transfers += result.rows
    differences += result.differences.length
    for (const difference of result.differences) onDifference(difference)
    onProgress({ nextBlock: end + 1, transfers, differences })
  }
  return { blocks: Math.max(0, to - from + 1), transfers, differences }
}

async function fetchFound(
  rpc: Rpc,
  { start, end, source }: { start: number; end: number; source: ReceiptSource },
): Promise<FoundTransfer[]> {
  const numbers = Array.from({ length: end - start + 1 }, (_, index) => start + index)
  const headers = await fetchHeaders(rpc, numbers)
  const blocks = await Promise.all(
    headers.map((header) => {
      if (header === null) throw new InvalidResponse('the node lacks a block that is final')
      return fetchBlock(rpc, header.hash, source)
    }),
  )
  return blocks.flatMap(findTransfers)
}

async function patiently<T>({ sleep }: Clock, ask: () => Promise<T>): Promise<T> {
  for (let failures = 0; ; failures++) {
    try {
      return await ask()
    } catch (error) {
      if (failures === PATIENCE) throw error
      await sleep(50 * 2 ** failures)
    }
  }
}

async function compare(
  db: Db,
  chain: Chain,
  { found, start, end, repairs }: { found: FoundTransfer[]; start: number; end: number; repairs: boolean },
): Promise<{ rows: number; differences: Difference[] }> {
  if (repairs && (await lockFinalized(db, chain)) < end) throw new Error('a finalized block was reorganised')
  const { rows, tokens } = await rowsOf(db, chain, found)
  const expected = new Map(rows.map((row) => [keyOf(row), row]))
  const stored = new Map((await readRows(db, chain, { start, end })).map((row) => [keyOf(row), row]))
  const differences: Difference[] = []
  for (const [key, row] of expected) {
    const held = stored.get(key) ?? null
    if (JSON.stringify(held) !== JSON.stringify(row)) differences.push({ stored: held, expected: row })
  }
  for (const [key, row] of stored) if (!expected.has(key)) differences.push({ stored: row, expected: null })
  if (repairs && differences.length > 0) {
    await remove(
      db,
      chain,
      differences.flatMap(({ stored: row }) => row ?? []),
    )
    await insertTransfers(
      db,
      chain,
      differences.flatMap(({ expected: row }) => row ?? []),
    )
    await noteTokens(db, chain, tokens)
  }
  return { rows: rows.length, differences }
}

const keyOf = (row: TransferRow): string =>
  `${row.accountId} ${row.blockNumber} ${row.logIndex} ${row.batchIndex} ${row.direction}`

/** Reads the stored rows of blocks. Index: transfers (chain_id, block_number). */
async function readRows(
  db: Db,
  { chainId }: Chain,
  { start, end }: { start: number; end: number },
): Promise<TransferRow[]> {
  const rows = await db
    .selectFrom('transfers')
    .selectAll()
    .where('chain_id', '=', chainId)
    // Native currency is audited by sums: sums.ts.
    .where('token_type', '<>', NATIVE_TYPE_NUMBER)
    .where('block_number', '>=', start)
    .where('block_number', '<=', end)
    .execute()
  return rows.map((row) => ({
    accountId: row.account_id,
    blockNumber: row.block_number,
    logIndex: row.log_index,
    batchIndex: row.batch_index,
    direction: row.direction,
    tokenType: row.token_type,
    token: toHex(row.token),
    sender: toHex(row.sender),
    recipient: toHex(row.recipient),
    tokenId: row.token_id === null ? null : toHex(row.token_id),
    value: toHex(row.value),
    hash: toHex(row.hash),
    blockHash: toHex(row.block_hash),
    minedAt: Math.floor(row.mined_at.getTime() / 1_000),
    isSpam: row.is_spam,
    omitted: row.omitted,
  }))
}

async function remove(db: Db, { chainId }: Chain, rows: TransferRow[]): Promise<void> {
  for (const row of rows) {
    await db
      .deleteFrom('transfers')
      .where('account_id', '=', row.accountId)
      .where('chain_id', '=', chainId)
      .where('block_number', '=', row.blockNumber)
      .where('log_index', '=', row.logIndex)
      .where('batch_index', '=', row.batchIndex)
      .where('direction', '=', row.direction)
      .execute()
  }
}
