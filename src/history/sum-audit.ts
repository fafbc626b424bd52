import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import type { Rpc } from '../chain/rpc/rpc.ts'
import { indexedTo } from '../follower/history-cursor.ts'
import type { Hex } from '../ids.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { findDifference } from './first-difference.ts'
import { differenceOf, sumAccount, type Sum, type SummedAccount } from './sums.ts'

/** number of accounts that are summed at the same time, and of accounts per page */
const SIDE_BY_SIDE = 4
const MAX_PAGE = 1_000
/**
 * Maximum number of differences whose first block is searched, with about 50 calls each. Later ones are reported
 * without a block.
 */
const MAX_FOUND = 200

/** An account whose entries are summed up to a block. */
export type SumTarget = { account: SummedAccount; block: number }

/** A difference. `block` and `isOfToken` are the result of `findDifference`; null and false if not searched. */
export type SumDifference = { sum: Sum; difference: bigint; block: number | null; isOfToken: boolean }

type SumJob = {
  targets: AsyncIterable<SumTarget>
  /** the node to ask; one with older states can answer more */
  rpc: Rpc
  /** as in `sumAccount` */
  since: number | null
  onDifference: (difference: SumDifference) => void
  onProgress: (progress: SumCounts) => void
}

/**
 * Numbers of compared balances. `ofTokens`: differences caused by the token, not by the history. `unknown`: the node or
 * the history lacks data.
 */
export type SumCounts = { accounts: number; equal: number; different: number; ofTokens: number; unknown: number }

/**
 * Compares the sums of entries with the balances that a node reports, for native currency and every token.
 * @throws Error with a sentence for the operator; RpcUnavailable | InvalidResponse from the node
 */
export async function auditSums(
  app: Pick<App, 'db'>,
  chain: Chain,
  { targets, rpc, since, onDifference, onProgress }: SumJob,
): Promise<SumCounts> {
  const counts: SumCounts = { accounts: 0, equal: 0, different: 0, ofTokens: 0, unknown: 0 }
  const take = async (sums: Sum[]) => {
    counts.accounts++
    for (const sum of sums) {
      const difference = differenceOf(sum)
      if (difference === null) counts.unknown++
      else if (difference === 0n) counts.equal++
      else {
        const isFound = counts.different + counts.ofTokens < MAX_FOUND
        const told = isFound ? await findDifference(app, chain, { sum, rpc }) : { block: null, isOfToken: false }
        if (told.isOfToken) counts.ofTokens++
        else counts.different++
        onDifference({ sum, difference, ...told })
      }
    }
    onProgress(counts)
  }
  let waiting: SumTarget[] = []
  const work = async () => {
    const sums = await Promise.all(waiting.map((target) => sumAccount(app, chain, { ...target, since, rpc })))
    waiting = []
    for (const some of sums) await take(some)
  }
  for await (const target of targets) {
    waiting.push(target)
    if (waiting.length === SIDE_BY_SIDE) await work()
  }
  if (waiting.length > 0) await work()
  return counts
}

/** Yields every account, all at one block. */
export async function* everyAccount(db: Db, block: number): AsyncGenerator<SumTarget> {
  for (let after: string | null = null; ;) {
    const page = await accountsBehind(db, after, MAX_PAGE)
    for (const account of page) yield { account, block }
    after = page.at(-1)?.accountId ?? null
    if (page.length < MAX_PAGE) return
  }
}

/** Yields the accounts of these addresses, at one block. @throws Error if an address belongs to no account */
export async function* theseAccounts(db: Db, addresses: readonly Hex[], block: number): AsyncGenerator<SumTarget> {
  for (const address of addresses) {
    const bytes = Buffer.from(address.slice(2), 'hex')
    const row = await db.selectFrom('accounts').select('account_id').where('address', '=', bytes).executeTakeFirst()
    if (row === undefined) throw new Error(`No account has the address ${address}.`)
    yield { account: { accountId: row.account_id, address }, block }
  }
}

/**
 * Yields random accounts, each at a random block.
 * @param random  returns a whole number from 0 to below its argument, reproducibly for a seed
 * @param from    first block; `to` is the last
 */
export async function* sampledAccounts(
  db: Db,
  { count, random, from, to }: { count: number; random: (below: number) => number; from: number; to: number },
): AsyncGenerator<SumTarget> {
  for (let done = 0; done < count; done++) {
    const digits = Array.from({ length: 8 }, () => random(65_536).toString(16).padStart(4, '0'))
    const at = `${digits[0]}${digits[1]}-${digits[2]}-${digits[3]}-${digits[4]}-${digits.slice(5).join('')}`
    const account = (await accountsBehind(db, at, 1))[0] ?? (await accountsBehind(db, null, 1))[0]
    if (account === undefined) return
    yield { account, block: from + random(to - from + 1) }
  }
}

/** Returns accounts in the order of their ids, after one id. */
async function accountsBehind(db: Db, after: string | null, limit: number): Promise<SummedAccount[]> {
  const rows = await db
    .selectFrom('accounts')
    .select(['account_id', 'address'])
    .$if(after !== null, (query) => query.where('account_id', '>', after!))
    .orderBy('account_id')
    .limit(limit)
    .execute()
  return rows.map(({ account_id, address }) => ({ accountId: account_id, address: toHex(address) }))
}

/**
 * Returns the range of blocks at which sums can be computed. It starts where native currency is indexed, otherwise at
 * the first block, and ends with the history.
 * @throws Error if there is no history yet
 */
export async function summableBlocks(db: Db, { chainId, name }: Chain): Promise<{ from: number; to: number }> {
  const { indexedTo: to } = await indexedTo(db, chainId)
  if (to === null) throw new Error(`The network ${name} has no history yet.`)
  const row = await db
    .selectFrom('native_coverage')
    .select('from_block')
    .where('chain_id', '=', chainId)
    .executeTakeFirst()
  return { from: Math.min(row?.from_block ?? 0, to), to }
}
