import type { Insertable } from 'kysely'
import { decodeTransferLog, type DecodedTransfer } from '../abi/transfers.ts'
import type { Chain } from '../chain/network.ts'
import type { BlockListener, FollowedBlock, Log, Receipt } from '../follower/block.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex, toWord } from '../store/bytes.ts'
import type { Db } from '../store/db.ts'
import type { Database } from '../store/rows.ts'
import { noteTokens, reviewTokens, TOKEN_TYPE_NUMBERS } from '../tokens/note.ts'
import { refreshTokens } from '../tokens/refresh.ts'

/** `direction` in the table. */
export const DIRECTION = { IN: 0, OUT: 1, SELF: 2 } as const

/** addresses of one probe */
const PROBE = 1_000
/** rows of one insert: 16 values each */
const CHUNK = 500

type Found = DecodedTransfer & { log: Log; receipt: Receipt }
type Row = Insertable<Database['transfers']>

/**
 * Keeps the `transfers` table equal to what the canonical chain says of our accounts. The cost of a block depends
 * on what is in it and not on the number of users: one probe finds which of its addresses are ours.
 */
export const indexTransfers: BlockListener = {
  onBlock: async (db, _app, chain, block) => {
    const found = findTransfers(block)
    if (found.length === 0) return
    const accounts = await findAccounts(db, found)
    if (accounts.size === 0) return
    const ours = found.filter(({ from, to }) => accounts.has(from) || accounts.has(to))
    const initiators = await findInitiators(db, chain, ours)
    const rows = ours.flatMap((transfer) => rowsOf(transfer, { chain, block, accounts, initiators }))
    for (let start = 0; start < rows.length; start += CHUNK) {
      await db
        .insertInto('transfers')
        .values(rows.slice(start, start + CHUNK))
        .onConflict((on) => on.doNothing())
        .execute()
    }
    await noteTokens(db, chain, tokensOf(ours))
  },

  onRetract: async (db, _app, chain, fromNumber) => {
    await reviewTokens(db, chain, fromNumber)
    await db
      .deleteFrom('transfers')
      .where('chain_id', '=', chain.chainId)
      .where('block_number', '>=', fromNumber)
      .execute()
  },

  // Whether a transfer is final is the cursor's to tell, not the row's.
  onFinalize: async () => {},

  afterCommit: (app, chain) => void refreshTokens(app, chain),
}

function findTransfers({ receipts }: FollowedBlock): Found[] {
  return receipts
    .filter((receipt) => receipt.status)
    .flatMap((receipt) =>
      receipt.logs.flatMap((log) => decodeTransferLog(log).map((transfer) => ({ ...transfer, log, receipt }))),
    )
}

/** Accounts by address, of those addresses that are ours. Index: accounts (address). */
async function findAccounts(db: Db, found: Found[]): Promise<Map<Hex, string>> {
  const addresses = [...new Set(found.flatMap(({ from, to }) => [from, to]))]
  const accounts = new Map<Hex, string>()
  for (let start = 0; start < addresses.length; start += PROBE) {
    const probe = addresses.slice(start, start + PROBE).map(fromHex)
    const rows = await db
      .selectFrom('accounts')
      .select(['account_id', 'address'])
      .where('address', 'in', probe)
      .execute()
    for (const row of rows) accounts.set(toHex(row.address), row.account_id)
  }
  return accounts
}

/**
 * Which account initiated the transactions that moved nothing. Our own record decides, not the sender on chain:
 * with a sponsor that is somebody else. The record is committed before a transaction is broadcast.
 */
async function findInitiators(db: Db, chain: Chain, ours: Found[]): Promise<Map<Hex, string>> {
  const hashes = [...new Set(ours.filter(({ value }) => value === 0n).map(({ receipt }) => receipt.transactionHash))]
  const initiators = new Map<Hex, string>()
  for (let start = 0; start < hashes.length; start += PROBE) {
    const rows = await db
      .selectFrom('attempts as attempt')
      .innerJoin('transactions as transaction', 'transaction.id', 'attempt.transaction_id')
      .select(['attempt.hash', 'transaction.account_id'])
      .where('attempt.chain_id', '=', chain.chainId)
      .where('attempt.hash', 'in', hashes.slice(start, start + PROBE).map(fromHex))
      .execute()
    for (const row of rows) initiators.set(toHex(row.hash), row.account_id)
  }
  return initiators
}

/** One row for each of our accounts that takes part: none, one, or two for a transfer between two of ours. */
function rowsOf(
  { from, to, tokenType, tokenId, value, batchIndex, log, receipt }: Found,
  {
    chain,
    block,
    accounts,
    initiators,
  }: { chain: Chain; block: FollowedBlock; accounts: Map<Hex, string>; initiators: Map<Hex, string> },
): Row[] {
  const row = (address: Hex, direction: number): Row[] => {
    const account = accounts.get(address)
    if (account === undefined) return []
    // Whoever signed the transaction with the account's own key initiated it too, wherever it was sent from.
    const isInitiator = initiators.get(receipt.transactionHash) === account || receipt.from === address
    return [
      {
        account_id: account,
        chain_id: chain.chainId,
        block_number: block.number,
        log_index: log.logIndex,
        batch_index: batchIndex,
        direction,
        token_type: TOKEN_TYPE_NUMBERS[tokenType],
        token: fromHex(log.address),
        sender: fromHex(from),
        recipient: fromHex(to),
        token_id: tokenId === null ? null : toWord(tokenId),
        value: toWord(value),
        hash: fromHex(receipt.transactionHash),
        block_hash: fromHex(block.hash),
        mined_at: new Date(block.timestamp * 1_000),
        is_spam: value === 0n && !isInitiator,
      },
    ]
  }
  if (from === to) return row(from, DIRECTION.SELF)
  return [...row(from, DIRECTION.OUT), ...row(to, DIRECTION.IN)]
}

function tokensOf(ours: Found[]): { address: Hex; tokenType: Found['tokenType'] }[] {
  const types = new Map<Hex, Found['tokenType']>()
  for (const { log, tokenType } of ours) if (!types.has(log.address)) types.set(log.address, tokenType)
  return [...types].map(([address, tokenType]) => ({ address, tokenType }))
}
