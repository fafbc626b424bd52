import { checksumAddress } from '../digits.ts'
import { bigNumber } from '../abi/bignumber.ts'
import { formatUnits } from '../abi/units.ts'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { isKnownAddress, storedAddressOf } from '../http/proven-address.ts'
import type { Reader } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { parseUserId, type Hex } from '../ids.ts'
import { toHex } from '../hex.ts'
import { indexedTo } from '../follower/history-cursor.ts'
import { ownAccount } from '../users/authorize.ts'
import { coveredFrom } from './coverage.ts'
import { kindOf } from './native.ts'
import { nativeCoverage, type NativeCoverage } from './native-coverage.ts'
import { nameOf, selectPage, type JudgedRow } from './page.ts'
import { placeCursor, readParameters, readPlace, type HistoryParameters } from './query.ts'
import { DIRECTION } from './rows.ts'
import { selectAt, type StoredTransfer } from './select.ts'
import type { Entry, Party } from './wire.ts'

/**
 * A page, newest first, and the range of blocks that was indexed for this account. `nextCursor` is null on the last
 * page.
 */
export type HistoryPage = {
  entries: Entry[]
  nextCursor: string | null
  indexedFrom: number | null
  indexedTo: number | null
  finalizedTo: number | null
  /** coverage of native currency, if it was requested */
  native: NativeCoverage | null
}

/**
 * Returns a page of the caller's transfers.
 * @throws forbidden_user | invalid_user_id | invalid_request | invalid_cursor | database_unavailable
 */
export async function readHistory(
  app: App,
  reader: Reader,
  userId: string,
  parameters: HistoryParameters,
): Promise<HistoryPage> {
  const { accountId } = await ownAccount(app, reader, userId)
  const chain = chainOf(app, reader)
  const { limit, filters } = readParameters(parameters)
  const scope = { accountId, chainId: chain.chainId, filters }
  const after = parameters.cursor === undefined ? null : readPlace(scope, parameters.cursor)

  // The history's cursor is read first, to bound the rows, and again in their snapshot. The page is complete up to the
  // lower of both, whatever was stored or reorganised in between.
  const { halted: _, followedTo: __, ...reached } = await indexedTo(app.db, chain.chainId)
  const native = filters.types?.includes('NATIVE') === true ? await nativeCoverage(app.db, scope) : null
  if (reached.indexedTo === null) return { entries: [], nextCursor: null, indexedFrom: null, native, ...reached }
  // Read before the rows, too: coverage only grows, so the rows include what is covered now.
  const indexedFrom = await coveredFrom(app.db, { accountId, chainId: chain.chainId })
  const bounds = { indexedTo: reached.indexedTo, finalizedTo: reached.finalizedTo ?? -1 }
  const { shown, next, ...now } = await selectPage(app, chain, {
    accountId,
    filters,
    after,
    bounds,
    limit,
    isCovered: indexedFrom === 0,
  })
  const both = Math.min(bounds.indexedTo, now.indexedTo)
  const finalizedTo = Math.min(bounds.finalizedTo, now.finalizedTo)
  const highest = filters.isFinalOnly ? finalizedTo : both
  const nextCursor = next === null ? null : placeCursor(scope, next)
  const page = shown.filter(({ row }) => row.block_number <= highest)
  const parties = await findParties(
    app,
    page.map(({ row }) => row),
  )
  const entries = page.map((one) => entryOf(one, { chain, parties, finalizedTo }))
  return { entries, nextCursor, indexedFrom, indexedTo: known(both), finalizedTo: known(finalizedTo), native }
}

/**
 * Returns what transactions moved of the caller, spam included, newest first. Unknown transactions are missing.
 * @throws forbidden_user | invalid_user_id | database_unavailable
 */
export async function readTransfersAt(
  app: App,
  reader: Reader,
  userId: string,
  places: readonly { blockNumber: number; hash: Hex }[],
): Promise<Entry[]> {
  const { accountId } = await ownAccount(app, reader, userId)
  const chain = chainOf(app, reader)
  const rows = await selectAt(app.db, { accountId, chainId: chain.chainId }, places)
  const parties = await findParties(app, rows)
  return rows.map((row) => entryOf({ row, spam: null }, { chain, parties, finalizedTo: -1 }))
}

/** Returns the cursor of the page that begins after an entry. */
export function cursorAfter(
  holder: { accountId: string; chainId: number },
  parameters: HistoryParameters,
  { blockNumber, logIndex, id }: Entry,
): string {
  const { filters } = readParameters(parameters)
  const batchIndex = Number(id.slice(id.lastIndexOf(':') + 1))
  return placeCursor({ ...holder, filters }, { block: blockNumber, logIndex, batchIndex })
}

/** Converts a block number; a negative one is before the first block and becomes null. */
const known = (number: number): number | null => (number < 0 ? null : number)

/**
 * Returns the parties of a page, by address. A user of this installation is named by the identity for which the account
 * was created, if the address is proven.
 */
async function findParties(app: App, rows: StoredTransfer[]): Promise<(address: Uint8Array) => Party> {
  const addresses = new Map(
    rows.flatMap(({ sender, recipient }) => [sender, recipient]).map((bytes) => [toHex(bytes), bytes]),
  )
  const users = new Map<Hex, { username: string | null; platform: string }>()
  if (addresses.size > 0) {
    const identities = await app.db
      .selectFrom('accounts as account')
      .innerJoin('identities as identity', 'identity.account_id', 'account.account_id')
      .select([
        'account.address',
        'account.user_id',
        'account.attestation',
        'identity.provider',
        'identity.subject',
        'identity.username',
      ])
      .where('account.address', 'in', [...addresses.values()])
      .execute()
    for (const row of identities) {
      const { address, user_id, provider, subject, username } = row
      const first = parseUserId(user_id)
      if (first?.provider !== provider || first.subject !== subject) continue
      if (await isKnownAddress(app, storedAddressOf(row))) users.set(toHex(address), { username, platform: provider })
    }
  }
  const parties = new Map(
    [...addresses.keys()].map((address) => [
      address,
      { username: null, platform: null, ...users.get(address), address: checksumAddress(address) },
    ]),
  )
  return (address) => parties.get(toHex(address))!
}

/** Builds an entry of the API: the specified fields, then our additional ones. */
function entryOf(
  { row, spam }: JudgedRow,
  { chain, parties, finalizedTo }: { chain: Chain; parties: (address: Uint8Array) => Party; finalizedTo: number },
): Entry {
  const { tokenType, tokenId, value } = row.moved
  const hash = toHex(row.hash)
  const isNative = tokenType === 'NATIVE'
  // Anything with an id is counted in pieces, whatever decimals its contract reports.
  const decimals = isNative ? chain.decimals : tokenType === 'ERC20' ? (row.decimals ?? 0) : 0
  const kind = isNative ? kindOf({ logIndex: row.log_index, batchIndex: row.batch_index }) : null
  const isOfTransaction = kind !== 'WITHDRAWAL' && kind !== 'REWARD'
  const { symbol, name } = isNative ? { symbol: chain.symbol, name: chain.coin } : row
  return {
    type: 'TRANSFER',
    id: `${hash}:${row.log_index}:${row.batch_index}`,
    direction: nameOf(DIRECTION, row.direction),
    status: row.block_number <= finalizedTo ? 'FINALIZED' : 'CONFIRMED',
    from: parties(row.sender),
    to: parties(row.recipient),
    amount: {
      valueBn: bigNumber(value),
      value: value.toString(),
      // The specification requires a JSON number: converted last, from the exact text.
      formatted: Number(formatUnits(value, decimals)),
      decimals,
      symbol: symbol ?? '',
      name: name ?? '',
      tokenAddress: isNative ? null : checksumAddress(toHex(row.token)),
      network: chain.name.toUpperCase(),
      chainId: chain.chainId,
    },
    tokenType,
    tokenId: tokenId === null ? null : tokenId.toString(),
    timestamp: row.mined_at.toISOString(),
    hash,
    blockNumber: row.block_number,
    blockHash: toHex(row.block_hash),
    logIndex: row.log_index,
    explorerUrl: isOfTransaction ? chain.explorer.tx(hash) : chain.explorer.block(row.block_number),
    ...(kind === null ? {} : { nativeKind: kind }),
    ...(row.omitted === 0 ? {} : { omitted: row.omitted }),
    ...(spam === null ? {} : { spam }),
  }
}
