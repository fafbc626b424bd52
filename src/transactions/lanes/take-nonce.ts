import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { retrying, type Db } from '../../store/db.ts'
import { prepared } from '../../store/prepared.ts'
import { fromHex } from '../../hex.ts'
import { wordDigits, type Hex } from '../../ids.ts'
import type { OuterAuthorization } from '../../store/column-values.ts'
import type { Budget, Fund } from './funds.ts'
import { gasStrategy } from './gas.ts'
import { feeDigits, type Intent, type Terms } from '../intent.ts'
import { transactionRows } from '../rows.ts'
import { reach } from '../crash-points.ts'
import { oncePer, together } from './group-commit.ts'

/**
 * A write to bind. With an idempotency key, its id is derived from the key and the request has a hash; otherwise the id
 * is random.
 */
export type Binding = {
  id: string
  requestHash: Buffer | null
  /** the caller's own text */
  reference: string | null
  accountId: string
  clientId: string
  from: Hex
  intent: Intent
  terms: Terms
  /** null: nothing is reserved */
  budget: Budget | null
  /** tops up an account whose budget is too small; default: nobody does */
  fund?: Fund | null
  /** authorizations of a sponsor's transaction that includes operations */
  authorizations?: OuterAuthorization[]
}

/**
 * The account's nonces as the statement found them. `turn`: 1-based position among the group's writes of this account.
 * `reserved`: highest cost of the open writes in wei, without the group's writes. `isAhead`: the next nonce is too far
 * above an unsigned one.
 */
export type LaneState = {
  isStopped: boolean
  pending: number
  vacant: number | null
  isNew: boolean
  isAhead: boolean
  reserved: bigint
  turn: number
}

export type NonceResult = { nonce: number } | 'key is taken' | { lane: LaneState }

/**
 * A binding in a group. `first`: the chain's count of the account's mined transactions, if it was requested; only an
 * account without a row needs it.
 */
type GroupedBinding = Binding & { first: number | null }

/** Each member writes one row: far below the portable transaction limits of 2,000 rows and 4 MiB. */
const LIMITS = { most: 256, mostBytes: 1_048_576, lanes: 1, dropsLate: true }

/**
 * Binds many writes at once (commit 1): inserts each write's row with the next nonce of its account, one above the
 * account's highest row on this network. Several writes of an account in one group get nonces in the order of arrival.
 * The unique keys, (network, sender, nonce) and the id, decide races between replicas: a write that loses gets no row,
 * and has to call again.
 * @returns the nonce, or why there is none: the id belongs to another request, or the state of the account's nonces
 * @throws database_unavailable  if the outcome is unknown: the write may be bound
 */
export function takeNonce(app: App, chain: Chain, binding: Binding, first: number | null): Promise<NonceResult> {
  return groupOf(app, chain)({ ...binding, first })
}

const groupOf = oncePer('commits of nonces', (app, chain) =>
  together(app.clock, LIMITS, sizeOf, (members: GroupedBinding[]) => retrying(() => commit(app, chain, members))),
)

const sizeOf = ({ intent, reference }: GroupedBinding): number =>
  1_024 + (reference?.length ?? 0) + intent.data.length + intent.abi.length

async function commit(app: App, chain: Chain, members: GroupedBinding[]): Promise<NonceResult[]> {
  // Random ids cannot conflict, so a single statement without a transaction is enough.
  if (members.every(({ requestHash }) => requestHash === null)) return (await insert(app, app.db, chain, members)).taken
  for (;;) {
    const taken = await commitKeyed(app, chain, members)
    if (taken !== 'left a hole') return taken
  }
}

async function commitKeyed(app: App, chain: Chain, members: GroupedBinding[]): Promise<NonceResult[] | 'left a hole'> {
  try {
    return await app.db.transaction().execute(async (db) => {
      const { taken, lost } = await insert(app, db, chain, members)
      for (const { requestHash } of members) if (requestHash !== null) await reach(app, 'in-bind')
      for (const lane of lost) if (await hasHole(db, chain, members, taken, lane)) throw new LeftHole()
      return taken
    })
  } catch (error) {
    // The commit was rolled back; the next attempt sees the conflicting row.
    if (error instanceof LeftHole) return 'left a hole'
    throw error
  }
}

class LeftHole extends Error {}

/**
 * Returns whether a nonce was skipped. Another replica may have just bound the same id under a lower nonce. Then the
 * nonce assigned here remains free while higher ones are taken, and would never be filled.
 * @param lane  an account of which a member got no row, and the nonce that its first member was to get
 */
async function hasHole(
  db: Db,
  { chainId }: Chain,
  members: GroupedBinding[],
  taken: NonceResult[],
  { from, next }: { from: Hex; next: number },
): Promise<boolean> {
  const nonces = taken.flatMap((one, index) =>
    one !== 'key is taken' && 'nonce' in one && members[index]!.from === from ? [one.nonce] : [],
  )
  const highest = Math.max(next - 1, ...nonces)
  const { there } = await db
    .selectFrom('transactions')
    .select(({ fn }) => fn.countAll<number>().as('there'))
    .where('chain_id', '=', chainId)
    .where('sender', '=', fromHex(from))
    .where('nonce', '>=', next)
    .where('nonce', '<=', highest)
    .executeTakeFirstOrThrow()
  return Number(there) < highest - next + 1
}

type BoundRow = {
  nonce: number | null
  turn: number | null
  next: number | null
  stopped: boolean
  pending: number
  vacant: number | null
  unsigned: number | null
  reserved: string
  tried: boolean | null
}

/**
 * Returns the highest number of unconfirmed writes of one account: those sent to nodes and those queued behind them.
 */
export const mostPending = ({ config }: Pick<App, 'config'>): number =>
  config.MAX_PENDING_WRITES + config.MAX_QUEUED_WRITES

/**
 * Inserts the rows that can be bound, in one statement, so that all reads and inserts see one state. For a row to be
 * inserted:
 * - its id is unused, no lower nonce is vacant, and the account is not stopped;
 * - fewer writes than the limit are pending;
 * - the funds cover it, all open writes and the members before it;
 * - the lowest nonce without bytes is near enough: the signer sees no gap, and after a crash of this server it can fill
 * all unsigned nonces in a row.
 * Rows are inserted in the order of the unique keys; otherwise two replicas could deadlock. An account's open rows are
 * one search in `transactions_open`.
 */
async function insert(
  app: App,
  db: Db,
  chain: Chain,
  members: GroupedBinding[],
): Promise<{ taken: NonceResult[]; lost: { from: Hex; next: number }[] }> {
  const { chainId } = chain
  const { rows } = await sql<BoundRow>`${prepared}
    with asked as (
      select place, id, account_id, client_id, decode(sender, 'hex') as sender, decode(target, 'hex') as target,
        decode(value, 'hex') as value, decode(data, 'hex') as data, gas_limit, decode(max_fee, 'hex') as max_fee,
        decode(max_priority_fee, 'hex') as max_priority_fee, abi, first, cost, available, paid_below,
        decode(request_hash, 'hex') as request_hash, reference, authorizations,
        row_number() over (partition by id order by place) as copy
      from json_to_recordset(${JSON.stringify(members.map((member, place) => toAsked(chain, member, place)))}::json)
        as members (place int, id text, account_id uuid, client_id text, sender text, target text, value text, data text, gas_limit bigint,
          max_fee text, max_priority_fee text, abi text, first bigint, cost numeric, available numeric, paid_below bigint, request_hash text, reference text, authorizations jsonb)
    ), lanes as (
      select sender,
        coalesce((select nonce + 1 from transactions where chain_id = ${chainId}::bigint and sender = senders.sender order by nonce desc limit 1), first) as next,
        exists (select 1 from stopped_lanes where chain_id = ${chainId}::bigint and sender = senders.sender) as stopped,
        pending, vacant, unsigned, open.reserved
      from (select sender, max(first) as first, max(paid_below) as paid_below from asked group by sender) as senders cross join lateral (
        select count(*) filter (where state <> 'VACANT') as pending, min(nonce) filter (where state = 'VACANT') as vacant,
          min(nonce) filter (where state = 'BOUND') as unsigned,
          coalesce(sum(reserved) filter (where state <> 'VACANT' and nonce >= paid_below), 0) as reserved
        from transactions where chain_id = ${chainId}::bigint and state in ('BOUND', 'SUBMITTED', 'VACANT') and sender = senders.sender
      ) as open
    ), counted as (
      select asked.*, next, stopped, pending, vacant, unsigned, reserved, row_number() over (partition by asked.sender order by place) as turn,
        sum(cost) over (partition by asked.sender order by place) as needed
      from asked join lanes on lanes.sender = asked.sender
      where copy = 1 and (request_hash is null or not exists (select 1 from transactions where transactions.id = asked.id))
    ), turns as (
      select counted.*, next is not null and not stopped and vacant is null and pending + turn <= ${mostPending(app)}::int
        and next + turn - 1 < coalesce(unsigned, next) + ${app.config.MAX_PENDING_WRITES}::int
        and bool_and(coalesce(reserved + needed <= available, true)) over (partition by sender order by turn) as tried
      from counted
    ), bound as (
      ${transactionRows.inserting(
        'bind',
        `id, account_id, client_id, chain_id, sender, nonce, target, value, data, gas_limit, max_fee, max_priority_fee, abi, request_hash, reference,
          reserved, transitions, created_at, authorizations`,
        sql`id, account_id, client_id, ${chainId}::bigint, sender, next + turn - 1, target, value, data, gas_limit, max_fee, max_priority_fee, abi, request_hash, reference,
          cost, '[]'::jsonb, date_trunc('milliseconds', now()), authorizations
        from turns where tried
        order by sender, turn`,
      )}
      on conflict do nothing
      returning id, nonce
    )
    select bound.nonce, turns.turn, turns.tried, lanes.next, lanes.stopped, lanes.pending, lanes.vacant, lanes.unsigned, lanes.reserved::text as reserved
    from asked join lanes on lanes.sender = asked.sender left join turns on turns.place = asked.place left join bound on bound.id = turns.id
    order by asked.place`.execute(db)
  const lost = new Map<Hex, number>()
  for (const [index, { nonce, next, tried }] of rows.entries()) {
    const { from, requestHash } = members[index]!
    // Only an id that another replica may use as well can be lost without its nonce.
    if (nonce === null && tried === true && requestHash !== null) lost.set(from, next!)
  }
  return { taken: rows.map((row) => readRow(app, row)), lost: [...lost].map(([from, next]) => ({ from, next })) }
}

/** Returns the wei that a binding reserves of its account's budget. */
export const reserveOf = (chain: Chain, { intent, terms }: Pick<Binding, 'intent' | 'terms'>): bigint =>
  gasStrategy(chain).reserve(intent, { ...terms, isCancel: false })

/**
 * Encodes bytes as hexadecimal digits: both databases read one JSON parameter, and faster than one parameter per field.
 */
function toAsked(
  chain: Chain,
  {
    id,
    first,
    accountId,
    clientId,
    from,
    intent,
    terms,
    budget,
    requestHash,
    reference,
    authorizations,
  }: GroupedBinding,
  place: number,
) {
  return {
    place,
    id,
    first,
    account_id: accountId,
    client_id: clientId,
    sender: from.slice(2),
    target: intent.to.slice(2),
    value: wordDigits(intent.value),
    data: intent.data.slice(2),
    abi: intent.abi,
    gas_limit: Number(terms.gas),
    ...feeDigits(terms.fees),
    cost: String(reserveOf(chain, { intent, terms })),
    paid_below: budget?.paidBelow ?? 0,
    ...(budget === null ? {} : { available: String(budget.available) }),
    ...(authorizations === undefined ? {} : { authorizations }),
    ...(requestHash === null ? {} : { request_hash: requestHash.toString('hex') }),
    ...(reference === null ? {} : { reference }),
  }
}

function readRow(app: App, { nonce, turn, next, stopped, pending, vacant, unsigned, reserved }: BoundRow): NonceResult {
  if (nonce !== null) return { nonce }
  if (turn === null) return 'key is taken'
  const isAhead = next !== null && next + turn - 1 >= (unsigned ?? next) + app.config.MAX_PENDING_WRITES
  return {
    lane: { isStopped: stopped, pending, vacant, isNew: next === null, isAhead, reserved: BigInt(reserved), turn },
  }
}
