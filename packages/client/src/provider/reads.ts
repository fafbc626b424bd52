import { ProviderError } from './errors.ts'

type Answer = { id?: unknown; result?: unknown; error?: { code: number; message: string; data?: unknown } }
type Call = { jsonrpc: '2.0'; id: number; method: string; params: readonly unknown[] }
type Waiting = {
  method: string
  params: readonly unknown[]
  resolve(value: unknown): void
  reject(error: unknown): void
}

/** maximum calls per request, as in the API */
const MAX_BATCH = 50

/** Methods that read the network. All other methods are the wallet's own, or rejected. */
export const READS: ReadonlySet<string> = new Set([
  'eth_blockNumber',
  'eth_call',
  'eth_estimateGas',
  'eth_feeHistory',
  'eth_gasPrice',
  'eth_getBalance',
  'eth_getBlockByHash',
  'eth_getBlockByNumber',
  'eth_getCode',
  'eth_getLogs',
  'eth_getStorageAt',
  'eth_getTransactionByHash',
  'eth_getTransactionCount',
  'eth_getTransactionReceipt',
  'eth_maxPriorityFeePerGas',
])

/**
 * Sends the reads of one turn of the event loop in one request.
 * @param send  posts a batch
 * @returns a function that makes one read, and throws that read's own error
 */
export function collectReads(
  send: (calls: Call[]) => Promise<unknown>,
): (method: string, params: readonly unknown[]) => Promise<unknown> {
  const waiting: Waiting[] = []

  async function flush(): Promise<void> {
    const batch = waiting.splice(0, MAX_BATCH)
    if (waiting.length > 0) void flush()
    try {
      const said = await send(batch.map(({ method, params }, id) => ({ jsonrpc: '2.0', id, method, params })))
      const answers = new Map((Array.isArray(said) ? (said as Answer[]) : []).map((one) => [one.id, one]))
      for (const [id, { resolve, reject }] of batch.entries()) {
        const { result, error } = answers.get(id) ?? {}
        if (error !== undefined) reject(new ProviderError(error.code, error.message, error.data))
        else if (result === undefined) reject(new ProviderError(-32_603, 'The network gave no answer.'))
        else resolve(result)
      }
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  return (method, params) =>
    new Promise((resolve, reject) => {
      if (waiting.push({ method, params, resolve, reject }) === 1) setTimeout(() => void flush(), 0)
    })
}
