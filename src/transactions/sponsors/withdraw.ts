import { createHash } from 'node:crypto'
import { readAddress } from '../../abi/address.ts'
import { amountIn, checksumAddress } from '../../digits.ts'
import type { App } from '../../app.ts'
import { every, type Rounds } from '../../clock.ts'
import { highestPrice } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import { AppError, type ErrorCode } from '../../errors.ts'
import type { Caller } from '../../http/bearer.ts'
import type { Hex } from '../../ids.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import { fromHex, toHex } from '../../hex.ts'
import { fromWord } from '../../store/bytes.ts'
import type { Db } from '../../store/db.ts'
import { insufficientFunds } from '../lanes/funds.ts'
import type { Intent } from '../intent.ts'
import { budgetNow, prepareFromAccount } from '../lanes/prepare.ts'
import { sendForSponsor } from '../lanes/send.ts'
import type { NewWithdrawal, Withdrawal } from './withdrawal-wire.ts'

const LOOK_MS = 1_000
const MAX_LISTED = 200
const GRANT = /^withdrawal_[\w-]{43}$/
/** client id and route in the idempotency keys of withdrawals; no client has this id, so the keys are distinct */
const WITHDRAWAL = 'withdrawal'

/**
 * Requests that a sponsor's funds go back to its operator, by a grant of the signer's OS user. The server cannot send
 * them without a grant.
 * Stores the request. An API server sends it once per grant, however often it is requested. A repeated request retries
 * a refused withdrawal.
 * @throws invalid_request, not_found
 */
export async function askToWithdraw(db: Db, sponsor: string, asked: NewWithdrawal): Promise<Withdrawal> {
  const { grant, amount = null } = asked
  if (!GRANT.test(grant))
    throw refusal('/grant', 'The grant must be the text that `chatelaine signer grant-withdrawal` printed.')
  if (amount !== null && !amountIn(amount))
    throw refusal('/amount', 'The amount must be wei: decimal digits of a number above 0.')
  const target = fromHex(readTarget(asked.to))
  const found = await db
    .selectFrom('sponsors')
    .innerJoin('networks', 'networks.chain_id', 'sponsors.chain_id')
    .select(['sponsors.account_id', 'sponsors.chain_id'])
    .where('sponsors.name', '=', sponsor)
    .where('networks.name', '=', asked.network)
    .executeTakeFirst()
  if (found === undefined)
    throw new AppError('not_found', 'No sponsor has this name on this network. Nothing was sent. Check the name.')
  const row = {
    chain_id: found.chain_id,
    sponsor_id: found.account_id,
    target,
    amount: amount && String(BigInt(amount)),
  }
  await db
    .insertInto('withdrawals')
    .values({ grant_id: grant, ...row })
    .onConflict((on) =>
      // Update only if the request is the same: a different request does not retry a refused withdrawal.
      on
        .column('grant_id')
        .doUpdateSet({ refusal: null })
        .where('withdrawals.chain_id', '=', row.chain_id)
        .where('withdrawals.sponsor_id', '=', row.sponsor_id)
        .where('withdrawals.target', '=', target)
        .where('withdrawals.amount', 'is not distinct from', row.amount),
    )
    .execute()
  const known = await db.selectFrom('withdrawals').selectAll().where('grant_id', '=', grant).executeTakeFirstOrThrow()
  const isSame =
    known.chain_id === row.chain_id &&
    known.sponsor_id === row.sponsor_id &&
    target.equals(known.target) &&
    known.amount === row.amount
  if (!isSame)
    throw refusal('/grant', 'This grant was used for another withdrawal. Nothing was sent. Create a new grant.')
  return (await read(db, grant))[0]!
}

/** Returns the newest withdrawals. */
export const listWithdrawals = (db: Db): Promise<Withdrawal[]> => read(db, null)

/** Returns the fields of a withdrawal for the operator log, without the grant. */
export const readWithdrawal = async (
  db: Db,
  grant: string,
): Promise<Pick<Withdrawal, 'id' | 'to' | 'amount'> | null> => {
  const [found] = await read(db, grant)
  return found === undefined ? null : { id: found.id, to: found.to, amount: found.amount }
}

async function read(db: Db, grant: string | null): Promise<Withdrawal[]> {
  const rows = await db
    .selectFrom('withdrawals as asked')
    .innerJoin('sponsors', (on) =>
      on.onRef('sponsors.account_id', '=', 'asked.sponsor_id').onRef('sponsors.chain_id', '=', 'asked.chain_id'),
    ) // prettier-ignore
    .leftJoin('networks', 'networks.chain_id', 'asked.chain_id')
    .leftJoin('transactions as sent', 'sent.id', 'asked.transaction_id')
    .selectAll('asked')
    .select(['sponsors.name as sponsor', 'networks.name as network', 'sent.state', 'sent.hash', 'sent.value'])
    .$if(grant !== null, (query) => query.where('grant_id', '=', grant!))
    .orderBy('asked_at', 'desc')
    .limit(MAX_LISTED)
    .execute()
  return rows.map((row) => ({
    id: withdrawalIdOf(row.grant_id),
    sponsor: row.sponsor,
    network: row.network,
    chainId: row.chain_id,
    to: checksumAddress(toHex(row.target)),
    amount: row.amount,
    askedAt: row.asked_at.toISOString(),
    state: row.refusal !== null ? 'REFUSED' : (row.state ?? 'ASKED'),
    refusal: row.refusal,
    transactionId: row.transaction_id,
    hash: row.hash === null ? null : toHex(row.hash),
    wei: row.value === null ? null : String(fromWord(row.value)),
  }))
}

/** Returns the withdrawal's id in the signer's records, from which the grant cannot be derived. */
const withdrawalIdOf = (grant: string): string => `withdrawal_${createHash('sha256').update(grant).digest('base64url')}`

/** Sends requested withdrawals on the networks that this process serves. Any number of processes may run it. */
export const startWithdrawing = (app: App): Rounds =>
  every(app.clock, LOOK_MS, () =>
    sendAsked(app).catch((error: unknown) => app.telemetry.log.warn('withdrawals_failed', {}, error)),
  )

async function sendAsked(app: App): Promise<void> {
  const chains = [...app.chains.keys()]
  if (chains.length === 0) return
  const rows = await app.db
    .selectFrom('withdrawals as asked')
    .innerJoin('sponsors', (on) =>
      on.onRef('sponsors.account_id', '=', 'asked.sponsor_id').onRef('sponsors.chain_id', '=', 'asked.chain_id'),
    ) // prettier-ignore
    .innerJoin('accounts', 'accounts.account_id', 'asked.sponsor_id')
    .select([
      'grant_id',
      'asked.chain_id',
      'sponsor_id',
      'target',
      'amount',
      'sponsors.name',
      'accounts.address',
      'accounts.frozen_at',
    ])
    .where('asked.chain_id', 'in', chains)
    .where('transaction_id', 'is', null)
    .where('refusal', 'is', null)
    .orderBy('asked_at')
    .limit(MAX_LISTED)
    .execute()
  for (const { target, address, amount, frozen_at: frozenAt, ...row } of rows)
    await sendOne(app, app.chains.get(row.chain_id)!, {
      grant: row.grant_id,
      accountId: row.sponsor_id,
      name: row.name,
      from: toHex(address),
      to: toHex(target),
      amount: amount === null ? null : BigInt(amount),
      isFrozen: frozenAt !== null,
    })
}

type WithdrawalOrder = {
  grant: string
  accountId: string
  name: string
  from: Hex
  to: Hex
  amount: bigint | null
  isFrozen: boolean
}

async function sendOne(app: App, chain: Chain, order: WithdrawalOrder): Promise<void> {
  const { chainId } = chain
  const { grant, name: sponsor, to } = order
  const { log } = app.telemetry
  const ended = (columns: { transaction_id: string } | { refusal: string }) =>
    app.db.updateTable('withdrawals').set(columns).where('grant_id', '=', grant).execute()
  try {
    if (order.isFrozen)
      throw new AppError('account_frozen', 'The sponsor is frozen. Nothing was sent. Unfreeze the sponsor first.')
    const id = await send(app, chain, order)
    await ended({ transaction_id: id })
    log.warn('withdrawal_sent', { chainId, id, sponsor, to, wei: await valueOf(app.db, id) })
  } catch (error) {
    const code = error instanceof AppError || error instanceof SignerRefused ? error.code : null
    if (code === null || isPassing(code)) return log.warn('withdrawal_waits', { chainId, sponsor, code }, error)
    await ended({ refusal: `${code}: ${(error as Error).message}` })
    log.warn('withdrawal_refused', { chainId, sponsor, to, code })
  }
}

/**
 * Sends a sponsor's withdrawal, under a key derived from the grant. The signer gets the grant instead of a token. After
 * a crash, the next round continues it.
 */
async function send(app: App, chain: Chain, order: WithdrawalOrder): Promise<string> {
  const { grant, accountId, name, from, to } = order
  const caller: Caller = {
    userId: `SPONSOR-${name}`,
    accountId,
    address: from,
    clientId: WITHDRAWAL,
    chainId: chain.chainId,
    scopes: new Set<string>(),
    grantId: '',
    tokenId: '',
    expiresAt: 0,
    token: grant,
  }
  // The withdrawal may already be sent, and its preparation may fail for that reason. Its key finds it, whatever fails
  // now.
  const planned = await prepare(app, chain, order).catch((error: unknown) => ({ error, intent: intentOf(order) }))
  const { intent } = planned
  const { id } = await sendForSponsor(app, {
    chain,
    caller,
    intent,
    key: {
      scope: { accountId, clientId: WITHDRAWAL, route: WITHDRAWAL, key: grant },
      // Hash the request, not the amount: the whole balance differs between rounds.
      requestHash: createHash('sha256')
        .update(`${to} ${order.amount ?? 'all'}`)
        .digest(),
    },
    async prepare(check) {
      if ('error' in planned) throw planned.error
      await check(planned.prepared.terms)
      return planned.prepared
    },
  })
  return id
}

/** Returns the amount that was bound, wei; for a withdrawal of the whole balance, the balance at that time. */
async function valueOf(db: Db, id: string): Promise<string | null> {
  const row = await db.selectFrom('transactions').select('value').where('id', '=', id).executeTakeFirst()
  return row === undefined ? null : String(fromWord(row.value))
}

const intentOf = ({ to, amount }: WithdrawalOrder): Intent => ({
  to,
  data: '0x',
  value: amount ?? 0n,
  abi: '',
  fn: null,
  errors: [],
})

/**
 * Returns the transfer: the amount, or the whole balance less the open transactions and twice the fee, which leaves
 * room for one fee bump.
 */
async function prepare({ db }: App, chain: Chain, order: WithdrawalOrder) {
  const { from, amount } = order
  const intent = intentOf(order)
  const prepared = await prepareFromAccount(chain, from, intent)
  if (amount !== null) return { intent, prepared }
  const { available, paidBelow } = await budgetNow(chain, from)
  const open = await db
    .selectFrom('transactions')
    .select('reserved')
    .where('chain_id', '=', chain.chainId)
    .where('sender', '=', fromHex(from))
    .where('state', 'in', ['BOUND', 'SUBMITTED'])
    .where('nonce', '>=', paidBelow)
    .execute()
  const reserved = open.reduce((sum, row) => sum + BigInt(row.reserved ?? 0), 0n)
  const cost = 2n * prepared.terms.gas * highestPrice(prepared.terms.fees)
  const value = available - reserved - cost
  if (value <= 0n) throw insufficientFunds(from, { cost, reserved, available })
  return { intent: { ...intent, value }, prepared: { ...prepared, budget: { available, paidBelow } } }
}

/** Errors that may disappear by the next round; for all others an operator is needed. */
const PASSING: ReadonlySet<string> = new Set<ErrorCode>([
  'chain_unavailable',
  'chain_timeout',
  'signer_unavailable',
  'database_unavailable',
  'overloaded',
  'conflict',
  'idempotency_in_flight',
  'too_many_pending',
])
const isPassing = (code: string): boolean => PASSING.has(code)

function readTarget(text: string): Hex {
  try {
    return readAddress(text).toLowerCase() as Hex
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    throw refusal('/to', error.message)
  }
}

const refusal = (pointer: string, detail: string): AppError =>
  new AppError('invalid_request', detail, { errors: [{ pointer, code: 'invalid', detail }] })
