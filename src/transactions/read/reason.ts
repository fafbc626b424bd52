import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { fromWord } from '../../store/bytes.ts'
import type { TransactionRow } from '../intent.ts'
import type { TroubleCode } from '../recovery/trouble.ts'

/** Why a write is not mined yet. */
export type Reason = { code: ReasonCode; detail: string }
type ReasonCode =
  | TroubleCode
  | 'account_stopped'
  | 'network_stopped'
  | 'queued'
  | 'behind_earlier'
  | 'waiting_for_block'

/** milliseconds after which a pending write has a reason */
const BOUND_MS = 60_000

/**
 * Returns why writes of one account are not mined yet, if they have waited for more than a minute. Uses the keepers'
 * records, the account's other open writes and the newest block; asks no node.
 * @param rows  writes of one account and network
 * @returns reasons by id
 */
export async function readReasons(app: App, chain: Chain, rows: TransactionRow[]): Promise<Map<string, Reason>> {
  const before = app.clock.wall() - BOUND_MS
  const late = rows.filter(({ state, created_at }) => state === 'SUBMITTED' && created_at.getTime() < before)
  if (late.length === 0) return new Map()
  const facts = await readFacts(app, late)
  return new Map(facts.map((one) => [one.id, reasonOf(one, app, chain)]))
}

type WaitFacts = {
  id: string
  client_id: string
  nonce: number
  trouble: TroubleCode | null
  detail: string | null
  is_stopped: boolean
  /** of the newest attempt: wei per gas, and whether no node has confirmed it; null if the attempt is not stored */
  max_fee: Uint8Array | null
  is_unconfirmed: boolean | null
  /** whether it is not sent to a node yet, because too many lower nonces are open */
  is_queued: boolean
  /** the lowest open nonce of the account */
  first_id: string
  first_client: string
  first_nonce: number
  first_is_told: boolean
  first_trouble: TroubleCode | null
  /** the last followed block, and why no block follows: permanently halted, or blocked by the next block */
  followed: number | null
  halted: string | null
  blocked_by: string | null
}

/** Reads the facts by the unique keys, and the lowest nonce by the index transactions_open. */
async function readFacts({ db }: App, rows: TransactionRow[]): Promise<WaitFacts[]> {
  const [{ chain_id: chainId, sender }] = rows as [TransactionRow]
  const ids = JSON.stringify(rows.map(({ id }) => id))
  const { rows: facts } = await sql<WaitFacts>`
    with first as (
      select id, client_id, nonce, hash is not null as is_told from transactions
      where chain_id = ${chainId}::bigint and sender = ${sender}::bytea and state in ('BOUND', 'SUBMITTED', 'VACANT')
      order by nonce limit 1)
    select t.id, t.client_id, t.nonce, own.trouble, own.detail, a.max_fee, a.broadcast_at is null as is_unconfirmed,
      a.queued_nonce is not null as is_queued,
      exists (select 1 from stopped_lanes where chain_id = t.chain_id and sender = t.sender) as is_stopped,
      first.id as first_id, first.client_id as first_client, first.nonce as first_nonce, first.is_told as first_is_told, before.trouble as first_trouble,
      cursor.block_number as followed, cursor.halted, cursor.blocked_by
    from transactions t cross join first
    left join cursors cursor on cursor.chain_id = t.chain_id
    left join attempts a on a.chain_id = t.chain_id and a.hash = t.hash
    left join waits own on own.chain_id = t.chain_id and own.sender = t.sender and own.nonce = t.nonce
    left join waits before on before.chain_id = t.chain_id and before.sender = t.sender and before.nonce = first.nonce
    where t.id in (select json_array_elements_text(${ids}::json)) and t.state = 'SUBMITTED'`.execute(db)
  return facts
}

/** Returns the first reason that applies: the one nearest to the cause that someone can act on. */
function reasonOf(facts: WaitFacts, { config }: App, chain: Chain): Reason {
  const { nonce, first_nonce: first, trouble, detail } = facts
  const isFirst = nonce === first
  // While the network is not followed, all other facts may be outdated.
  if (facts.halted !== null || facts.blocked_by !== null) return reasonOfStop(facts)
  if (isFirst && trouble !== null) return { code: trouble, detail: detail ?? '' }
  if (facts.is_stopped)
    return reason('account_stopped', 'The account is stopped. An operator must review and resume the account.')
  if (facts.is_queued)
    return reason(
      'queued',
      `The write is sent when fewer than ${config.MAX_PENDING_WRITES} earlier writes of the account are open.`,
    )
  if (!isFirst) return reason('behind_earlier', `Writes of an account are mined in order. ${nameOfFirst(facts)}`)
  if (facts.is_unconfirmed !== false)
    return reason(
      'node_unreachable',
      'No node has confirmed the transaction. The transaction is rebroadcast until a node confirms it.',
    )
  return reasonByFee(facts, chain)
}

function reasonOfStop({ followed, halted, blocked_by }: WaitFacts): Reason {
  const why =
    halted === null
      ? `Block ${followed! + 1} cannot be read: ${blocked_by}. The server retries.`
      : `${halted} An operator must check the network.`
  return reason('network_stopped', `The server has not read the network beyond block ${followed}, so the result of the transaction is unknown. ${why}`) // prettier-ignore
}

const reason = (code: ReasonCode, detail: string): Reason => ({ code, detail })

/** Names the account's first open write. Of another application's write, reveals only that it exists. */
function nameOfFirst({ first_id, first_client, first_is_told, first_trouble, client_id }: WaitFacts): string {
  const because = first_trouble === null ? '' : ` (${first_trouble})`
  if (!first_is_told)
    return 'An earlier write was never signed. A gap-filling transaction for its nonce follows automatically.'
  if (first_client !== client_id && first_client !== '')
    return `An earlier transaction of another application waits${because}.`
  return `Transaction ${first_id} waits${because}.`
}

function reasonByFee({ max_fee }: WaitFacts, { head, feeCapWei }: Chain): Reason {
  const baseFee = head.current()?.baseFee ?? null
  const offered = max_fee === null ? null : fromWord(max_fee)
  if (baseFee === null || offered === null || offered >= baseFee)
    return reason(
      'waiting_for_block',
      'Nodes have the transaction, and its fee is sufficient. The transaction waits for a block.',
    )
  if (baseFee > feeCapWei)
    return reason('fee_cap_reached', `The base fee is ${baseFee} wei per gas, and the operator allows ${feeCapWei}.`)
  return reason(
    'fee_too_low_for_market',
    `The base fee is ${baseFee} wei per gas, and the transaction offers ${offered}. A fee bump is in progress.`,
  )
}
