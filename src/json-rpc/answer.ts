import type { App } from '../app.ts'
import type { Caller } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import type { ProblemContext } from '../http/problems.ts'
import { errorOf, invalidParams, invalidRequest, tooLong, unknownMethod, type CallRefused } from './errors.ts'
import { MAX_RESULT, methodOf } from './methods.ts'

type JsonRpcId = string | number
type JsonRpcCall = { id: JsonRpcId; method: string; params: unknown[] }

const MAX_ID_CHARACTERS = 256

/**
 * Answers the calls of one request, each with its own result or error. Together, the results have at most 4 MiB.
 * @param calls  anything
 * @returns the response of each, as JSON, in the same order
 */
export async function answerCalls(
  app: App,
  caller: Caller,
  calls: readonly unknown[],
  context: ProblemContext,
): Promise<string[]> {
  const ask = { app, chain: chainOf(app, caller) }
  let left = MAX_RESULT
  /** the previous long call; awaited, so that two long results are never in memory at once */
  let previous: Promise<unknown> = Promise.resolve()

  const run = async ({ method, params }: JsonRpcCall): Promise<string> => {
    const found = methodOf(method)
    if (found === null) throw unknownMethod()
    const [fewest, most] = found.params
    if (params.length < fewest || params.length > most)
      throw invalidParams(`${method} takes ${fewest === most ? fewest : `${fewest} to ${most}`} parameters.`)
    const answer = async (): Promise<string> => {
      if (left <= 0) throw tooLong
      const text = JSON.stringify(await found.answer(ask, params))
      left -= text.length
      if (left < 0) throw tooLong
      return text
    }
    if (found.isLong?.(params) !== true) return answer()
    const own = previous.then(answer)
    previous = own.catch(() => {})
    return own
  }

  return Promise.all(
    calls.map(async (one) => {
      const element = callOf(one)
      const id = 'id' in element ? element.id : null
      try {
        if ('refused' in element) throw element.refused
        return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${await run(element)}}`
      } catch (thrown) {
        return JSON.stringify({ jsonrpc: '2.0', id, error: errorOf(thrown, context) })
      }
    }),
  )
}

/** Reads one call. Rejects notifications, which have no id: a read without a response is of no use. */
function callOf(value: unknown): JsonRpcCall | { id: JsonRpcId | null; refused: CallRefused } {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { id: null, refused: invalidRequest('A call is an object.') }
  const { jsonrpc, id, method, params = [] } = value as Record<string, unknown>
  if (!isId(id)) return { id: null, refused: invalidRequest('`id` must be a string or a whole number.') }
  if (jsonrpc !== '2.0') return { id, refused: invalidRequest('`jsonrpc` must be "2.0".') }
  if (typeof method !== 'string') return { id, refused: invalidRequest('`method` must be a string.') }
  if (!Array.isArray(params)) return { id, refused: invalidParams('`params` must be an array.') }
  return { id, method, params }
}

const isId = (value: unknown): value is JsonRpcId =>
  typeof value === 'string' ? value.length <= MAX_ID_CHARACTERS : Number.isSafeInteger(value)
