import { bigNumber } from '../../abi/bignumber.ts'
import { checksumAddress, isWord } from '../../digits.ts'
import { decodeRevert } from '../../abi/reverts.ts'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import type { Revert } from '../../errors.ts'
import { readFailure } from '../../gas/events.ts'
import type { Caller } from '../../http/bearer.ts'
import { fromHex, toHex } from '../../hex.ts'
import { fromWord } from '../../store/bytes.ts'
import type { Db } from '../../store/db.ts'
import type { TransactionState } from '../../store/column-values.ts'
import { payerOf, wireFees, wireOperation } from './answer.ts'
import { readAttemptsOf } from '../attempts.ts'
import { readFees, type AttemptRow, type TransactionRow } from '../intent.ts'
import { toOperation, type OperationRow } from '../operation.ts'
import { readReasons, type Reason } from './reason.ts'
import { readErrors } from './revert.ts'
import { changedAt, inOrder } from './transitions.ts'
import { publicStates, type Transaction } from '../wire.ts'

/**
 * Selects the operations that an application sent for its caller on their network. Operations without a transaction are
 * not visible yet.
 */
const ofCaller = (db: Db, { accountId, clientId, chainId }: Caller) =>
  db
    .selectFrom('operations')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('client_id', 'in', [clientId, ''])
    .where('chain_id', '=', chainId)
    .where('outer_id', 'is not', null)

/**
 * Returns whether a text has the form of an id. Other texts are not searched: the database cannot represent some of
 * them.
 */
export const isTransactionId = (text: string): boolean => /^tx_[0-9a-f-]{36}$/.test(text)

/**
 * Returns the operation with an id, or with any hash of a transaction that included it. If a transaction included
 * several, returns the newest.
 */
export async function findOperation({ db }: App, caller: Caller, idOrHash: string): Promise<OperationRow | null> {
  if (!isTransactionId(idOrHash) && !isWord(idOrHash)) return null
  const row = await (isWord(idOrHash)
    ? ofCaller(db, caller)
        .where(({ exists, selectFrom }) =>
          exists(
            selectFrom('carried as c')
              .innerJoin('attempts as a', 'a.transaction_id', 'c.transaction_id')
              .select('a.hash')
              .whereRef('c.operation_id', '=', 'operations.id')
              .where('a.chain_id', '=', caller.chainId)
              .where('a.hash', '=', fromHex(idOrHash)),
          ),
        )
        .orderBy('created_at', 'desc')
        .orderBy('id', 'desc')
        .limit(1)
        .executeTakeFirst()
    : ofCaller(db, caller).where('id', '=', idOrHash).executeTakeFirst())
  return row ?? null
}

type PagePlace = { createdAt: string; id: string }

/** Returns a page of operations, like `listTransactions` for transactions. */
export const listOperations = (
  { db }: App,
  caller: Caller,
  { limit, after, state }: { limit: number; after: PagePlace | null; state?: TransactionState | undefined },
): Promise<OperationRow[]> =>
  ofCaller(db, caller)
    .$if(state !== undefined, (query) => query.where('state', '=', state!))
    .$if(after !== null, (query) =>
      query.where((eb) => eb(eb.refTuple('created_at', 'id'), '<', eb.tuple(new Date(after!.createdAt), after!.id))),
    )
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()

/** Returns operations as the API shows them, by id. */
export async function showOperations(app: App, chain: Chain, rows: OperationRow[]): Promise<Map<string, Transaction>> {
  if (rows.length === 0) return new Map()
  const ids = rows.map(({ id }) => id)
  const carried = await app.db.selectFrom('carried').selectAll().where('operation_id', 'in', ids).execute()
  const outerIds = [...new Set([...carried.map((one) => one.transaction_id), ...rows.map((row) => row.outer_id!)])]
  const [outers, attempts] = await Promise.all([
    app.db.selectFrom('transactions').selectAll().where('id', 'in', outerIds).execute(),
    readAttemptsOf(app.db, outerIds),
  ])
  const byId = new Map(outers.map((row) => [row.id, row]))
  // Reasons are determined per account, and each sponsor has its own nonces.
  const lanes = Map.groupBy(outers, ({ sender }) => toHex(sender)).values()
  const reasons = new Map((await Promise.all([...lanes].map((lane) => readReasons(app, chain, lane)))).flatMap((one) => [...one])) // prettier-ignore
  return new Map(
    rows.map((row) => {
      const own = carried.filter((one) => one.operation_id === row.id).map((one) => one.transaction_id)
      const tried = [row.outer_id!, ...own.filter((id) => id !== row.outer_id)]
      const shown = toWire(chain, row, byId.get(row.outer_id!)!, {
        current: attempts.get(row.outer_id!) ?? [],
        all: tried.flatMap((id) => attempts.get(id) ?? []),
      })
      const known = row.pack_limit === 0 ? REFUSED_ALONE : (reasons.get(row.outer_id!) ?? null)
      const reason = row.state === 'SUBMITTED' ? known : null
      return [row.id, { ...shown, reason }] as const
    }),
  )
}

const REFUSED_ALONE: Reason = {
  code: 'rejected_by_nodes',
  detail:
    'Nodes of the network reject every transaction with this write. The write is not sent again, and fails at its deadline.',
}

/**
 * Converts an operation. Hash, nonce and fees are those of the transaction that includes it; calls, sender and gas
 * limit are the operation's own.
 */
function toWire(
  chain: Chain,
  row: OperationRow,
  outer: TransactionRow,
  { current, all }: { current: AttemptRow[]; all: AttemptRow[] },
): Transaction {
  const operation = toOperation(row)
  const wire = wireOperation(operation)
  const hash = toHex(outer.hash!)
  const attempt = current.find((one) => toHex(one.hash) === hash)
  return {
    id: row.id,
    state: publicStateOf(row.state),
    hash,
    hashes: all.map((one) => toHex(one.hash)),
    explorerUrl: chain.explorer.tx(hash),
    network: chain.name,
    chainId: row.chain_id,
    nonce: outer.nonce,
    from: checksumAddress(operation.from),
    to: wire.to,
    value: wire.value,
    data: wire.data,
    gasLimit: wire.gasLimit,
    ...wireFees(readFees(attempt ?? outer)),
    isCancel: row.is_cancel,
    isFinal: row.is_final,
    createdAt: row.created_at.toISOString(),
    updatedAt: changedAt(row),
    transitions: inOrder(row.transitions),
    receipt: receiptOf(row, outer),
    revert: revertOf(row),
    reason: null,
    reference: row.reference,
    operation: wire,
    gas: payerOf(toHex(outer.sender)),
  }
}

/** Returns the receipt. Gas and price are those of the whole transaction; the status is the operation's own. */
function receiptOf(row: OperationRow, outer: TransactionRow): Transaction['receipt'] {
  const { block_number: number, block_hash: hash } = row
  const { gas_used: gas, effective_gas_price: price } = outer
  if (number === null || hash === null || gas === null || price === null) return null
  // An operation that failed at its deadline is in no block.
  if (outer.block_hash === null || toHex(outer.block_hash) !== toHex(hash)) return null
  return {
    blockNumber: number,
    blockHash: toHex(hash),
    gasUsed: bigNumber(BigInt(gas)),
    status: row.state === 'MINED' || row.state === 'FINALIZED' ? 'SUCCESS' : 'REVERTED',
    effectiveGasPrice: bigNumber(fromWord(price)),
  }
}

/**
 * Returns why an operation failed, from the dispatcher's event, which includes up to 256 bytes of the contract's revert
 * data.
 */
function revertOf({ reason, abi, calls: packed, ...row }: OperationRow): Revert | null {
  if (reason === null) return null
  const failure = readFailure(toHex(reason))
  if (failure.error !== 'CallFailed')
    return { ...decodeRevert('0x', []), name: failure.error, reason: SAID[failure.error] }
  const { calls } = toOperation({ ...row, reason, abi, calls: packed })
  const called = failure.index === null && calls.length > 1 ? undefined : calls[failure.index ?? 0]
  return decodeRevert(failure.data, readErrors(abi), called ? { data: toHex(called.data), value: called.value } : null)
}

const SAID = {
  NotDelegated: 'The account was not delegated when the operation was sent. Nothing was done.',
  Expired: 'The operation was mined after its deadline. Nothing was done.',
  WrongSignature: 'The signature was not accepted. Nothing was done.',
  Malformed: 'The calls were not accepted. Nothing was done.',
  UsedElsewhere: 'The id of the operation was used up for another account. Nothing was done.',
  OutOfGas: 'The operation ran out of gas. Nothing was done.',
  Unknown: 'The operation failed for an unknown reason. Nothing was done.',
} as const

function publicStateOf(state: TransactionState): Transaction['state'] {
  return publicStates.find((one) => one === state)!
}
