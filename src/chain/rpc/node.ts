import { systemClock } from '../../clock.ts'
import { RpcError, RpcTooLarge, RpcUnavailable } from './failures.ts'
import type { AskNode, Call } from './json-rpc.ts'
import { openPost } from './http.ts'

/** One node, behind one URL. */
export type Node = { ask: AskNode; close(): void }

/**
 * bytes of an answer to calls that have short ones, one or many: 2^24 gas pay for 2.8 MB of memory to return or to
 * revert with, which some nodes write in hexadecimal twice, as `data` and within `message`
 */
const MAX_SHORT_BYTES = 24 * 1_048_576
/** bytes of an answer with whole blocks, receipts or traces */
const MAX_LONG_BYTES = 128 * 1_048_576

/** milliseconds after which a node that refused a batch is sent one as long again: it may have been its length in bytes */
const REFUSED_MS = 60_000

export function openNode(url: string, clock = systemClock): Node {
  const now = clock.ticks
  const post = openPost(url, clock)
  /** of the next call: an answer that was meant for an earlier request is nobody's */
  let nextId = 0
  /** calls of one batch; lower when the node turned out to refuse as many */
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
      // One long answer must not cost its neighbours theirs.
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
  // A node may refuse a whole request with one error object that names no id.
  const forAll = answers.length === 1 && only && !isIdOf(only.id, calls, firstId) ? errorOf(only) : null
  if (forAll !== null) {
    // -32600 is JSON-RPC's "invalid request": what nodes say to a batch that is longer than they accept.
    if (calls.length > 1 && (forAll.rpcCode === -32600 || /batch/i.test(forAll.message))) return 'batch refused'
    // An error with an id is the answer to another call.
    if (only?.id === null || only?.id === undefined) return calls.map(() => forAll)
  }
  if (calls.length > 1 && !Array.isArray(body) && /batch/i.test(wordsOf(only))) return 'batch refused'
  // Nearly every node answers in order.
  if (answers.length === calls.length && answers.every((answer, index) => answer?.id === firstId + index)) {
    return answers.map((answer, index) => readAnswer(answer, calls[index]!.method))
  }
  // What answers a call that nobody made may have moved them all by one: none of them can be matched to its call.
  if (answers.some((answer) => typeof answer?.id === 'number' && !isIdOf(answer.id, calls, firstId)))
    return calls.map(({ method }) => noAnswer(method))
  const byId = new Map<unknown, JsonRpcResponse | null>()
  // Of two answers to one call nobody knows which is right.
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

/** What a gateway says that keeps to no code: `{"error":"batch not supported"}`. */
function wordsOf(answer: JsonRpcResponse | null | undefined): string {
  const said: unknown = answer?.error
  const words: unknown = typeof said === 'object' && said !== null && 'message' in said ? said.message : said
  return typeof words === 'string' ? words : ''
}

/** Gateways answer `{"error":"bad gateway"}`: an error without a code is none of a node. */
function errorOf({ error }: JsonRpcResponse): RpcError | null {
  if (typeof error !== 'object' || error === null || typeof error.code !== 'number') return null
  return new RpcError(error.code, typeof error.message === 'string' ? error.message : '', error.data)
}
