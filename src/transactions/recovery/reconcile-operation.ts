import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { currentFees } from '../../chain/current-fees.ts'
import { highestPrice } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import type { Hex } from '../../ids.ts'
import type { RecalledOperation } from '../../signer-wire/wire.ts'
import { fromHex, toHex } from '../../hex.ts'
import { fromWord } from '../../store/bytes.ts'
import { retrying, type Db } from '../../store/db.ts'
import { rowOf } from '../lanes/bind-operation.ts'
import { operationRows } from '../rows.ts'
import { reach } from '../crash-points.ts'
import { knownDataGas } from '../lanes/data-gas.ts'
import { countSpent } from '../sponsors/gas-budget.ts'
import { linkOperations } from '../lanes/link.ts'
import { aloneGas } from '../lanes/operation-gas.ts'
import { bringBack, whenSigned, reconcileNonce } from './reconcile.ts'

/**
 * Restores to the database the record that the signer's ledger has for an intent: a transaction of its account, or an
 * operation. Safe to repeat.
 * @returns which of the two was signed; null if neither was
 * @throws signer_unavailable, database_unavailable
 */
export async function reconcileIntent(
  app: App,
  { chainId }: Pick<Chain, 'chainId'>,
  id: string,
): Promise<'transaction' | 'operation' | null> {
  const { attempts, operation, authorization } = await app.signer.recall({ intentId: id })
  const [newest] = attempts
  if (newest !== undefined) return (await reconcileNonce(app, newest)) ? 'transaction' : null
  if (operation === undefined || operation.chainId !== chainId) return null
  await reconcileOperation(app, operation, authorization?.intentId === id ? authorization.nonce : null)
  return 'operation'
}

/**
 * Restores an operation that the database has lost, and every transaction that included it. Its highest cost counts in
 * its budgets until it is settled, as after binding, because it may already cost that.
 * @param nonce  nonce of the account's authorization; null: the account had delegated before
 */
async function reconcileOperation(app: App, operation: RecalledOperation, nonce: number | null): Promise<void> {
  const { intentId: id } = operation
  await bringBack(app, { userId: operation.userId, address: operation.from })
  // The transactions are restored first: an operation row without a transaction is treated as never sent.
  for (const { from, nonce: slot } of operation.outers)
    await reconcileNonce(app, { chainId: operation.chainId, from, nonce: slot })
  const isNew = await putRow(app, operation, { authorizationNonce: nonce, price: await priceNow(app, operation) })
  if (isNew)
    app.telemetry.log.warn('operation_restored', { chainId: operation.chainId, id, sender: operation.from, outers: operation.outers.length }) // prettier-ignore
}

/**
 * Inserts or corrects the row, and links its transactions in the same commit. A row that was bound under this id since
 * was never signed: otherwise the ledger would have its signature. A row that a transaction includes is not changed.
 */
async function putRow(
  app: App,
  operation: RecalledOperation,
  { authorizationNonce, price }: { authorizationNonce: number | null; price: bigint },
): Promise<boolean> {
  const { intentId: id, clientId, chainId, from, space, sequence, gasLimit, deadline, requestHash } = operation
  const { delegate = 'chatelaine' } = operation
  return retrying(() =>
    app.db.transaction().execute(async (db) => {
      const { account_id: accountId } = await db
        .selectFrom('accounts')
        .select('account_id')
        .where('address', '=', fromHex(from))
        .executeTakeFirstOrThrow()
      const calls = operation.calls.map(({ to, value, data }) => ({ to: fromHex(to), value: BigInt(value), data: fromHex(data) })) // prettier-ignore
      const signedFor = { calls, gas: BigInt(gasLimit), authorizationNonce, delegate }
      // Lock the network before all rows, in the order of a reservation.
      await db.selectFrom('networks').select('chain_id').where('chain_id', '=', chainId).forUpdate().execute()
      const chain = app.chains.get(chainId)
      const gas = aloneGas(signedFor) + (chain === undefined ? 0n : knownDataGas(chain, signedFor))
      const charged = gas * (await dearestOf(db, operation, price))
      const row = rowOf(
        { chainId },
        {
          id,
          accountId,
          clientId: clientId ?? '',
          chainId,
          from,
          space,
          sequence: Number(sequence),
          ...signedFor,
          deadline,
          abi: '',
          charged,
          requestHash: requestHash === null ? null : fromHex(requestHash),
          reference: null,
        },
      )
      // Correct the space and the account code as well: the network may use others now.
      const { delegate: code, space: of, sequence: number, calls: packed, gas_limit, deadline: last, authorization_nonce, request_hash } = row // prettier-ignore
      const signed = { delegate: code, space: of, sequence: number, calls: packed, gas_limit, deadline: last, authorization_nonce, request_hash } // prettier-ignore
      // Another row with this number was never signed with it. It gets a new number when it is signed.
      await operationRows
        .update(db, 'makeWay')
        .set({ sequence: sql<number>`-1 - sequence` })
        .where('chain_id', '=', chainId)
        .where('space', '=', fromHex(space))
        .where('sequence', '=', number)
        .where('id', '<>', id)
        .where((eb) =>
          eb.or([
            eb('state', '=', 'BOUND'),
            // The row expired, and only the clock decided that.
            eb.and([eb('state', '=', 'FAILED'), eb('outer_id', 'is', null), eb('event_log', 'is', null)]),
          ]),
        )
        .execute()
      // Lock in one order, and before the operations, as storing does.
      for (const { intentId } of operation.outers.toSorted((a, b) => (a.intentId < b.intentId ? -1 : 1)))
        await db.selectFrom('transactions').select('id').where('id', '=', intentId).forUpdate().execute()
      const taken = await operationRows
        .insert(db, 'reconcile', [{ ...row, created_at: whenSigned(operation) }])
        .onConflict((on) =>
          on
            .column('id')
            .doUpdateSet({
              ...operationRows.changed('reconcile'),
              ...signed,
              reference: sql<string | null>`case when operations.request_hash is not distinct from excluded.request_hash
                then operations.reference end`,
              // The row may have been bound again after this database transaction began.
              created_at: sql<Date>`least(excluded.created_at, operations.created_at)`,
              updated_at: sql`now()`,
            })
            .where(operationRows.isFrom('reconcile')),
        )
        .returning(sql<boolean>`xmax = 0`.as('is_new'))
        .executeTakeFirst()
      for (const { intentId, hash } of operation.outers) await linkStored(db, app, intentId, hash)
      // Count after all rows are written, because a follower also locks rows before budget counters.
      if (taken?.is_new === true) await countSpent(db, { chainId, clientId: row.client_id, accountId, wei: charged })
      await reach(app, 'in-restore-operation')
      return taken?.is_new ?? false
    }),
  )
}

/**
 * Returns the wei per gas at which a retry would send an operation without a transaction. Returns 0 if the node does
 * not respond: the operation then reserves nothing, and its cost counts once it is settled.
 */
async function priceNow({ chains }: App, { chainId, outers }: RecalledOperation): Promise<bigint> {
  const chain = chains.get(chainId)
  if (outers.length > 0 || chain === undefined) return 0n
  return currentFees(chain).then(highestPrice, () => 0n)
}

/**
 * Returns the highest price per gas that a sponsor offered for the operation, wei. The caller has restored the
 * sponsor's transactions.
 */
async function dearestOf(db: Db, { chainId, outers }: RecalledOperation, price: bigint): Promise<bigint> {
  if (outers.length === 0) return price
  const ids = outers.map(({ intentId }) => intentId)
  const rows = await db.selectFrom('attempts').select('max_fee').where('chain_id', '=', chainId).where('transaction_id', 'in', ids).execute() // prettier-ignore
  return rows.reduce((most, { max_fee: fee }) => (fromWord(fee) > most ? fromWord(fee) : most), 0n)
}

/** Links a restored operation to a transaction whose row already existed. Inside a transaction. */
async function linkStored(db: Db, app: App, outerId: string, hash: Hex): Promise<void> {
  const row = await db
    .selectFrom('transactions')
    .select(['id', 'chain_id', 'data'])
    .where('id', '=', outerId)
    .where('hash', 'is not', null)
    .executeTakeFirst()
  if (row !== undefined)
    await linkOperations(db, app, { id: row.id, chainId: row.chain_id, data: toHex(row.data) }, hash)
}
