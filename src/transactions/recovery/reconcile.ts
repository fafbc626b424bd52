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
import { CHANGED_NOW, nobodysNonce, transactionRows } from '../rows.ts'
import { delegateOf } from '../sponsors/delegation.ts'
import { linkOperations } from '../lanes/link.ts'
import { reservedFor } from '../lanes/funds.ts'
import { writeFees, type Attempt } from '../intent.ts'
import { MIN_GAS } from '../lanes/limits.ts'
import { reconcileTopUp } from './reconcile-top-up.ts'

/** A nonce of an account on a network. */
export type NonceSlot = { chainId: number; from: Hex; nonce: number }

/** What the signer's ledger holds for a nonce or for an intent, newest first, however many frames that takes. @throws signer_unavailable */
export async function ledgerAttempts(
  { signer }: Pick<App, 'signer'>,
  of: NonceSlot | { intentId: string },
): Promise<Recalled[]> {
  // An attempt has both, and its nonce is what counts.
  const asked = 'nonce' in of ? { chainId: of.chainId, from: of.from, nonce: of.nonce } : { intentId: of.intentId }
  const all: Recalled[] = []
  for (;;) {
    const before = all.at(-1)?.seq
    const { attempts, hasMore } = await signer.recall({ ...asked, ...(before === undefined ? {} : { before }) })
    all.push(...attempts)
    if (!hasMore) return all
  }
}

/** An attempt as the signer's ledger tells it. */
export function toAttempt(recalled: Recalled): Attempt {
  const { raw, hash, gas, kind } = recalled
  return { raw, hash, gas: BigInt(gas), fees: readFees(recalled), isCancel: kind === 'cancel' }
}

function readFees({ gasPrice, maxFeePerGas, maxPriorityFeePerGas }: Recalled): Fees {
  if (gasPrice !== undefined) return { type: 'legacy', gasPrice: BigInt(gasPrice) }
  return { type: 'eip1559', maxFeePerGas: BigInt(maxFeePerGas!), maxPriorityFeePerGas: BigInt(maxPriorityFeePerGas!) }
}

/**
 * Makes the row of a nonce be what the signer's ledger says it is: the transaction that a database has lost, with all its
 * attempts, under its own id. To be sent immediately: the nodes may have lost it too. Safe to repeat.
 * @returns whether the ledger holds anything for the nonce
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
      // A repeat of the same key has bound the id meanwhile, under another nonce: the next try frees it.
      if (!isUniqueViolation(error) || race === MAX_RACES) throw error
    }
  }
}

/** The rows of an account whose signature the ledger has. */
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

/** The signer's word for an account of its ledger; none where its key is lost. */
async function attestationOf(
  { signer }: App,
  { userId, address }: { userId: string; address: Hex },
): Promise<Hex | undefined> {
  const { attested } = await signer.attest({ userIds: [userId] })
  return attested.find((one) => one.address.toLowerCase() === address.toLowerCase())?.attestation
}

/**
 * As `reconcileNonce`, with what the ledger was asked for before, inside a transaction, for an account that is there. An
 * intent of ours that was bound to the nonce since, and that the ledger therefore never signed, loses its row to the
 * one that was: anyone who sends it binds it again. What is written down already stays as it is, its caller's ABI too; and
 * a row whose newest bytes the ledger had not signed when it was asked keeps them: the answer is out of date.
 * @param attempts  of one nonce, newest first; at least one
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
    // Without a token nobody asked for it but ourselves.
    client_id: first.clientId ?? '',
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
          // What was bound to the nonce since then, of another intent or of this one, may have been after this transaction began.
          created_at: sql`least(excluded.created_at, case when ${isSame} then transactions.created_at end)`,
          abi: sql`case when ${isSame} then transactions.abi else '' end`,
          transitions: sql`case when not ${isOpen} then ${submitted} || transactions.transitions
            when ${isSame} then transactions.transitions || ${submitted} else ${submitted} end`,
          updated_at: sql`now()`,
        })
        .where(transactionRows.isFrom('reconcile'))
        // Of what ended without bytes the nonce stays another's: the row then says whose it is, and how it ended.
        .where(
          sql<boolean>`(transactions.state in ('BOUND', 'VACANT')
            or (transactions.state in ('REPLACED', 'FAILED') and transactions.hash is null)
            or (transactions.state = 'SUBMITTED' and ${isSame} and transactions.hash = any(${byteaArray(older)})))`,
        ),
    )
    // 0 where it was inserted, not updated.
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
    // What was dropped long after it was final, and is wanted again.
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
  // Of a raise alone nothing was lost: the process that had it signed is about to store it.
  const isFirstNew = kept.some(({ hash }) => toHex(hash) === first.hash)
  if (taken?.is_new !== true && !isFirstNew) return
  if (isSponsors(first)) await reconcileTopUp(db, chainId, first)
  takenIn(app, slot, { id: first.intentId, hash: newest.hash })
}

/** nonces; the signer signs none that is further above one that it never signed */
const MAX_SKIPPED = 64

/**
 * Nonces between this one and the next row below: they were bound, never signed, and lost. Nobody would bind or fill them any more, and
 * what is above them is not mined before. They are vacant, for the next write, or for a cancel since a later one waits.
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

/** A nonce that no intent has. It is filled at the price of that day: nobody has offered anything for it. */
export const emptyNonce = ({ chainId, from, nonce }: NonceSlot, accountId: string) => ({
  id: newTransactionId(),
  account_id: accountId,
  client_id: '',
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

/** Which accounts delegate in a transaction that carries operations, as JSON; null where it carries none, as a person's own never does. */
function authorizationsOf({ raw, kind, userId }: Recalled): string | null {
  if (!isSponsors({ userId })) return null
  const { to, data } = readRaw(fromHex(raw))
  if (kind === 'cancel' || delegateOf(to) === null || readDispatch(data) === null) return null
  return JSON.stringify(readAuthorizations(fromHex(raw)))
}

/** The id was bound again, under another nonce, by a repeat that could not know: nothing was or will be signed for that. */
async function freeId(db: Db, { chainId, from, nonce }: NonceSlot, id: string): Promise<void> {
  await transactionRows
    .update(db, 'freeId')
    .set({ ...nobodysNonce(), updated_at: CHANGED_NOW })
    .where('id', '=', id)
    .where(sql<boolean>`(chain_id, sender, nonce) <> (${chainId}::bigint, ${fromHex(from)}::bytea, ${nonce}::bigint)`)
    .execute()
}

/** When the ledger says that it was signed; not later than now, by the database's clock, which the signer's may be ahead of. */
export const whenSigned = ({ signedAt }: { signedAt: number }) =>
  sql<Date>`least(${new Date(signedAt).toISOString()}::timestamptz, date_trunc('milliseconds', now()))`

function effectOf(first: Recalled) {
  const { to, value, data } = readRaw(fromHex(first.raw))
  const { gas, fees } = toAttempt(first)
  const effect = { target: fromHex(to!), value: toWord(value()), data }
  return { ...effect, gas_limit: Number(gas), ...writeFees(fees) }
}

/** What an attempt of the ledger moves, in wei. */
export const valueOf = ({ raw }: Recalled): { value: bigint } => ({ value: readRaw(fromHex(raw)).value() })

/** Business event: something that the database had lost was found in the signer's ledger. */
function takenIn({ telemetry }: App, slot: NonceSlot, { id, hash }: { id: string; hash: Hex }): void {
  const { chainId, from: sender, nonce } = slot
  telemetry.log.warn('transaction_taken_in', { chainId, id, sender, nonce, hash })
}
