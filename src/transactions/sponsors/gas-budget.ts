import { sql, type RawBuilder } from 'kysely'
import { fromWord } from '../../store/bytes.ts'
import { retrying, type Db, type RootDb } from '../../store/db.ts'
import { DAY_HOURS, EVERYONE, readSpent, readSpentOnNetwork, type SponsorBudget } from '../../store/sponsor-budget.ts'

const HOUR_MS = 3_600_000

/** Identifies a top-up: network, user, and its number among that user's top-ups, from 0. */
export type TopUpKey = { chainId: number; accountId: string; ordinal: number }

/** A top-up with its sponsor, and the application whose write it pays for. */
export type TopUp = TopUpKey & {
  sponsorId: string
  clientId: string
  /** amount that the user gets */
  wei: bigint
}

/**
 * `blockNumber`: the block that mined the top-up, for 2 minutes after it was settled, because a replica may not have
 * processed that block yet; otherwise null.
 * Later the number is not needed, and on a restarted development chain it could lie days ahead.
 */
type KnownTopUp = TopUpKey & { isSettled: boolean; blockNumber: number | null }

/**
 * An exhausted budget. `resetsAt`: time at which the budget covers the cost, by the current spending; null: never,
 * because the write costs more than the budget of a day. `isHeld`: open writes hold the missing amount, and enough of
 * them end by `resetsAt`.
 */
export type Exhausted = { of: 'person' | 'application' | 'network'; resetsAt: Date | null; isHeld?: true }

export async function newestTopUp(
  db: Db,
  { chainId, accountId }: Omit<TopUpKey, 'ordinal'>,
): Promise<KnownTopUp | null> {
  const row = await db
    .selectFrom('top_ups')
    .select(['ordinal', 'settled_at'])
    .select(
      sql<number | null>`case when settled_at > now() - interval '2 minutes' then block_number end`.as('block_number'),
    )
    .where('chain_id', '=', chainId)
    .where('account_id', '=', accountId)
    .orderBy('ordinal', 'desc')
    .limit(1)
    .executeTakeFirst()
  if (row === undefined) return null
  return { chainId, accountId, ordinal: row.ordinal, isSettled: row.settled_at !== null, blockNumber: row.block_number }
}

/**
 * Reserves a top-up's maximum cost in the budgets of its application and network, in the transaction that inserts its
 * row. If the row exists and was never sent:
 * - within the same hour, reserves only the increase;
 * - in a later hour, moves the whole reservation to that hour;
 * - for another application, reserves the full cost again, because the first application may have sent it.
 * @param charged  wei, with the highest fee
 * @returns `settled`: another request has settled it
 */
export function reserveTopUp(
  db: RootDb,
  { chainId, accountId, ordinal, sponsorId, clientId, wei, charged }: TopUp & { charged: bigint },
  budget: Amounts,
): Promise<'reserved' | 'settled' | Exhausted> {
  return retrying(() =>
    db.transaction().execute(async (work) => {
      const perNetwork = await lockBudgets(work, chainId)
      const known = await work
        .selectFrom('top_ups')
        .select(['settled_at', 'charged', 'client_id', 'hour'])
        .select(sql<boolean>`hour = date_trunc('hour', now())`.as('is_of_now'))
        .where('chain_id', '=', chainId)
        .where('account_id', '=', accountId)
        .where('ordinal', '=', ordinal)
        .forUpdate()
        .executeTakeFirst()
      if (known !== undefined && known.settled_at !== null) return 'settled'
      let counted = known?.client_id === clientId ? BigInt(known.charged) : 0n
      if (known !== undefined && counted > 0n && !known.is_of_now) {
        await countSpent(work, { chainId, clientId, accountId, wei: -counted, hour: known.hour })
        await work
          .updateTable('top_ups')
          .set({ charged: '0' })
          .where('chain_id', '=', chainId)
          .where('account_id', '=', accountId)
          .where('ordinal', '=', ordinal)
          .execute()
        counted = 0n
      }
      const more = charged - counted
      if (more > 0n) {
        const exhausted = await findExhausted(
          work,
          { chainId, clientId, accountId, charged: more },
          { ...budget, perNetwork },
        )
        if (exhausted !== null) return exhausted
        await countSpent(work, { chainId, clientId, accountId, wei: more })
      }
      const row = {
        sponsor_id: sponsorId,
        client_id: clientId,
        wei: String(wei),
        charged: String(more > 0n ? charged : counted),
        hour: sql<Date>`date_trunc('hour', now())`,
      }
      await work
        .insertInto('top_ups')
        .values({ chain_id: chainId, account_id: accountId, ordinal, ...row })
        .onConflict((conflict) => conflict.columns(['chain_id', 'account_id', 'ordinal']).doUpdateSet(row))
        .execute()
      return 'reserved'
    }),
  )
}

/**
 * Locks the budgets of a network and all its applications. A budget is the sum of several rows, so reservations see
 * each other only with a common lock.
 * @returns the network's own budget, wei per rolling day; null: no limit in addition to the applications' budgets
 */
export async function lockBudgets(work: Db, chainId: number): Promise<bigint | null> {
  const { sponsor_per_day: perDay } = await work
    .selectFrom('networks')
    .select('sponsor_per_day')
    .where('chain_id', '=', chainId)
    .forUpdate()
    .executeTakeFirstOrThrow()
  return perDay === null ? null : BigInt(perDay)
}

/**
 * Returns the maximum that sponsors may spend on a network in a rolling day for all applications, wei; null: no limit
 * in addition to the applications' budgets.
 */
export async function readNetworkBudget(db: Db, chainId: number): Promise<bigint | null> {
  const row = await db
    .selectFrom('networks')
    .select('sponsor_per_day')
    .where('chain_id', '=', chainId)
    .executeTakeFirst()
  const perDay = row?.sponsor_per_day ?? null
  return perDay === null ? null : BigInt(perDay)
}

/**
 * Counts a top-up that was sent and whose row is lost. Counts it in this hour and regardless of the budget, because it
 * was paid. Does nothing if the row exists. Inside a transaction.
 * @param id  id of its transaction
 */
export async function restoreTopUp(
  work: Db,
  { chainId, accountId, ordinal, clientId }: TopUpKey & { clientId: string },
  id: string,
): Promise<void> {
  const sent = await work
    .selectFrom('transactions')
    .select(['account_id', 'value', 'reserved'])
    .where('id', '=', id)
    .executeTakeFirst()
  if (sent === undefined) return
  const wei = fromWord(sent.value)
  const charged = sent.reserved === null ? wei : BigInt(sent.reserved)
  const row = await work
    .insertInto('top_ups')
    .values({
      chain_id: chainId,
      account_id: accountId,
      ordinal,
      sponsor_id: sent.account_id,
      client_id: clientId,
      wei: String(wei),
      charged: String(charged),
      hour: sql<Date>`date_trunc('hour', now())`,
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning('ordinal')
    .executeTakeFirst()
  if (row !== undefined) await countSpent(work, { chainId, clientId, accountId, wei: charged })
}

/**
 * Replaces a top-up's reservation by its actual cost, including the fee. A repeat does nothing. Inside a transaction.
 * @param spent  wei; null: the reservation counts
 * @param wei  amount that the user got
 */
export async function settleTopUp(
  work: Db,
  { chainId, accountId, ordinal }: TopUpKey,
  { spent, wei, blockNumber }: { spent: bigint | null; wei: bigint; blockNumber: number | null },
): Promise<void> {
  const row = await work
    .selectFrom('top_ups')
    .select(['charged', 'hour', 'client_id'])
    .where('chain_id', '=', chainId)
    .where('account_id', '=', accountId)
    .where('ordinal', '=', ordinal)
    .where('settled_at', 'is', null)
    .forUpdate()
    .executeTakeFirst()
  if (row === undefined) return
  const charged = BigInt(row.charged)
  await work
    .updateTable('top_ups')
    .set({
      settled_at: sql<Date>`now()`,
      block_number: blockNumber,
      wei: String(wei),
      charged: String(spent ?? charged),
    })
    .where('chain_id', '=', chainId)
    .where('account_id', '=', accountId)
    .where('ordinal', '=', ordinal)
    .execute()
  if (spent !== null && spent !== charged)
    await countSpent(work, { chainId, clientId: row.client_id, accountId, wei: spent - charged, hour: row.hour })
}

/**
 * Reopens the top-ups of reorganised blocks. They are settled again, with the price of their new block; until then
 * their last cost counts. Inside a transaction.
 */
export async function reopenTopUps(db: Db, chainId: number, fromNumber: number): Promise<void> {
  await db
    .updateTable('top_ups')
    .set({ settled_at: null })
    .where('chain_id', '=', chainId)
    .where('block_number', '>=', fromNumber)
    .where('settled_at', 'is not', null)
    .execute()
}

/** days for which top-ups are stored; each user's newest one remains, because its number determines the next number */
const KEPT_DAYS = 30

/** Deletes top-ups and hours that no budget counts. */
export async function sweepTopUps(db: Db): Promise<void> {
  for (const table of ['gas_spent', 'gas_spent_on_network'] as const)
    await db
      .deleteFrom(table)
      .where('hour', '<', sql<Date>`now() - ${`${2 * DAY_HOURS} hours`}::interval`)
      .execute()
  await sql`delete from top_ups old where settled_at < now() - ${`${KEPT_DAYS} days`}::interval
      and exists (select 1 from top_ups newer where newer.chain_id = old.chain_id and newer.account_id = old.account_id and newer.ordinal > old.ordinal)`.execute(
    db,
  )
}

/** Returns which budget does not cover a write of this cost; null: all budgets cover it. */
export async function findExhausted(db: Db, spending: Spending, limits: Limits): Promise<Exhausted | null> {
  const { chainId, clientId, accountId, charged } = spending
  const { perUser, perApplication, perNetwork } = limits
  const spent = await readSpent(db, { clientId, chainId }, [accountId, EVERYONE])
  const of = (whose: string) => spent.filter((row) => row.accountId === whose)
  const ofNetwork = perNetwork === null ? [] : await readSpentOnNetwork(db, chainId)
  const judge = (held: HeldSpending[]): Exhausted | null =>
    exhaustedBy('person', {
      hours: of(accountId),
      limit: perUser,
      charged,
      held: held.filter((one) => one.accountId === accountId && one.clientId === clientId),
    }) ?? // prettier-ignore
    exhaustedBy('application', {
      hours: of(EVERYONE),
      limit: perApplication,
      charged,
      held: held.filter((one) => one.clientId === clientId),
    }) ?? // prettier-ignore
    (perNetwork === null ? null : exhaustedBy('network', { hours: ofNetwork, limit: perNetwork, charged, held }))
  const exhausted = judge([])
  if (exhausted === null || exhausted.resetsAt === null) return exhausted
  return judge(await readHeld(db, spending, exhausted.of))
}

/** A cost to reserve, wei, and the budgets that it counts in. */
export type Spending = { chainId: number; clientId: string; accountId: string; charged: bigint }
export type Amounts = Omit<SponsorBudget, 'contracts'>
type Limits = Amounts & { perNetwork: bigint | null }

/** Reservation of open writes within an hour, and the last second in which those writes can be executed. */
type HeldSpending = { clientId: string; accountId: string; hour: Date; wei: bigint; until: Date }

/**
 * Returns the amounts of a budget that open writes reserve. Read only for a write that this budget refuses. Uses the
 * index `operations_account` for a user, otherwise `operations_open` and `operations_uncounted`.
 */
async function readHeld(
  db: Db,
  { chainId, clientId, accountId }: Spending,
  of: Exhausted['of'],
): Promise<HeldSpending[]> {
  const whose = {
    person: sql`client_id = ${clientId} and account_id = ${accountId}`,
    application: sql`client_id = ${clientId}`,
    network: sql`true`,
  }
  const { rows } = await sql<{ client_id: string; account_id: string; hour: Date; wei: string; until: Date }>`
    select client_id, account_id, hour, sum(charged)::text as wei, greatest(to_timestamp(deadline), now()) as until from operations
    where chain_id = ${chainId}::int8 and charged > 0 and ${whose[of]}
      and (state in ('BOUND', 'SUBMITTED') or (not is_counted and state not in ('BOUND', 'SUBMITTED')))
    group by client_id, account_id, hour, deadline`.execute(db)
  return rows.map(({ client_id, account_id, hour, wei, until }) => ({
    clientId: client_id,
    accountId: account_id,
    hour,
    wei: BigInt(wei),
    until,
  }))
}

/**
 * Returns why a budget does not cover a cost, and when it will; null: it covers the cost.
 * @param hours  spending, oldest hour first
 * @param held  part of the spending that open writes have reserved
 */
export function exhaustedBy(
  of: Exhausted['of'],
  {
    hours,
    limit,
    charged,
    held = [],
  }: {
    hours: { hour: Date; wei: bigint }[]
    limit: bigint
    charged: bigint
    held?: HeldSpending[]
  },
): Exhausted | null {
  let left = hours.reduce((sum, { wei }) => sum + wei, charged)
  if (left <= limit) return null
  if (charged > limit) return { of, resetsAt: null }
  const settled = hours.map(({ hour, wei }) => ({
    at: hour.getTime() + (DAY_HOURS + 1) * HOUR_MS,
    wei: held.reduce((rest, one) => (one.hour.getTime() === hour.getTime() ? rest - one.wei : rest), wei),
    isHeld: false,
  }))
  const ending = held.map(({ until, wei }) => ({ at: until.getTime(), wei, isHeld: true }))
  for (const { at, wei, isHeld } of [...settled, ...ending].toSorted((a, b) => a.at - b.at)) {
    left -= wei
    if (left <= limit) return { of, resetsAt: new Date(at), ...(isHeld ? { isHeld } : {}) }
  }
  return { of, resetsAt: null }
}

type Counted = {
  chainId: number
  clientId: string
  accountId: string
  wei: bigint
  hour?: Date | RawBuilder<Date>
}

/** Adds a sponsor's cost of a user's write to its hour. A negative `wei` releases a reservation. */
export async function countSpent(
  db: Db,
  { chainId, clientId, accountId, wei, hour = sql<Date>`date_trunc('hour', now())` }: Counted,
): Promise<void> {
  await db
    .insertInto('gas_spent')
    .values(
      // Locks rows in the same order as `countedIn`. Any other order can deadlock.
      [EVERYONE, accountId].map((whose) => ({
        client_id: clientId,
        account_id: whose,
        chain_id: chainId,
        hour,
        wei: String(wei),
      })),
    )
    .onConflict((conflict) =>
      conflict
        .columns(['client_id', 'account_id', 'chain_id', 'hour'])
        .doUpdateSet({ wei: sql<string>`gas_spent.wei + excluded.wei` }),
    )
    .execute()
  await db
    .insertInto('gas_spent_on_network')
    .values({ chain_id: chainId, hour, wei: String(wei) })
    .onConflict((conflict) =>
      conflict.columns(['chain_id', 'hour']).doUpdateSet({ wei: sql<string>`gas_spent_on_network.wei + excluded.wei` }),
    )
    .execute()
}

/**
 * Returns the parts of a statement that adds costs like `countSpent`, for many writes.
 * @param rows  a part of that statement with the columns `client_id`, `account_id`, `hour` and `wei`, which may be
 *   negative
 */
export const countedIn = (chainId: number, rows: RawBuilder<unknown>) => sql`
    spent as (
      insert into gas_spent (client_id, account_id, chain_id, hour, wei)
      select client_id, whose, ${chainId}::int8, hour, sum(wei) from ${rows} cross join lateral (values (account_id), (${EVERYONE}::uuid)) as payers (whose)
      group by client_id, whose, hour order by client_id, whose
      on conflict (client_id, account_id, chain_id, hour) do update set wei = gas_spent.wei + excluded.wei
    ), spent_on_network as (
      insert into gas_spent_on_network (chain_id, hour, wei)
      select ${chainId}::int8, hour, sum(wei) from ${rows} group by hour
      on conflict (chain_id, hour) do update set wei = gas_spent_on_network.wei + excluded.wei
    )`
