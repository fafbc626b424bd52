import { checksumAddress } from '../digits.ts'
import { uuidOf, type Hex } from '../ids.ts'
import type { FactKind, Transition } from '../store/column-values.ts'
import type { EventType } from './wire.ts'

/** A row of `facts`. */
export type WrittenFact = {
  kind: FactKind
  chainId: number | null
  accountId: string | null
  subject: string
  data: Record<string, unknown>
}

/** What a fact means to applications. `id` is a UUID. */
export type DescribedEvent = { id: string; type: EventType; data: Record<string, unknown> }

/**
 * Returns the events of a fact, in order. Their ids are made of what happened, not of when it was noticed: a database
 * that lost its newest rows and recovers them from the chain and the ledger writes the same ids again.
 */
export function describe(fact: WrittenFact): DescribedEvent[] {
  const of = (type: EventType, key: string, data: Record<string, unknown>): DescribedEvent => ({
    id: idOf(fact, type, key),
    type,
    data,
  })
  const { data } = fact
  switch (fact.kind) {
    case 'write':
      return describeWrite(fact, data as WriteFact)
    case 'transfer':
      return [describeTransfer(fact, data as TransferFact)]
    case 'approval': {
      const row = data.row as QuestionFact
      return [
        of(APPROVAL_TYPES[row.state], row.state, {
          id: row.id,
          state: row.state,
          rule: row.rule,
          expiresAt: row.expires_at,
        }),
      ]
    }
    case 'signature': {
      const row = data.row as { id: string; kind: string; class: string; hash: string; reference: string | null }
      return [
        of('signature.created', row.id, {
          id: row.id,
          kind: row.kind,
          class: row.class,
          hash: fromColumn(row.hash),
          reference: row.reference,
        }),
      ]
    }
    case 'user':
      return [of('user.created', momentOf(data), {})]
    case 'consent': {
      const { row, before } = data as { row: { permissions: string[]; updated_at: string }; before: string[] | null }
      if (row.permissions.length === 0 || isSame(row.permissions, before ?? [])) return []
      const type = before === null || before.length === 0 ? 'consent.granted' : 'consent.changed'
      return [of(type, row.updated_at, { permissions: row.permissions })]
    }
    case 'revoked':
      return [of('grant.revoked', momentOf(data), {})]
    case 'account':
      return describeAccount(data as AccountFact, of)
    case 'denial': {
      const row = data.row as DenialFact
      const rule = row.rule === '' ? null : row.rule
      return [
        of('policy.denied', `${row.rule} ${row.hour}`, {
          request: row.request,
          rule,
          detail: row.detail,
          reference: row.reference,
          count: row.count,
        }),
      ]
    }
    case 'low_balance': {
      const { kind, nonce, transaction_id: transactionId, needed, available } = data.row as LowBalanceFact
      return [of('account.low_balance', `${kind} ${nonce}`, { transactionId, needed, available })]
    }
    case 'webhook': {
      const { verb, key, ...shown } = data as { verb: 'failed' | 'disabled'; key: string | number }
      return [of(`webhook.${verb}`, String(key), shown)]
    }
    case 'lane': {
      const { isStopped, reason, nonce, hash } = data as LaneFact
      // The foreign transaction: a stopped account is stopped again if another one appears.
      const key = `${reason} ${nonce} ${hash}`
      return [isStopped ? of('account.stopped', key, { reason, nonce }) : of('account.resumed', key, { nonce })]
    }
  }
}

const idOf = ({ chainId, accountId, subject }: WrittenFact, type: EventType, key: string): string =>
  uuidOf(`chatelaine event\0${chainId ?? ''}\0${accountId ?? ''}\0${subject}\0${type}\0${key}`)

const isSame = (some: readonly string[], others: readonly string[]): boolean =>
  new Set([...some, ...others]).size === new Set(some).size && new Set(some).size === new Set(others).size

const momentOf = (data: Record<string, unknown>): string => (data.row as { created_at: string }).created_at

/** Converts bytes as PostgreSQL shows them in JSON (`\x…`), or hexadecimal digits without a prefix. */
const fromColumn = (text: string): Hex => `0x${text.replace(/^\\x/, '')}`

type QuestionFact = {
  id: string
  state: 'waiting' | 'approved' | 'denied' | 'expired'
  rule: string
  expires_at: string
}
const APPROVAL_TYPES = {
  waiting: 'approval.requested',
  approved: 'approval.granted',
  denied: 'approval.denied',
  expired: 'approval.expired',
} as const satisfies Record<QuestionFact['state'], EventType>

type DenialFact = {
  rule: string
  hour: string
  request: 'write' | 'signature'
  reference: string | null
  detail: string
  count: number
}
type LowBalanceFact = {
  kind: 'rejected' | 'waiting'
  nonce: number
  transaction_id: string | null
  needed: string | null
  available: string | null
}
type AccountFact = {
  frozenAt: string | null
  wasFrozenAt: string | null
  unfrozenAt: string | null
  exportedAt: string | null
  wasExportedAt: string | null
}
type LaneFact = { isStopped: boolean; reason: string; nonce: number; hash: string | null }

function describeAccount(
  { frozenAt, wasFrozenAt, unfrozenAt, exportedAt, wasExportedAt }: AccountFact,
  of: (type: EventType, key: string, data: Record<string, unknown>) => DescribedEvent,
): DescribedEvent[] {
  const events: DescribedEvent[] = []
  if (frozenAt !== wasFrozenAt) {
    if (frozenAt === null) events.push(of('account.unfrozen', unfrozenAt ?? '', {}))
    else events.push(of('account.frozen', frozenAt, { frozenAt }))
  }
  if (exportedAt !== null && exportedAt !== wasExportedAt) events.push(of('key.exported', exportedAt, { exportedAt }))
  return events
}

/** The block of a write, now or before a change. `times`: how often that block was retracted before. */
type WritePlace = { state: string; blockHash: string | null; times: number; failures: number }
/** What `note_write` stores (migrations/). Hashes are hexadecimal digits. */
type WriteFact = WritePlace & {
  id: string
  hash: string | null
  blockNumber: number | null
  reference: string | null
  steps: Transition[]
  /** the row before the change; null: it was new */
  before: WritePlace | null
}

/** Types of the outcomes, by state. A final transaction was mined before. */
const OUTCOMES: Partial<Record<string, EventType>> = {
  MINED: 'transaction.mined',
  FINALIZED: 'transaction.mined',
  REVERTED: 'transaction.reverted',
  CANCELLED: 'transaction.cancelled',
  REPLACED: 'transaction.replaced',
  FAILED: 'transaction.failed',
}

function describeWrite(fact: WrittenFact, write: WriteFact): DescribedEvent[] {
  const { steps, before } = write
  const events: DescribedEvent[] = []
  let outcome = before === null ? null : outcomeOf(fact, before)
  let hasBytes = before?.state === 'SUBMITTED'
  const add = (type: EventType, key: string, step: Transition, more: Record<string, unknown> = {}) => {
    // The database that has lost a fee bump does not know whether its bytes were the first ones.
    const idType = type === 'transaction.resubmitted' ? 'transaction.submitted' : type
    events.push({ id: idOf(fact, idType, key), type, data: { ...dataOf(write, step), ...more } })
  }
  for (const step of steps) {
    if (step.state === 'FINALIZED') {
      add('transaction.finalized', placeKey(write), step)
      continue
    }
    const next = outcomeOf(fact, { ...write, state: step.state })
    // A block was retracted, or a block on another branch corrects the outcome.
    if (outcome !== null && outcome.id !== next?.id)
      add('transaction.retracted', outcome.id, step, { retracts: eventId(outcome.id) })
    if (next !== null) {
      if (outcome?.id !== next.id) add(next.type, next.key, step)
    } else if (step.state === 'SUBMITTED' && outcome === null) {
      add(hasBytes ? 'transaction.resubmitted' : 'transaction.submitted', step.hash ?? `0x${write.hash}`, step)
      hasBytes = true
    }
    outcome = next
  }
  return events
}

/** Returns the event of the state that a write has or had; null: nothing has happened to it on the chain. */
function outcomeOf(fact: WrittenFact, place: WritePlace): { id: string; type: EventType; key: string } | null {
  const type = OUTCOMES[place.state]
  if (type === undefined) return null
  const key = placeKey(place)
  return { id: idOf(fact, type, key), type, key }
}

/** Identifies an outcome: the block, and its return after a reorganisation; without a block, which failure it was. */
const placeKey = ({ blockHash, times, failures }: WritePlace): string =>
  blockHash === null ? `failure ${failures}` : `${blockHash} ${times}`

function dataOf(
  { id, hash, state, blockNumber, blockHash, reference }: WriteFact,
  step: Transition,
): Record<string, unknown> {
  const isOpen = step.state === 'SUBMITTED' || step.state === 'BOUND'
  const shown = step.hash ?? (hash === null ? null : `0x${hash}`)
  return {
    id,
    hash: shown,
    state: step.state === 'FINALIZED' ? state : step.state === 'BOUND' ? 'SUBMITTED' : step.state,
    blockNumber: isOpen ? null : blockNumber,
    blockHash: isOpen || blockHash === null ? null : `0x${blockHash}`,
    reference,
  }
}

/** What `noteTransfers` stores. Addresses, hashes and words are hexadecimal digits. */
type TransferFact = {
  verb: 'detected' | 'retracted' | 'finalized'
  id: string
  direction: number
  tokenType: string
  token: string
  tokenId: string | null
  value: string
  from: string
  to: string
  hash: string
  logIndex: number
  blockNumber: number
  blockHash: string
  /** milliseconds since 1970 */
  minedAt: number
  /** how often the block was retracted before */
  times: number
}

const DIRECTIONS = ['IN', 'OUT', 'SELF'] as const

function describeTransfer(fact: WrittenFact, { verb, times, ...row }: TransferFact): DescribedEvent {
  const key = `${row.blockHash} ${times}`
  const data = {
    id: row.id,
    direction: DIRECTIONS[row.direction],
    tokenType: row.tokenType,
    tokenAddress: row.tokenType === 'NATIVE' ? null : checksumAddress(`0x${row.token}`),
    tokenId: row.tokenId === null ? null : BigInt(`0x${row.tokenId}`).toString(),
    value: BigInt(`0x${row.value}`).toString(),
    from: checksumAddress(`0x${row.from}`),
    to: checksumAddress(`0x${row.to}`),
    hash: `0x${row.hash}`,
    logIndex: row.logIndex,
    blockNumber: row.blockNumber,
    blockHash: `0x${row.blockHash}`,
    timestamp: new Date(row.minedAt).toISOString(),
  }
  const retracts = verb === 'retracted' ? { retracts: eventId(idOf(fact, 'transfer.detected', key)) } : {}
  return { id: idOf(fact, `transfer.${verb}`, key), type: `transfer.${verb}`, data: { ...data, ...retracts } }
}

/** Returns the public id of an event. */
export const eventId = (uuid: string): string => `evt_${uuid.replaceAll('-', '')}`
