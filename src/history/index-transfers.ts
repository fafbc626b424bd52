import { noteFinalTransfers, noteTransfers } from '../events/transfers.ts'
import type { Trailing } from '../follower/block.ts'
import { noteTokens, reviewTokens } from '../tokens/record.ts'
import { refreshTokens } from '../tokens/refresh.ts'
import { insertTransfers } from './columns.ts'
import { lowerCoverage, markHistory } from './coverage.ts'
import { gatherNative } from './index-native.ts'
import { lowerNative } from './native-coverage.ts'
import { findTransfers, rowsOf } from './rows.ts'

/** Updates the `transfers` table from the canonical chain, for our accounts, at the history's cursor. */
export const indexTransfers: Trailing = {
  isTrailing: true,

  gather: gatherNative,

  onBlocks: async (db, _app, chain, blocks) => {
    await markHistory(db, chain, blocks[0]!.number)
    const found = blocks.flatMap(findTransfers)
    if (found.length === 0) return
    const { rows, tokens } = await rowsOf(db, chain, found)
    if (rows.length === 0) return
    await insertTransfers(db, chain, rows)
    await noteTokens(db, chain, tokens)
  },

  onStored: async (db, { chainId }, after) => {
    await noteTransfers(db, chainId, 'detected', after + 1)
    await noteFinalTransfers(db, chainId)
  },

  onRetract: async (db, _app, chain, fromNumber) => {
    await noteTransfers(db, chain.chainId, 'retracted', fromNumber)
    await reviewTokens(db, chain, fromNumber)
    await lowerCoverage(db, chain, fromNumber)
    await lowerNative(db, chain, fromNumber)
    await db
      .deleteFrom('transfers')
      .where('chain_id', '=', chain.chainId)
      .where('block_number', '>=', fromNumber)
      .execute()
  },

  afterCommit: (app, chain) => void refreshTokens(app, chain),
}
