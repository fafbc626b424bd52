import { decodeTransferLog, type DecodedTransfer, type LogForm } from '../abi/transfers.ts'
import type { Chain } from '../chain/network.ts'
import type { Log, KeptBlock } from '../follower/block.ts'
import { wordDigits, type Hex } from '../ids.ts'
import { byteaArray } from '../store/bytea-array.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { FORM_NUMBERS } from '../tokens/moved.ts'
import { NOBODY } from './native.ts'

/** Numbers of `transfers.direction`. */
export const DIRECTION = { IN: 0, OUT: 1, SELF: 2 } as const

/** A transfer on the chain: its position, and the sender of its transaction. */
export type FoundTransfer = DecodedTransfer & {
  token: Hex
  logIndex: number
  hash: Hex
  /** sender of the transaction; null if it was not requested, because the transfer moved something */
  sentBy: Hex | null
  /** `timestamp` in seconds since 1970 */
  block: { number: number; hash: Hex; timestamp: number }
}

/**
 * A row of `transfers`. `tokenType` is the form of its log, `tokenId` and `value` are 32 bytes, `minedAt` is in
 * seconds. Excludes the contract's type, which may change and is read with the row.
 */
export type TransferRow = {
  accountId: string
  blockNumber: number
  logIndex: number
  batchIndex: number
  direction: number
  tokenType: number
  token: Hex
  sender: Hex
  recipient: Hex
  tokenId: Hex | null
  value: Hex
  hash: Hex
  blockHash: Hex
  minedAt: number
  isSpam: boolean
  /** number of transfers of the same token, block and kind after this one that have no row */
  omitted: number
}

/**
 * Maximum rows per account, token, block, direction and spam flag. Without it, a contract could fill the table at the
 * price of logs. Each direction has its own limit, so incoming transfers cannot displace outgoing ones.
 */
export const MAX_ROWS = 1_000

/** maximum addresses or hashes per query */
const PROBE = 5_000

/** Finds the token transfers of a block, in its order. Failed transactions have none. */
export function findTransfers(block: KeptBlock): FoundTransfer[] {
  const found: FoundTransfer[] = []
  for (const { status, logs, transactionHash, from } of block.receipts) {
    if (status === false) continue
    for (const log of logs) addTransfers(found, log, { hash: transactionHash, sentBy: from, block })
  }
  return found
}

/** Adds the transfers of one log: none, one, or those of a batch. */
export function addTransfers(
  found: FoundTransfer[],
  log: Log,
  of: Pick<FoundTransfer, 'hash' | 'sentBy' | 'block'>,
): void {
  for (const decoded of decodeTransferLog(log)) {
    const { hash, sentBy, block } = of
    const { address: token, logIndex } = log
    found.push({ ...decoded, token, logIndex, hash, sentBy, block })
  }
}

/**
 * Returns the required content of the table for these transfers: a row per participating account of ours, and the
 * tokens. The cost depends on the transfers, not on the number of users: one query finds which addresses are ours.
 */
export async function rowsOf(
  db: Db,
  chain: Chain,
  found: FoundTransfer[],
): Promise<{ rows: TransferRow[]; tokens: { address: Hex; form: LogForm }[] }> {
  const accounts = await findAccounts(db, found)
  const ours = onceEach(accounts.size === 0 ? [] : found.filter(({ from, to }) => accounts.has(from) || accounts.has(to))) // prettier-ignore
  const initiators = await findInitiators(db, chain, ours)
  const rows: TransferRow[] = []
  const tokens = new Map<string, { address: Hex; form: LogForm }>()
  for (const transfer of ours) {
    const { from, to, token, form } = transfer
    tokens.set(`${token} ${form}`, { address: token, form })
    const sides = from === to ? ([[from, DIRECTION.SELF]] as const) : ([[from, DIRECTION.OUT], [to, DIRECTION.IN]] as const) // prettier-ignore
    for (const [address, direction] of sides) {
      const accountId = accounts.get(address)
      if (accountId === undefined) continue
      // A user who signed part of the transaction with the account's key counts as its initiator, even if a sponsor
      // sent it.
      const isInitiator = transfer.sentBy === address || initiators.get(transfer.hash)?.has(accountId) === true
      rows.push(rowOf(transfer, { accountId, direction, isSpam: transfer.value === 0n && !isInitiator }))
    }
  }
  return { rows: bounded(rows), tokens: [...tokens.values()] }
}

/**
 * Removes deposits and withdrawals that their transaction also logs as transfers, as some wrappers do. Only logs of an
 * equal, positive value count, because anyone can cause a transfer log of zero for any address.
 */
export function onceEach(found: FoundTransfer[]): FoundTransfer[] {
  if (!found.some(({ form }) => form === 'WRAPPED')) return found
  const keyOf = ({ hash, token, from, to, value }: FoundTransfer) => `${hash} ${token} ${from} ${to} ${value}`
  const minted = new Set(found.filter(({ form, from, to, value }) => form !== 'WRAPPED' && value > 0n && (from === NOBODY || to === NOBODY)).map(keyOf)) // prettier-ignore
  return found.filter((one) => one.form !== 'WRAPPED' || !minted.has(keyOf(one)))
}

/** Limits the rows of each kind. The last row counts the omitted ones. */
function bounded(rows: TransferRow[]): TransferRow[] {
  if (rows.length <= MAX_ROWS) return rows
  const kinds = new Map<string, TransferRow[]>()
  for (const row of rows) {
    const kind = `${row.accountId} ${row.token} ${row.blockNumber} ${row.direction} ${row.isSpam}`
    const some = kinds.get(kind)
    if (some === undefined) kinds.set(kind, [row])
    else some.push(row)
  }
  return [...kinds.values()].flatMap((some) => (some.length <= MAX_ROWS ? some : cut(some)))
}

function cut(rows: TransferRow[]): TransferRow[] {
  // Logs fetched by filter are in another order than those of a block.
  const sorted = rows.toSorted((a, b) => a.logIndex - b.logIndex || a.batchIndex - b.batchIndex)
  const kept = sorted.slice(0, MAX_ROWS)
  const omitted = sorted.slice(MAX_ROWS - 1).reduce((sum, row) => sum + row.omitted, sorted.length - MAX_ROWS)
  return kept.with(-1, { ...kept.at(-1)!, omitted })
}

function rowOf(
  { form, from, to, tokenId, value, batchIndex, omitted, token, logIndex, hash, block }: FoundTransfer,
  { accountId, direction, isSpam }: { accountId: string; direction: number; isSpam: boolean },
): TransferRow {
  return {
    accountId,
    blockNumber: block.number,
    logIndex,
    batchIndex,
    direction,
    tokenType: FORM_NUMBERS[form],
    token,
    sender: from,
    recipient: to,
    tokenId: tokenId === null ? null : wordOf(tokenId),
    value: wordOf(value),
    hash,
    blockHash: block.hash,
    minedAt: block.timestamp,
    isSpam,
    omitted,
  }
}

const wordOf = (value: bigint): Hex => `0x${wordDigits(value)}`

/** Returns the account ids by address, for addresses that are ours. Index: accounts (address). */
export async function findAccounts(
  db: Db,
  found: readonly Pick<FoundTransfer, 'from' | 'to'>[],
): Promise<Map<Hex, string>> {
  const addresses = new Set<Hex>()
  for (const { from, to } of found) addresses.add(from).add(to)
  const all = [...addresses]
  const accounts = new Map<Hex, string>()
  for (let start = 0; start < all.length; start += PROBE) {
    const rows = await db
      .selectFrom('accounts')
      .select(['account_id', 'address'])
      .where((eb) => eb('address', '=', eb.fn.any(byteaArray(all.slice(start, start + PROBE)))))
      .execute()
    for (const row of rows) accounts.set(toHex(row.address), row.account_id)
  }
  return accounts
}

/**
 * Returns which accounts initiated the transactions that moved nothing. Uses our records, because the sender on the
 * chain may be a sponsor, for several users. The record is committed before a transaction is broadcast.
 */
async function findInitiators(db: Db, chain: Chain, ours: FoundTransfer[]): Promise<Map<Hex, Set<string>>> {
  const hashes = [...new Set(ours.filter(({ value }) => value === 0n).map(({ hash }) => hash))]
  const initiators = new Map<Hex, Set<string>>()
  for (let start = 0; start < hashes.length; start += PROBE) {
    const wanted = byteaArray(hashes.slice(start, start + PROBE))
    const rows = await db
      .selectFrom('attempts as attempt')
      .innerJoin('transactions as transaction', 'transaction.id', 'attempt.transaction_id')
      .leftJoin('carried', 'carried.transaction_id', 'transaction.id')
      .leftJoin('operations as operation', 'operation.id', 'carried.operation_id')
      .select(['attempt.hash', 'transaction.account_id', 'operation.account_id as signed_by'])
      .where('attempt.chain_id', '=', chain.chainId)
      .where((eb) => eb('attempt.hash', '=', eb.fn.any(wanted)))
      .execute()
    for (const { hash, account_id, signed_by } of rows) {
      const accounts = initiators.get(toHex(hash)) ?? new Set()
      initiators.set(toHex(hash), accounts.add(signed_by ?? account_id))
    }
  }
  return initiators
}
