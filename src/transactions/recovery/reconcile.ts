import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Fees } from '../../chain/fees.ts'
import { readRaw } from '../../follower/transaction.ts'
import { newTransactionId, parseUserId, SPONSOR_PROVIDER, type Hex, type UserId } from '../../ids.ts'
import type { Recalled } from '../../signer-wire/wire.ts'
import { byteaArray } from '../../store/bytea-array.ts'
import { fromHex, toHex } from '../../hex.ts'
import { toWord } from '../../store/bytes.ts'
import { isUniqueViolation } from '../../store/away.ts'
import { retrying, type Db } from '../../store/db.ts'
import type { Transition } from '../../store/column-values.ts'
import { restoreAccount } from '../../users/pregenerate.ts'
import { readDispatch } from '../../gas/dispatch.ts'
import { readAuthorizations } from '../../follower/transaction.ts'
import { CHANGED_NOW, NO_CLIENT, nobodysNonce, transactionRows } from '../rows.ts'
import { delegateOf } from '../sponsors/delegation.ts'
import { linkOperations } from '../lanes/link.ts'
import { reservedFor } from '../lanes/funds.ts'
import { writeFees, type Attempt } from '../intent.ts'
import { MIN_GAS } from '../lanes/limits.ts'
import { reconcileTopUp } from './reconcile-top-up.ts'

/** A nonce of an account on a network. */
export type NonceSlot = { chainId: number; from: Hex; nonce: number }

/**
 * Returns the ledger records of a nonce or an intent, newest first, in as many requests as needed.
 * @throws signer_unavailable
 */
export async function ledgerAttempts(
  { signer }: Pick<App, 'signer'>,
  of: NonceSlot | { intentId: string },
): Promise<Recalled[]> {
  // If both are given, the nonce decides.
  const asked = 'nonce' in of ? { chainId: of.chainId, from: of.from, nonce: of.nonce } : { intentId: of.intentId }
  const all: Recalled[] = []
  for (;;) {
    const before = all.at(-1)?.seq
    const { attempts, hasMore } = await signer.recall({ ...asked, ...(before === undefined ? {} : { before }) })
    all.push(...attempts)
    if (!hasMore) return all
  }
}

/** Converts a record of the signer's ledger to an attempt. */
export function toAttempt(recalled: Recalled): Attempt {
  const { raw, hash, gas, kind } = recalled
  return { raw, hash, gas: BigInt(gas), fees: readFees(recalled), isCancel: kind === 'cancel' }
}

function readFees({ gasPrice, maxFeePerGas, maxPriorityFeePerGas }: Recalled): Fees {
  if (gasPrice !== undefined) return { type: 'legacy', gasPrice: BigInt(gasPrice) }
  return { type: 'eip1559', maxFeePerGas: BigInt(maxFeePerGas!), maxPriorityFeePerGas: BigInt(maxPriorityFeePerGas!) }
}

/**
 * Restores the row of a nonce from the signer's ledger: the transaction that the database has lost, with all its
 * attempts, under its own id. The bytes are to be sent immediately, because the nodes may have lost them as well. Safe
 * to repeat.
 * @returns whether the ledger has a record for the nonce
 * @throws signer_unavailable, database_unavailable
 */
export async function reconcileNonce(app: App, slot: NonceSlot): Promise<boolean> {
  const attempts = await ledgerAttempts(app, slot)
  if (attempts.length === 0) return false
  const { userId } = attempts[0]!
  await bringBack(app, { userId, address: slot.from })
  for (let race = 1; ; race++) {
    try {
      await retrying(() => app.db.transaction().execute((db) => applyLedgerRecord(db, app, slot, attempts)))
      return true
    } catch (error) {
      // A retry with the same key has bound the id under another nonce. The next attempt frees the id.
      if (!isUniqueViolation(error) || race === MAX_RACES) throw error
    }
  }
}

/** Restores the rows of an account that has a signature in the ledger. */
export async function bringBack(app: App, lost: { userId: UserId; address: Hex }): Promise<void> {
  const { db, auth } = app
  if (auth === null) {
    const attestation = await attestationOf(app, lost)
    return void (await restoreAccount(db, { ...lost, attestation }))
  }
  const { provider, subject } = parseUserId(lost.userId)!
  await auth.makeAccount({ provider, providerUserId: subject })
}

const MAX_RACES = 8

/** Returns the signer's attestation of an account in its ledger; undefined if its key is lost. */
async function attestationOf(
  { signer }: App,
  { userId, address }: { userId: string; address: Hex },
): Promise<Hex | undefined> {
  const { attested } = await signer.attest({ userIds: [userId] })
  return attested.find((one) => one.address.toLowerCase() === address.toLowerCase())?.attestation
}

/**
 * Applies ledger records that were already read, like `reconcileNonce`, inside a transaction, for an existing account.
 * If another intent was bound to the nonce since, its row gets the record, because the ledger never signed that intent.
 * The next request for the intent binds it again.
 * Existing data is not changed, including the caller's ABI. A row whose newest bytes were signed after the ledger was
 * read retains them.
 * @param attempts  records of one nonce, newest first; at least one
 */
export async function applyLedgerRecord(db: Db, app: App, slot: NonceSlot, attempts: Recalled[]): Promise<void> {
  const { chainId, from, nonce } = slot
  const [newest, first] = [attempts[0]!, attempts.at(-1)!]
  const { account_id } = await db
    .selectFrom('accounts')
    .select('account_id')
    .where('address', '=', fromHex(from))
    .executeTakeFirstOrThrow()
  await freeId(db, slot, first.intentId)
  const transition: Transition = { state: 'SUBMITTED', at: new Date(newest.signedAt).toISOString(), hash: newest.hash }
  const row = {
    account_id,
    // A record without a token was requested by this service itself.
    client_id: first.clientId ?? NO_CLIENT,
    ...effectOf(first),
    request_hash: first.requestHash === null ? null : fromHex(first.requestHash),
    hash: fromHex(newest.hash),
    reserved: String(reservedFor(valueOf(first), toAttempt(newest))),
    is_cancel: attempts.some(({ kind }) => kind === 'cancel'),
    authorizations: authorizationsOf(first),
  }
  const isSame = sql<boolean>`transactions.id = ${first.intentId}`
  const isOpen = sql<boolean>`transactions.state in ('BOUND', 'VACANT', 'SUBMITTED')`
  const older = attempts.slice(1).map(({ hash }) => hash)
  const submitted = sql`${JSON.stringify([transition])}::jsonb`
  const taken = await transactionRows
    .insert(db, 'reconcile', [
      {
        ...row,
        id: first.intentId,
        chain_id: chainId,
        sender: fromHex(from),
        nonce,
        abi: '',
        transitions: JSON.stringify([transition]),
        created_at: whenSigned(first),
      },
    ])
    .onConflict((on) =>
      on
        .columns(['chain_id', 'sender', 'nonce'])
        .doUpdateSet({
          ...transactionRows.changed('reconcile'),
          ...row,
          id: first.intentId,
          // The row may have been bound after this database transaction began, for this intent or another.
          created_at: sql`least(excluded.created_at, case when ${isSame} then transactions.created_at end)`,
          abi: sql`case when ${isSame} then transactions.abi else '' end`,
          // The ledger has no references. The row's own is that of the record if both have the same request hash.
          reference: sql`case when ${isSame} and transactions.request_hash is not distinct from excluded.request_hash
            then transactions.reference end`,
          transitions: sql`case when not ${isOpen} then ${submitted} || transactions.transitions
            when ${isSame} then transactions.transitions || ${submitted} else ${submitted} end`,
          updated_at: sql`now()`,
        })
        .where(transactionRows.isFrom('reconcile'))
        // A row that ended without bytes remains so, because another transaction used its nonce. The row gets the id
        // and intent of the record.
        .where(
          sql<boolean>`(transactions.state in ('BOUND', 'VACANT')
            or (transactions.state in ('REPLACED', 'FAILED') and transactions.hash is null)
            or (transactions.state = 'SUBMITTED' and ${isSame} and transactions.hash = any(${byteaArray(older)})))`,
        ),
    )
    // true if the row was inserted, not updated
    .returning(sql<boolean>`xmax = 0`.as('is_new'))
    .executeTakeFirst()
  if (taken?.is_new === true) await holdSkipped(db, account_id, slot)
  const kept = await db
    .insertInto('attempts')
    .values(
      attempts.map((recalled) => {
        const { raw, gas, fees, isCancel, hash } = toAttempt(recalled)
        const terms = { gas_limit: Number(gas), ...writeFees(fees), is_cancel: isCancel }
        return { chain_id: chainId, hash: fromHex(hash), transaction_id: first.intentId, raw: fromHex(raw), ...terms }
      }),
    )
    // Restores bytes that were dropped long after finality.
    .onConflict((on) =>
      on
        .columns(['chain_id', 'hash'])
        .doUpdateSet({ raw: (eb) => eb.ref('excluded.raw'), broadcast_at: null })
        .where('attempts.raw', 'is', null),
    )
    .returning('hash')
    .execute()
  if (row.authorizations !== null)
    await linkOperations(db, app, { id: first.intentId, chainId, data: toHex(row.data) }, first.hash)
  // If only a fee bump is new, nothing was lost: the process that requested the fee bump is about to store it.
  const isFirstNew = kept.some(({ hash }) => toHex(hash) === first.hash)
  if (taken?.is_new !== true && !isFirstNew) return
  if (isSponsors(first)) await reconcileTopUp(db, chainId, first)
  takenIn(app, slot, { id: first.intentId, hash: newest.hash })
}

/** number of nonces; the signer signs no nonce that is further above an unsigned one */
const MAX_SKIPPED = 64

/**
 * Inserts vacant rows for the nonces between this one and the next lower row, which were bound, never signed, and lost.
 * Without rows, no write would bind or fill them, and no higher nonce could be mined. The next write takes a vacant
 * nonce, or a cancellation fills it.
 */
async function holdSkipped(db: Db, accountId: string, { chainId, from, nonce }: NonceSlot): Promise<void> {
  const below = await db
    .selectFrom('transactions')
    .select('nonce')
    .where('chain_id', '=', chainId)
    .where('sender', '=', fromHex(from))
    .where('nonce', '<', nonce)
    .orderBy('nonce', 'desc')
    .limit(1)
    .executeTakeFirst()
  const first = below === undefined ? nonce : Math.max(below.nonce + 1, nonce - MAX_SKIPPED)
  if (first >= nonce) return
  await transactionRows
    .insert(
      db,
      'holdSkipped',
      Array.from({ length: nonce - first }, (_, index) => ({
        ...emptyNonce({ chainId, from, nonce: first + index }, accountId),
        claims: 0,
        transitions: '[]',
      })),
    )
    .onConflict((on) => on.doNothing())
    .execute()
}

/**
 * Returns the columns of a nonce without an intent. It has no fees: the gap-filling transaction has the market's fees.
 */
export const emptyNonce = ({ chainId, from, nonce }: NonceSlot, accountId: string) => ({
  id: newTransactionId(),
  account_id: accountId,
  client_id: NO_CLIENT,
  chain_id: chainId,
  sender: fromHex(from),
  nonce,
  target: fromHex(from),
  value: toWord(0n),
  data: Buffer.alloc(0),
  abi: '',
  gas_limit: Number(MIN_GAS),
  max_fee: toWord(0n),
  max_priority_fee: null,
})

const isSponsors = ({ userId }: Pick<Recalled, 'userId'>): boolean => parseUserId(userId)?.provider === SPONSOR_PROVIDER

/**
 * Returns the authorizations in a sponsor's transaction that includes operations, as JSON; null for any other
 * transaction.
 */
function authorizationsOf({ raw, kind, userId }: Recalled): string | null {
  if (!isSponsors({ userId })) return null
  const { to, data } = readRaw(fromHex(raw))
  if (kind === 'cancel' || delegateOf(to) === null || readDispatch(data) === null) return null
  return JSON.stringify(readAuthorizations(fromHex(raw)))
}

/** Frees an id that a retry has bound again under another nonce. Nothing was or will be signed for that nonce. */
async function freeId(db: Db, { chainId, from, nonce }: NonceSlot, id: string): Promise<void> {
  await transactionRows
    .update(db, 'freeId')
    .set({ ...nobodysNonce(), updated_at: CHANGED_NOW })
    .where('id', '=', id)
    .where(sql<boolean>`(chain_id, sender, nonce) <> (${chainId}::bigint, ${fromHex(from)}::bytea, ${nonce}::bigint)`)
    .execute()
}

/**
 * Returns the time of the signature by the ledger, but not later than the database's clock: the signer's clock may be
 * ahead.
 */
export const whenSigned = ({ signedAt }: { signedAt: number }) =>
  sql<Date>`least(${new Date(signedAt).toISOString()}::timestamptz, date_trunc('milliseconds', now()))`

function effectOf(first: Recalled) {
  const { to, value, data } = readRaw(fromHex(first.raw))
  const { gas, fees } = toAttempt(first)
  const effect = { target: fromHex(to!), value: toWord(value()), data }
  return { ...effect, gas_limit: Number(gas), ...writeFees(fees) }
}

/** Returns the value that an attempt of the ledger moves, wei. */
export const valueOf = ({ raw }: Recalled): { value: bigint } => ({ value: readRaw(fromHex(raw)).value() })

/** Logs that the signer's ledger had a record that the database had lost. */
function takenIn({ telemetry }: App, slot: NonceSlot, { id, hash }: { id: string; hash: Hex }): void {
  const { chainId, from: sender, nonce } = slot
  telemetry.log.warn('transaction_restored', { chainId, id, sender, nonce, hash })
}
