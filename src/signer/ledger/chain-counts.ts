import { StartError } from '../refusal.ts'
import type { Restored } from './restored.ts'
import { exactQuantityIn } from '../../digits.ts'

const TIMEOUT_MS = 30_000
const PER_REQUEST = 100

/**
 * Fetches the transaction count of each account on a network, including transactions that wait in the node's pool.
 * Omits accounts with count 0. Only commands that access a chain use this; the signer itself has no network access.
 * @param url        never printed, because it may contain a key
 * @param addresses  40 hexadecimal digits each
 * @throws StartError  if the node does not return every count
 */
export async function countAll(
  url: string,
  addresses: string[],
): Promise<{ chainId: number; floors: Restored['floors'] }> {
  const [id] = await call(url, [{ method: 'eth_chainId', params: [] }])
  const chainId = toNumber(id)
  const floors: Restored['floors'] = []
  for (let start = 0; start < addresses.length; start += PER_REQUEST) {
    const some = addresses.slice(start, start + PER_REQUEST)
    const asked = some.flatMap((address) =>
      ['latest', 'pending'].map((tag) => ({ method: 'eth_getTransactionCount', params: [`0x${address}`, tag] })),
    )
    const counts = (await call(url, asked)).map(toNumber)
    for (const [index, address] of some.entries()) {
      // Nodes behind one URL may lag behind each other, so the higher of two answers is the more recent one.
      const nonce = Math.max(counts[2 * index]!, counts[2 * index + 1]!)
      if (nonce > 0) floors.push({ address, chainId, nonce })
    }
  }
  return { chainId, floors }
}

type CountCall = { method: string; params: string[] }

/** Sends one batch. Returns an answer for each call; undefined for a call without an answer. */
async function call(url: string, calls: CountCall[]): Promise<unknown[]> {
  const body = JSON.stringify(calls.map((one, id) => ({ jsonrpc: '2.0', id, ...one })))
  let answers: unknown
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    answers = await response.json()
  } catch {
    // The cause would reveal the URL.
    throw new StartError('The node at --rpc-url could not be reached.')
  }
  if (!Array.isArray(answers)) throw new StartError('The node at --rpc-url does not support batches: use another.')
  const results = new Map<unknown, unknown>()
  for (const answer of answers as ({ id?: unknown; result?: unknown } | null)[]) {
    // If one call has two answers, neither can be trusted.
    results.set(answer?.id, results.has(answer?.id) ? undefined : answer?.result)
  }
  return calls.map((_, id) => results.get(id))
}

function toNumber(hex: unknown): number {
  const count = exactQuantityIn(hex)
  if (count === null) throw new StartError('The node at --rpc-url returned no count for an account.')
  return count
}
