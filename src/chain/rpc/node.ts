import { systemClock } from '../../clock.ts'
import { RpcError, RpcTooLarge, RpcUnavailable } from './failures.ts'
import type { AskNode, Call } from './json-rpc.ts'
import { openPost } from './http.ts'

/** A node, behind one URL. */
export type Node = { ask: AskNode; close(): void }

/**
 * maximum bytes of a response to calls with short results. 2^24 gas pays for 2.8 MB of memory to return or revert with;
 * some nodes send it twice in hexadecimal, as `data` and within `message`.
 */
const MAX_SHORT_BYTES = 24 * 1_048_576
/** maximum bytes of a response with whole blocks, receipts or traces */
const MAX_LONG_BYTES = 128 * 1_048_576

/**
 * milliseconds after which a node that rejected a batch gets one of the same length again, because the reason may have
 * been its bytes
 */
const REFUSED_MS = 60_000

export function openNode(url: string, clock = systemClock): Node {
  const now = clock.ticks
  const post = openPost(url, clock)
  /** id of the next call; ids are never reused, so that a late response matches no other call */
  let nextId = 0
  /** calls per batch; lower after the node rejected a batch */
  let maxBatch = Number.POSITIVE_INFINITY
  let triedAt = Number.NEGATIVE_INFINITY

  const ask: AskNode = async (calls, options) => {
    if (calls.length > maxBatch) {
      if (now() - triedAt < REFUSED_MS) return inParts(calls, maxBatch, options)
      triedAt = now()
    }
    const until = now() + options.timeoutMs
    const left = () => ({ timeoutMs: Math.max(1, until - now()) })
    const firstId = nextId
    nextId += calls.length
    try {
      const body = await post(bodyOf(calls, firstId), { ...options, maxBytes: maxBytesOf(calls) })
      const answers = readAnswers(calls, firstId, body)
      if (answers !== 'batch refused') {
        maxBatch = Math.max(maxBatch, calls.length)
        return answers
      }
      maxBatch = Math.max(1, calls.length >> 1)
      triedAt = now()
      return await inParts(calls, maxBatch, left())
    } catch (error) {
      // One long result must not prevent the results of the other calls.
      if (!(error instanceof RpcTooLarge) || calls.length === 1) throw error
      return inParts(calls, Math.ceil(calls.length / 2), left())
    }
  }

  async function inParts(calls: readonly Call[], size: number, options: { timeoutMs: number }): Promise<unknown[]> {
    const parts = Array.from({ length: Math.ceil(calls.length / size) }, (_, index) =>
      calls.slice(index * size, (index + 1) * size),
    )
    const answers = await Promise.all(
      parts.map((part) =>
        ask(part, options).catch((error: unknown) => {
          if (error instanceof RpcTooLarge && part.length === 1) return [error]
          throw error
        }),
      ),
    )
    return answers.flat()
  }

  return { ask, close: () => post.close() }
}

function bodyOf(calls: readonly Call[], firstId: number): string {
  const texts = calls.map(
    ({ method, params }, index) =>
      `{"jsonrpc":"2.0","id":${firstId + index},"method":"${method}","params":${JSON.stringify(params)}}`,
  )
  return texts.length === 1 ? texts[0]! : `[${texts.join()}]`
}

function maxBytesOf(calls: readonly Call[]): number {
  const [first] = calls
  if (calls.length === 1 && first!.maxBytes !== undefined) return first!.maxBytes
  if (calls.some(({ method }) => /^eth_getBlock|^eth_getLogs|^debug_/.test(method))) return MAX_LONG_BYTES
  return MAX_SHORT_BYTES
}

type JsonRpcResponse = {
  id?: unknown
  result?: unknown
  error?: { code?: unknown; message?: unknown; data?: unknown } | null
}

function readAnswers(calls: readonly Call[], firstId: number, body: unknown): unknown[] | 'batch refused' {
  const answers = (Array.isArray(body) ? body : [body]) as (JsonRpcResponse | null)[]
  const [only] = answers
  // A node may reject a whole request with one error object without an id.
  const forAll = answers.length === 1 && only && !isIdOf(only.id, calls, firstId) ? errorOf(only) : null
  if (forAll !== null) {
    // -32600 is JSON-RPC's "invalid request", with which nodes reject a batch that is too long.
    if (calls.length > 1 && (forAll.rpcCode === -32600 || /batch/i.test(forAll.message))) return 'batch refused'
    // An error with an id belongs to another call.
    if (only?.id === null || only?.id === undefined) return calls.map(() => forAll)
  }
  if (calls.length > 1 && !Array.isArray(body) && /batch/i.test(wordsOf(only))) return 'batch refused'
  // Fast path: nearly all nodes respond in order.
  if (answers.length === calls.length && answers.every((answer, index) => answer?.id === firstId + index)) {
    return answers.map((answer, index) => readAnswer(answer, calls[index]!.method))
  }
  // A response with an unknown id may mean that all are shifted by one: then no response can be matched to its call.
  if (answers.some((answer) => typeof answer?.id === 'number' && !isIdOf(answer.id, calls, firstId)))
    return calls.map(({ method }) => noAnswer(method))
  const byId = new Map<unknown, JsonRpcResponse | null>()
  // If one call has two responses, it is unknown which one is right.
  for (const answer of answers) byId.set(answer?.id, byId.has(answer?.id) ? null : answer)
  return calls.map(({ method }, index) => readAnswer(byId.get(firstId + index), method))
}

const isIdOf = (id: unknown, calls: readonly Call[], firstId: number): boolean =>
  typeof id === 'number' && id >= firstId && id < firstId + calls.length

function readAnswer(answer: JsonRpcResponse | null | undefined, method: string): unknown {
  if (answer !== null && typeof answer === 'object') {
    const error = errorOf(answer)
    if (error !== null) return error
    if (answer.result !== undefined) return answer.result
  }
  return noAnswer(method)
}

const noAnswer = (method: string): RpcUnavailable =>
  new RpcUnavailable(`the node gave no answer to ${method}`, { timedOut: false })

/** Returns the text of an error without a code, such as a gateway's `{"error":"batch not supported"}`. */
function wordsOf(answer: JsonRpcResponse | null | undefined): string {
  const said: unknown = answer?.error
  const words: unknown = typeof said === 'object' && said !== null && 'message' in said ? said.message : said
  return typeof words === 'string' ? words : ''
}

/**
 * Reads an error. An error without a code, such as a gateway's `{"error":"bad gateway"}`, does not come from a node.
 */
function errorOf({ error }: JsonRpcResponse): RpcError | null {
  if (typeof error !== 'object' || error === null || typeof error.code !== 'number') return null
  return new RpcError(error.code, typeof error.message === 'string' ? error.message : '', error.data)
}
