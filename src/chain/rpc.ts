import http from 'node:http'
import https from 'node:https'
import { AppError } from '../errors.ts'

/** The node understood the request and answered with an error: code, text and, for reverts, data. */
export class RpcError extends Error {
  readonly rpcCode: number
  readonly data: unknown
  constructor(rpcCode: number, message: string, data: unknown) {
    super(message)
    this.name = 'RpcError'
    this.rpcCode = rpcCode
    this.data = data
  }
}

/** No usable answer: refused, dropped, not JSON, 5xx. For a broadcast this means unknown, never failed. */
export class RpcUnavailable extends Error {
  readonly timedOut: boolean
  constructor(message: string, options: { cause?: unknown; timedOut: boolean }) {
    super(message, { cause: options.cause })
    this.name = 'RpcUnavailable'
    this.timedOut = options.timedOut
  }
}

export type Rpc = {
  /**
   * One JSON-RPC call. Calls made while others are in the air travel together in one batch.
   * @throws RpcError | RpcUnavailable
   */
  call<T = unknown>(method: string, params: unknown[], options?: { timeoutMs?: number }): Promise<T>
  /** Several calls in one request to one node; each answered on its own, by its result or an RpcError. @throws RpcUnavailable for all of them */
  batch(calls: { method: string; params: unknown[] }[], options?: { timeoutMs?: number }): Promise<unknown[]>
  close(): void
}

const MAX_BATCH = 50
const MAX_RESPONSE_BYTES = 128 * 1024 * 1024

/**
 * JSON-RPC over keep-alive HTTP. Nothing waits when nothing else is in the air; under load, calls collect while
 * the connections in use are busy.
 * @param timeoutMs  milliseconds a call may take unless told otherwise
 * @param onCall     told of each call's end, for counters
 */
export function openRpc({ url, timeoutMs = 10_000, onCall = () => {} }: { url: string; timeoutMs?: number; onCall?: (method: string, outcome: 'ok' | 'error' | 'unavailable') => void }): Rpc {
  const target = new URL(url)
  const client = target.protocol === 'https:' ? https : http
  const agent = new client.Agent({ keepAlive: true, maxSockets: 32 })
  type Waiting = { method: string; params: unknown[]; resolve: (value: never) => void; reject: (error: unknown) => void }
  let waiting: Waiting[] = []
  let inFlight = 0
  const LANES = 4

  async function post(body: string, limitMs: number): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    const auth = target.username === '' ? {} : { auth: `${decodeURIComponent(target.username)}:${decodeURIComponent(target.password)}` }
    const request = client.request(
      { agent, host: target.hostname.replace(/^\[|\]$/g, ''), port: target.port, path: target.pathname + target.search, ...auth, method: 'POST', headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } },
      (response) => {
        const chunks: Buffer[] = []
        let size = 0
        response.on('data', (chunk: Buffer) => {
          size += chunk.length
          if (size > MAX_RESPONSE_BYTES) request.destroy(new Error('the answer is too large'))
          else chunks.push(chunk)
        })
        response.on('error', fail)
        response.on('end', () => {
          clearTimeout(timer)
          try {
            resolve(JSON.parse(Buffer.concat(chunks).toString('utf8')))
          } catch (cause) {
            reject(new RpcUnavailable(`the node answered with status ${response.statusCode} and no JSON`, { cause, timedOut: false }))
          }
        })
      },
    )
    let late = false
    const timer = setTimeout(() => {
      late = true
      request.destroy(new Error('timed out'))
    }, limitMs)
    const fail = (cause: Error) => {
      clearTimeout(timer)
      reject(new RpcUnavailable(late ? 'the node took too long' : 'the node could not be reached', { cause, timedOut: late }))
    }
    request.on('error', fail)
    request.end(body)
    return promise
  }

  async function batch(calls: { method: string; params: unknown[] }[], options: { timeoutMs?: number } = {}): Promise<unknown[]> {
    const body = calls.map(({ method, params }, id) => ({ jsonrpc: '2.0', id, method, params }))
    try {
      const answer = await post(JSON.stringify(body.length === 1 ? body[0] : body), options.timeoutMs ?? timeoutMs)
      const answers = Array.isArray(answer) ? answer : [answer]
      const byId = new Map<unknown, unknown>(answers.map((one: { id?: unknown } | null) => [one?.id, one]))
      // A node may answer a whole batch with one error object that names no id.
      const forAll = answers.length === 1 && calls.length > 1 ? answers[0] : undefined
      const results = calls.map(({ method }, id) => readAnswer(byId.get(id) ?? forAll, method))
      calls.forEach(({ method }, id) => onCall(method, results[id] instanceof RpcError ? 'error' : 'ok'))
      return results
    } catch (error) {
      for (const { method } of calls) onCall(method, 'unavailable')
      throw error
    }
  }

  async function flush(): Promise<void> {
    const calls = waiting.slice(0, MAX_BATCH)
    waiting = waiting.slice(MAX_BATCH)
    inFlight++
    try {
      const results = await batch(calls)
      calls.forEach((call, index) => {
        const result = results[index]
        if (result instanceof RpcError) call.reject(result)
        else call.resolve(result as never)
      })
    } catch (error) {
      for (const call of calls) call.reject(error)
    } finally {
      inFlight--
      if (waiting.length > 0) void flush()
    }
  }

  return {
    batch,
    call: async (method, params, options) => {
      if (options?.timeoutMs !== undefined) {
        const [result] = await batch([{ method, params }], options)
        if (result instanceof RpcError) throw result
        return result as never
      }
      const { promise, resolve, reject } = Promise.withResolvers<never>()
      waiting.push({ method, params, resolve, reject })
      if (inFlight < LANES) void flush()
      return promise
    },
    close: () => agent.destroy(),
  }
}

function readAnswer(answer: unknown, method: string): unknown {
  const body = answer as { result?: unknown; error?: { code?: unknown; message?: unknown; data?: unknown } } | undefined | null
  if (body !== undefined && body !== null && typeof body === 'object') {
    if (body.error !== undefined && body.error !== null) return new RpcError(Number(body.error.code ?? 0), typeof body.error.message === 'string' ? body.error.message : '', body.error.data)
    if ('result' in body) return body.result
  }
  throw new RpcUnavailable(`the node gave no answer to ${method}`, { timedOut: false })
}

/** Any failure of the node as the refusal our callers see. */
export function mapChainError(error: unknown): unknown {
  if (error instanceof RpcUnavailable) {
    return error.timedOut
      ? new AppError('chain_timeout', 'The chain node took too long to answer.', { cause: error, retryAfter: 1 })
      : new AppError('chain_unavailable', 'The chain node cannot be reached.', { cause: error, retryAfter: 1 })
  }
  if (error instanceof RpcError) return new AppError('chain_unavailable', 'The chain node refused the request.', { cause: error, retryAfter: 1 })
  return error
}
