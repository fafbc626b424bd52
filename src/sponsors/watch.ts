import type { App } from '../app.ts'
import { currentFees } from '../chain/current-fees.ts'
import { highestPrice } from '../chain/fees.ts'
import type { Chain } from '../chain/network.ts'
import { readAt } from '../chain/reads.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import { every, type Rounds } from '../clock.ts'
import { AppError } from '../errors.ts'
import { slot } from '../state.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { spentOnNetwork } from '../store/sponsor-budget.ts'
import { sponsorsOf, type Sponsor } from './sponsors.ts'

const LOOK_MS = 30_000
/** gas of a transfer and of the write that it pays for, and 25 % more: an ERC-20 transfer takes a third of it */
const TOP_UP_GAS = 150_000n
/** top-ups that a sponsor should be able to pay, unless its operator sets a limit */
const TOP_UPS = 100n

/** names of sponsors with a low balance by chain id, as last seen by this process */
const lows = slot('sponsors that are low', (_app: App) => new Map<number, string[]>())

/** names of stopped sponsors by chain id, as last seen by this process */
const stops = slot('sponsors that are stopped', (_app: App) => new Map<number, string[]>())

/** Returns the problems of a network's sponsors for operators, as far as this process knows. */
export function sponsorFaults(app: App, chainId: number): string[] {
  const low = lows.of(app).get(chainId) ?? []
  const stopped = stops.of(app).get(chainId) ?? []
  return [
    // A warning: users with enough funds of their own can still write, and for now so can others.
    ...(low.length === 0 ? [] : [`sponsors that hold too little: ${low.join(', ')}`]),
    ...(stopped.length === 0
      ? []
      : [`sponsors that are stopped, because someone else used a nonce of them: ${stopped.join(', ')}`]),
  ]
}

/**
 * Returns the wei below which a sponsor's balance counts as low: the operator's limit, or the present cost of 100
 * top-ups.
 */
export async function lowBelow(db: Db, chain: Chain): Promise<bigint> {
  const row = await db
    .selectFrom('networks')
    .select('sponsor_low')
    .where('chain_id', '=', chain.chainId)
    .executeTakeFirst()
  const given = row?.sponsor_low ?? null
  if (given !== null) return BigInt(given)
  return TOP_UPS * TOP_UP_GAS * highestPrice(await currentFees(chain))
}

/**
 * Checks the balances of the sponsors on the served networks at intervals. It updates metrics, and logs an event when a
 * balance falls below its limit: once for all processes, and not again before the balance was 25 % above the limit.
 */
export function startWatchingSponsors(app: App): Rounds {
  const rounds = every(app.clock, LOOK_MS, () =>
    Promise.all([...app.chains.values()].map((chain) => lookAt(app, chain)))
      .then(() => {})
      .catch((error: unknown) => app.telemetry.log.warn('sponsors_not_watched', {}, error)),
  )
  void rounds.round()
  return rounds
}

async function lookAt(app: App, chain: Chain): Promise<void> {
  const { chainId } = chain
  if (chain.gas === 'self') return
  const { sponsorsSpent } = app.telemetry
  const sponsors = await sponsorsOf(app.db, chainId)
  if (sponsors.length === 0) return
  sponsorsSpent.set({ chain_id: chainId }, Number(await spentOnNetwork(app.db, chainId)))
  await lookForStopped(app, chainId, sponsors)
  try {
    const below = await lowBelow(app.db, chain)
    const seen = await Promise.all(sponsors.map((sponsor) => lookAtOne(app, chain, sponsor, below)))
    lows.of(app).set(chainId, seen.filter((one) => one !== null)) // prettier-ignore
  } catch (error) {
    // An unavailable node has checks and events of its own; the last result remains.
    const isAway = error instanceof RpcUnavailable || error instanceof RpcError || error instanceof AppError
    if (!isAway) throw error
    app.telemetry.log.debug('sponsors_not_seen', { chainId }, error)
  }
}

async function lookForStopped(app: App, chainId: number, sponsors: Sponsor[]): Promise<void> {
  const rows = await app.db.selectFrom('stopped_lanes').select('sender').where('chain_id', '=', chainId).execute()
  const stopped = new Set(rows.map(({ sender }) => toHex(sender)))
  for (const { name, address } of sponsors)
    app.telemetry.sponsorStopped.set({ chain_id: chainId, sponsor: name }, stopped.has(address) ? 1 : 0)
  stops.of(app).set(chainId, sponsors.filter(({ address }) => stopped.has(address)).map(({ name }) => name)) // prettier-ignore
}

/** @returns its name if its balance is low */
async function lookAtOne(
  { db, telemetry }: App,
  chain: Chain,
  sponsor: Sponsor,
  below: bigint,
): Promise<string | null> {
  const { chainId, name, address } = sponsor
  const balance = await readAt(chain, 'latest', (reads) => reads.balance(address))
  const labels = { chain_id: chainId, sponsor: name }
  telemetry.sponsorBalance.set(labels, Number(balance))
  telemetry.sponsorOpen.set(labels, await openTransactions(db, sponsor))
  const told = { chainId, sponsor: name, address, wei: String(balance), below: String(below) }
  if (balance < below) {
    if (await noteLow(db, sponsor)) telemetry.log.warn('sponsor_low', told)
    return name
  }
  // Between the two limits it remains as it was.
  const isEnough = balance * 4n >= below * 5n
  if (isEnough && (await forgetLow(db, sponsor))) telemetry.log.info('sponsor_recovered', told)
  return isEnough || (await lowSince(db, sponsor)) === null ? null : name
}

/** @returns whether it was not recorded yet */
async function noteLow(db: Db, { accountId, chainId }: Sponsor): Promise<boolean> {
  const row = await db
    .insertInto('low_sponsors')
    .values({ chain_id: chainId, account_id: accountId })
    .onConflict((on) => on.doNothing())
    .returning('since')
    .executeTakeFirst()
  return row !== undefined
}

/** @returns whether it was recorded */
async function forgetLow(db: Db, { accountId, chainId }: Sponsor): Promise<boolean> {
  const row = await db
    .deleteFrom('low_sponsors')
    .where('chain_id', '=', chainId)
    .where('account_id', '=', accountId)
    .returning('since')
    .executeTakeFirst()
  return row !== undefined
}

async function lowSince(db: Db, { accountId, chainId }: Sponsor): Promise<Date | null> {
  const row = await db
    .selectFrom('low_sponsors')
    .select('since')
    .where('chain_id', '=', chainId)
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  return row?.since ?? null
}

/**
 * Returns how many transactions of a sponsor are open: operations' transactions, top-ups and withdrawals. Uses the
 * index of open transactions.
 */
export async function openTransactions(
  db: Db,
  { address, chainId }: Pick<Sponsor, 'address' | 'chainId'>,
): Promise<number> {
  const row = await db
    .selectFrom('transactions')
    .select(({ fn }) => fn.countAll<string | number>().as('count'))
    .where('chain_id', '=', chainId)
    .where('sender', '=', fromHex(address))
    .where('state', 'in', ['BOUND', 'SUBMITTED'])
    .executeTakeFirstOrThrow()
  return Number(row.count)
}
