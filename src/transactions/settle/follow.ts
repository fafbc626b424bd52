/**
 * transactions/settle: results of writes, read from blocks.
 * Owns: states of transactions, operations and top-ups by blocks, their reversal, foreign transactions in a nonce, what a write cost.
 * Does not own: reading and verifying blocks (`follower/follow.ts`).
 */

import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import type { Log } from '../../follower/block.ts'
import type { Hex } from '../../ids.ts'
import { byteaArray } from '../../store/bytea-array.ts'
import { fromHex, toHex } from '../../hex.ts'
import type { Db } from '../../store/db.ts'
import { reopenTopUps } from '../sponsors/gas-budget.ts'
import { pokeKeeper } from '../recovery/poke.ts'
import { laneStopped, stopLane } from '../recovery/stop-lane.ts'
import { prove, type MinedOutcome, type Provable } from './prove.ts'
import { holdForeign } from '../recovery/resume.ts'
import { markFinal, markMined, markReplaced, revertToPending, type Mined } from './states.ts'
import { findOuters, settleOperations, type MinedOuter } from './settle-operations.ts'
import { crashAt, reach } from '../crash-points.ts'
import { ledgerAttempts, applyLedgerRecord } from '../recovery/reconcile.ts'

/** Fields of a block that this file reads. All hex is lower-case. */
type WholeBlock = Provable & { receipts: Sent[] }
type Sent = { transactionHash: Hex; from: Hex; logs?: readonly Log[] }

/** A transaction of one of our accounts that is not a known attempt. */
type Foreign = { hash: Hex; from: Hex; nonce: number; receipt: MinedOutcome }

/**
 * Applies blocks to our transactions. Everything runs inside the database transaction that moves the follower's cursor.
 * A mined transaction is found by the hash of any of its attempts.
 */
export const followTransactions = {
  async onBlock(db: Db, app: App, chain: Chain, block: WholeBlock): Promise<void> {
    const known = await findAttempts(db, chain.chainId, block)
    const unknown = await findUnknown(db, block.receipts, known)
    // Other senders in the space may send operations that our accounts signed, because signed bytes are public.
    const others = await findOuters(
      db,
      chain.chainId,
      block.receipts.filter(({ transactionHash }) => !known.has(transactionHash)),
    )
    // Verify every outcome here: after finality it cannot be reverted, and the caller sends a failed write again.
    const { nonces, receipts } = await prove(app, chain, block, {
      signed: new Map([...known].flatMap(([hash, { raw }]) => (raw === null ? [] : [[hash, raw]]))),
      claimed: [
        ...new Set([...withoutBytes(known), ...unknown.map(({ transactionHash }) => transactionHash), ...others]),
      ],
    })
    const mined = block.receipts.flatMap(({ transactionHash: hash }) => {
      const attempt = known.get(hash)
      return attempt === undefined || attempt.isMined ? [] : [toMined(block, receipts.get(hash)!, { ...attempt, hash })]
    })
    await markMined(db, app, chain.chainId, mined)
    await settleOperations(
      db,
      app,
      chain,
      block,
      logged(receipts, [...known.keys(), ...others], (hash) => known.get(hash)?.isCancel === true),
    )
    for (const { transactionHash: hash, from } of unknown) {
      const foreign = { hash, from, nonce: nonces.get(hash)!, receipt: receipts.get(hash)! }
      await handleForeignTransaction(db, app, chain, block, foreign)
    }
    if (block.receipts.length > 0) await reach(app, 'in-block')
  },

  async onRetract(db: Db, app: App, chain: Chain, fromNumber: number): Promise<void> {
    await revertToPending(db, app, chain.chainId, fromNumber)
    await reopenTopUps(db, chain.chainId, fromNumber)
    await reach(app, 'in-retract')
  },

  async onFinalize(db: Db, app: App, chain: Chain, throughNumber: number): Promise<void> {
    await markFinal(db, app, chain.chainId, throughNumber)
  },

  /** Runs after a block and after a rollback. */
  afterCommit(app: App, chain: Chain): void {
    crashAt('after-follow')
    pokeKeeper(app, chain)
  },
}

/** hashes or senders per statement */
const CHUNK = 500

/**
 * One of our attempts. `isMined`: its row has this very block. If the row has another block, this block corrects it.
 */
type OwnAttempt = { id: string; isCancel: boolean; isMined: boolean; raw: Buffer | null }

/** Returns the transactions of a block that are our attempts, by hash. */
async function findAttempts(
  db: Db,
  chainId: number,
  { hash: blockHash, receipts }: WholeBlock,
): Promise<Map<Hex, OwnAttempt>> {
  const known = new Map<Hex, OwnAttempt>()
  for (let start = 0; start < receipts.length; start += CHUNK) {
    const hashes = receipts.slice(start, start + CHUNK).map(({ transactionHash }) => transactionHash)
    const rows = await db
      .selectFrom('attempts')
      .innerJoin('transactions', 'transactions.id', 'attempts.transaction_id')
      .select(['attempts.hash', 'attempts.raw', 'attempts.is_cancel', 'transactions.id', 'block_hash'])
      .where('attempts.chain_id', '=', chainId)
      .where((eb) => eb('attempts.hash', '=', eb.fn.any(byteaArray(hashes))))
      .execute()
    for (const { hash, id, is_cancel, raw, block_hash } of rows) {
      const isMined = block_hash !== null && toHex(block_hash) === blockHash
      known.set(toHex(hash), { id, isCancel: is_cancel, isMined, raw: raw === null ? null : Buffer.from(raw) })
    }
  }
  return known
}

/** Returns the logs of our transactions from their verified receipts. */
const logged = (
  receipts: ReadonlyMap<Hex, MinedOutcome>,
  hashes: Hex[],
  isCancel: (hash: Hex) => boolean = () => false,
): MinedOuter[] =>
  hashes.flatMap((hash) => {
    const receipt = receipts.get(hash)
    if (receipt === undefined) return []
    const { status, logs = [] } = receipt
    return logs.length === 0 && status && !isCancel(hash) ? [] : [{ hash, status, logs }]
  })

/** Returns the attempts whose bytes were dropped before a rewind. For them, the sender is verified instead. */
const withoutBytes = (known: Map<Hex, OwnAttempt>): Hex[] =>
  [...known].filter(([, { raw }]) => raw === null).map(([hash]) => hash)

function toMined(
  block: WholeBlock,
  { status, gasUsed, effectiveGasPrice }: MinedOutcome,
  { id, hash, isCancel }: Pick<OwnAttempt, 'id' | 'isCancel'> & { hash: Hex },
): Mined {
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

/**
 * Returns transactions that our accounts sent but that are not known attempts: someone else has the key, or the
 * database has lost them.
 */
async function findUnknown(db: Db, all: Sent[], known: Map<Hex, OwnAttempt>): Promise<Sent[]> {
  const receipts = all.filter(({ transactionHash }) => !known.has(transactionHash))
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
  return receipts.filter(({ from }) => ours.has(from))
}

/**
 * Handles a transaction of one of our accounts that the database does not have. After a restore of an older database,
 * the signer's ledger may have it: then the row is restored.
 * Otherwise the transaction has used the nonce of one of our intents, or one above a nonce that we used, so someone
 * else holds the key. Transactions of an imported account from before its first write here are ignored.
 * @throws signer_unavailable: then the block is not applied, and is fetched again
 */
async function handleForeignTransaction(
  db: Db,
  app: App,
  chain: Chain,
  block: WholeBlock,
  foreign: Foreign,
): Promise<void> {
  const { hash, from, nonce } = foreign
  const ofSender = db
    .selectFrom('transactions')
    .where('chain_id', '=', chain.chainId)
    .where('sender', '=', fromHex(from))
  const held = await ofSender.select(['id', 'block_number']).where('nonce', '=', nonce).executeTakeFirst()
  if (held !== undefined && held.block_number !== null) return
  const slot = { chainId: chain.chainId, from, nonce }
  const attempts = await ledgerAttempts(app, slot)
  // Restore the record even if another transaction was mined: a caller may know its id, so the record retains that id.
  // If an intent was bound to this nonce since, the next request binds that intent to another nonce.
  if (attempts.length > 0) await applyLedgerRecord(db, app, slot, attempts)
  const row =
    attempts.length === 0 ? held : await ofSender.select('id').where('nonce', '=', nonce).executeTakeFirstOrThrow()
  const ours = attempts.find((attempt) => attempt.hash === hash)
  if (row !== undefined && ours !== undefined) {
    const isCancel = ours.kind === 'cancel'
    await markMined(db, app, chain.chainId, [toMined(block, foreign.receipt, { id: row.id, hash, isCancel })])
    await settleOperations(
      db,
      app,
      chain,
      block,
      logged(new Map([[hash, foreign.receipt]]), [hash], () => isCancel),
    )
  } else if (row !== undefined) {
    await markReplaced(db, app, { id: row.id, hash, blockNumber: block.number, blockHash: block.hash })
    await stop(db, app, chain, foreign)
  } else {
    const below = await ofSender.select('account_id').where('nonce', '<', nonce).limit(1).executeTakeFirst()
    if (below === undefined) return
    await holdForeign(db, { ...slot, accountId: below.account_id, block, isFinal: false, hash }, app.clock)
    await stop(db, app, chain, foreign)
  }
}

async function stop(db: Db, app: App, { chainId }: Chain, { from, nonce, hash }: Foreign): Promise<void> {
  const intrusion = { chainId, sender: from, nonce, hash, reason: 'foreign_nonce' } as const
  laneStopped(app, intrusion, await stopLane(db, intrusion))
}
