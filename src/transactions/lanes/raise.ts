import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { readQuantity } from '../../chain/rpc/answers.ts'
import { highestPrice, nextFee, type Fees } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import { AppError } from '../../errors.ts'
import { noteWaiting } from '../../events/low-balances.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import type { Hex } from '../../ids.ts'
import { toHex } from '../../hex.ts'
import { toBound, type Bound, type TransactionRow } from '../intent.ts'
import { isAgo } from '../recovery/stop-lane.ts'
import { isolateRowErrors } from '../recovery/recover.ts'
import { readAttemptsOf } from '../attempts.ts'
import { marketOf } from './market.ts'
import type { ReplaceRequest } from './sign.ts'
import { nextAttempt, sendCancel, sendReplacement, signedOf, type SignedOffer } from './replace.ts'
import { sideBySide } from '../recovery/concurrency.ts'
import {
  forgetRefusals,
  giveBackLooks,
  isAskedFor,
  MAX_PAUSE_SECONDS,
  mayBeCured,
  noteTroubles,
  readTrouble,
  sweepWaits,
  takeLooks,
  USED,
  type Trouble,
  denialOf,
  type Denial,
} from '../recovery/trouble.ts'
import { slot } from '../../state.ts'

/** blocks that an attempt waits before its fee may be bumped */
const BUMP_AFTER_BLOCKS = 3
/** accounts per statement */
const PAGE = 1_000
/** accounts handled at a time: their requests to node and signer are batched */
const WIDTH = 64
/**
 * milliseconds after which the remaining accounts are left to the next round, so that rebroadcasts do not wait for them
 */
const BUDGET_MS = 5_000

/**
 * Bumps the fee of each account's lowest unmined nonce, if that has waited for 3 blocks and `LANE_BUMP_AFTER_SECONDS`.
 * Higher nonces cannot be mined before it.
 * If the fee cap or the balance does not allow a higher fee, the transaction is only rebroadcast, and is checked again
 * at intervals that grow to 5 minutes. Replicas share the work: each check is claimed in `waits`.
 * @returns whether another round should follow immediately
 */
export async function raiseLowest(app: App, chain: Chain): Promise<boolean> {
  await sweepSometimes(app, chain)
  const until = app.clock.ticks() + BUDGET_MS
  let market: Fees | null = null
  for (let after: Uint8Array | null = null; ;) {
    const rows = await readDue(app, chain, after)
    if (rows.length === 0) return false
    // Ask once per round. While the market is above the cap, claim no rows, so that all are checked when it falls.
    market ??= await marketBelowCap(app, chain)
    if (market === null) return false
    await raisePage(app, chain, rows, market)
    if (rows.length < PAGE) return false
    if (app.clock.ticks() > until) return true
    after = rows.at(-1)!.sender
  }
}

const swept = slot('when waits were swept, in ticks', (_chain: Chain) => ({ at: Number.NEGATIVE_INFINITY }))
const SWEEP_EVERY_MS = 60_000

async function sweepSometimes({ clock, db }: App, chain: Chain): Promise<void> {
  const now = clock.ticks()
  const last = swept.of(chain)
  if (now - last.at < SWEEP_EVERY_MS) return
  last.at = now
  await sweepWaits(db, chain.chainId)
}

async function marketBelowCap(app: App, chain: Chain): Promise<Fees | null> {
  try {
    return await marketOf(chain)
  } catch (error) {
    if (!isCapReached(error)) throw error
    app.telemetry.log.warn('fee_cap_reached', { chainId: chain.chainId })
    return null
  }
}

/**
 * Returns the rows that are due by the age of their newest bytes and by their last check, one per account, ordered by
 * account.
 */
async function readDue(app: App, chain: Chain, after: Uint8Array | null): Promise<TransactionRow[]> {
  const head = chain.head.current()
  if (head === null) return []
  return app.db
    .selectFrom('transactions as t')
    .innerJoin('attempts as a', (join) => join.onRef('a.chain_id', '=', 't.chain_id').onRef('a.hash', '=', 't.hash'))
    .leftJoin('waits as w', (join) =>
      join.onRef('w.chain_id', '=', 't.chain_id').onRef('w.sender', '=', 't.sender').onRef('w.nonce', '=', 't.nonce'),
    )
    .selectAll('t')
    .where('t.chain_id', '=', chain.chainId)
    .where('t.state', '=', 'SUBMITTED')
    .where((eb) =>
      eb.or([
        isAskedFor,
        eb.and([
          isAgo(sql.ref('a.created_at'), app.config.LANE_BUMP_AFTER_SECONDS),
          eb.or([
            eb('a.created_block', 'is', null),
            eb('a.created_block', '<=', head.number - BUMP_AFTER_BLOCKS),
            // If true, the chain has lost blocks since, or the recorded head was wrong.
            eb('a.created_block', '>', head.number + BUMP_AFTER_BLOCKS),
          ]),
        ]),
      ]),
    )
    .where((eb) =>
      eb.or([
        eb('w.due_at', 'is', null),
        isAgo(sql.ref('w.due_at'), 0, MAX_PAUSE_SECONDS),
        eb.and([eb('w.hash', 'is distinct from', eb.ref('t.hash')), mayBeCured(sql.ref('w.trouble'))]),
      ]),
    )
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('transactions as lower')
            .select('lower.id')
            .whereRef('lower.chain_id', '=', 't.chain_id')
            .whereRef('lower.sender', '=', 't.sender')
            .whereRef('lower.nonce', '<', 't.nonce')
            .where('lower.state', 'in', ['BOUND', 'SUBMITTED', 'VACANT']),
        ),
      ),
    )
    .$if(after !== null, (query) => query.where('t.sender', '>', after!))
    .orderBy('t.sender')
    .limit(PAGE)
    .execute()
}

/** A row to check: all attempts, newest first, and the problem that the last check found. */
type RaiseCandidate = { bound: Bound; attempts: SignedOffer[]; before: Trouble | null }

/**
 * Handles a page of rows. If node or signer is unavailable, the first failing row remains claimed until its pause ends,
 * so that one slow row cannot end every round. The other unchecked rows are released.
 */
async function raisePage(app: App, chain: Chain, rows: TransactionRow[], market: Fees): Promise<void> {
  const { chainId } = chain
  const looks = await takeOn(app, chain, rows)
  const unseen = new Set(looks)
  const notes: { from: Hex; nonce: number; trouble: Trouble | null }[] = []
  const work = async (look: RaiseCandidate) => {
    const { bound, before } = look
    const trouble = await raiseOne(app, chain, look, market)
    if (trouble?.code !== before?.code || trouble?.detail !== before?.detail)
      notes.push({ from: bound.from, nonce: bound.nonce, trouble })
  }
  let first: RaiseCandidate | null = null
  try {
    await sideBySide(looks, WIDTH, async (look) => {
      try {
        await isolateRowErrors(app, look.bound, () => work(look))
        unseen.delete(look)
      } catch (error) {
        first ??= look
        throw error
      }
    })
  } catch (error) {
    // Retain a recorded rejection by nodes: if it were overwritten now, the gas would not be estimated again.
    const others = [...unseen]
      .filter((look) => look !== first && look.before?.code !== 'rejected_by_nodes')
      .map(({ bound }) => bound)
    const isSigner = error instanceof AppError && error.code === 'signer_unavailable'
    await giveBackLooks(app.db, chainId, others, isSigner ? SIGNER_AWAY : NODE_AWAY)
    throw error
  } finally {
    await noteTroubles(app.db, chainId, notes)
  }
}

async function takeOn({ db }: App, { chainId }: Chain, rows: TransactionRow[]): Promise<RaiseCandidate[]> {
  const byPlace = new Map(rows.map((row) => [`${toHex(row.sender)} ${row.nonce}`, row]))
  const taken = await takeLooks(
    db,
    chainId,
    rows.map(({ sender, nonce, hash }) => ({ from: toHex(sender), nonce, hash: toHex(hash!) })),
  )
  const looks = taken.map(({ from, nonce, trouble }) => ({
    bound: toBound(byPlace.get(`${from} ${nonce}`)!),
    before: trouble,
  }))
  const attempts = await readAttemptsOf(
    db,
    looks.map(({ bound }) => bound.id),
  )
  return looks.map((look) => ({ ...look, attempts: attempts.get(look.bound.id)!.map(signedOf) }))
}

/** @returns the problem; null if the fee was bumped, or if another process is about to bump it */
async function raiseOne(
  app: App,
  chain: Chain,
  { bound, attempts, before }: RaiseCandidate,
  market: Fees,
): Promise<Trouble | null> {
  const wasRejected = before?.code === 'rejected_by_nodes'
  const [balance, next] = await Promise.all([
    chain.rpc.call('eth_getBalance', [bound.from, 'latest']),
    nextAttempt(chain, bound, attempts, { wasRejected }),
  ])
  const { kind, gas, offered, usesUp } = next
  const held = readQuantity(balance, 'balance of an account')
  const value = kind === 'cancel' ? 0n : bound.value
  const fees = affordable({ gas, offered, market, cap: chain.feeCapWei, spendable: held - value })
  if (fees === 'fee_cap_reached') {
    app.telemetry.log.warn('fee_cap_reached', { chainId: bound.chainId, id: bound.id, sender: bound.from })
    return AT_CAP
  }
  if (fees === 'insufficient_funds') {
    const needed = value + gas * highestPrice(nextFee(offered, offered, NO_CAP))
    await lowBalance(app, chain, bound, { needed, available: held })
    return tooPoor({ held, needed })
  }
  return sendRaised(app, chain, bound, { kind, gas, fees, ...(usesUp === undefined ? {} : { usesUp }) })
}

const NO_CAP = 2n ** 256n

/**
 * Returns the market's fees, or lower ones that the account can pay. Nodes require at least 12.5 % more than before.
 */
function affordable({
  gas,
  offered,
  market,
  cap,
  spendable,
}: {
  gas: bigint
  offered: Fees
  market: Fees
  cap: bigint
  spendable: bigint
}): Fees | 'fee_cap_reached' | 'insufficient_funds' {
  const payable = spendable > 0n ? spendable / gas : 0n
  try {
    return nextFee(offered, market, payable < cap ? payable : cap)
  } catch (error) {
    if (!isCapReached(error)) throw error
    return highestPrice(nextFee(offered, offered, NO_CAP)) > cap ? 'fee_cap_reached' : 'insufficient_funds'
  }
}

async function sendRaised(
  app: App,
  chain: Chain,
  bound: Bound,
  next: Omit<ReplaceRequest, 'accessToken'>,
): Promise<Trouble | null> {
  try {
    const { sent } = await sendReplacement(app, chain, bound, next)
    if (sent === 'nonce_too_low') return USED
    if (sent === 'insufficient_funds') {
      await lowBalance(app, chain, bound, null)
      return SHORT
    }
    // If a node refused the bytes, its problem is recorded already. For other results there is no problem.
    if (sent !== 'sent') return await readTrouble(app.db, bound)
    await forgetRefusals(app.db, bound)
    return null
  } catch (error) {
    const denial = denialOf(error)
    if (next.kind === 'replace' && isHopeless(bound, error)) return giveNonceUp(app, chain, bound)
    if (denial === null) throw error
    app.telemetry.log.warn('fee_bump_denied', { chainId: bound.chainId, id: bound.id, sender: bound.from }, error)
    return DENIED[denial]
  }
}

/**
 * Returns whether no fee bump of a sponsor's transaction can be signed, because one of its operations may no longer be
 * sent: its deadline is over, its user was frozen, or a limit is used up. Without a cancellation, such a transaction
 * would block all later ones of its sponsor.
 */
const isHopeless = ({ authorizations }: Bound, error: unknown): boolean =>
  authorizations !== undefined &&
  authorizations !== null &&
  ((error instanceof SignerRefused && error.code === 'operation_refused') || denialOf(error) === 'policy_denied')

/** Cancels a sponsor's transaction. Its other operations are packed into another one (tend-operations.ts). */
async function giveNonceUp(app: App, chain: Chain, bound: Bound): Promise<Trouble | null> {
  app.telemetry.log.warn('sponsor_transaction_cancelled', { chainId: bound.chainId, id: bound.id, sender: bound.from })
  const { sent } = await sendCancel(app, chain, bound)
  return sent === 'nonce_too_low' ? USED : null
}

/**
 * Reports that an account cannot pay for its signed transactions, which wait and are rebroadcast.
 * @param funds  wei; null: a node did not name the amounts
 */
export async function lowBalance(
  { telemetry, db }: App,
  chain: Chain,
  { id, from, chainId }: Bound,
  funds: { needed: bigint; available: bigint } | null,
): Promise<void> {
  telemetry.log.warn('account_low_balance', { chainId, id, sender: from })
  await noteWaiting(db, { id, chainId, from }, funds)
  // On networks with sponsors, even the built-in development chain gives users nothing.
  if (chain.gas === 'self') await chain.faucet?.(from)
}

const isCapReached = (error: unknown): boolean => error instanceof AppError && error.code === 'fee_cap_reached'

const SHORT: Trouble = {
  code: 'insufficient_funds',
  detail: 'A node reports that the account has insufficient funds for its pending transactions.',
}
const tooPoor = ({ held, needed }: { held: bigint; needed: bigint }): Trouble => ({
  code: 'insufficient_funds',
  detail: `The account needs ${needed} wei for a fee that nodes accept, and has ${held}.`,
})
const AT_CAP: Trouble = {
  code: 'fee_cap_reached',
  detail:
    'The fee is as high as the operator allows on this network. The transaction waits until the network requires less.',
}
const denied = (code: Denial, detail: string): Trouble => ({ code, detail })
const DENIED: Readonly<Record<Denial, Trouble>> = {
  policy_denied: denied('policy_denied', 'The signer does not allow a higher fee.'),
  account_frozen: denied('account_frozen', `The operator has frozen the account, so its transactions get no fee bump.`),
  application_suspended: denied(
    'application_suspended',
    'The operator has suspended the application, so its transactions get no fee bump.',
  ),
}
const SIGNER_AWAY: Trouble = {
  code: 'signer_unavailable',
  detail: 'The transaction needs a fee bump, but the signer cannot be reached.',
}
const NODE_AWAY: Trouble = {
  code: 'node_unreachable',
  detail: 'The transaction needs a fee bump, but no node of the network responds.',
}
