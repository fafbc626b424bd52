import { randomBytes } from 'node:crypto'
import type { App } from '../app.ts'
import type { Block } from '../chain/rpc/block.ts'
import type { Chain } from '../chain/network.ts'
import { storedBlockHash, storedParentHash } from '../store/block-hash.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { findAncestor } from './ancestor.ts'
import { retractIn } from './apply.ts'
import type { BlockListener } from './block.ts'
import { releaseLease, seizeLease } from './cursor.ts'
import { fetchHeader, fetchHeaders } from './fetch.ts'

/** number of blocks with our transactions, below the first stored block, to compare with the node's blocks */
const COMPARED = 50

/**
 * Returns the block to which a network can be rewound: the newest that both chains share.
 * @param toBlock  lower block named by the operator; null: the newest shared block
 * @throws Error  with a message: there is nothing to rewind, or it is unknown where the chains diverge
 * @throws RpcError | RpcUnavailable
 */
export async function findShared({ db }: Pick<App, 'db'>, chain: Chain, toBlock: number | null): Promise<Block> {
  const row = db.selectFrom('cursors').select('block_number').where('chain_id', '=', chain.chainId)
  const [cursor, latest] = await Promise.all([row.executeTakeFirst(), fetchHeader(chain.rpc, 'latest')])
  if (cursor === undefined || latest === null) throw new Error(`The network ${chain.name} has not been followed yet.`)
  const found = await findAncestor({ db }, chain, Math.min(cursor.block_number, latest.number))
  if (toBlock === null) {
    if (found === null)
      throw new Error(
        'The node has none of the stored blocks: give with --to-block the block from which the chains differ, or a lower one.',
      )
    if (found.number === cursor.block_number)
      throw new Error(`There is nothing to rewind: the node has our newest block, ${found.number}.`)
    return found
  }
  const lowest = await db
    .selectFrom('blocks')
    .select(({ fn }) => fn.min('number').as('number'))
    .where('chain_id', '=', chain.chainId)
    .executeTakeFirst()
  const most = found?.number ?? Math.min((lowest?.number ?? 0) - 2, latest.number)
  if (toBlock > most) throw new Error(`The chains differ above block ${most}: use ${most} or less.`)
  await compareOurs(db, chain, toBlock)
  const block = await fetchHeader(chain.rpc, toBlock)
  if (block === null) throw new Error(`The node does not have block ${toBlock}.`)
  return block
}

/**
 * Checks that the node has the blocks with our transactions below the stored blocks.
 * @throws Error
 */
async function compareOurs(db: Db, { chainId, rpc }: Chain, toBlock: number): Promise<void> {
  const rows = await db
    .selectFrom('transactions')
    .select(['block_number', 'block_hash'])
    .distinct()
    .where('chain_id', '=', chainId)
    .where('is_final', 'in', [true, false])
    .where('block_number', '<=', toBlock)
    .where('block_hash', 'is not', null)
    .orderBy('block_number', 'desc')
    .limit(COMPARED)
    .execute()
  const headers = await fetchHeaders(
    rpc,
    rows.map(({ block_number }) => block_number!),
  )
  const other = rows.find(({ block_hash }, index) => headers[index]?.hash !== toHex(block_hash!))
  if (other !== undefined)
    throw new Error(`Block ${other.block_number}, with transactions of ours, is not the node’s: use a lower one.`)
}

/**
 * Rewinds a network to a block that the node has, inside a transaction, whichever process follows the network. Undoes
 * data from higher blocks as in a reorganisation, even if it is final. The next follower derives the data again from
 * the node's blocks.
 * @throws Error  if the follower is below that block now, or has followed another block of its number
 */
export async function rewindTo(
  db: Db,
  app: App,
  chain: Chain,
  { listeners, to }: { listeners: BlockListener[]; to: Block },
): Promise<void> {
  const held = await seizeLease(db, chain.chainId, `rewind:${randomBytes(4).toString('hex')}`)
  if (held === null || held.number < to.number) throw new Error('The follower has moved on in the meantime: try again.')
  // A block below the stored ones is known from the parent hash of the block above it.
  const kept =
    (await storedBlockHash(db, chain.chainId, to.number)) ?? (await storedParentHash(db, chain.chainId, to.number + 1))
  if (kept !== null && kept !== to.hash)
    throw new Error('The block has been reorganised away in the meantime: try again.')
  const next = await retractIn(db, app, chain, listeners, { held, ancestor: to })
  await releaseLease(db, chain.chainId, next)
}
