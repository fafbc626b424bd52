/**
 * transactions/read: transactions as the API returns them.
 * Owns: one transaction, lists, reasons, decoded reverts, the log of signatures.
 * Does not own: routes (`transactions/routes.ts`). Changes no state, except that it stores decoded reverts.
 */

import assert from 'node:assert/strict'
import { checksumAddress, isWord } from '../../digits.ts'
import { bigNumber } from '../../abi/bignumber.ts'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { AppError, type Revert } from '../../errors.ts'
import type { Caller } from '../../http/bearer.ts'
import { chainOf } from '../../http/caller.ts'
import { foreignCursor, isMoment, readPageCursor, writeCursor } from '../../http/cursor.ts'
import { fromHex, toHex } from '../../hex.ts'
import { fromWord } from '../../store/bytes.ts'
import type { TransactionState } from '../../store/column-values.ts'
import { wireFees } from './answer.ts'
import { readFees, toBound, type AttemptRow, type TransactionRow } from '../intent.ts'
import { readAttempts, readAttemptsOf } from '../attempts.ts'
import { NO_CLIENT } from '../rows.ts'
import { readReasons, type Reason } from './reason.ts'
import { explainRevert } from './revert.ts'
import { findOperation, isTransactionId, listOperations, showOperations } from './read-operation.ts'
import { changedAt, readTransitions } from './transitions.ts'
import { publicStates, type Transaction } from '../wire.ts'

/**
 * Returns one transaction that this application sent for the caller, by id or by any of its hashes.
 * @throws transaction_not_found  also if it belongs to another user or application
 */
export async function readTransaction(app: App, caller: Caller, idOrHash: string): Promise<Transaction> {
  const chain = chainOf(app, caller)
  const operation = await findOperation(app, caller, idOrHash)
  if (operation !== null) return (await showOperations(app, chain, [operation])).get(operation.id)!
  return show(app, chain, await findTransaction(app, caller, idOrHash))
}

/**
 * Returns the row with an id or a hash.
 * @throws transaction_not_found
 */
export async function findTransaction({ db }: App, caller: Caller, idOrHash: string): Promise<TransactionRow> {
  const id = await findId(db, caller, idOrHash)
  const row =
    id === undefined
      ? undefined
      : await db
          .selectFrom('transactions')
          .selectAll()
          .where('id', '=', id)
          .where('account_id', '=', caller.accountId)
          .where('client_id', 'in', [caller.clientId, NO_CLIENT])
          .where('chain_id', '=', caller.chainId)
          .where('hash', 'is not', null)
          .executeTakeFirst()
  if (row === undefined)
    throw new AppError(
      'transaction_not_found',
      'This application has sent no transaction with this id or hash for this user. Check the id or hash.',
    )
  return row
}

async function findId(db: App['db'], { chainId }: Caller, idOrHash: string): Promise<string | undefined> {
  if (isTransactionId(idOrHash)) return idOrHash
  if (!isWord(idOrHash)) return undefined
  const attempt = await db
    .selectFrom('attempts')
    .select('transaction_id')
    .where('chain_id', '=', chainId)
    .where('hash', '=', fromHex(idOrHash))
    .executeTakeFirst()
  return attempt?.transaction_id
}

/**
 * Returns the transactions that the application sent for the caller, newest first. Uses the index (account, network,
 * time, id).
 * @throws invalid_cursor
 */
export async function listTransactions(
  app: App,
  caller: Caller,
  { limit, cursor, state }: { limit: number; cursor?: string | undefined; state?: TransactionState | undefined },
): Promise<{ transactions: Transaction[]; nextCursor: string | null }> {
  const chain = chainOf(app, caller)
  const after = cursor === undefined ? null : readPageCursor(cursor, ['string', 'string', 'string'])
  if (after !== null && (after[0] !== (state ?? '') || !isPlace(after[1] as string, after[2] as string)))
    throw foreignCursor()
  let query = app.db
    .selectFrom('transactions')
    .selectAll()
    .where('account_id', '=', caller.accountId)
    .where('client_id', 'in', [caller.clientId, NO_CLIENT])
    .where('chain_id', '=', caller.chainId)
    .where('hash', 'is not', null)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit + 1)
  if (state !== undefined) query = query.where('state', '=', state)
  if (after !== null)
    query = query.where((eb) =>
      eb(eb.refTuple('created_at', 'id'), '<', eb.tuple(new Date(after[1] as string), after[2] as string)),
    )
  const rows = await query.execute()
  const place = after === null ? null : { createdAt: after[1] as string, id: after[2] as string }
  const operations = await listOperations(app, caller, { limit: limit + 1, after: place, state })
  // Merge transactions and operations.
  const all = [...rows, ...operations].toSorted(newestFirst)
  const shown = all.slice(0, limit)
  const last = shown.at(-1)
  const page = rows.filter((row) => shown.includes(row))
  const [attempts, reasons, carried] = await Promise.all([
    readAttemptsOf(
      app.db,
      page.map(({ id }) => id),
    ),
    readReasons(app, chain, page),
    showOperations(
      app,
      chain,
      operations.filter((row) => shown.includes(row)),
    ),
  ])
  return {
    transactions: shown.map((row) =>
      'sequence' in row
        ? carried.get(row.id)!
        : toWire(chain, row, attempts.get(row.id) ?? [], reasons.get(row.id) ?? null),
    ),
    nextCursor:
      all.length > limit && last !== undefined
        ? writeCursor([state ?? '', last.created_at.toISOString(), last.id])
        : null,
  }
}

type Dated = { created_at: Date; id: string }
const newestFirst = (a: Dated, b: Dated): number =>
  b.created_at.getTime() - a.created_at.getTime() || (a.id < b.id ? 1 : -1)

/**
 * Returns whether a cursor's position is valid. A forged one may hold a date or a text that the database cannot
 * represent.
 */
const isPlace = (createdAt: string, id: string): boolean =>
  isMoment(createdAt) && /^tx_[0-9a-f-]{36}$/.test(id) // prettier-ignore

/**
 * Converts a transaction, with the reason of its failure, which is determined at the first request, and with the reason
 * why it is not mined yet.
 */
async function show(app: App, chain: Chain, row: TransactionRow): Promise<Transaction> {
  const [attempts, revert, reasons] = await Promise.all([
    readAttempts(app, { id: row.id, chainId: row.chain_id }),
    explainRevert(app, chain, row),
    readReasons(app, chain, [row]),
  ])
  return { ...toWire(chain, row, attempts, reasons.get(row.id) ?? null), revert }
}

function toWire(chain: Chain, row: TransactionRow, attempts: AttemptRow[], reason: Reason | null): Transaction {
  const { id, chainId, from, nonce, to, value, data, gas } = toBound(row)
  const hash = toHex(row.hash!)
  const current = attempts.find((attempt) => toHex(attempt.hash) === hash)
  return {
    id,
    state: publicStateOf(row),
    hash,
    hashes: attempts.map((attempt) => toHex(attempt.hash)),
    explorerUrl: chain.explorer.tx(hash),
    network: chain.name,
    chainId,
    nonce,
    from: checksumAddress(from),
    to: checksumAddress(to),
    value: bigNumber(value),
    data,
    gasLimit: bigNumber(current === undefined ? gas : BigInt(current.gas_limit)),
    ...wireFees(readFees(current ?? row)),
    isCancel: row.is_cancel,
    isFinal: row.is_final,
    createdAt: row.created_at.toISOString(),
    updatedAt: changedAt(row),
    transitions: readTransitions(row.transitions, attempts),
    receipt: readReceipt(row),
    revert: row.revert as Revert | null,
    reason,
    reference: row.reference,
  }
}

/** A row with bytes has a public state: `findTransaction` and `listTransactions` select rows with a hash. */
function publicStateOf({ id, state }: TransactionRow): Transaction['state'] {
  const shown = publicStates.find((one) => one === state)
  assert(shown !== undefined, `${id} has a hash and is ${state}`)
  return shown
}

function readReceipt(row: TransactionRow): Transaction['receipt'] {
  const { block_number, block_hash, gas_used, effective_gas_price, succeeded } = row
  if (block_number === null || block_hash === null || gas_used === null || effective_gas_price === null) return null
  return {
    blockNumber: block_number,
    blockHash: toHex(block_hash),
    status: succeeded === true ? 'SUCCESS' : 'REVERTED',
    gasUsed: bigNumber(BigInt(gas_used)),
    effectiveGasPrice: bigNumber(fromWord(effective_gas_price)),
  }
}
