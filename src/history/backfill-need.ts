import { sql, type RawBuilder } from 'kysely'
import type { Chain } from '../chain/network.ts'
import { SPONSOR_PROVIDER } from '../ids.ts'
import { slot } from '../state.ts'
import type { Db } from '../store/db.ts'
import { isUncovered, keepUncovered } from './coverage.ts'
import { type Clock } from '../clock.ts'

/** Days for which someone counts as seen lately. */
const LATELY_DAYS = 30
/** accounts that one look puts into order: fifty groups, some 6 MB */
const MAX_PLANNED = 50_000
/** accounts of one statement of a look */
const BATCH = 5_000
const LOWEST = '00000000-0000-0000-0000-000000000000'
const HIGHEST = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
/** An order is gone by for so long at the most, and a hundred times as long as its look took at the least. */
const PLAN_MS = 600_000
const MAX_LOOKING = 0.01

/** Accounts of which not everything from a block on is in the history, of all accounts but sponsors. */
export type BackfillCount = { waiting: number; covered: number }

/** In which order accounts come, from the last look on, and up to where they were taken. */
type BackfillPlan = { fromBlock: number; accountIds: string[]; taken: number; isCut: boolean; until: number }
const plans = slot('in which order accounts are given their past', (_chain: Chain): { plan: BackfillPlan | null } => ({
  plan: null,
}))

/** Why an account comes before another; 0 for what there is none of, times in seconds since 1970. */
type Need = {
  accountId: string
  /** when its history was read last while it waited */
  asked: number
  /** applications on this network that may act for it */
  applications: number
  isSeenLately: boolean
  seen: number
  created: number
}

/**
 * Accounts without their past by need: first those whose history was read meanwhile, the latest first; then those that an application on this
 * network may act for and that signed in lately, those of more applications first; then the others of applications; then who signed in last;
 * then the newest. What `coveredFrom` says of each: every account is read, some at a time, so that no statement takes long and little is
 * remembered however many there are; what else is asked is asked of those that wait.
 */
export async function selectByNeed(
  db: Db,
  { chainId, fromBlock, atMost, batch = BATCH }: { chainId: number; fromBlock: number; atMost: number; batch?: number },
): Promise<{ accountIds: string[]; waiting: number }> {
  const network = { chainId, fromBlock }
  const some = await readSome(db, { ...network, atMost: batch + 1 })
  if (some.length <= batch) {
    const needs = await readNeeds(db, network, sql<boolean>`account.account_id = any(${`{${some.join()}}`}::uuid[])`)
    return { accountIds: idsOf(needs.toSorted(byNeed).slice(0, atMost)), waiting: needs.length }
  }
  let first: Need[] = []
  let waiting = 0
  let after: string | null = LOWEST
  while (after !== null) {
    const last = await readLast(db, { after, batch })
    const between = sql<boolean>`account.account_id > ${after}::uuid and account.account_id <= ${last ?? HIGHEST}::uuid`
    const needs = await readNeeds(db, network, between)
    waiting += needs.length
    first = merge(first, needs.toSorted(byNeed)).slice(0, atMost)
    after = last
  }
  return { accountIds: idsOf(first), waiting }
}

const idsOf = (needs: readonly Need[]): string[] => needs.map(({ accountId }) => accountId)

const byNeed = (a: Need, b: Need): number =>
  b.asked - a.asked ||
  Number(b.applications > 0) - Number(a.applications > 0) ||
  Number(b.isSeenLately) - Number(a.isSeenLately) ||
  b.applications - a.applications ||
  b.seen - a.seen ||
  b.created - a.created ||
  (a.accountId < b.accountId ? -1 : 1)

/** Of two lists in order one: putting all in order again for each batch would keep requests waiting. */
function merge(one: readonly Need[], other: readonly Need[]): Need[] {
  const merged: Need[] = []
  let at = 0
  for (const need of other) {
    while (at < one.length && byNeed(one[at]!, need) < 0) merged.push(one[at++]!)
    merged.push(need)
  }
  return [...merged, ...one.slice(at)]
}

/** Some that wait, in no order. Where few do, and that is nearly always, this is all that every account is read for. */
async function readSome(
  db: Db,
  { chainId, fromBlock, atMost }: { chainId: number; fromBlock: number; atMost: number },
): Promise<string[]> {
  const { rows } = await sql<{ account_id: string }>`
    select account.account_id from accounts as account
    left join coverage on coverage.account_id = account.account_id and coverage.chain_id = ${chainId}::bigint
    where ${isUncovered(chainId, fromBlock)}
    limit ${atMost}`.execute(db)
  return rows.map((row) => row.account_id)
}

/** The last account of a batch; null: none is left behind it. Index: accounts by its primary key. */
async function readLast(db: Db, { after, batch }: { after: string; batch: number }): Promise<string | null> {
  const row = await db
    .selectFrom('accounts')
    .select('account_id')
    .where('account_id', '>', after)
    .orderBy('account_id')
    .offset(batch - 1)
    .limit(1)
    .executeTakeFirst()
  return row?.account_id ?? null
}

/** Indexes: accounts, coverage, consents, applications by their primary keys, application_users_account, identities_account. */
async function readNeeds(
  db: Db,
  { chainId, fromBlock }: { chainId: number; fromBlock: number },
  which: RawBuilder<boolean>,
): Promise<Need[]> {
  const { rows } = await sql<Need>`
    select account.account_id as "accountId",
      coalesce(extract(epoch from wish.asked_at), 0)::float8 as asked,
      (
        select count(distinct application.client_id)::int4
        from (
          select client_id from consents where consents.account_id = account.account_id
          union all
          select client_id from application_users as noted where noted.account_id = account.account_id
        ) as one
        join applications as application on application.client_id = one.client_id
        where application.chain_id = ${chainId}::bigint and application.suspended_at is null
      ) as applications,
      coalesce(seen.at > now() - ${sql.lit(`${LATELY_DAYS} days`)}::interval, false) as "isSeenLately",
      coalesce(extract(epoch from seen.at), 0)::float8 as seen,
      extract(epoch from account.created_at)::float8 as created
    from accounts as account
    left join coverage on coverage.account_id = account.account_id and coverage.chain_id = ${chainId}::bigint
    left join backfill_wishes as wish on wish.account_id = account.account_id and wish.chain_id = ${chainId}::bigint
    left join lateral (select max(signed_in_at) as at from identities where identities.account_id = account.account_id) as seen on true
    where ${which} and ${isUncovered(chainId, fromBlock)}`.execute(db)
  return rows
}

/**
 * The accounts of the next group: those whose history was read, as they are now, then as the last look ordered them. Looks anew where that
 * order is used up or old.
 * @returns `counted` after a look, else null
 */
export async function nextByNeed(
  db: Db,
  chain: Chain,
  { fromBlock, atMost, planned = MAX_PLANNED }: { fromBlock: number; atMost: number; planned?: number },
): Promise<{ accountIds: string[]; counted: BackfillCount | null }> {
  const { chainId } = chain
  const kept = plans.of(chain)
  const group = new Set(await readAsked(db, { chainId, fromBlock, atMost }))
  let counted: BackfillCount | null = null
  for (;;) {
    const { plan } = kept
    if (
      counted === null &&
      (plan === null || isOver(plan, { now: chain.clock.ticks(), fromBlock, hasSome: group.size > 0 }))
    ) {
      const { count, ...made } = await look(db, chain.clock, { chainId, fromBlock, planned })
      kept.plan = made
      counted = count
      continue
    }
    const some = plan!.accountIds.slice(plan!.taken, plan!.taken + atMost - group.size)
    if (some.length === 0) return { accountIds: [...group], counted }
    plan!.taken += some.length
    for (const accountId of await keepUncovered(db, { chainId, fromBlock, accountIds: some })) group.add(accountId)
  }
}

/** A group of few costs a node as much as a full one: where more wait than were put into order, or nobody is in it yet, it looks again. */
const isOver = (
  plan: BackfillPlan,
  { now, fromBlock, hasSome }: { now: number; fromBlock: number; hasSome: boolean },
): boolean =>
  plan.fromBlock !== fromBlock ||
  now > plan.until ||
  (plan.taken === plan.accountIds.length && (plan.isCut || !hasSome))

/** Index: backfill_wishes_latest. */
async function readAsked(
  db: Db,
  { chainId, fromBlock, atMost }: { chainId: number; fromBlock: number; atMost: number },
): Promise<string[]> {
  const rows = await db
    .selectFrom('backfill_wishes')
    .select('account_id')
    .where('chain_id', '=', chainId)
    .orderBy('asked_at', 'desc')
    .limit(atMost)
    .execute()
  return keepUncovered(db, { chainId, fromBlock, accountIds: rows.map((row) => row.account_id) })
}

async function look(
  db: Db,
  { ticks }: Clock,
  { chainId, fromBlock, planned }: { chainId: number; fromBlock: number; planned: number },
): Promise<BackfillPlan & { count: BackfillCount }> {
  const since = ticks()
  const { accountIds, waiting } = await selectByNeed(db, { chainId, fromBlock, atMost: planned })
  const { all } = await db
    .selectFrom('accounts')
    .select(({ fn }) => fn.countAll<string | number>().as('all'))
    .where('user_id', 'not like', `${SPONSOR_PROVIDER}-%`)
    .executeTakeFirstOrThrow()
  const now = ticks()
  const until = now + Math.max(PLAN_MS, (now - since) / MAX_LOOKING)
  // Accounts that came between the two counts are covered, or counted at the next look.
  const made = { fromBlock, accountIds, taken: 0, isCut: accountIds.length < waiting, until }
  return { ...made, count: { waiting, covered: Math.max(0, Number(all) - waiting) } }
}
