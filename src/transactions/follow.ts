import type { App } from '../app.ts'
import type { Block } from '../chain/head.ts'
import type { Chain } from '../chain/network.ts'
import { readAddress, readHash, readNumber, readObject } from '../chain/answers.ts'
import { BadAnswer, RpcError } from '../chain/failures.ts'
import type { Hex } from '../ids.ts'
import { byteaArray } from '../store/bytea-array.ts'
import { fromHex, toHex } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import type { TransactionRow } from './intent.ts'
import { pokeKeeper } from './keep-alive.ts'
import { laneStopped, stopLane } from './lane.ts'
import { markFinal, markMined, markReplaced, unmine, type Mined } from './settle.ts'
import { crashAt, reach } from './steps.ts'
import { recallMined, takeIn } from './take-in.ts'

/** The part of a whole block that is read here. All hex is lower-case. */
type WholeBlock = Block & { receipts: Receipt[] }
type Receipt = { transactionHash: Hex; from: Hex; status: boolean; gasUsed: number; effectiveGasPrice: bigint }

/** A transaction of one of our accounts that is none of the attempts we know. */
type Foreign = { hash: Hex; from: Hex; nonce: number; receipt: Receipt }

/**
 * What blocks mean for our transactions. Everything runs inside the database transaction that moves the follower's
 * cursor; what is mined is found by its hash, whichever of a transaction's attempts that is.
 */
export const followTransactions = {
  async onBlock(db: Db, app: App, chain: Chain, block: WholeBlock): Promise<void> {
    const known = await findAttempts(db, chain.chainId, block.receipts)
    const mined = block.receipts.flatMap((receipt) => {
      const attempt = known.get(receipt.transactionHash)
      return attempt === undefined || attempt.isSettled ? [] : [toMined(block, receipt, attempt)]
    })
    await markMined(db, app, chain.chainId, mined)
    const unknown = block.receipts.filter(({ transactionHash }) => !known.has(transactionHash))
    for (const foreign of await findForeign(db, chain, block, unknown)) await meet(db, app, chain, block, foreign)
    if (block.receipts.length > 0) await reach(app, 'in-block')
  },

  async onRetract(db: Db, app: App, chain: Chain, fromNumber: number): Promise<void> {
    await unmine(db, app, chain.chainId, fromNumber)
    await reach(app, 'in-retract')
  },

  async onFinalize(db: Db, app: App, chain: Chain, throughNumber: number): Promise<void> {
    await markFinal(db, app, chain.chainId, throughNumber)
  },

  /** After a block as after a rollback. */
  afterCommit(app: App, chain: Chain): void {
    crashAt('after-follow')
    pokeKeeper(app, chain)
  },
}

/** hashes or senders per statement */
const CHUNK = 500
/** calls of one JSON-RPC batch; providers refuse more than 50 to 100 */
const BATCH = 50

type Known = { id: string; isCancel: boolean; isSettled: boolean }

/** Which of a block's transactions are attempts of ours, by hash. */
async function findAttempts(db: Db, chainId: number, receipts: Receipt[]): Promise<Map<Hex, Known>> {
  const known = new Map<Hex, Known>()
  for (let start = 0; start < receipts.length; start += CHUNK) {
    const hashes = receipts.slice(start, start + CHUNK).map(({ transactionHash }) => transactionHash)
    const rows = await db
      .selectFrom('attempts')
      .innerJoin('transactions', 'transactions.id', 'attempts.transaction_id')
      .select(['attempts.hash', 'attempts.is_cancel', 'transactions.id', 'state', 'block_number'])
      .where('attempts.chain_id', '=', chainId)
      .where((eb) => eb('attempts.hash', '=', eb.fn.any(byteaArray(hashes))))
      .execute()
    for (const { hash, id, is_cancel, state, block_number } of rows)
      known.set(toHex(hash), { id, isCancel: is_cancel, isSettled: isSettled(state, block_number) })
  }
  return known
}

const isSettled = (state: TransactionRow['state'], block: number | null): boolean =>
  block !== null || state === 'FAILED'

function toMined(
  block: WholeBlock,
  { transactionHash, status, gasUsed, effectiveGasPrice }: Receipt,
  { id, isCancel }: Known,
): Mined {
  return {
    id,
    hash: transactionHash,
    isCancel,
    blockNumber: block.number,
    blockHash: block.hash,
    succeeded: status,
    gasUsed,
    effectiveGasPrice,
  }
}

/**
 * Of transactions that are no attempts of ours, those that our accounts sent, with their nonces. Only these make the
 * node be asked, inside the database transaction: somebody else has the key, or the database lost what it knew.
 * @throws RpcError | RpcUnavailable | BadAnswer
 */
async function findForeign(db: Db, { rpc }: Chain, { hash }: Block, receipts: Receipt[]): Promise<Foreign[]> {
  const ours = new Set<Hex>()
  for (let start = 0; start < receipts.length; start += CHUNK) {
    const senders = [...new Set(receipts.slice(start, start + CHUNK).map(({ from }) => from))]
    const accounts = await db
      .selectFrom('accounts')
      .select('address')
      .where((eb) => eb('address', '=', eb.fn.any(byteaArray(senders))))
      .execute()
    for (const { address } of accounts) ours.add(toHex(address))
  }
  const theirs = receipts.filter(({ from }) => ours.has(from))
  const foreign: Foreign[] = []
  for (let start = 0; start < theirs.length; start += BATCH) {
    const part = theirs.slice(start, start + BATCH)
    const answers = await rpc.batch(
      part.map(({ transactionHash }) => ({ method: 'eth_getTransactionByHash', params: [transactionHash] })),
    )
    for (const [index, receipt] of part.entries())
      foreign.push({
        hash: receipt.transactionHash,
        from: receipt.from,
        nonce: readNonce(answers[index], hash, receipt),
        receipt,
      })
  }
  return foreign
}

/** The nonce of a transaction of this block, which has to be the one that the receipt is of. @throws RpcError | BadAnswer */
function readNonce(answer: unknown, blockHash: Hex, { transactionHash, from }: Receipt): number {
  if (answer instanceof RpcError) throw answer
  const sent = readObject(answer, 'a transaction of its block')
  const isSame =
    readHash(sent.blockHash, 'block of a transaction') === blockHash &&
    readHash(sent.hash, 'hash of a transaction') === transactionHash &&
    readAddress(sent.from, 'sender of a transaction') === from
  if (!isSame) throw new BadAnswer('the node contradicts itself about a transaction of its block')
  return readNumber(sent.nonce, 'nonce of a transaction')
}

/**
 * A transaction of one of our accounts that we never signed, as far as the database knows. The signer's ledger knows
 * better after a restore of an older database: what it signed is taken in. Else it has used the nonce of an intent of
 * ours, or one above a nonce that we have used, so somebody else holds the key. What an imported account did before its
 * first write here is none of our business.
 * @throws signer_unavailable: then the block is not taken, and asked for again
 */
async function meet(db: Db, app: App, chain: Chain, block: WholeBlock, foreign: Foreign): Promise<void> {
  const { hash, from, nonce } = foreign
  const ofSender = db
    .selectFrom('transactions')
    .where('chain_id', '=', chain.chainId)
    .where('sender', '=', fromHex(from))
  const row = await ofSender.select(['id', 'state', 'block_number']).where('nonce', '=', nonce).executeTakeFirst()
  if (row !== undefined && isSettled(row.state, row.block_number)) return
  const ours = await recallMined(app, chain, foreign)
  if (row === undefined && ours !== null) {
    await takeIn(db, app, chain, foreign, ours)
    const { intentId: id, isCancel } = ours
    await markMined(db, app, chain.chainId, [toMined(block, foreign.receipt, { id, isCancel, isSettled: false })])
  } else if (row === undefined) {
    const below = await ofSender.select('id').where('nonce', '<', nonce).limit(1).executeTakeFirst()
    if (below !== undefined) await stop(db, app, chain, foreign)
  } else if (ours?.intentId !== row.id) {
    // Of an intent that was lost, in the place of one that was bound since: that one can never be mined.
    await markReplaced(db, app, { id: row.id, hash, blockNumber: block.number, blockHash: block.hash })
    if (ours === null) await stop(db, app, chain, foreign)
  }
  // Else its bytes were lost, not the intent: the keeper finds them in the ledger, and the block by its receipt.
}

async function stop(db: Db, app: App, { chainId }: Chain, { from, nonce, hash }: Foreign): Promise<void> {
  const intrusion = { chainId, sender: from, nonce, hash, reason: 'foreign_nonce' } as const
  await stopLane(db, intrusion)
  laneStopped(app, intrusion)
}
