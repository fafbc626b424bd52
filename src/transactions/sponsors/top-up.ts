import { createHash } from 'node:crypto'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { deadline, standAside } from '../../deadline.ts'
import { AppError } from '../../errors.ts'
import { allowedTo, type Caller } from '../../http/bearer.ts'
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
 * A write that is not a caller's own: prepared in a way of its own, with a key of its own.
 * @returns its id, and whether it was told before
 */
type SendWrite = (
  app: App,
  write: {
    chain: Chain
    caller: Caller
    intent: Intent
    key: IdempotencyKey
    /** @param check  what the signer would refuse. @throws what the signer throws */
    prepare: (check: (terms: Terms) => Promise<unknown>) => Promise<PreparedWrite>
  },
) => Promise<{ id: string; isReplay: boolean }>

/** What a top-up needs of the engine above it. */
export type TopUpTools = {
  app: App
  chain: Chain
  /** the person whose write it is */
  caller: Caller
  /** what the write calls, in lower case: not every budget pays for everything */
  to: Hex
  send: SendWrite
  /** what the signer would refuse the person's write for; nothing is paid for that. @throws what the signer throws */
  check: (terms: Terms) => Promise<unknown>
  /** That no other process has sent the person's write meanwhile. @throws idempotency_in_flight */
  refuseIfSent: () => Promise<void>
  /** How a plain transfer from a sponsor is prepared. */
  prepare: (from: Hex, intent: Intent) => Promise<PreparedWrite>
}

/** What a rehearsal of a top-up needs: nothing that sends. */
export type TopUpRehearsal = Pick<TopUpTools, 'app' | 'chain' | 'caller' | 'to' | 'prepare' | 'check'> & {
  /** what the signer would refuse the transfer of a sponsor for. @throws what the signer throws */
  checkTransfer: (from: Caller, transfer: { intent: Intent; terms: Terms }) => Promise<unknown>
}

/** top-ups of one person that a write waits for: its own, and those of their other writes before it */
const MAX_BROUGHT = 8
/** Until when there is time for funds: the write itself comes after them. Monotonic, milliseconds. */
const latest = (): number => deadline() - FOR_THE_WRITE_MS
const BUSY_MS = 250
/** milliseconds that are left for the write itself once its funds are there */
const FOR_THE_WRITE_MS = 1_000
/** what nobody is asked for within a request that never ends */
const MAX_WAIT_MS = 60_000
const REQUEST_HASH = createHash('sha256').update('top-up').digest()

/**
 * A sponsor sends the person what the gas of their write takes beyond what they have, and a quarter of that gas more, and it is mined
 * before their write is bound. Values are paid by their own funds. One top-up of a person is open at a time: a repeat of the request, or
 * another write, waits for the one that is under way, and finishes it where a process died.
 * @throws gas_not_sponsored, gas_budget_exhausted, sponsor_empty, top_up_pending, overloaded, and what sending a write and the signer throw
 */
export const topUpFund =
  (tools: TopUpTools): Fund =>
  async (shortage) => {
    const { app, chain, caller } = tools
    const budget = allowedTo(app, caller.clientId).sponsor
    if (budget === null || shortage.terms === null) return null
    if (!paysFor(budget, tools.to)) return ownFunds(tools, shortage, budget)
    let brought = 0
    // Once at least: one who hardly waits finds at the repeat what was begun.
    do {
      const { key, sent, before } = await nextOf(app, chain, caller)
      let id = sent
      if (id === null) {
        await followedTo(chain, before?.blockNumber ?? 0)
        const { funds, lacks } = await missing(tools, shortage, budget)
        if (lacks === 0n) return funds
        // By what was known of it before the funds were read: a reorganisation may have been followed since.
        const block = before?.block ?? null
        if (block === null || (await isInChain(chain, block))) {
          // Before each: meanwhile the same request may have been bound by another process.
          await tools.check(shortage.terms)
          id = await begin(tools, { ...key, clientId: caller.clientId, wei: lacks + marginOf(shortage.terms) }, budget)
        }
      }
      if (id === null) await pauseAside(app)
      else if (await settle(app, chain, key, id)) brought++
      // It failed, or was taken out of its block again; which is no lack of funds of theirs: the repeat begins another.
      else throw pending()
    } while (brought < MAX_BROUGHT && app.clock.ticks() < latest())
    throw pending()
  }

/** Another request is at work on it. @throws top_up_pending */
async function pauseAside({ clock }: App): Promise<void> {
  if (!standAside()) throw pending()
  await clock.sleep(BUSY_MS)
}

/** The top-up that is under way, with the id of its transaction once that has bytes, or the next; `before`: the one before it, where that was mined lately. */
async function nextOf(app: App, { chainId }: Chain, { accountId }: Caller) {
  const newest = await newestTopUp(app.db, { chainId, accountId })
  if (newest === null) return { key: { chainId, accountId, ordinal: 0 }, sent: null, before: null }
  const { ordinal, blockNumber } = newest
  // An earlier use that has bytes is this top-up, also when its key would be free again, a day after it was final.
  const used = await lastUse(app, scopeOf(newest))
  const isOpen = !newest.isSettled || (used?.isTold === true && !isSettled(used.state))
  // One that was settled and is not in a block any more was taken out by a reorganisation, and is sent again.
  if (isOpen)
    return { key: { chainId, accountId, ordinal }, sent: used?.isTold === true ? used.id : null, before: null }
  const before = blockNumber === null ? null : { blockNumber, block: used?.block ?? null }
  return { key: { chainId, accountId, ordinal: ordinal + 1 }, sent: null, before }
}

/** Whether a top-up would be sent, for a dry run: nothing is. @throws as `topUpFund`, but for what is under way */
export const rehearsedFund =
  (tools: TopUpRehearsal): Fund =>
  async (shortage) => {
    const { app, chain, caller } = tools
    const budget = allowedTo(app, caller.clientId).sponsor
    if (budget === null || shortage.terms === null) return null
    if (!paysFor(budget, tools.to)) return ownFunds(tools, shortage, budget)
    const { funds, lacks } = await missing(tools, shortage, budget)
    if (lacks === 0n) return funds
    const wei = lacks + marginOf(shortage.terms)
    const { key, sent } = await nextOf(app, chain, caller)
    // One that is under way is not sent again: a write waits for it.
    if (sent === null) {
      await tools.check(shortage.terms)
      await byFirstAble(tools, key, (sponsor) => rehearseSend(tools, sponsor, wei, budget))
    }
    return { ...funds, available: funds.available + wei }
  }

/**
 * Sends one, by the first sponsor that can: every person and ordinal begins with another.
 * @returns the id of its transaction; null while another request is at work on it, or was
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

/** The next sponsor is tried where one is unable. @throws sponsor_empty, or what the first of them is told for; what `work` throws else */
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
 * The write of a sponsor, under a key that is this top-up's: sent again, by whichever sponsor, it is the same write.
 * @returns its id
 * @throws SettledMeanwhile, Unable
 */
async function send(tools: TopUpTools, topUp: TopUp, sponsor: Sponsor, budget: SponsorBudget): Promise<string> {
  const { app, chain, caller } = tools
  const intent = transferTo(caller, topUp.wei)
  let isCounted = false
  const prepare = async (check: (terms: Terms) => Promise<unknown>): Promise<PreparedWrite> => {
    const prepared = await tools.prepare(sponsor.address, intent)
    // Before anything is counted or has a nonce: who is at a limit of the signer takes neither from others.
    await check(prepared.terms)
    const charged = topUp.wei + feeOf(prepared.terms)
    const reserved = await reserveTopUp(app.db, { ...topUp, charged }, budget)
    if (reserved === 'settled') throw new SettledMeanwhile()
    if (reserved !== 'reserved') throw exhaustedError(app, reserved)
    isCounted = true
    // Once more, as late as it can be: the same request may have been bound by another process since its own funds suffice.
    await tools.refuseIfSent()
    return prepared
  }
  try {
    const key = { scope: scopeOf(topUp), requestHash: REQUEST_HASH }
    const from = asSponsor(caller, sponsor)
    const { id, isReplay } = await tools.send(app, { chain, caller: from, intent, key, prepare })
    // Sent before: also where the database has lost that it was, and has its transaction from the ledger.
    if (!isCounted) await retrying(() => app.db.transaction().execute((work) => restoreTopUp(work, topUp, id)))
    const { chainId, wei } = topUp
    // Found again it is told by who sent it.
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

/** With the person's token, which says whose account a sponsor may send funds to. */
const asSponsor = (caller: Caller, { accountId, address }: Sponsor): Caller => ({ ...caller, accountId, address })

/** What `send` does before it counts anything, and whether that would be counted. @throws Unable, gas_budget_exhausted */
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

/** In a block, or never to be in one. @throws top_up_pending */
async function untilMined(app: App, chain: Chain, id: string): Promise<void> {
  const left = Math.min(latest() - app.clock.ticks(), MAX_WAIT_MS)
  // Until now it was in work like any other; how many may wait for blocks is bounded apart.
  const state = await waitUntilMined(app, chain, id, left > 0 && standAside() ? left : 0)
  if (state === null || !isSettled(state)) throw pending()
}

/** @returns whether the funds are there */
async function settle(app: App, chain: Chain, topUp: TopUpKey, id: string): Promise<boolean> {
  await untilMined(app, chain, id)
  const settled = await settleBy(app, topUp, id)
  if (settled?.isThere === true && settled.blockNumber !== null) await followedTo(chain, settled.blockNumber)
  return settled?.isThere === true
}

/** What is read at the newest block that we know sees what that block did. Another replica may have been the one that followed. @throws top_up_pending */
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

/** seconds after which a write that was refused for what open ones hold may be repeated: most of them end with one of the next blocks */
const HELD_SECONDS = 15

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
