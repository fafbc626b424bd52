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
/** gas of a transfer and of the write that it pays for, a quarter more: an ERC-20 transfer takes a third of it */
const TOP_UP_GAS = 150_000n
/** top-ups that a sponsor should be good for, where its operator says nothing else */
const TOP_UPS = 100n

/** names of sponsors that are low, by chain id, as this process last saw them */
const lows = slot('sponsors that are low', (_app: App) => new Map<number, string[]>())

/** names of sponsors that are stopped, likewise */
const stops = slot('sponsors that are stopped', (_app: App) => new Map<number, string[]>())

/** What is wrong with sponsors of a network, for operators, as far as this process knows. */
export function sponsorFaults(app: App, chainId: number): string[] {
  const low = lows.of(app).get(chainId) ?? []
  const stopped = stops.of(app).get(chainId) ?? []
  return [
    // People whose own funds suffice write all the same, and so do others for now.
    ...(low.length === 0 ? [] : [`sponsors that hold too little: ${low.join(', ')}`]),
    ...(stopped.length === 0
      ? []
      : [`sponsors that are stopped, because someone else used a nonce of them: ${stopped.join(', ')}`]),
  ]
}

/** Wei below which a sponsor of a network counts as low: what its operator says, else what a hundred top-ups cost now. */
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
 * Looks now and then at what the sponsors of the networks that this process serves hold: metrics, and an event when one crosses the line
 * below which it is low, once for all processes, and none before it held a quarter more than that again.
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
    // A node that is away has checks and events of its own; what was seen last stays.
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

/** @returns its name where it is low */
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
  // Between the two it stays what it was.
  const isEnough = balance * 4n >= below * 5n
  if (isEnough && (await forgetLow(db, sponsor))) telemetry.log.info('sponsor_recovered', told)
  return isEnough || (await lowSince(db, sponsor)) === null ? null : name
}

/** @returns whether nobody had */
async function noteLow(db: Db, { accountId, chainId }: Sponsor): Promise<boolean> {
  const row = await db
    .insertInto('low_sponsors')
    .values({ chain_id: chainId, account_id: accountId })
    .onConflict((on) => on.doNothing())
    .returning('since')
    .executeTakeFirst()
  return row !== undefined
}

/** @returns whether it was one */
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

/** How many transactions of a sponsor are under way: its top-ups, and what its operator withdraws. By the index of open ones. */
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
