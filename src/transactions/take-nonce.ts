import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { retrying, type Db } from '../store/db.ts'
import { prepared } from '../store/prepared.ts'
import { wordDigits } from '../store/bytes.ts'
import type { Hex } from '../ids.ts'
import { feeDigits, type Intent, type Terms } from './intent.ts'
import type { KeyScope } from './key.ts'
import { reach } from './steps.ts'
import { oncePer, together } from './together.ts'

/** Who wants it, with the key and the hash of the request if there is a key. */
export type Binding = {
  accountId: string
  clientId: string
  from: Hex
  intent: Intent
  terms: Terms
  key: { scope: KeyScope; requestHash: Uint8Array } | null
}

/** `first`: the chain's count of the account, once it was asked; only an account without a row needs it. */
export type Place = { id: string; first: number | null }

/** The lane as the statement saw it. `turn`: the how-manieth of the group's writes of this account it was, from 1. */
export type Lane = { isStopped: boolean; pending: number; vacant: number | null; isNew: boolean; turn: number }

export type Taken = { nonce: number } | 'key is taken' | { lane: Lane }

type Member = Binding & Place

/** Two rows each, with the transaction far below the 2,000 rows and 4 MiB of a portable one. */
const LIMITS = { most: 256, mostBytes: 1_048_576, lanes: 1 }

/**
 * Commit 1 of many writes at once: each one's row with the next nonce of its account, and its idempotency key. The
 * nonce is one more than the highest row of the account on this network; several writes of an account in one group get
 * nonces in the order they came. The unique key (network, sender, nonce) decides races between replicas: who loses one
 * gets no row and no key, and asks again.
 * @returns why there is none where there is none: the key belongs to another request, or the state of the lane
 * @throws database_unavailable  unknown: it may have been bound
 */
export function takeNonce(app: App, chain: Chain, binding: Binding, place: Place): Promise<Taken> {
  return groupOf(app, chain)({ ...binding, ...place })
}

const groupOf = oncePer((app, chain) =>
  together(LIMITS, sizeOf, (members: Member[]) => retrying(() => commit(app, chain, members))),
)

const sizeOf = ({ intent }: Member): number => 1_024 + intent.data.length + intent.abi.length

async function commit(app: App, chain: Chain, members: Member[]): Promise<Taken[]> {
  // Without a key it is a single statement, which needs no transaction around it.
  if (members.every(({ key }) => key === null)) return insert(app, app.db, chain, members)
  return app.db.transaction().execute(async (db) => {
    const taken = await insert(app, db, chain, members)
    const without = members.filter(({ key }, index) => key !== null && hasLane(taken[index]!)).map(({ id }) => id)
    if (without.length > 0) await db.deleteFrom('idempotency_keys').where('transaction_id', 'in', without).execute()
    for (const { key } of members) if (key !== null) await reach(app, 'in-bind')
    return taken
  })
}

const hasLane = (taken: Taken): boolean => typeof taken === 'object' && 'lane' in taken

type Row = {
  nonce: number | null
  turn: number | null
  next: number | null
  stopped: boolean
  pending: number
  vacant: number | null
}

/**
 * One statement, so that its reads and its inserts see one state: nothing vacant below, not stopped, fewer than the
 * limit pending. The order of the inserts is that of the unique keys, or two replicas would wait for each other.
 */
async function insert(app: App, db: Db, { chainId }: Chain, members: Member[]): Promise<Taken[]> {
  const { rows } = await sql<Row>`${prepared}
    with asked as (
      select place, id, account_id, client_id, decode(sender, 'hex') as sender, decode(target, 'hex') as target,
        decode(value, 'hex') as value, decode(data, 'hex') as data, gas_limit, decode(max_fee, 'hex') as max_fee,
        decode(max_priority_fee, 'hex') as max_priority_fee, abi, first, route, key, decode(request_hash, 'hex') as request_hash
      from json_to_recordset(${JSON.stringify(members.map(toAsked))}::json)
        as members (place int, id text, account_id uuid, client_id text, sender text, target text, value text, data text, gas_limit bigint,
          max_fee text, max_priority_fee text, abi text, first bigint, route text, key text, request_hash text)
    ), keys as (
      insert into idempotency_keys (account_id, client_id, route, key, request_hash, transaction_id)
      select account_id, client_id, route, key, request_hash, id from asked where key is not null
      order by account_id, client_id, route, key, place
      on conflict (account_id, client_id, route, key) do nothing
      returning transaction_id
    ), lanes as (
      select sender,
        coalesce((select nonce + 1 from transactions where chain_id = ${chainId}::bigint and sender = senders.sender order by nonce desc limit 1), first) as next,
        exists (select 1 from stopped_lanes where chain_id = ${chainId}::bigint and sender = senders.sender) as stopped,
        (select count(*) from transactions where chain_id = ${chainId}::bigint and state in ('BOUND', 'SUBMITTED') and sender = senders.sender) as pending,
        (select min(nonce) from transactions where chain_id = ${chainId}::bigint and state = 'VACANT' and sender = senders.sender) as vacant
      from (select sender, max(first) as first from asked group by sender) as senders
    ), turns as (
      select asked.*, next, stopped, pending, vacant, row_number() over (partition by asked.sender order by place) as turn
      from asked join lanes on lanes.sender = asked.sender left join keys on keys.transaction_id = asked.id
      where asked.key is null or keys.transaction_id is not null
    ), bound as (
      insert into transactions (id, account_id, client_id, chain_id, sender, nonce, target, value, data, gas_limit, max_fee, max_priority_fee, abi, state, transitions, created_at)
      select id, account_id, client_id, ${chainId}::bigint, sender, next + turn - 1, target, value, data, gas_limit, max_fee, max_priority_fee, abi,
        'BOUND', '[]'::jsonb, date_trunc('milliseconds', now())
      from turns
      where next is not null and not stopped and vacant is null and pending + turn <= ${app.config.MAX_PENDING_WRITES}::int
      order by sender, turn
      on conflict (chain_id, sender, nonce) do nothing
      returning id, nonce
    )
    select bound.nonce, turns.turn, lanes.next, lanes.stopped, lanes.pending, lanes.vacant
    from asked join lanes on lanes.sender = asked.sender left join turns on turns.id = asked.id left join bound on bound.id = asked.id
    order by asked.place`.execute(db)
  return rows.map(readRow)
}

/** Bytes are hexadecimal digits: one JSON parameter is read by both databases, and faster than one parameter a field. */
function toAsked({ id, first, accountId, clientId, from, intent, terms, key }: Member, place: number) {
  return {
    ...{ place, id, first, account_id: accountId, client_id: clientId, sender: from.slice(2) },
    ...{ target: intent.to.slice(2), value: wordDigits(intent.value), data: intent.data.slice(2), abi: intent.abi },
    ...{ gas_limit: Number(terms.gas), ...feeDigits(terms.fees) },
    ...(key === null
      ? {}
      : { route: key.scope.route, key: key.scope.key, request_hash: Buffer.from(key.requestHash).toString('hex') }),
  }
}

function readRow({ nonce, turn, next, stopped, pending, vacant }: Row): Taken {
  if (nonce !== null) return { nonce }
  if (turn === null) return 'key is taken'
  return { lane: { isStopped: stopped, pending, vacant, isNew: next === null, turn } }
}
