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

/** milliseconds that a write may wait before there has to be a reason */
const BOUND_MS = 60_000

/**
 * Why each of some writes of one account is not mined yet, where it waits for longer than a minute: from what keepers
 * have noted, from what else the account has open, and from the newest block. No node is asked.
 * @param rows  of one account and network
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
  /** of the newest attempt: wei per gas, and whether a node has confirmed it; null when it is not stored */
  max_fee: Uint8Array | null
  is_unconfirmed: boolean | null
  /** nobody has given it to a node yet: too many of its account are before it */
  is_queued: boolean
  /** the lowest nonce of the account that is not settled */
  first_id: string
  first_client: string
  first_nonce: number
  first_is_told: boolean
  first_trouble: TroubleCode | null
  /** the last block that was followed, and why there is none after it: for good, or by the next block */
  followed: number | null
  halted: string | null
  blocked_by: string | null
}

/** Over the unique keys, and transactions_open for the lowest nonce. */
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

/** The first that applies: what is nearest to the cause, and can be done something about. */
function reasonOf(facts: WaitFacts, { config }: App, chain: Chain): Reason {
  const { nonce, first_nonce: first, trouble, detail } = facts
  const isFirst = nonce === first
  // Of a network that is not followed nothing else is known to be so still.
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

/** Of another application nothing is revealed but that it is there. */
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
