import { RpcUnavailable, type Rpc } from '../chain/rpc/rpc.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Chain } from '../chain/network.ts'
import { fetchHeader } from '../follower/fetch.ts'
import { indexedTo } from '../follower/history-cursor.ts'
import { wordDigits, type Hex } from '../ids.ts'
import { storedBlockHash } from '../store/block-hash.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { coveredFrom } from './coverage.ts'
import { nativeCoverage } from './native-coverage.ts'
import { DIRECTION } from './rows.ts'
import { countedOf } from '../tokens/moved.ts'
import { movedIn } from './select.ts'
import type { EntryType } from './query.ts'
import { quantityIn } from '../digits.ts'

/** rows per page of an account's history, and calls per batch */
const MAX_PAGE = 5_000
const MAX_CALLS = 50

/** An asset that an account can hold: native currency (`token` null), a token, or one id of an ERC-1155. */
type Holding = { token: Hex | null; type: EntryType; tokenId: bigint | null }

/**
 * The sum of the entries of one asset, and the node's balance, both in the smallest unit or in pieces. `from`: last
 * block before the counted entries. `opening`: balance at `from`, null if unknown. `net`: sum of the entries.
 * `balance`:
 * balance at `block`.
 */
export type Sum = Holding & {
  accountId: string
  address: Hex
  block: number
  from: number
  opening: bigint | null
  net: bigint
  /** number of omitted token transfers: above 0, the entries cannot sum up to the balance */
  omitted: number
  balance: bigint | null
}

/** Returns the difference between balance and sum; null if one of the numbers is unknown or incomplete. */
export const differenceOf = ({ opening, net, omitted, balance }: Sum): bigint | null =>
  opening === null || balance === null || omitted > 0 ? null : balance - (opening + net)

export type SummedAccount = { accountId: string; address: Hex }

/**
 * Sums the entries of an account up to a block, for native currency and every token in them. Asks a node for the
 * balances at that block and before the first entry: two batches of at most 50 calls for 50 balances.
 * @param since  counts only entries after this block, for nodes without older states; null: from the beginning of the
 *   account's history
 * @returns one sum per asset, native currency always; without opening and balance if its entries are incomplete up to
 *   the block
 * @throws Error with a sentence, if the history does not reach the block or was reorganised; RpcUnavailable |
 *   InvalidResponse
 */
export async function sumAccount(
  { db }: { db: Db },
  chain: Chain,
  { account, block, since, rpc }: { account: SummedAccount; block: number; since: number | null; rpc: Rpc },
): Promise<Sum[]> {
  const { chainId } = chain
  const reached = (await indexedTo(db, chainId)).indexedTo ?? -1
  if (block > reached) throw new Error(`The history ends at block ${reached}.`)
  const header = await headerAt(rpc, block)
  const begins = await beginningsOf(db, chainId, account.accountId)
  const sums = new Map<string, Sum>()
  const sumOf = ({ token, type, tokenId }: Holding): Sum => {
    const key = `${token} ${tokenId}`
    const known = sums.get(key)
    if (known !== undefined) return known
    const begin = token === null ? begins.native : begins.tokens
    // Before a chain's first block, no account has a balance, except by its genesis.
    const from = begin === null ? block + 1 : Math.max(begin.from - 1, since ?? begin.from - 1, begin.isFresh ? -1 : 0)
    const opening = from < 0 ? 0n : null
    const sum: Sum = {
      token,
      type,
      tokenId,
      ...account,
      block,
      from,
      opening,
      net: 0n,
      omitted: 0,
      balance: null,
    }
    sums.set(key, sum)
    return sum
  }
  sumOf({ token: null, type: 'NATIVE', tokenId: null })
  for await (const row of readRows(db, { accountId: account.accountId, chainId, to: block })) {
    const sum = sumOf(row)
    if (row.block <= sum.from) continue
    if (row.direction !== DIRECTION.SELF) sum.net += row.direction === DIRECTION.IN ? row.value : -row.value
    if (row.token !== null) sum.omitted += row.omitted
  }
  const stored = await storedBlockHash(db, chainId, block)
  if (stored !== null && stored !== header) throw new Error(`Block ${block} was reorganised meanwhile: try again.`)
  // Skip assets whose entries are complete only from a later block on.
  const known = [...sums.values()].filter(({ from }) => from <= block)
  await askBalances(rpc, known, header)
  return [...sums.values()]
}

type Beginning = { from: number; isFresh: boolean }

/** Returns from which block on the entries of an account are complete; null if that is unknown. */
async function beginningsOf(
  db: Db,
  chainId: number,
  accountId: string,
): Promise<{ native: Beginning | null; tokens: Beginning | null }> {
  const [native, tokens] = [
    await nativeCoverage(db, { accountId, chainId }),
    await coveredFrom(db, { accountId, chainId }),
  ]
  const { is_key_new: isKeyNew } = await db
    .selectFrom('accounts')
    .select('is_key_new')
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  const begin = (from: number | null): Beginning | null =>
    from === null ? null : { from, isFresh: isKeyNew && from === 0 }
  // If internal transfers are indexed from a later block, sums begin there. If no source reports them, the sums differ.
  return {
    native: begin(native.from === null ? null : Math.max(native.from, native.internalFrom ?? 0)),
    tokens: begin(tokens),
  }
}

type SummedRow = Holding & { block: number; direction: number; value: bigint; omitted: number }

/** Yields the entries of an account up to a block, oldest first. Index: the primary key. */
export async function* readRows(
  db: Db,
  { accountId, chainId, to }: { accountId: string; chainId: number; to: number },
): AsyncGenerator<SummedRow> {
  let after = { block: -1, log: 0, batch: 0, direction: 0 }
  for (;;) {
    const rows = await db
      .selectFrom('transfers')
      .leftJoin('tokens', (join) =>
        join.onRef('tokens.chain_id', '=', 'transfers.chain_id').onRef('tokens.address', '=', 'transfers.token'),
      )
      .select(['token', 'token_type', 'token_id', 'block_number', 'log_index', 'batch_index', 'direction', 'value'])
      .select(['omitted', 'is_fungible', 'is_collection', 'is_wrapper'])
      .where('account_id', '=', accountId)
      .where('transfers.chain_id', '=', chainId)
      .where('block_number', '<=', to)
      .where(({ eb, refTuple, tuple }) =>
        eb(
          refTuple('block_number', 'log_index', 'batch_index', 'direction'),
          '>',
          tuple(after.block, after.log, after.batch, after.direction),
        ),
      )
      .orderBy('block_number')
      .orderBy('log_index')
      .orderBy('batch_index')
      .orderBy('direction')
      .limit(MAX_PAGE)
      .execute()
    for (const row of rows) {
      const counted = movedIn(row, countedOf)
      if (counted === null) continue
      const { tokenType: type, tokenId, value } = counted
      yield {
        type,
        token: type === 'NATIVE' ? null : toHex(row.token),
        value,
        // ERC-721 pieces are counted together, ERC-1155 ones by id.
        tokenId: type === 'ERC1155' ? tokenId : null,
        block: row.block_number,
        direction: row.direction,
        omitted: row.omitted,
      }
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < MAX_PAGE) return
    after = { block: last.block_number, log: last.log_index, batch: last.batch_index, direction: last.direction }
  }
}

async function askBalances(rpc: Rpc, sums: Sum[], header: Hex): Promise<void> {
  const questions = sums.flatMap((sum) => [
    {
      call: balanceCall(sum, sum.address, { blockHash: header }),
      take: (value: bigint | null) => void (sum.balance = value),
    },
    ...(sum.opening === null
      ? [{ call: balanceCall(sum, sum.address, sum.from), take: (value: bigint | null) => void (sum.opening = value) }]
      : []),
  ])
  for (let start = 0; start < questions.length; start += MAX_CALLS) {
    const some = questions.slice(start, start + MAX_CALLS)
    const answers = await rpc.batch(some.map(({ call }) => call))
    for (const [index, { take }] of some.entries()) take(readBalance(answers[index]))
  }
}

/** Builds the call for an account's balance at a block. @param at  number of a final block, or a hash */
export function balanceCall(
  { token, type, tokenId }: Holding,
  address: Hex,
  at: number | { blockHash: Hex },
): { method: string; params: unknown[] } {
  const block = typeof at === 'number' ? `0x${at.toString(16)}` : at
  if (token === null) return { method: 'eth_getBalance', params: [address, block] }
  const owner = address.slice(2).padStart(64, '0')
  const data =
    type === 'ERC1155' && tokenId !== null ? `${BALANCE_OF_ID}${owner}${wordDigits(tokenId)}` : `${BALANCE_OF}${owner}`
  return { method: 'eth_call', params: [{ to: token, data, gas: GAS }, block] }
}

/** first four bytes of keccak256 of `balanceOf(address)`; the next constant: of `balanceOf(address,uint256)` */
const BALANCE_OF = '0x70a08231'
const BALANCE_OF_ID = '0x00fdd58e'
const GAS = '0x4c4b40'

/**
 * Decodes a balance. Returns null if it is not a number: the contract did not answer, or the node dropped the state.
 * @throws RpcUnavailable
 */
export function readBalance(answer: unknown): bigint | null {
  if (answer instanceof RpcUnavailable) throw answer
  return quantityIn(answer)
}

async function headerAt(rpc: Rpc, block: number): Promise<Hex> {
  const header = await fetchHeader(rpc, block)
  if (header === null) throw new InvalidResponse('the node lacks a block that the history has')
  return header.hash
}
