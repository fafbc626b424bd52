import { sql } from 'kysely'
import type { Chain } from '../chain/network.ts'
import { SPONSOR_PROVIDER } from '../ids.ts'
import { slot } from '../state.ts'
import type { Db } from '../store/db.ts'
import { isUncovered, keepUncovered } from './coverage.ts'

/** Days for which someone counts as seen lately. */
const LATELY_DAYS = 30
/** accounts that one look puts into order: a hundred groups, some 6 MB */
const MAX_PLANNED = 100_000
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

/**
 * Accounts without their past by need: first those whose history was read meanwhile, the latest first; then those that an application on this
 * network may act for and that signed in lately, those of more applications first; then the others of applications; then who signed in last;
 * then the newest. What `coveredFrom` says of each, asked of all at once: every account is read, and every consent and identity.
 */
export async function selectByNeed(
  db: Db,
  { chainId, fromBlock, atMost }: { chainId: number; fromBlock: number; atMost: number },
): Promise<{ accountIds: string[]; waiting: number }> {
  const { rows } = await sql<{ account_id: string; waiting: string | number }>`
    with used as (
      select one.account_id, count(*) as applications
      from (select account_id, client_id from consents union select account_id, client_id from application_users) as one
      join applications as application on application.client_id = one.client_id
      where application.chain_id = ${chainId}::bigint and application.suspended_at is null
      group by one.account_id
    ), seen as (
      select account_id, max(signed_in_at) as at from identities group by account_id
    )
    select account.account_id, count(*) over () as waiting from accounts as account
    left join coverage on coverage.account_id = account.account_id and coverage.chain_id = ${chainId}::bigint
    left join backfill_wishes as wish on wish.account_id = account.account_id and wish.chain_id = ${chainId}::bigint
    left join used on used.account_id = account.account_id
    left join seen on seen.account_id = account.account_id
    where ${isUncovered(chainId, fromBlock)}
    order by wish.asked_at desc nulls last,
      used.applications is not null desc,
      coalesce(seen.at > now() - ${sql.lit(`${LATELY_DAYS} days`)}::interval, false) desc,
      used.applications desc nulls last,
      seen.at desc nulls last,
      account.created_at desc,
      account.account_id
    limit ${atMost}`.execute(db)
  return { accountIds: rows.map((row) => row.account_id), waiting: Number(rows[0]?.waiting ?? 0) }
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
    if (counted === null && (plan === null || isOver(plan, { fromBlock, hasSome: group.size > 0 }))) {
      const { count, ...made } = await look(db, { chainId, fromBlock, planned })
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
const isOver = (plan: BackfillPlan, { fromBlock, hasSome }: { fromBlock: number; hasSome: boolean }): boolean =>
  plan.fromBlock !== fromBlock ||
  performance.now() > plan.until ||
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
  { chainId, fromBlock, planned }: { chainId: number; fromBlock: number; planned: number },
): Promise<BackfillPlan & { count: BackfillCount }> {
  const since = performance.now()
  const { accountIds, waiting } = await selectByNeed(db, { chainId, fromBlock, atMost: planned })
  const { all } = await db
    .selectFrom('accounts')
    .select(({ fn }) => fn.countAll<string | number>().as('all'))
    .where('user_id', 'not like', `${SPONSOR_PROVIDER}-%`)
    .executeTakeFirstOrThrow()
  const now = performance.now()
  const until = now + Math.max(PLAN_MS, (now - since) / MAX_LOOKING)
  // Accounts that came between the two counts are covered, or counted at the next look.
  const made = { fromBlock, accountIds, taken: 0, isCut: accountIds.length < waiting, until }
  return { ...made, count: { waiting, covered: Math.max(0, Number(all) - waiting) } }
}
