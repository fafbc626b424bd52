import { sql, type RawBuilder } from 'kysely'
import type { App } from '../../app.ts'
import { AppError } from '../../errors.ts'
import type { AddressProver } from '../../http/proven-address.ts'
import { cutPage, isMoment, readPageCursor, writeCursor } from '../../http/cursor.ts'
import type { Hex } from '../../ids.ts'
import { fromHex, toHex } from '../../hex.ts'
import { byteaArray } from '../../store/bytea-array.ts'
import { fromWord } from '../../store/bytes.ts'
import type { Db } from '../../store/db.ts'
import { momentText } from '../../store/read-time.ts'
import { readCalls } from '../../gas/dispatch.ts'
import { namesOf } from '../../users/names.ts'
import { publicStates } from '../wire.ts'

/** A transaction as shown to the user whose account it is. */
export type OwnTransaction = {
  id: string
  clientId: string
  /** name of the application that sent it; null if the application was removed, or if there was none */
  application: string | null
  state: (typeof publicStates)[number]
  hash: Hex
  to: Hex
  value: bigint
  /** the caller's ABI text; empty without one */
  abi: string
  hasData: boolean
  /** wei, without a roll-up's data fee; null before it is mined, and if a sponsor pays */
  fee: bigint | null
  /** null before it is mined */
  blockNumber: number | null
  sentAt: Date
}

type Scope = { accountId: string; chainId: number }

/**
 * Returns the writes of an account on a network, newest first. An application sees its own, the user sees those of all
 * applications. Uses the indexes (account, network, time, application) and operations_account.
 * @param clientId  only those of this application; null for all
 * @throws invalid_cursor
 */
export async function listOfAccount(
  { db }: Pick<App, 'db'>,
  { accountId, chainId }: Scope,
  { limit, cursor, clientId }: { limit: number; cursor?: string | undefined; clientId: string | null },
): Promise<{ entries: (OwnTransaction & { cursor: string })[]; nextCursor: string | null }> {
  const after = placeOf('sent', cursor)
  const operations = listSigned(db, { accountId, chainId }, { limit: limit + 1, after, clientId })
  const transactions = ofAccount(db, { accountId, chainId })
    .$if(clientId !== null, (query) => query.where('sent.client_id', '=', clientId!))
    .$if(after !== null, (query) =>
      query.where(sql<boolean>`(sent.created_at, sent.id) < (${after![0]}::timestamptz, ${after![1]})`),
    )
    .orderBy('sent.created_at', 'desc')
    .orderBy('sent.id', 'desc')
    .limit(limit + 1)
  const [signed, sent] = await Promise.all([operations, transactions.execute()])
  const rows = [...sent, ...signed].toSorted(newestFirst)
  const behind = ({ since, id }: { since: string; id: string }): (string | number)[] => ['sent', since, id]
  const { page, nextCursor } = cutPage(rows, limit, behind)
  const entries = page.map((row) => ({
    ...('calls' in row ? toOwnOperation(row) : toOwn(row)),
    cursor: writeCursor(behind(row)),
  }))
  return { entries, nextCursor }
}

/**
 * Returns one write with its calldata, that of the first call if there are several; null if the account has sent none
 * with this id.
 */
export async function findOwn(
  { db }: Pick<App, 'db'>,
  scope: Scope,
  id: string,
): Promise<(OwnTransaction & { data: Hex }) | null> {
  const row = await ofAccount(db, scope).select('sent.data').where('sent.id', '=', id).executeTakeFirst()
  if (row !== undefined) return { ...toOwn(row), data: toHex(row.data) }
  const signed = await signedBy(db, scope).where('sent.id', '=', id).executeTakeFirst()
  return signed === undefined ? null : { ...toOwnOperation(signed), data: toHex(readCalls(signed.calls)[0]!.data) }
}

const newestFirst = (a: { since: string; id: string }, b: { since: string; id: string }): number =>
  a.since === b.since ? (a.id < b.id ? 1 : -1) : a.since < b.since ? 1 : -1

type Page = { limit: number; after: [since: string, id: string] | null; clientId: string | null }

/** Returns a page of the account's operations that a sponsor sent, like `listOfAccount` for its transactions. */
const listSigned = (db: Db, scope: Scope, { limit, after, clientId }: Page): Promise<SignedRow[]> =>
  signedBy(db, scope)
    .$if(clientId !== null, (query) => query.where('sent.client_id', '=', clientId!))
    .$if(after !== null, (query) =>
      query.where(sql<boolean>`(sent.created_at, sent.id) < (${after![0]}::timestamptz, ${after![1]})`),
    )
    .orderBy('sent.created_at', 'desc')
    .orderBy('sent.id', 'desc')
    .limit(limit)
    .execute()

const signedBy = (db: Db, { accountId, chainId }: Scope) =>
  db
    .selectFrom('operations as sent')
    .innerJoin('transactions as outer', 'outer.id', 'sent.outer_id')
    .leftJoin('applications as application', 'application.client_id', 'sent.client_id')
    .select([
      'sent.id',
      'sent.client_id',
      'sent.state',
      'outer.hash',
      'outer.block_number',
      'sent.calls',
      'sent.abi',
      'sent.created_at',
    ])
    .select(['application.name', SINCE.as('since')])
    .where('sent.account_id', '=', accountId)
    .where('sent.chain_id', '=', chainId)
    .where('outer.hash', 'is not', null)

type SignedRow = Awaited<ReturnType<ReturnType<typeof signedBy>['execute']>>[number]

/** Shows the first of several calls. The user does not pay the fee. */
function toOwnOperation(row: SignedRow): OwnTransaction {
  const [call] = readCalls(row.calls)
  return {
    id: row.id,
    clientId: row.client_id,
    application: row.name,
    state: row.state as OwnTransaction['state'],
    hash: toHex(row.hash!),
    to: toHex(call!.to),
    value: call!.value,
    abi: row.abi,
    hasData: call!.data.length > 0,
    fee: null,
    blockNumber: row.block_number,
    sentAt: row.created_at,
  }
}

const SINCE = momentText('sent.created_at')

const ofAccount = (db: Db, { accountId, chainId }: Scope) =>
  db
    .selectFrom('transactions as sent')
    .leftJoin('applications as application', 'application.client_id', 'sent.client_id')
    .select([
      'sent.id',
      'sent.client_id',
      'sent.state',
      'sent.hash',
      'sent.target',
      'sent.value',
      'sent.abi',
      'sent.gas_used',
      'sent.effective_gas_price',
      'sent.block_number',
      'sent.created_at',
      'application.name',
    ])
    .select([SINCE.as('since'), sql<boolean>`length(sent.data) > 0`.as('has_data')])
    .where('sent.account_id', '=', accountId)
    .where('sent.chain_id', '=', chainId)
    .where('sent.hash', 'is not', null)
    .where('sent.state', 'in', publicStates)

type OwnTransactionRow = Awaited<ReturnType<ReturnType<typeof ofAccount>['execute']>>[number]

const toOwn = (row: OwnTransactionRow): OwnTransaction => ({
  id: row.id,
  clientId: row.client_id,
  application: row.name,
  state: row.state as OwnTransaction['state'],
  hash: toHex(row.hash!),
  to: toHex(row.target),
  value: fromWord(row.value),
  abi: row.abi,
  hasData: row.has_data,
  fee:
    row.gas_used === null || row.effective_gas_price === null
      ? null
      : BigInt(row.gas_used) * fromWord(row.effective_gas_price),
  blockNumber: row.block_number,
  sentAt: row.created_at,
})

/**
 * Returns which transactions include a write of an account. Indexes: attempts and operations by their primary keys,
 * carried_transaction.
 */
export async function ownHashes(db: Db, { accountId, chainId }: Scope, hashes: readonly Hex[]): Promise<Set<Hex>> {
  if (hashes.length === 0) return new Set()
  const { rows } = await sql<{ hash: Uint8Array }>`
    select attempt.hash from attempts as attempt join transactions as own on own.id = attempt.transaction_id
    where attempt.chain_id = ${chainId}::bigint and attempt.hash = any(${byteaArray(hashes)}) and (
      own.account_id = ${accountId}::uuid
      or exists (
        select from carried join operations as sent on sent.id = carried.operation_id
        where carried.transaction_id = own.id and sent.account_id = ${accountId}::uuid
      )
    )`.execute(db)
  return new Set(rows.map(({ hash }) => toHex(hash)))
}

/** A transfer of native currency to or from an account. */
export type NativePayment = {
  isOut: boolean
  value: bigint
  other: Hex
  name: string | null
  hash: Hex
  sentAt: Date
  /** cursor of the page after this entry */
  cursor: string
}

/** As the index transactions_paid has it: a parameter would not match its condition. */
const HAS_VALUE = sql<boolean>`sent.value <> ${sql.lit(`\\x${'00'.repeat(32)}`)}::bytea`

type PaymentsAsked = {
  limit: number
  cursor?: string | undefined
  direction: 'in' | 'out' | 'all'
  leftOut?: RawBuilder<boolean>
}

/**
 * Returns native currency transfers between an account and others, newest first, from this service's own record of
 * writes. Incoming transfers are those of other accounts of this installation; the history has the rest.
 * Uses the indexes transactions_paid (account, network, time) and transactions_payments (network, recipient, time).
 * @param leftOut  SQL condition on rows of `sent` that are listed elsewhere
 * @throws invalid_cursor
 */
export async function listPayments(
  app: AddressProver,
  { accountId, chainId, address }: Scope & { address: Hex },
  { limit, cursor, direction, leftOut }: PaymentsAsked,
): Promise<{ entries: NativePayment[]; nextCursor: string | null }> {
  const { db } = app
  const after = placeOf(`payments ${direction}`, cursor)
  const behind = ({ since, id }: { since: string; id: string }) => writeCursor([`payments ${direction}`, since, id])
  const part = (isOut: boolean) =>
    db
      .selectFrom('transactions as sent')
      .select(['sent.id', 'sent.value', 'sent.hash', 'sent.created_at'])
      .select([SINCE.as('since'), sql<boolean>`${isOut}::boolean`.as('is_out')])
      .select(isOut ? 'sent.target as other' : 'sent.sender as other')
      .where('sent.chain_id', '=', chainId)
      .where('sent.state', 'in', ['MINED', 'FINALIZED'])
      .where(HAS_VALUE)
      .$if(leftOut !== undefined, (query) => query.where(sql<boolean>`not (${leftOut})`))
      .$if(isOut, (query) => query.where('sent.account_id', '=', accountId))
      .$if(!isOut, (query) =>
        query.where('sent.target', '=', fromHex(address)).where(sql<boolean>`length(sent.data) = 0`),
      )
      // The outgoing part of the list already includes transfers to oneself.
      .$if(!isOut && direction === 'all', (query) => query.where('sent.sender', '!=', fromHex(address)))
      .$if(after !== null, (query) =>
        query.where(sql<boolean>`(sent.created_at, sent.id) < (${after![0]}::timestamptz, ${after![1]})`),
      )
      .orderBy('sent.created_at', 'desc')
      .orderBy('sent.id', 'desc')
      .limit(limit + 1)
  const parts = await Promise.all((['out', 'in'] as const).filter((one) => direction === 'all' || direction === one).map((one) => part(one === 'out').execute())) // prettier-ignore
  const rows = parts
    .flat()
    .toSorted((one, other) => (one.since === other.since ? (one.id < other.id ? 1 : -1) : one.since < other.since ? 1 : -1)) // prettier-ignore
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  const names = await namesOf(
    app,
    page.map(({ other }) => other),
  )
  return {
    entries: page.map(({ is_out, value, other, hash, created_at, since, id }) => ({
      isOut: is_out,
      value: fromWord(value),
      other: toHex(other),
      name: names.get(toHex(other)) ?? null,
      hash: toHex(hash!),
      sentAt: created_at,
      cursor: behind({ since, id }),
    })),
    nextCursor: rows.length > limit && last !== undefined ? behind(last) : null,
  }
}

/**
 * Returns the position after which a page begins.
 * @throws invalid_cursor  if the cursor belongs to another list
 */
function placeOf(list: string, cursor: string | undefined): [since: string, id: string] | null {
  if (cursor === undefined) return null
  const [of, since, id] = readPageCursor(cursor, ['string', 'string', 'string']) as [string, string, string]
  if (of === list && isMoment(since) && /^[\w-]{1,64}$/.test(id)) return [since, id]
  throw new AppError(
    'invalid_cursor',
    'The cursor belongs to another list. Use the cursor of this list, or omit the cursor.',
  )
}
