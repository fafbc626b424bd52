import { decodeTransferLog, type DecodedTransfer, type EventLog } from '../abi/transfers.ts'
import type { Chain } from '../chain/network.ts'
import { readAddress, readBytes, readHash, readObject, readStatus } from '../chain/rpc/answers.ts'
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
const MAX_LOGS = 10_000

/**
 * Simulates calls of an account, one after the other, on top of the newest block: by `eth_simulateV1` of one node. The
 * result is an estimate: a contract can behave differently when the transaction is mined.
 * @returns null if the node does not simulate, does not respond within three seconds, or returns an invalid response, more than
 *     10,000 logs, or transfers of so many ids that not all are read
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
    return readSimulated(
      await chain.rpc.call('eth_simulateV1', params, { timeoutMs: TIMEOUT_MS }),
      address,
      calls.length,
    )
  } catch (error) {
    if (error instanceof RpcError || error instanceof RpcUnavailable) return null
    throw error
  }
}

function readSimulated(answer: unknown, address: Hex, count: number): Simulated {
  const blocks = readArray(answer, 'simulated blocks')
  const results = readArray(readObject(blocks[0], 'a simulated block').calls, 'simulated calls')
  if (blocks.length !== 1 || results.length !== count)
    throw new InvalidResponse('not one result for each simulated call')
  const calls = results.map((one) => readObject(one, 'a simulated call'))
  if (!calls.map(({ status }) => readStatus({ status })).every(Boolean))
    return { isReverted: true, changes: [], omitted: 0 }
  const logs = calls.map((one) => readArray(one.logs, 'logs of a simulated call'))
  if (logs.reduce((sum, { length }) => sum + length, 0) > MAX_LOGS)
    throw new InvalidResponse('too many logs of simulated calls')
  const changes = netChanges(
    logs.map((some) => some.map(readLog)),
    address,
  )
  return { isReverted: false, changes: changes.slice(0, MAX_NAMED), omitted: Math.max(0, changes.length - MAX_NAMED) }
}

function readLog(log: unknown): EventLog {
  const { address, topics, data } = readObject(log, 'a log')
  const bytes = readBytes(data, 'data of a log')
  if (!/^0x(?:[\da-f]{2})*$/i.test(bytes)) throw new InvalidResponse('data of a log is not hexadecimal')
  return {
    address: readAddress(address, 'address of a log'),
    topics: readArray(topics, 'topics of a log').map((topic) => readHash(topic, 'topic of a log')),
    data: bytes,
  }
}

type SimulatedMove = DecodedTransfer & { token: Hex }

/**
 * Sums the gains and losses of an account by asset: native currency first, then losses, then gains, so that invented
 * gains hide no loss. Assets that return within the same calls are left out.
 * @param logs  of each call
 * @throws InvalidResponse  for batches and ranges of ids that are not read as a whole: a part would be a false statement
 */
function netChanges(logs: readonly (readonly EventLog[])[], account: Hex): AssetChange[] {
  const own = account.toLowerCase()
  const byAsset = new Map<string, AssetChange>()
  for (const moved of logs.map(movesOf)) {
    for (const one of moved) {
      const { token, from, to, value, tokenId, omitted, form } = one
      if (omitted > 0 || (form === 'ERC721' && value !== 1n))
        throw new InvalidResponse('a batch or range of ids that is not read')
      if (form === 'WRAPPED' && !isWrapping(one, moved)) continue
      const amount = (to === own ? value : 0n) - (from === own ? value : 0n)
      const key = `${token} ${tokenId}`
      const known = byAsset.get(key) ?? { token: token === NATIVE ? null : token, item: tokenId, amount: 0n }
      byAsset.set(key, { ...known, amount: known.amount + amount })
    }
  }
  const rank = ({ token, amount }: AssetChange): number => (token === null ? 0 : amount < 0n ? 1 : 2)
  return [...byAsset.values()].filter(({ amount }) => amount !== 0n).toSorted((a, b) => rank(a) - rank(b))
}

const movesOf = (logs: readonly EventLog[]): SimulatedMove[] =>
  logs.flatMap((log) => decodeTransferLog(log).map((one) => ({ ...one, token: log.address.toLowerCase() as Hex })))

/**
 * Returns whether a deposit or withdrawal event is of a wrapper: native currency of the same amount goes the other way, and
 * the contract logs no transfer of it. Any contract can log such events.
 */
function isWrapping({ token, from, to, value }: SimulatedMove, moved: readonly SimulatedMove[]): boolean {
  const isDeposit = BigInt(from) === 0n
  const paid = moved.some((one) => one.token === NATIVE && one.value === value && one.from === (isDeposit ? to : token) && one.to === (isDeposit ? token : from)) // prettier-ignore
  return paid && !moved.some((one) => one.form !== 'WRAPPED' && one.token === token && one.from === from && one.to === to && one.value === value) // prettier-ignore
}

function readArray(value: unknown, what: string): unknown[] {
  if (!Array.isArray(value)) throw new InvalidResponse(`${what} are no list`)
  return value
}
