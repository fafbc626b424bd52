import { parseTransaction } from 'viem'
import type { Hex } from '../../src/ids.ts'
import { toHex } from '../../src/hex.ts'
import { fromWord } from '../../src/store/bytes.ts'
import { judgeBalances, TRANSFER } from './transactions-balances.ts'
import { askAll, type Log } from './transactions-chain.ts'
import { usesUp } from './transactions-client.ts'
import { nameOfRow, type AttemptRow, type Evidence, type Row, type Tell } from './transactions-evidence.ts'

/** wei: what the signer signs at most for one transaction (SIGNER_MAX_FEE_WEI) */
const MAX_FEE = 10n ** 18n
/** gas units of a cancel on this chain */
const CANCEL_GAS = 21_000n
/** at most, of one by the dispatcher with as many authorizations as are in one transaction here */
const MAX_CANCEL_GAS = 5_000_000n
/** rows whose gas is estimated once more */
const MAX_ESTIMATES = 400

/** What was offered for gas and what was paid, against the rules; and every account's coins and tokens against what was asked for. */
export async function judgeMoney(evidence: Evidence, tell: Tell): Promise<void> {
  await judgePrices(evidence, tell)
  await judgeBalances(evidence, tell)
}

/** What was offered for gas, against the rules. */
export async function judgePrices(evidence: Evidence, tell: Tell): Promise<void> {
  const { rows, attempts, world } = evidence
  const { baseFee, tip } = world.node.dearest()
  const market = { max: 2n * baseFee + tip, tip }
  for (const row of rows) judgeFees(row, attempts.get(row.id) ?? [], { market, cap: world.feeCapWei }, tell)
  await judgeGas(evidence, tell)
}

type Offer = { max: bigint; tip: bigint }

/** 12.5 % more, rounded up. */
const raised = (fee: bigint): bigint => (fee * 9n + 7n) / 8n
const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b)

/**
 * The first offer is the market's. Every later one is at least an eighth above the one it was raised from in both
 * fields, at least a tenth above all, since two replicas may raise the same one at once, and no more than an eighth
 * above it where the market is below that. None is above the cap.
 */
function judgeFees(
  row: Row,
  attempts: AttemptRow[],
  { market, cap }: { market: Offer; cap: bigint },
  tell: Tell,
): void {
  const name = nameOfRow(row)
  const offers = attempts
    .map((attempt) => ({ ...offerOf(attempt), gas: BigInt(attempt.gas_limit) }))
    .toSorted((a, b) => (a.max < b.max ? -1 : a.max > b.max ? 1 : a.tip < b.tip ? -1 : 1))
  for (const [index, { max, tip, gas }] of offers.entries()) {
    if (max > cap) tell('price', `${name} offers ${max} wei a gas, the cap is ${cap}`)
    if (max * gas > MAX_FEE) tell('price', `${name} may cost ${max * gas} wei`)
    if (tip > max) tell('price', `${name} has a tip of ${tip} in an offer of ${max}`)
    const before = offers[index - 1]
    const most = before === undefined ? market : { max: larger(raised(before.max), market.max), tip: larger(raised(before.tip), market.tip) } // prettier-ignore
    if (max > most.max || tip > most.tip)
      tell('price', `${name} offers ${max} with a tip of ${tip}; at most ${most.max} and ${most.tip} were needed`)
    if (before === undefined) continue
    const from = isRaised({ max, tip }, before, 9n, 8n) ? before : offers[index - 2]
    if (!isRaised({ max, tip }, before, 11n, 10n) || from === undefined || !isRaised({ max, tip }, from, 9n, 8n))
      tell('price', `${name} was raised from ${before.max} and ${before.tip} to ${max} and ${tip}`)
  }
  const [first] = offers
  const terms = offerOf(row)
  if (first !== undefined && !attempts.every(({ is_cancel }) => is_cancel) && first.max !== terms.max)
    tell('price', `${name} was first sent for ${first.max}, its row says ${terms.max}`)
}

const offerOf = ({ max_fee, max_priority_fee }: Pick<Row, 'max_fee' | 'max_priority_fee'>): Offer => ({
  max: fromWord(max_fee),
  tip: fromWord(max_priority_fee ?? max_fee),
})

/** A tip cannot be above the whole, so that one may grow by less. */
const isRaised = (now: Offer, before: Offer, by: bigint, of: bigint): boolean =>
  now.max * of >= before.max * by && (now.tip * of >= before.tip * by || now.tip === now.max)

/** The gas limit is the estimate, a quarter and 10,000 more; what costs the same in every state is estimated again. */
async function judgeGas({ rows, attempts, world, byHash, receipts }: Evidence, tell: Tell): Promise<void> {
  for (const row of rows)
    for (const { hash, raw, gas_limit, is_cancel } of attempts.get(row.id) ?? []) {
      const cancel = is_cancel && raw !== null ? parseTransaction(toHex(raw)) : null
      // What uses ids up takes more the more accounts delegate in it.
      const isOfOuter = cancel !== null && usesUp({ to: (cancel.to?.toLowerCase() as Hex) ?? null, data: cancel.data ?? '0x' }) // prettier-ignore
      const expected = is_cancel ? CANCEL_GAS : BigInt(row.gas_limit)
      if (isOfOuter ? BigInt(gas_limit) > MAX_CANCEL_GAS : BigInt(gas_limit) !== expected)
        tell('price', `${nameOfRow(row)} was sent with ${gas_limit} gas, its row has ${row.gas_limit}`)
      const used = byHash.has(toHex(hash)) ? receipts.get(toHex(hash))!.gasUsed : 0n
      if (used > BigInt(gas_limit)) tell('price', `${nameOfRow(row)} used ${used} of ${gas_limit} gas`)
    }
  const same = rows.filter(
    ({ id, target, value }) => attempts.has(id) && toHex(target) === world.probe && fromWord(value) === 0n,
  )
  const some = same.slice(0, MAX_ESTIMATES)
  const estimates = await askAll<Hex>(
    world,
    some.map(({ sender, target, data }) => ({
      method: 'eth_estimateGas',
      params: [{ from: toHex(sender), to: toHex(target), data: toHex(data) }, 'latest'],
    })),
  )
  for (const [index, row] of some.entries()) {
    const wanted = (BigInt(estimates[index]!) * 5n) / 4n + 10_000n
    if (BigInt(row.gas_limit) !== wanted)
      tell('price', `${nameOfRow(row)} has ${row.gas_limit} gas, the estimate with its margin is ${wanted}`)
  }
}

/** The history has a row for each side of each transfer that the chain's logs tell of one of the accounts, and no other. */
export function judgeTransfers({ world, accounts, chain, receipts, transfers }: Evidence, tell: Tell): void {
  const ours = new Set(accounts.map(({ address }) => address))
  const expected = chain.transactions.flatMap(
    ({ hash, block }) =>
    receipts.get(hash)!.logs.flatMap((log) => sidesOf(log, ours).map((side) => ({ isRequired: block.number > world.firstBlock, side: `${side} ${hash} ${block.hash} ${block.number} ${log.logIndex}` }))), // prettier-ignore
  )
  const names = ['IN', 'OUT', 'SELF']
  const stored = transfers.map(
    ({ direction, sender, recipient, token, value, hash, block_hash, block_number, log_index }) =>
    [names[direction], toHex(sender), toHex(recipient), toHex(token), fromWord(value), toHex(hash), toHex(block_hash), block_number, log_index].join(' '), // prettier-ignore
  )
  const [known, kept] = [new Set(expected.map(({ side }) => side)), new Set(stored)]
  for (const one of kept) if (!known.has(one)) tell('transfers', `the history has ${one}, the chain has not`)
  // What was before the service began is filled in by a process that lives for a minute, and by no other.
  for (const { isRequired, side } of expected) if (isRequired && !kept.has(side)) tell('transfers', `the history lacks ${side}`) // prettier-ignore
}

function sidesOf({ address, topics, data }: Log, ours: Set<Hex>): string[] {
  if (topics[0] !== TRANSFER || topics.length !== 3) return []
  const [from, to] = topics.slice(1).map((topic) => `0x${topic.slice(26)}` as Hex) as [Hex, Hex]
  const what = `${from} ${to} ${address} ${BigInt(data)}`
  if (from === to) return ours.has(from) ? [`SELF ${what}`] : []
  return [...(ours.has(from) ? [`OUT ${what}`] : []), ...(ours.has(to) ? [`IN ${what}`] : [])]
}
