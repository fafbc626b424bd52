import { settingsNetwork, storedNetworks, type NetworkToOpen } from '../../applications/open-networks.ts'
import { checkNetwork, readNetworks } from '../../applications/networks.ts'
import type { Diagnosis } from '../../findings.ts'
import { openLog } from '../../log.ts'
import { isHeadUrl } from '../../chain/rpc/new-heads.ts'
import type { RootDb } from '../../store/db.ts'
import { networksFileOf } from '../database.ts'
import { examineNode, type NodeReport } from './check-node.ts'
import type { Examined } from './patient.ts'
import { finding, ownWords, type FaultCode } from './faults.ts'

/** Age of a node's newest block that may still be normal, milliseconds; more on a network with slower blocks. */
const MIN_STALE_MS = 60_000
/** Blocks of silence after which a node is behind. */
const STALE_BLOCKS = 20
/** A block may be dated ahead by this much: Ethereum clients accept 15 seconds. */
const MAX_AHEAD_MS = 15_000

/** @param signed  chain ids that the signer signs for; null: all, or unknown */
export async function checkNetworks(examined: Examined, signed: number[] | null): Promise<Diagnosis[]> {
  const { config, part, db } = examined
  // A separate authorization server asks no node.
  if (part === 'auth' || (config.NODE_ENV !== 'production' && config.RPC_URL === undefined)) return []
  const findings: Diagnosis[] = []
  const stored = db === null ? null : await readStored(examined, db, findings)
  const networks = [
    ...(config.RPC_URL === undefined ? [] : [settingsNetwork(config, config.RPC_URL)]),
    ...(stored ?? []),
  ]
  if (networks.length === 0 && stored !== null && !findings.some(({ code }) => code === 'network_without_nodes'))
    findings.push(finding('no_network', 'no network has nodes, so that the server does not start'))
  for (const { name, gas, pagesPerUser } of networks)
    if (gas === 'sponsor' && (pagesPerUser ?? null) === null) findings.push(finding('account_pages_cannot_send', `the account pages have no gas budget on ${name}, so that users cannot send from them`)) // prettier-ignore
  const found = await Promise.all(networks.map((network) => checkOne(examined, network, signed)))
  return [...findings, ...found.flat()]
}

const OF_EVENTS: Record<string, [code: FaultCode, problem: string]> = {
  nodes_of_unknown_network: ['nodes_of_unknown_network', 'NETWORKS_FILE has nodes of a network that the database does not know'], // prettier-ignore
  network_without_nodes: ['network_without_nodes', 'a network of the database has no nodes in NETWORKS_FILE'],
}

/** Reads the networks as the server does at its start. Its warnings become findings. @returns null if it cannot */
async function readStored(
  { config, clock }: Examined,
  db: RootDb,
  findings: Diagnosis[],
): Promise<(NetworkToOpen & { name: string })[] | null> {
  const log = {
    ...openLog('command', 'silent'),
    warn(event: string, { network }: Record<string, unknown> = {}) {
      const [code, problem] = OF_EVENTS[event] ?? []
      if (code !== undefined) findings.push(finding(code, `${problem}: ${String(network)}`))
    },
  }
  const context = { db, config, clock, origin: '', telemetry: { log } }
  // An unreadable file is a finding of `checkFiles`.
  return storedNetworks(context, networksFileOf(config)).catch(() => null) // prettier-ignore
}

async function checkOne(
  { config, clock, db }: Examined,
  network: NetworkToOpen & { name: string },
  signed: number[] | null,
): Promise<Diagnosis[]> {
  const { name } = network
  const urls = [...new Set(network.rpcUrls)].filter((url) => !isHeadUrl(url))
  const backfillFrom = db === null ? null : await backfillFromOf(db, name)
  const reports = await Promise.all(
    urls.map((url) =>
      examineNode(url, {
        clock,
        wantsFinalized: network.finality === 'finalized',
        wantsTraces: config.NATIVE_HISTORY === 'traces',
        firstBlock: config.BACKFILL === 'on' ? (backfillFrom ?? config.BACKFILL_FROM_BLOCK) : null,
      }),
    ),
  )
  const up = reports.filter((report) => report !== null)
  if (up.length === 0) return [finding('network_down', `no node of ${name} responds`)]
  const whichOf = (report: NodeReport) => `node ${reports.indexOf(report) + 1} of ${name}`
  const findings = reports.flatMap((report, index) =>
    report === null ? [finding('node_down', `node ${index + 1} of ${name} does not respond`)] : [],
  )
  for (const report of up) {
    const why = await otherChain(db, network, report)
    if (why !== null) findings.push(finding('node_on_other_chain', `${whichOf(report)}: ${why}`))
    if (!report.readsByHash) findings.push(finding('reads_by_number', `${whichOf(report)} does not read by block hash`))
    const limitMs = Math.max(MIN_STALE_MS, STALE_BLOCKS * (report.blockMs ?? 0))
    const ageMs = clock.wall() - report.newestAt
    if (ageMs > limitMs) findings.push(finding('node_behind', `the newest block of ${whichOf(report)} is ${Math.round(ageMs / 1_000)} s old`)) // prettier-ignore
    if (-ageMs > MAX_AHEAD_MS) findings.push(finding('chain_clock_differs', `the newest block of ${whichOf(report)} is dated ${Math.round(-ageMs / 1_000)} s ahead of this machine`)) // prettier-ignore
  }
  const missing = up[0]!.missing.filter((method) => up.every((report) => report.missing.includes(method)))
  if (missing.length > 0) findings.push(finding('methods_missing', `no node of ${name} supports ${missing.join(', ')}`))
  const nobody = (code: FaultCode, has: (report: NodeReport) => boolean, problem: string) => {
    if (!up.some(has)) findings.push(finding(code, problem))
  }
  nobody('finality_missing', ({ hasFinalized }) => hasFinalized, `no node of ${name} knows the tag finalized, so that 64 blocks count as final`) // prettier-ignore
  nobody('traces_missing', ({ hasTraces }) => hasTraces, `no node of ${name} has traces, so that the history lacks internal transfers`) // prettier-ignore
  nobody('history_missing', ({ hasFirstBlock }) => hasFirstBlock, `no node of ${name} returns the first block of the backfill`) // prettier-ignore
  const { blockMs, chainId } = up[0]!
  if (blockMs !== null && blockMs >= config.LANE_BUMP_AFTER_SECONDS * 1_000)
    findings.push(finding('bump_before_block', `a block of ${name} takes ${(blockMs / 1_000).toFixed(1)} s, so that transactions are replaced before one can include them`)) // prettier-ignore
  if (signed?.includes(chainId) === false)
    findings.push(finding('network_not_signed', `the signer signs nothing for ${name}: SIGNER_CHAINS does not list ${chainId}`)) // prettier-ignore
  return findings
}

async function backfillFromOf(db: RootDb, name: string): Promise<number | null> {
  const known = await readNetworks(db)
  return known.find((one) => one.name === name)?.backfillFrom ?? null
}

/** Returns why a node does not serve the chain of this network; null if it does. */
async function otherChain(
  db: RootDb | null,
  { name, chainId }: NetworkToOpen & { name: string },
  report: NodeReport,
): Promise<string | null> {
  if (chainId !== undefined && chainId !== report.chainId)
    return `it has chain id ${report.chainId}, expected ${chainId}`
  const known = db === null ? [] : await readNetworks(db)
  // A network of RPC_URL is stored at the first start.
  if (!known.some((one) => one.name === name || one.chainId === report.chainId)) return null
  return checkNetwork(db!, { ...report, name }, { mayBegin: false }).then(() => null, ownWords)
}
