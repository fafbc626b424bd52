import { createHash } from 'node:crypto'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { deadline, standAside } from '../../deadline.ts'
import { AppError } from '../../errors.ts'
import { gasBudgetOf, type Caller } from '../../http/bearer.ts'
import type { Hex } from '../../ids.ts'
import { sponsorsOf, type Sponsor } from '../../sponsors/sponsors.ts'
import { retrying } from '../../store/db.ts'
import { paysFor, type SponsorBudget } from '../../store/sponsor-budget.ts'
import type { Fund } from '../lanes/funds.ts'
import {
  findExhausted,
  newestTopUp,
  readNetworkBudget,
  reserveTopUp,
  restoreTopUp,
  type Exhausted,
  type TopUp,
  type TopUpKey,
} from './gas-budget.ts'
import type { Intent, Terms } from '../intent.ts'
import { lastUse, type IdempotencyKey } from '../key.ts'
import type { PreparedWrite } from '../lanes/prepare.ts'
import { explainSponsor, secondsUntil, Unable } from './refused-top-up.ts'
import { scopeOf, settleBy } from '../settle/settle-top-ups.ts'
import { feeOf, isInChain, marginOf, missing, ownFunds } from './top-up-needs.ts'
import { isSettled, nextBlock, waitUntilMined } from '../read/wait.ts'

/**
 * Sends a write with its own preparation, under a key other than the caller's.
 * @returns its id, and whether it was answered before
 */
type SendWrite = (
  app: App,
  write: {
    chain: Chain
    caller: Caller
    intent: Intent
    key: IdempotencyKey
    /**
     * Prepares the write.
     * @param check  throws the signer's error if the signer would reject the write
     * @throws the errors of the signer
     */
    prepare: (check: (terms: Terms) => Promise<unknown>) => Promise<PreparedWrite>
  },
) => Promise<{ id: string; isReplay: boolean }>

/** Functions of the modules above that a top-up needs. */
export type TopUpTools = {
  app: App
  chain: Chain
  /** the user whose write it is */
  caller: Caller
  /** address that the write calls, in lower case, because a budget may pay for some contracts only */
  to: Hex
  send: SendWrite
  /** throws the signer's error if the signer would reject the user's write: a sponsor does not pay for such a write */
  check: (terms: Terms) => Promise<unknown>
  /**
   * Checks that no other process has sent the user's write.
   * @throws idempotency_in_flight
   */
  refuseIfSent: () => Promise<void>
  /** Prepares a plain transfer from a sponsor. */
  prepare: (from: Hex, intent: Intent) => Promise<PreparedWrite>
}

/** Functions that a dry run of a top-up needs. They send nothing. */
export type TopUpRehearsal = Pick<TopUpTools, 'app' | 'chain' | 'caller' | 'to' | 'prepare' | 'check'> & {
  /** throws the signer's error if the signer would reject the sponsor's transfer */
  checkTransfer: (from: Caller, transfer: { intent: Intent; terms: Terms }) => Promise<unknown>
}

/** top-ups of one user that a write waits for: its own, and those of the user's earlier writes */
const MAX_BROUGHT = 8
/** Returns the time until which funds can be waited for, because the write follows them. Monotonic, milliseconds. */
const latest = (): number => deadline() - FOR_THE_WRITE_MS
const BUSY_MS = 250
/** milliseconds that remain for the write itself once its funds have arrived */
const FOR_THE_WRITE_MS = 1_000
/** longest wait of a request without a deadline */
const MAX_WAIT_MS = 60_000
const REQUEST_HASH = createHash('sha256').update('top-up').digest()

/**
 * Returns a `Fund` by which a sponsor sends the user a write's missing gas funds, plus 25 % of its fee. The top-up is
 * mined before the write is bound. The user's own funds pay for values.
 * A user has one open top-up at a time. A retry, or another write, waits for that top-up, and finishes it if its
 * process has died.
 * @throws gas_not_sponsored, gas_budget_exhausted, sponsor_empty, top_up_pending, overloaded, and the errors of
 *   sending a write and of the signer
 */
export const topUpFund =
  (tools: TopUpTools): Fund =>
  async (shortage) => {
    const { app, chain, caller } = tools
    const budget = gasBudgetOf(app, caller)
    if (budget === null || shortage.terms === null) return null
    if (!paysFor(budget, tools.to)) return ownFunds(tools, shortage, budget)
    let brought = 0
    // Wait at least once: a client with a short deadline finds the top-up at its retry.
    do {
      const { key, sent, before } = await nextOf(app, chain, caller)
      let id = sent
      if (id === null) {
        await followedTo(chain, before?.blockNumber ?? 0)
        const { funds, lacks } = await missing(tools, shortage, budget)
        if (lacks === 0n) return funds
        // Use the block known before the funds were read: a reorganisation may have been followed since.
        const block = before?.block ?? null
        if (block === null || (await isInChain(chain, block))) {
          // Check before each top-up: another process may have bound the same request.
          await tools.check(shortage.terms)
          id = await begin(tools, { ...key, clientId: caller.clientId, wei: lacks + marginOf(shortage.terms) }, budget)
        }
      }
      if (id === null) await pauseAside(app)
      else if (await settle(app, chain, key, id)) brought++
      // The top-up failed, or its block was reorganised. The user's funds are not the cause: the retry begins another
      // top-up.
      else throw pending()
    } while (brought < MAX_BROUGHT && app.clock.ticks() < latest())
    throw pending()
  }

/**
 * Waits while another request works on the top-up.
 * @throws top_up_pending
 */
async function pauseAside({ clock }: App): Promise<void> {
  if (!standAside()) throw pending()
  await clock.sleep(BUSY_MS)
}

/**
 * Returns the open top-up, or the next one if none is open. `sent`: id of the open one's transaction once that has
 * bytes. `before`: the last top-up, if it was mined recently.
 */
async function nextOf(app: App, { chainId }: Chain, { accountId }: Caller) {
  const newest = await newestTopUp(app.db, { chainId, accountId })
  if (newest === null) return { key: { chainId, accountId, ordinal: 0 }, sent: null, before: null }
  const { ordinal, blockNumber } = newest
  // The key's latest use with bytes is this top-up, even if the key is free again, a day after finality.
  const used = await lastUse(app, scopeOf(newest))
  const isOpen = !newest.isSettled || (used?.isTold === true && !isSettled(used.state))
  // A settled top-up that is in no block was reorganised, and is sent again.
  if (isOpen)
    return { key: { chainId, accountId, ordinal }, sent: used?.isTold === true ? used.id : null, before: null }
  const before = blockNumber === null ? null : { blockNumber, block: used?.block ?? null }
  return { key: { chainId, accountId, ordinal: ordinal + 1 }, sent: null, before }
}

/**
 * Returns a `Fund` for a dry run, which checks whether a top-up would be sent.
 * @throws as `topUpFund`, except for open top-ups
 */
export const rehearsedFund =
  (tools: TopUpRehearsal): Fund =>
  async (shortage) => {
    const { app, chain, caller } = tools
    const budget = gasBudgetOf(app, caller)
    if (budget === null || shortage.terms === null) return null
    if (!paysFor(budget, tools.to)) return ownFunds(tools, shortage, budget)
    const { funds, lacks } = await missing(tools, shortage, budget)
    if (lacks === 0n) return funds
    const wei = lacks + marginOf(shortage.terms)
    const { key, sent } = await nextOf(app, chain, caller)
    // An open top-up is not sent again: the write waits for it.
    if (sent === null) {
      await tools.check(shortage.terms)
      await byFirstAble(tools, key, (sponsor) => rehearseSend(tools, sponsor, wei, budget))
    }
    return { ...funds, available: funds.available + wei }
  }

/**
 * Sends a top-up by the first sponsor that can. Which sponsor is tried first depends on the user and the top-up's
 * number.
 * @returns the id of its transaction; null if another request is sending it or has settled it
 */
async function begin(tools: TopUpTools, topUp: Order, budget: SponsorBudget): Promise<string | null> {
  try {
    return await byFirstAble(tools, topUp, (sponsor) =>
      send(tools, { ...topUp, sponsorId: sponsor.accountId }, sponsor, budget),
    )
  } catch (error) {
    if (error instanceof SettledMeanwhile || isBusy(error)) return null
    throw error
  }
}

type Order = Omit<TopUp, 'sponsorId'>

/**
 * Tries the sponsors in turn until one is able.
 * @throws the first error that a sponsor reports, sponsor_empty if none reports one, and other errors of `work`
 */
async function byFirstAble<T>(
  { app, chain }: Pick<TopUpTools, 'app' | 'chain'>,
  key: Pick<TopUp, 'accountId' | 'ordinal'>,
  work: (sponsor: Sponsor) => Promise<T>,
): Promise<T> {
  let told: AppError | null = null
  for (const sponsor of inTurn(await sponsorsOf(app.db, chain.chainId), key)) {
    try {
      return await work(sponsor)
    } catch (error) {
      if (!(error instanceof Unable)) throw error
      told ??= error.told
    }
  }
  throw told ?? empty(app, chain)
}

function inTurn(sponsors: Sponsor[], { accountId, ordinal }: Pick<TopUp, 'accountId' | 'ordinal'>): Sponsor[] {
  const digest = createHash('sha256').update(`${accountId} ${ordinal}`).digest()
  const first = digest.readUInt32BE(0) % Math.max(1, sponsors.length)
  return [...sponsors.slice(first), ...sponsors.slice(0, first)]
}

class SettledMeanwhile extends Error {}
const isBusy = (error: unknown): boolean => error instanceof AppError && error.code === 'idempotency_in_flight'

/**
 * Sends the sponsor's transfer, under a key that belongs to this top-up: a repeat by any sponsor is the same write.
 * @returns its id
 * @throws SettledMeanwhile, Unable
 */
async function send(tools: TopUpTools, topUp: TopUp, sponsor: Sponsor, budget: SponsorBudget): Promise<string> {
  const { app, chain, caller } = tools
  const intent = transferTo(caller, topUp.wei)
  let isCounted = false
  const prepare = async (check: (terms: Terms) => Promise<unknown>): Promise<PreparedWrite> => {
    const prepared = await tools.prepare(sponsor.address, intent)
    // Check before reserving a budget or binding a nonce: a write that the signer would refuse must take neither.
    await check(prepared.terms)
    const charged = topUp.wei + feeOf(prepared.terms)
    const reserved = await reserveTopUp(app.db, { ...topUp, charged }, budget)
    if (reserved === 'settled') throw new SettledMeanwhile()
    if (reserved !== 'reserved') throw exhaustedError(app, reserved)
    isCounted = true
    // Check again as late as possible: another process may have bound the same request because the user's own funds
    // were sufficient.
    await tools.refuseIfSent()
    return prepared
  }
  try {
    const key = { scope: scopeOf(topUp), requestHash: REQUEST_HASH }
    const from = asSponsor(caller, sponsor)
    const { id, isReplay } = await tools.send(app, { chain, caller: from, intent, key, prepare })
    // The transfer was sent before, even if the database lost it and restored its transaction from the ledger.
    if (!isCounted) await retrying(() => app.db.transaction().execute((work) => restoreTopUp(work, topUp, id)))
    const { chainId, wei } = topUp
    // The process that sent the transfer has logged it.
    if (isReplay) return id
    app.telemetry.log.info('top_up_sent', { chainId, id, sponsor: sponsor.name, to: caller.address, wei: String(wei) })
    return id
  } catch (error) {
    throw explainSponsor(error, app.clock)
  }
}

const transferTo = ({ address }: Caller, value: bigint): Intent => ({
  to: address,
  data: '0x',
  value,
  abi: '',
  fn: null,
  errors: [],
})

/**
 * Returns a caller for a sponsor's write, with the user's token: it proves to the signer which account the sponsor may
 * send funds to.
 */
const asSponsor = (caller: Caller, { accountId, address }: Sponsor): Caller => ({ ...caller, accountId, address })

/**
 * Makes the checks of `send` that come before any reservation, and checks that the budgets suffice.
 * @throws Unable, gas_budget_exhausted
 */
async function rehearseSend(
  { app, caller, prepare, checkTransfer }: TopUpRehearsal,
  sponsor: Sponsor,
  wei: bigint,
  budget: SponsorBudget,
): Promise<void> {
  const intent = transferTo(caller, wei)
  try {
    const { terms } = await prepare(sponsor.address, intent)
    await checkTransfer(asSponsor(caller, sponsor), { intent, terms })
    const { chainId, clientId, accountId } = caller
    const limits = { ...budget, perNetwork: await readNetworkBudget(app.db, chainId) }
    const charged = wei + feeOf(terms)
    const exhausted = await findExhausted(app.db, { chainId, clientId, accountId, charged }, limits)
    if (exhausted !== null) throw exhaustedError(app, exhausted)
  } catch (error) {
    throw explainSponsor(error, app.clock)
  }
}

/**
 * Waits until the transaction is in a block, or can never be in one.
 * @throws top_up_pending
 */
async function untilMined(app: App, chain: Chain, id: string): Promise<void> {
  const left = Math.min(latest() - app.clock.ticks(), MAX_WAIT_MS)
  // The request held a slot of admission control so far. Requests that wait for blocks have a separate limit.
  const state = await waitUntilMined(app, chain, id, left > 0 && standAside() ? left : 0)
  if (state === null || !isSettled(state)) throw pending()
}

/** Waits for the top-up's transaction, and settles the top-up. @returns whether the funds have arrived */
async function settle(app: App, chain: Chain, topUp: TopUpKey, id: string): Promise<boolean> {
  await untilMined(app, chain, id)
  const settled = await settleBy(app, topUp, id)
  if (settled?.isThere === true && settled.blockNumber !== null) await followedTo(chain, settled.blockNumber)
  return settled?.isThere === true
}

/**
 * Waits until the newest known block includes a block's effects. Another replica may have followed that block.
 * @throws top_up_pending
 */
async function followedTo(chain: Chain, blockNumber: number): Promise<void> {
  while ((chain.head.current()?.number ?? 0) < blockNumber) {
    const left = latest() - chain.clock.ticks()
    if (left <= 0 || !standAside()) throw pending()
    await nextBlock(chain, Math.min(left, 1_000))
  }
}

const pending = (): AppError =>
  new AppError('top_up_pending', 'A sponsor has sent the gas for this write, and that transfer is not mined yet. The write has not started. Retry with the same idempotency key.', { retryAfter: 5 }) // prettier-ignore

function empty({ telemetry }: App, { chainId }: Chain): AppError {
  telemetry.log.warn('sponsor_empty', { chainId })
  telemetry.topUps.inc({ outcome: 'sponsor_empty' })
  return new AppError(
    'sponsor_empty',
    'No sponsor of this network can pay for gas at the moment. Nothing was sent. An operator must check the sponsors.',
    { retryAfter: 60 },
  )
}

/**
 * seconds after which to retry a write that was refused because of open writes' reservations; most of them end within
 * the next blocks
 */
const HELD_SECONDS = 15

/** Returns the error for an exhausted gas budget, and counts it. */
export function exhaustedError({ clock, telemetry }: App, { of, resetsAt, isHeld }: Exhausted): AppError {
  const code = resetsAt === null ? 'gas_not_sponsored' : 'gas_budget_exhausted'
  telemetry.topUps.inc({ outcome: code })
  if (resetsAt === null)
    return new AppError(code, `The gas of this write may cost more than the daily gas budget of the ${of}. Nothing was sent. The operator can increase the budget.`) // prettier-ignore
  const until = resetsAt.toISOString()
  const seconds = secondsUntil(until, clock)
  if (isHeld !== true)
    return new AppError(code, `The gas budget of the ${of} is used up until ${until}. Nothing was sent. Retry after that time.`, { resetsAt: until, retryAfter: seconds }) // prettier-ignore
  const detail = `Writes that are not mined yet hold the rest of the gas budget of the ${of}. Nothing was sent. These writes end by ${until}, most within seconds. Retry.`
  return new AppError(code, detail, { resetsAt: until, retryAfter: Math.min(seconds, HELD_SECONDS) })
}
