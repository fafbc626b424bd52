import { StartError } from '../refusal.ts'
import type { Restored } from './restored.ts'
import { exactQuantityIn } from '../../digits.ts'

const TIMEOUT_MS = 30_000
const PER_REQUEST = 100

/**
 * How many transactions of each account a network has counted, those that wait in the node's pool included. For the one
 * command that looks at a chain; the signer itself has no network.
 * @param url        never shown: it may hold a key
 * @param addresses  40 hexadecimal digits each
 * @throws StartError when the node does not answer for all of them
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
      // Nodes behind one address may lag behind each other: the higher of two answers is the one that knows.
      const nonce = Math.max(counts[2 * index]!, counts[2 * index + 1]!)
      if (nonce > 0) floors.push({ address, chainId, nonce })
    }
  }
  return { chainId, floors }
}

type CountCall = { method: string; params: string[] }

/** One batch; an answer for each call, or none for any. */
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
    // The cause names the address.
    throw new StartError('The node at --rpc-url could not be reached.')
  }
  if (!Array.isArray(answers)) throw new StartError('The node at --rpc-url does not support batches: use another.')
  const results = new Map<unknown, unknown>()
  for (const answer of answers as ({ id?: unknown; result?: unknown } | null)[]) {
    // Of two answers to one call nobody knows which is right.
    results.set(answer?.id, results.has(answer?.id) ? undefined : answer?.result)
  }
  return calls.map((_, id) => results.get(id))
}

function toNumber(hex: unknown): number {
  const count = exactQuantityIn(hex)
  if (count === null) throw new StartError('The node at --rpc-url returned no count for an account.')
  return count
}
