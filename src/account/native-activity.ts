import { sql } from 'kysely'
import { checksumAddress } from '../digits.ts'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { hasValue, readNativePage, type NativeEntry } from '../history/native-page.ts'
import { nativeCoverage } from '../history/native-coverage.ts'
import { readHistory } from '../history/read.ts'
import type { Caller } from '../http/bearer.ts'
import type { Hex } from '../ids.ts'
import { foreignCursor, readPageCursor, writeCursor } from '../http/cursor.ts'
import type { AccountSlices, Direction, ShownTransfer } from '../oauth/account/slices.ts'
import { listPayments, type NativePayment } from '../transactions/read/list-own.ts'

type CoinList = Awaited<ReturnType<AccountSlices['readNativeTransfers']>> & {
  /** `cursors[n]` leads to the page after the entry with this index */
  cursors: string[]
}
type NativeAsked = { limit: number; cursor?: string | undefined; direction: Direction }

/** Where a list continues: at its start, nowhere, or (any other value) at a cursor. */
const START = ''
const END = '.'

/**
 * Lists the native currency transfers of an account, newest first: those of the history and, if that is incomplete,
 * those of our own record of writes. Uses the indexes of both; next to a complete history, the record is not read.
 * @throws invalid_cursor
 */
export async function readNativeTransfers(
  app: App,
  caller: Caller,
  chain: Chain,
  { limit, cursor, direction }: NativeAsked,
): Promise<CoinList> {
  const [ofHistory, ofRecord] = placesOf(cursor)
  const { accountId, address, userId } = caller
  const holder = { accountId, chainId: chain.chainId }
  const nothing = { entries: [], nextCursor: null }
  const history =
    ofHistory === END
      ? { ...nothing, native: await nativeCoverage(app.db, holder) }
      : await readNativePage(app, caller, userId, { limit, direction, ...cursorOf(ofHistory) })
  const coverage = history.native ?? { from: null, internalFrom: null }
  const isAsked = ofRecord !== END && coverage.from !== 0
  const leftOut = hasValue(holder, { hash: sql.ref('sent.hash'), blockNumber: sql.ref('sent.block_number') })
  const record = isAsked
    ? await listPayments(app, { ...holder, address }, { limit, direction, leftOut, ...cursorOf(ofRecord) })
    : nothing
  const both: Merged[] = [
    ...history.entries.map((one) => ({ list: 0, cursor: one.cursor, shown: shownEntry(one, chain) })),
    ...record.entries.map((one) => ({ list: 1, cursor: one.cursor, shown: shownPayment(one, address, chain) })),
  ]
  const page = both.toSorted((one, other) => other.shown.at.getTime() - one.shown.at.getTime()).slice(0, limit)
  const after = (count: number): string[] =>
    [history, record].map(({ entries, nextCursor }, list) => {
      const taken = page.slice(0, count).filter((one) => one.list === list)
      if (taken.length < entries.length) return taken.at(-1)?.cursor ?? [ofHistory, ofRecord][list]!
      return nextCursor ?? END
    })
  const next = after(page.length)
  return {
    entries: page.map(({ shown }) => shown),
    cursors: page.map((_, index) => writeCursor(['native', ...after(index + 1)])),
    nextCursor: next.every((place) => place === END) ? null : writeCursor(['native', ...next]),
    coverage,
  }
}

/** Lists every native currency entry of the history, with fees, newest first. @throws invalid_cursor */
export async function readNativeEntries(
  app: App,
  caller: Caller,
  { decimals, symbol }: Chain,
  { limit, cursor }: Omit<NativeAsked, 'direction'>,
): Promise<Awaited<ReturnType<AccountSlices['readNativeEntries']>>> {
  const asked = { type: 'NATIVE', limit: String(limit), ...cursorOf(cursor ?? START) }
  const { entries, nextCursor, native } = await readHistory(app, caller, caller.userId, asked)
  return {
    nextCursor,
    coverage: native ?? { from: null, internalFrom: null },
    entries: entries.map((one) => ({
      kind: one.nativeKind!,
      direction: one.direction,
      from: one.from.address,
      to: one.to.address,
      amount: { value: BigInt(one.amount.value), decimals, symbol },
      at: new Date(one.timestamp),
      blockNumber: one.blockNumber,
      hash: one.hash,
      explorerUrl: one.explorerUrl,
      omitted: one.omitted ?? 0,
    })),
  }
}

type Merged = { list: number; cursor: string; shown: ShownTransfer }

function placesOf(cursor: string | undefined): [ofHistory: string, ofRecord: string] {
  if (cursor === undefined) return [START, START]
  const [list, ofHistory, ofRecord] = readPageCursor(cursor, ['string', 'string', 'string']) as [string, string, string]
  if (list !== 'native') throw foreignCursor()
  return [ofHistory, ofRecord]
}

const cursorOf = (place: string): { cursor?: string } => (place === START ? {} : { cursor: place })

export function shownEntry(entry: NativeEntry, { decimals, symbol }: Chain): ShownTransfer {
  const { direction, amount, from, to, timestamp, explorerUrl, nativeKind, fee, blockNumber, hash } = entry
  const { username, address } = direction === 'IN' ? from : to
  return {
    direction,
    amount: { value: BigInt(amount.value), decimals, symbol },
    token: null,
    tokenId: null,
    other: username ?? address,
    otherAddress: address,
    at: new Date(timestamp),
    // A withdrawal or a reward has no transaction.
    place: nativeKind === 'WITHDRAWAL' || nativeKind === 'REWARD' ? null : { blockNumber, hash: hash as Hex },
    explorerUrl,
    coinKind: nativeKind === 'VALUE' ? undefined : nativeKind,
    fee: fee === null ? undefined : { value: fee, decimals, symbol },
  }
}

function shownPayment(
  { isOut, value, other, name, hash, sentAt }: NativePayment,
  address: string,
  { decimals, symbol, explorer }: Chain,
): ShownTransfer {
  return {
    direction: other === address ? 'SELF' : isOut ? 'OUT' : 'IN',
    amount: { value, decimals, symbol },
    token: null,
    tokenId: null,
    other: name ?? checksumAddress(other),
    otherAddress: checksumAddress(other),
    at: sentAt,
    place: null,
    explorerUrl: explorer.tx(hash),
  }
}
