import { facts } from './print.ts'
import type { KnownNetwork } from './registry.ts'

export type DescribedNetwork = KnownNetwork & { nodes: number }

/** Formats a network as text, one fact per line. */
export function describe(one: DescribedNetwork): string {
  return facts([
    ['Name', one.name],
    ['Chain id', String(one.chainId)],
    ['Currency', `${one.coin} (${one.symbol})`],
    ['Explorer', one.explorer === null ? 'pages of this service' : Object.values(one.explorer)],
    ['Finality', one.finality === 'finalized' ? 'finalized' : `after ${one.finality} blocks`],
    ['Block verification', one.blockVerification ?? 'from the settings'],
    ['Fee cap', one.feeCapGwei === null ? 'from the settings' : `${one.feeCapGwei} gwei per gas`],
    ['Gas', gasOf(one)],
    ['Called directly', one.topUpContracts.length === 0 ? null : topUpsOf(one)],
    ['Sponsors spent', one.gas === 'self' ? null : spentOf(one)],
    ['Account pages', one.gas === 'self' ? null : pagesOf(one)],
    ['Sponsor is low', one.gas === 'self' ? null : lowOf(one)],
    ['Owed delegations', one.owedDelegations === 0 ? null : owedOf(one)],
    ['Nodes', nodesOf(one)],
    ['Blocks are read from', one.readFrom ?? '-'],
    ['Native currency', nativeOf(one)],
    ['Backfill from', one.backfillFrom === null ? 'from the settings' : `block ${one.backfillFrom}`],
    ['Past transfers', backfillOf(one)],
    ['Applications', String(one.applications)],
    ['Served', one.isServed === undefined ? null : servedOf(one)],
  ])
}

function nativeOf({ native }: DescribedNetwork): string {
  if (native === null) return 'not in the history'
  const { fromBlock, internalFromBlock, toBlock } = native
  const internal =
    internalFromBlock === null ? 'without internal transfers' : `internal transfers since block ${internalFromBlock}`
  return `from block ${fromBlock} to ${toBlock}; ${internal}`
}

function gasOf({ gas, delegate, sponsors, name }: DescribedNetwork): string {
  if (gas === 'self') return 'self: users pay for gas'
  const text =
    gas === 'topup'
      ? 'topup: a sponsor sends users the gas that they need'
      : `sponsor: a sponsor submits signed operations and pays for gas${delegate === 'calibur' ? '; accounts delegate to Calibur' : ''}`
  return sponsors === 0
    ? `${text}. It has no sponsor. Create one: chatelaine sponsor create NAME --network ${name}`
    : `${text}; sponsors: ${sponsors}`
}

const topUpsOf = ({ gas, topUpContracts }: DescribedNetwork): string[] => [
  gas === 'sponsor' ? 'with a top-up, these contracts:' : 'once gas mode is `sponsor`, these contracts:',
  ...topUpContracts,
]

const spentOf = ({ sponsorPerDay, sponsorSpent }: DescribedNetwork): string =>
  `${sponsorSpent} wei in 24 hours${sponsorPerDay === null ? '; no limit beyond the application budgets' : ` of ${sponsorPerDay}`}`

const pagesOf = ({ pagesPerUser, pagesPerDay }: DescribedNetwork): string =>
  pagesPerUser === null
    ? 'no gas budget'
    : `gas budget ${pagesPerUser} wei per user and ${pagesPerDay} wei in total, in 24 hours`

const lowOf = ({ sponsorLow }: DescribedNetwork): string =>
  sponsorLow === null ? 'below the cost of a hundred top-ups' : `below ${sponsorLow} wei`

const owedOf = ({ owedDelegations }: DescribedNetwork): string =>
  owedDelegations === null
    ? 'unknown: the database role lacks a right. Run chatelaine database roles'
    : `${owedDelegations} accounts; their next write needs a sponsor, its space and a budget`

function backfillOf({ backfill, backfillProgress }: DescribedNetwork): string[] {
  if (backfillProgress === null && backfill === null) return ['not counted yet']
  return [
    ...(backfillProgress === null ? [] : progressOf(backfillProgress)),
    ...(backfill === null ? [] : [groupOf(backfill, { isTold: (backfillProgress?.waiting ?? 0) > 0 })]),
  ]
}

function progressOf({
  waiting,
  covered,
  countedAt,
  blocksPerSecond,
  doneAt,
  waitsFor,
}: NonNullable<KnownNetwork['backfillProgress']>): string[] {
  const counts = `${waiting} accounts waiting, ${covered} complete; counted at ${countedAt}`
  if (waiting === 0) return [counts]
  const rate = blocksPerSecond === null ? 'rate unknown' : `${blocksPerSecond.toPrecision(3)} blocks a second`
  return [counts, waitsFor === null ? `${rate}; done ${doneAt ?? 'at an unknown time'}` : `paused: ${waitsFor}`]
}

/** @param isTold  the reason for waiting is shown already */
function groupOf(
  { accounts, nextBlock, toBlock, blockedBy }: NonNullable<KnownNetwork['backfill']>,
  { isTold }: { isTold: boolean },
): string {
  const place = `${accounts} accounts, block ${nextBlock} of ${toBlock}`
  return blockedBy === null || isTold ? place : `${place}; blocked: ${blockedBy}`
}

/** Formats the number of nodes known here. */
export const nodesOf = ({ nodes }: DescribedNetwork): string => (nodes === 0 ? 'from the settings' : String(nodes))
/** Formats whether the server that was asked serves the network. */
export const servedOf = ({ isServed }: DescribedNetwork): string =>
  isServed === undefined ? '-' : isServed ? 'yes' : 'no'
