import { decodeTransferLog, type EventLog } from '../abi/transfers.ts'
import type { Chain } from '../chain/network.ts'
import { readAddress, readBytes, readHash, readObject, readQuantity } from '../chain/rpc/answers.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import { RpcError, RpcUnavailable } from '../chain/rpc/rpc.ts'
import { quantityOf, type Hex } from '../ids.ts'
import {
  MAX_NAMED,
  type AccountOwner,
  type AssetChange,
  type CallToSimulate,
  type Simulated,
} from '../oauth/account/slices.ts'

/** The address in whose name nodes log transfers of native currency in a simulation. */
const NATIVE: Hex = '0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee'

const TIMEOUT_MS = 3_000

/**
 * Simulates calls of an account, one after the other, on top of the newest block: by `eth_simulateV1` of one node. The
 * result is an estimate: a contract can behave differently when the transaction is mined.
 * @returns null if the node does not simulate, does not respond within three seconds, or returns an invalid response
 */
export async function simulateCalls(
  chain: Chain | undefined,
  { address }: Pick<AccountOwner, 'address'>,
  calls: readonly CallToSimulate[],
): Promise<Simulated | null> {
  if (chain === undefined) return null
  const asked = calls.map(({ to, value, data }) => ({
    from: address,
    to,
    value: quantityOf(BigInt(value)),
    input: data,
  }))
  try {
    const params = [{ blockStateCalls: [{ calls: asked }], traceTransfers: true }, 'latest']
    return readSimulated(await chain.rpc.call('eth_simulateV1', params, { timeoutMs: TIMEOUT_MS }), address)
  } catch (error) {
    if (error instanceof RpcError || error instanceof RpcUnavailable) return null
    throw error
  }
}

function readSimulated(answer: unknown, address: Hex): Simulated {
  const [block] = readArray(answer, 'simulated blocks')
  const { calls } = readObject(block, 'a simulated block')
  const results = readArray(calls, 'simulated calls').map((one) => readObject(one, 'a simulated call'))
  if (results.some(({ status }) => readQuantity(status, 'status of a simulated call') !== 1n))
    return { isReverted: true, changes: [], omitted: 0 }
  const changes = netChanges(
    results.flatMap(({ logs }) => readArray(logs, 'logs of a simulated call').map(readLog)),
    address,
  )
  return { isReverted: false, changes: changes.slice(0, MAX_NAMED), omitted: Math.max(0, changes.length - MAX_NAMED) }
}

function readLog(log: unknown): EventLog {
  const { address, topics, data } = readObject(log, 'a log')
  return {
    address: readAddress(address, 'address of a log'),
    topics: readArray(topics, 'topics of a log').map((topic) => readHash(topic, 'topic of a log')),
    data: readBytes(data, 'data of a log'),
  }
}

/** Sums the gains and losses of an account by asset. Assets that return within the same calls are left out. */
function netChanges(logs: readonly EventLog[], account: Hex): AssetChange[] {
  const own = account.toLowerCase()
  const byAsset = new Map<string, AssetChange>()
  for (const log of logs) {
    const token = log.address.toLowerCase() as Hex
    for (const { from, to, value, tokenId } of decodeTransferLog(log)) {
      const amount = (to === own ? value : 0n) - (from === own ? value : 0n)
      const key = `${token} ${tokenId}`
      const known = byAsset.get(key) ?? { token: token === NATIVE ? null : token, item: tokenId, amount: 0n }
      byAsset.set(key, { ...known, amount: known.amount + amount })
    }
  }
  return [...byAsset.values()].filter(({ amount }) => amount !== 0n)
}

function readArray(value: unknown, what: string): unknown[] {
  if (!Array.isArray(value)) throw new InvalidResponse(`${what} are no list`)
  return value
}
