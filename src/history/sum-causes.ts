import type { Chain } from '../chain/network.ts'
import { RpcError, type Rpc } from '../chain/rpc/rpc.ts'
import type { Db } from '../store/db.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import type { TokenStandards } from '../tokens/ask.ts'
import { countedOf } from '../tokens/moved.ts'
import { nativeCoverage } from './native-coverage.ts'
import { fetchPast, TooMuch } from './past-logs.ts'
import { DIRECTION, onceEach } from './rows.ts'
import { standardsOf } from './select.ts'
import { balanceCall, readBalance, readRows, type Sum } from './sums.ts'

/** Why entries do not sum up to a balance, as far as it can be told. */
export type DifferenceCause =
  | 'history_differs'
  | 'omitted'
  | 'event_without_balance'
  | 'rebasing'
  | 'fee_on_transfer'
  | 'mint_without_event'
  | 'amount_differs'
  | 'balance_without_transfer'
  | 'internal_unknown'
  | 'unknown'

/** The causes in words, for the operator. */
export const CAUSES: Record<DifferenceCause, string> = {
  history_differs:
    'the history has other transfers in this block than the chain: chatelaine audit --from this block --to it',
  event_without_balance: 'the token announces transfers that it does not make',
  omitted: 'more than 1,000 transfers of this token in one block and direction: the others have no entry',
  rebasing: 'rebasing token: balances change without transfers, all in the same proportion',
  fee_on_transfer: 'fee-on-transfer token: less arrives than its events say',
  mint_without_event: 'the token minted or burned without an event',
  amount_differs: 'the token moved another amount than its events say',
  balance_without_transfer: 'the balance changed without a transfer',
  internal_unknown: 'internal transfers are not known of this block: no logs, and no traces, tell of them',
  unknown: 'the node did not answer what would tell it',
}

/**
 * The first block at which the entries of a holding no longer sum up to its balance, and why: about two calls for every doubling of the
 * number of blocks in between. The state of these blocks is asked for by number, so they should be final.
 * @throws RpcUnavailable
 */
export async function explainDifference(
  { db }: { db: Db },
  { chainId }: Pick<Chain, 'chainId'>,
  { sum, rpc }: { sum: Sum; rpc: Rpc },
): Promise<{ block: number | null; cause: DifferenceCause }> {
  const changes = await changesOf(db, chainId, sum)
  const heldBy = (block: number): bigint =>
    changes.reduce((all, change) => (change.block <= block ? all + change.net : all), sum.opening!)
  const ask = async (block: number): Promise<bigint | null> =>
    readBalance((await rpc.batch([balanceCall(sum, sum.address, block)]))[0])
  let [right, wrong] = [sum.from, sum.block]
  while (wrong - right > 1) {
    const middle = Math.floor((right + wrong) / 2)
    const balance = await ask(middle)
    if (balance === null) return { block: null, cause: 'unknown' }
    if (balance === heldBy(middle)) right = middle
    else wrong = middle
  }
  const cause = await causeAt({ db, chainId, sum, rpc, block: wrong, expected: heldBy(wrong), before: heldBy(right) })
  return { block: wrong, cause }
}

type Change = { block: number; net: bigint }

async function changesOf(db: Db, chainId: number, sum: Sum): Promise<Change[]> {
  const changes: Change[] = []
  for await (const row of readRows(db, { accountId: sum.accountId, chainId, to: sum.block })) {
    if (row.token !== sum.token || row.tokenId !== sum.tokenId || row.block <= sum.from) continue
    const net = row.direction === DIRECTION.SELF ? 0n : row.direction === DIRECTION.IN ? row.value : -row.value
    changes.push({ block: row.block, net })
  }
  return changes
}

async function causeAt({
  db,
  chainId,
  sum,
  rpc,
  block,
  expected,
  before,
}: {
  db: Db
  chainId: number
  sum: Sum
  rpc: Rpc
  block: number
  expected: bigint
  before: bigint
}): Promise<DifferenceCause> {
  if (sum.token === null) {
    const { internalFrom } = await nativeCoverage(db, { accountId: sum.accountId, chainId })
    return internalFrom === null || internalFrom > block ? 'internal_unknown' : 'balance_without_transfer'
  }
  const moved = expected - before
  const logged = await loggedAt(rpc, sum, block, await readStandards(db, chainId, sum.token))
  if (logged !== null && logged !== moved) return 'history_differs'
  if (sum.omitted > 0) return 'omitted'
  const call = (data: string, at: number) => ({
    method: 'eth_call',
    params: [{ to: sum.token, data, gas: '0x4c4b40' }, `0x${at.toString(16)}`],
  })
  const owner = sum.address.slice(2).padStart(64, '0')
  const [balanceAnswer, supplyThen, supplyNow, ...shares] = await rpc.batch([
    balanceCall(sum, sum.address, block),
    call(TOTAL_SUPPLY, Math.max(block - 1, 0)),
    call(TOTAL_SUPPLY, block),
    ...SHARES.map((selector) => call(`${selector}${owner}`, block)),
  ])
  const balance = readBalance(balanceAnswer)
  if (balance === null) return 'unknown'
  if (shares.some((answer) => readBalance(answer) !== null)) return 'rebasing'
  if (moved !== 0n && balance === before) return 'event_without_balance'
  if (moved !== 0n) return moved > 0n && balance < expected ? 'fee_on_transfer' : 'amount_differs'
  const [then, now] = [readBalance(supplyThen), readBalance(supplyNow)]
  if (then === null || now === null) return 'balance_without_transfer'
  return withoutTransfer({ before, balance, then, now })
}

/** What the chain's logs move of a holding in a block; null where the node does not say, or only whole blocks tell (the old form). */
async function loggedAt(
  rpc: Rpc,
  { address, token, tokenId }: Sum,
  block: number,
  standards: TokenStandards,
): Promise<bigint | null> {
  try {
    const found = await fetchPast(rpc, { from: block, to: block, addresses: [address] })
    return onceEach(found)
      .filter((one) => one.token === token && one.from !== one.to)
      .map(({ from, ...one }) => ({ from, counted: countedOf(one, standards) }))
      .filter(({ counted }) => counted !== null && (tokenId === null || counted.tokenId === tokenId))
      .reduce((all, { from, counted }) => (from === address ? all - counted!.value : all + counted!.value), 0n)
  } catch (error) {
    if (error instanceof RpcError || error instanceof TooMuch) return null
    throw error
  }
}

async function readStandards(db: Db, chainId: number, token: Hex): Promise<TokenStandards> {
  const row = await db
    .selectFrom('tokens')
    .select(['is_fungible', 'is_collection', 'is_wrapper'])
    .where('chain_id', '=', chainId)
    .where('address', '=', fromHex(token))
    .executeTakeFirst()
  return standardsOf(row ?? { is_fungible: null, is_collection: null, is_wrapper: null })
}

/** By what the supply did in the same block, up to what is lost by rounding. */
function withoutTransfer({
  before,
  balance,
  then,
  now,
}: {
  before: bigint
  balance: bigint
  then: bigint
  now: bigint
}): DifferenceCause {
  const [change, supply] = [balance - before, now - then]
  const off = change * then - supply * before
  const isInProportion = supply !== 0n && before > 0n && before < then && (off < 0n ? -off : off) <= then + before
  if (isInProportion) return 'rebasing'
  return change === supply ? 'mint_without_event' : 'balance_without_transfer'
}

/** keccak256 of `totalSupply()`, first four bytes */
const TOTAL_SUPPLY: Hex = '0x18160ddd'
/** `sharesOf(address)` of Lido and its like, `scaledBalanceOf(address)` of Aave's tokens: the shares of a balance that rebases */
const SHARES: readonly Hex[] = ['0xf5eb42dc', '0x1da24f3e']
