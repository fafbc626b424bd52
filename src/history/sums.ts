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

/** rows of one page of an account's history, and calls of one request */
const MAX_PAGE = 5_000
const MAX_CALLS = 50

/** What an account holds of: native currency (`token` null), a token, or one id of an ERC-1155. */
type Holding = { token: Hex | null; type: EntryType; tokenId: bigint | null }

/**
 * What entries of one holding sum up to, and what the node says. `from`: the last block before the entries that count; `opening` what was
 * held there, null where it cannot be known; `net` what they add, and `balance` what is held at the block, in the smallest unit or in pieces.
 */
export type Sum = Holding & {
  accountId: string
  address: Hex
  block: number
  from: number
  opening: bigint | null
  net: bigint
  /** transfers that have no entry, of tokens: then they cannot sum up */
  omitted: number
  balance: bigint | null
}

/** Null: one of the numbers is not known, or not all of what they are made of. */
export const differenceOf = ({ opening, net, omitted, balance }: Sum): bigint | null =>
  opening === null || balance === null || omitted > 0 ? null : balance - (opening + net)

export type SummedAccount = { accountId: string; address: Hex }

/**
 * Sums the entries of an account up to a block, for native currency and every token in them, and asks a node for what the account holds there and
 * held where its entries begin: two requests of at most 50 calls for 50 balances.
 * @param since  counts from behind this block on instead of from where the history of the account begins: for nodes without older states
 * @returns one of each holding, native currency always; without an opening and a balance where its entries are not known up to the block
 * @throws Error in a sentence when the history does not reach the block, or it was reorganised meanwhile; RpcUnavailable | InvalidResponse
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
    // Before a block that is the chain's first nobody held anything, unless the chain began with it.
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
  // Of what is known from a later block on only, nothing can be said.
  const known = [...sums.values()].filter(({ from }) => from <= block)
  await askBalances(rpc, known, header)
  return [...sums.values()]
}

type Beginning = { from: number; isFresh: boolean }

/** From which block on the entries of an account are complete; null where that is not known. */
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
  // Where internal transfers begin later, sums begin there; where nothing tells of them they differ.
  return {
    native: begin(native.from === null ? null : Math.max(native.from, native.internalFrom ?? 0)),
    tokens: begin(tokens),
  }
}

type SummedRow = Holding & { block: number; direction: number; value: bigint; omitted: number }

/** Entries of an account up to a block, from the first on. Index: the primary key. */
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
        // Pieces of an ERC-721 are counted, those of an ERC-1155 by their id.
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

/** What an account holds at a block, by one call. @param at  a block's number, final, or its hash */
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

/** keccak256 of `balanceOf(address)` and of `balanceOf(address,uint256)`, first four bytes */
const BALANCE_OF = '0x70a08231'
const BALANCE_OF_ID = '0x00fdd58e'
const GAS = '0x4c4b40'

/** Null for what is no number: a contract that does not answer, a state that the node no longer has. @throws RpcUnavailable */
export function readBalance(answer: unknown): bigint | null {
  if (answer instanceof RpcUnavailable) throw answer
  return quantityIn(answer)
}

async function headerAt(rpc: Rpc, block: number): Promise<Hex> {
  const header = await fetchHeader(rpc, block)
  if (header === null) throw new InvalidResponse('the node lacks a block that the history has')
  return header.hash
}
