import { strict as assert } from 'node:assert'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Block } from '../chain/head.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import type { TransactionRow } from './intent.ts'
import { pokeKeeper } from './keep-alive.ts'
import { laneStopped, stopLane } from './lane.ts'
import { markFinal, markMined, markReplaced, unmine, type Mined } from './settle.ts'
import { reach } from './steps.ts'

/** The part of a whole block that is read here. All hex is lower-case. */
type WholeBlock = Block & {
  transactions: Sent[]
  receipts: { transactionHash: Hex; status: boolean; gasUsed: number; effectiveGasPrice: bigint }[]
}
type Sent = { hash: Hex; from: Hex; nonce: number }

/**
 * What blocks mean for our transactions. Everything runs inside the database transaction that moves the follower's
 * cursor; what is mined is found by its hash, whichever of a transaction's attempts that is.
 */
export const followTransactions = {
  async onBlock(db: Db, app: App, chain: Chain, block: WholeBlock): Promise<void> {
    const open = await findOpen(db, chain.chainId, block.transactions)
    const mined: Mined[] = []
    for (const { sent, row } of open.matched) {
      const attempt = row.attempts.get(sent.hash)
      if (attempt !== undefined) mined.push(toMined(block, sent, { id: row.id, isCancel: attempt.isCancel }))
      else await replace(db, app, chain, { block, sent, row })
    }
    await markMined(db, app, chain.chainId, mined)
    for (const sent of await findIntruders(db, chain.chainId, open.unmatched)) await stop(db, app, chain, sent)
    if (block.transactions.length > 0) await reach(app, 'in-block')
  },

  async onRetract(db: Db, app: App, chain: Chain, fromNumber: number): Promise<void> {
    await unmine(db, app, chain.chainId, fromNumber)
    await reach(app, 'in-retract')
  },

  async onFinalize(db: Db, app: App, chain: Chain, throughNumber: number): Promise<void> {
    await markFinal(db, app, chain.chainId, throughNumber)
  },

  afterCommit(app: App, chain: Chain): void {
    pokeKeeper(app, chain)
  },
}

/** `isLost`: the signer's ledger has the nonce for something that the database lost, so what is mined there is ours. */
type OpenRow = { id: string; isLost: boolean; attempts: Map<Hex, { isCancel: boolean }> }

/** pairs per statement */
const CHUNK = 500

/** Our rows for the (sender, nonce) of a block's transactions, by the unique key; each with the hashes it went out under. */
async function findOpen(
  db: Db,
  chainId: number,
  transactions: Sent[],
): Promise<{ matched: { sent: Sent; row: OpenRow }[]; unmatched: Sent[] }> {
  const bySlot = new Map(transactions.map((sent) => [slotOf(sent.from, sent.nonce), sent]))
  const rows = new Map<string, { slot: string; isSettled: boolean; row: OpenRow }>()
  for (let start = 0; start < transactions.length; start += CHUNK) {
    const pairs = transactions.slice(start, start + CHUNK)
    // A join, row by row through the unique key; of a list of pairs PostgreSQL makes a scan of the whole table.
    const { rows: found } = await sql<
      Pick<TransactionRow, 'id' | 'sender' | 'nonce' | 'state' | 'claims' | 'block_number'>
    >`
      select t.id, t.sender, t.nonce, t.state, t.claims, t.block_number
      from json_to_recordset(${JSON.stringify(pairs.map(({ from, nonce }) => ({ sender: from.slice(2), nonce })))}::json)
        as sent (sender text, nonce bigint)
      join transactions t on t.chain_id = ${chainId}::bigint and t.sender = decode(sent.sender, 'hex') and t.nonce = sent.nonce`.execute(
      db,
    )
    for (const { id, sender, nonce, state, claims, block_number } of found) {
      rows.set(id, {
        slot: slotOf(toHex(sender), nonce),
        isSettled: block_number !== null || state === 'FAILED',
        row: { id, isLost: claims === 0, attempts: new Map() },
      })
    }
  }
  if (rows.size > 0) {
    const attempts = await db
      .selectFrom('attempts')
      .select(['hash', 'transaction_id', 'is_cancel'])
      .where('transaction_id', 'in', [...rows.keys()])
      .where('chain_id', '=', chainId)
      .execute()
    for (const { hash, transaction_id, is_cancel } of attempts)
      rows.get(transaction_id)!.row.attempts.set(toHex(hash), { isCancel: is_cancel })
  }
  const slots = new Set([...rows.values()].map(({ slot }) => slot))
  return {
    matched: [...rows.values()]
      .filter(({ isSettled }) => !isSettled)
      .map(({ slot, row }) => ({ sent: bySlot.get(slot)!, row })),
    unmatched: transactions.filter((sent) => !slots.has(slotOf(sent.from, sent.nonce))),
  }
}

const slotOf = (from: Hex, nonce: number): string => `${from} ${nonce}`

function toMined(block: WholeBlock, { hash }: Sent, { id, isCancel }: { id: string; isCancel: boolean }): Mined {
  const receipt = block.receipts.find(({ transactionHash }) => transactionHash === hash)
  assert(receipt, 'a block without the receipt of one of its transactions')
  const { status, gasUsed, effectiveGasPrice } = receipt
  return {
    id,
    hash,
    isCancel,
    blockNumber: block.number,
    blockHash: block.hash,
    succeeded: status,
    gasUsed,
    effectiveGasPrice,
  }
}

async function replace(
  db: Db,
  app: App,
  chain: Chain,
  { block, sent, row }: { block: WholeBlock; sent: Sent; row: OpenRow },
): Promise<void> {
  await markReplaced(db, app, { id: row.id, hash: sent.hash, blockNumber: block.number, blockHash: block.hash })
  if (!row.isLost) await stop(db, app, chain, sent)
}

async function stop(db: Db, app: App, { chainId }: Chain, { from, nonce, hash }: Sent): Promise<void> {
  const intrusion = { chainId, sender: from, nonce, hash, reason: 'foreign_nonce' } as const
  await stopLane(db, intrusion)
  laneStopped(app, intrusion)
}

/**
 * Transactions of our accounts that we have no row of, above a nonce that we have a row of: somebody else holds the
 * key. What an imported account did before its first write here is none of our business.
 */
async function findIntruders(db: Db, chainId: number, unmatched: Sent[]): Promise<Sent[]> {
  const intruders: Sent[] = []
  for (let start = 0; start < unmatched.length; start += CHUNK) {
    const part = unmatched.slice(start, start + CHUNK)
    const senders = [...new Set(part.map(({ from }) => from))].map(fromHex)
    const ours = await db.selectFrom('accounts').select('address').where('address', 'in', senders).execute()
    const addresses = new Set(ours.map(({ address }) => toHex(address)))
    for (const sent of part) {
      if (!addresses.has(sent.from)) continue
      const below = await db
        .selectFrom('transactions')
        .select('id')
        .where('chain_id', '=', chainId)
        .where('sender', '=', fromHex(sent.from))
        .where('nonce', '<', sent.nonce)
        .limit(1)
        .executeTakeFirst()
      if (below !== undefined) intruders.push(sent)
    }
  }
  return intruders
}
