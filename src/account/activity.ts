import { checksumAddress } from '../digits.ts'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { fromHex } from '../hex.ts'
import { feesOf } from '../history/native-page.ts'
import { cursorAfter, readHistory, readTransfersAt } from '../history/read.ts'
import type { Entry } from '../history/wire.ts'
import type { Caller } from '../http/bearer.ts'
import { foreignCursor, readPageCursor, writeCursor } from '../http/cursor.ts'
import type { Hex } from '../ids.ts'
import type { ActivityEntry, AccountSlices, Direction, ShownTransfer, TransferPlace } from '../oauth/account/slices.ts'
import { readTokenFacts } from '../tokens/read.ts'
import { findOwn, listOfAccount, ownHashes, type OwnTransaction } from '../transactions/read/list-own.ts'
import { transferIn } from '../transfers/calldata.ts'
import { namesOf } from '../users/names.ts'
import { readNativeTransfers, shownEntry } from './native-activity.ts'
import { sentOf } from './sent.ts'

type ActivityAsked = { limit: number; cursor?: string | undefined; direction: Direction; clientId: string | null }

/** Where a list continues: at its start, nowhere, or (any other value) at a cursor. */
const START = ''
const END = '.'

/** Pages that are read of one list for one page of the activity, because transfers of own writes are left out. */
const MAX_LOOKS = 4

/**
 * Lists the writes of an account with what they moved, and the transfers that others made, newest first. A transfer of
 * an own write is shown with the write only. With a direction, lists transfers without their writes.
 * @throws invalid_cursor
 */
export async function readActivity(
  app: App,
  caller: Caller,
  chain: Chain,
  { limit, cursor, direction, clientId }: ActivityAsked,
): Promise<Awaited<ReturnType<AccountSlices['readActivity']>>> {
  const owner = { accountId: caller.accountId, chainId: chain.chainId }
  const kind = `activity ${direction} ${clientId === null ? 'all' : 'one'}`
  const [ofWrites, ofTokens, ofCoins] = placesOf(kind, cursor)
  const ofAll = direction === 'all'
  const withoutOwn = async (entries: ShownTransfer[]): Promise<boolean[]> => {
    if (!ofAll) return entries.map(() => true)
    const hashes = entries.flatMap(({ place }) => (place === null ? [] : [place.hash]))
    const own = await ownHashes(app.db, owner, hashes)
    return entries.map(({ place }) => place === null || !own.has(place.hash))
  }
  const nothing: ReadList = async () => ({ entries: [], cursors: [], nextCursor: null })
  let coverage = { from: null, internalFrom: null } as Awaited<ReturnType<typeof readNativeTransfers>>['coverage']
  const lists: ListToMerge[] = [
    { from: ofWrites, read: ofAll ? (page) => readWrites(app, caller, chain, { ...page, clientId }) : nothing },
    {
      from: ofTokens,
      read: clientId === null ? (page) => readTokens(app, caller, { ...page, direction }) : nothing,
      isShown: withoutOwn,
    },
    {
      from: ofCoins,
      read:
        clientId === null
          ? async (page) => {
              const listed = await readNativeTransfers(app, caller, chain, { ...page, direction })
              coverage = listed.coverage
              return { ...listed, entries: listed.entries.map(alone) }
            }
          : nothing,
      isShown: withoutOwn,
    },
  ]
  const { entries, places } = await mergeLists(lists, limit)
  return {
    entries: await withTransfers(app, caller, chain, entries),
    nextCursor: places.every((place) => place === END) ? null : writeCursor([kind, ...places]),
    coverage,
  }
}

/** Returns one transaction that is in a block, with the transfers of the account; null if it moved nothing. */
export async function readReceipt(
  app: App,
  caller: Caller,
  chain: Chain,
  place: TransferPlace,
): Promise<ActivityEntry | null> {
  const entries = await readTransfersAt(app, caller, caller.userId, [place])
  const transfers = entries.filter(isNoFee).map((entry) => shownOfEntry(entry, chain))
  const [first] = transfers
  return first === undefined ? null : { at: first.at, sent: null, transfers }
}

/** Returns a write with its calldata as an entry of the activity. */
export async function entryOfWrite(
  app: App,
  caller: Caller,
  chain: Chain,
  own: OwnTransaction,
): Promise<ActivityEntry & { sent: NonNullable<ActivityEntry['sent']> }> {
  const sent = sentOf(chain, own)
  const [entry] = await withTransfers(app, caller, chain, [{ ...alone(null, own.sentAt), sent, own }])
  return { ...entry!, sent }
}

type MergedEntry = ActivityEntry & { own?: OwnTransaction }
type ReadList = (page: { limit: number; cursor?: string }) => Promise<{ entries: MergedEntry[]; cursors: string[]; nextCursor: string | null }> // prettier-ignore
type ListToMerge = { from: string; read: ReadList; isShown?: (entries: ShownTransfer[]) => Promise<boolean[]> }

/**
 * Merges lists that are sorted newest first into one page. Every entry is on exactly one page: the cursor of a list is
 * behind its last entry that the page shows.
 * @returns places  where each list continues
 */
export async function mergeLists(
  lists: ListToMerge[],
  limit: number,
): Promise<{ entries: MergedEntry[]; places: string[] }> {
  const read = await Promise.all(lists.map((list) => readShown(list, limit)))
  // A list that was not read to its end says nothing about the time before its last entry.
  const horizon = Math.max(...read.map(({ next, oldest }) => (next === END ? -Infinity : oldest)))
  const all = read.flatMap(({ entries }, list) => entries.map((one) => ({ ...one, list })))
  const page = all
    .toSorted((one, other) => other.entry.at.getTime() - one.entry.at.getTime())
    .filter(({ entry }) => entry.at.getTime() >= horizon)
    .slice(0, limit)
  const places = read.map(({ entries, next }, list) => {
    const taken = page.filter((one) => one.list === list)
    return taken.length === entries.length ? next : (taken.at(-1)?.cursor ?? lists[list]!.from)
  })
  return { entries: page.map(({ entry }) => entry), places }
}

type ReadEntries = { entries: { entry: MergedEntry; cursor: string }[]; next: string; oldest: number }

/** Reads entries of one list until enough are shown. `oldest`: time of the last one that was read. */
async function readShown({ from, read, isShown }: ListToMerge, limit: number): Promise<ReadEntries> {
  const found: ReadEntries = { entries: [], next: from, oldest: Infinity }
  for (let look = 0; look < MAX_LOOKS && found.next !== END && found.entries.length < limit; look++) {
    const page = await read({ limit, ...(found.next === START ? {} : { cursor: found.next }) })
    const shown = await isShown?.(page.entries.map(({ transfers }) => transfers[0]!))
    for (const [index, entry] of page.entries.entries())
      if (shown?.[index] !== false) found.entries.push({ entry, cursor: page.cursors[index]! })
    found.oldest = page.entries.at(-1)?.at.getTime() ?? found.oldest
    found.next = page.nextCursor ?? END
  }
  return found
}

function placesOf(kind: string, cursor: string | undefined): [string, string, string] {
  if (cursor === undefined) return [START, START, START]
  const [of, ...places] = readPageCursor(cursor, ['string', 'string', 'string', 'string']) as [string, string, string, string] // prettier-ignore
  if (of !== kind) throw foreignCursor()
  return places
}

/** Makes an entry of one transfer. */
const alone = (transfer: ShownTransfer | null, at?: Date | number): MergedEntry => ({
  at: at instanceof Date ? at : transfer!.at,
  sent: null,
  transfers: transfer === null ? [] : [transfer],
})

async function readWrites(
  app: App,
  { accountId }: Caller,
  chain: Chain,
  { limit, cursor, clientId }: { limit: number; cursor?: string; clientId: string | null },
): ReturnType<ReadList> {
  const owner = { accountId, chainId: chain.chainId }
  const { entries, nextCursor } = await listOfAccount(app, owner, { limit, cursor, clientId })
  return {
    entries: entries.map((own) => ({ ...alone(null, own.sentAt), sent: sentOf(chain, own), own })),
    cursors: entries.map((own) => own.cursor),
    nextCursor,
  }
}

async function readTokens(
  app: App,
  caller: Caller,
  { limit, cursor, direction }: { limit: number; cursor?: string; direction: Direction },
): ReturnType<ReadList> {
  const asked = { limit: String(limit), direction }
  const page = await readHistory(app, caller, caller.userId, { ...asked, ...(cursor === undefined ? {} : { cursor }) })
  return {
    entries: page.entries.map((entry) => alone(shownToken(entry))),
    cursors: page.entries.map((entry) => cursorAfter(caller, asked, entry)),
    nextCursor: page.nextCursor,
  }
}

/** Returns a transfer of a token or collectible as the pages show it. */
export function shownToken(entry: Entry): ShownTransfer {
  const { direction, amount, tokenType, tokenId, from, to, timestamp, explorerUrl, blockNumber, hash } = entry
  const { username, address } = direction === 'IN' ? from : to
  const { value, decimals, symbol, name, tokenAddress } = amount
  return {
    direction,
    amount: { value: BigInt(value), decimals, symbol: tokenType === 'ERC20' ? symbol : name || symbol },
    token: (tokenAddress?.toLowerCase() ?? null) as Hex | null,
    tokenId,
    other: username ?? address,
    otherAddress: address,
    at: new Date(timestamp),
    place: { blockNumber, hash: hash as Hex },
    explorerUrl,
  }
}

const shownOfEntry = (entry: Entry, chain: Chain): ShownTransfer =>
  entry.nativeKind === undefined ? shownToken(entry) : shownEntry({ ...entry, fee: null, cursor: '' }, chain)

const isNoFee = ({ nativeKind }: Entry): boolean => nativeKind !== 'FEE'

/** Adds to the writes of a page what they moved: by the history if they are in a block, else by their calldata. */
async function withTransfers(app: App, caller: Caller, chain: Chain, entries: MergedEntry[]): Promise<ActivityEntry[]> {
  const owner = { accountId: caller.accountId, chainId: chain.chainId }
  const mined = entries.flatMap(({ own }) =>
    own === undefined || own.blockNumber === null ? [] : [{ blockNumber: own.blockNumber, hash: own.hash }],
  )
  const [moved, fees] = await Promise.all([
    readTransfersAt(app, caller, caller.userId, mined),
    feesOf(app.db, owner, mined),
  ])
  return Promise.all(
    entries.map(async ({ own, ...entry }) => {
      if (own === undefined || entry.sent === null) return entry
      const transfers = moved
        .filter((one) => one.hash === own.hash && isNoFee(one))
        .map((one) => shownOfEntry(one, chain))
      const promised = transfers.length > 0 ? null : await promisedBy(app, caller, chain, own)
      return {
        ...entry,
        sent: { ...entry.sent, fee: sentOf(chain, { ...own, fee: fees.get(own.hash) ?? own.fee }).fee },
        transfers: promised === null ? transfers : [promised],
      }
    }),
  )
}

/**
 * Returns the transfer out of the account that the calldata of a write asks for; null if it is none, or the token cannot
 * be read.
 */
async function promisedBy(
  app: App,
  { accountId, address }: Caller,
  chain: Chain,
  { id, sentAt, hash }: OwnTransaction,
): Promise<ShownTransfer | null> {
  const own = await findOwn(app, { accountId, chainId: chain.chainId }, id)
  const from = address.toLowerCase() as Hex
  const move = own === null ? null : transferIn(from, own)
  if (move === null) return null
  try {
    const { token, tokenType, tokenId, value, to } = move
    const { name, symbol, decimals } =
      token === null
        ? { name: chain.coin, symbol: chain.symbol, decimals: chain.decimals }
        : await readTokenFacts(app, chain, token)
    const names = await namesOf(app, [fromHex(to)])
    const isCounted = tokenType !== 'ERC721' && tokenType !== 'ERC1155'
    return {
      direction: to === from ? 'SELF' : 'OUT',
      amount: {
        value: tokenType === 'ERC721' ? 1n : value,
        decimals: isCounted ? decimals : 0,
        symbol: isCounted ? symbol || name : name || symbol,
      },
      token,
      tokenId: tokenId === null ? null : String(tokenId),
      other: names.get(to) ?? checksumAddress(to),
      otherAddress: checksumAddress(to),
      at: sentAt,
      place: null,
      explorerUrl: chain.explorer.tx(hash),
    }
  } catch (error) {
    app.telemetry.log.warn('account_unreadable', { chainId: chain.chainId }, error)
    return null
  }
}
