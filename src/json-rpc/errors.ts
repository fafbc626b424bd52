import { decodeRevert } from '../abi/reverts.ts'
import { isMissingMethod, revertDataOf } from '../chain/rpc/errors.ts'
import { RpcError, RpcTooLarge } from '../chain/rpc/failures.ts'
import { describeError } from '../errors.ts'
import { problemOf, toAppError, type ProblemContext } from '../http/problems.ts'

/** Error of one call, as its caller receives it. Sources: JSON-RPC 2.0 §5.1, EIP-1474 */
export type JsonRpcError = { code: number; message: string; data?: unknown }

/** An expected error of a call, in the form of JSON-RPC. */
export class CallRefused extends Error {
  readonly error: JsonRpcError
  constructor(error: JsonRpcError) {
    super(error.message)
    this.name = 'CallRefused'
    this.error = error
  }
}

export const invalidRequest = (message: string): CallRefused => new CallRefused({ code: -32600, message })
export const invalidParams = (message: string): CallRefused => new CallRefused({ code: -32602, message })
export const unknownMethod = (): CallRefused =>
  new CallRefused({ code: -32601, message: 'This method does not exist here. Nothing was asked of a node.' })

/** Returns the error of a call that the node executed and that failed. */
export const failedInput = (message: string): CallRefused => new CallRefused({ code: -32000, message })

/** Creates the error of a call that reverted: code 3 and the revert data, which clients decode. */
export function reverted(error: RpcError): CallRefused {
  const data = revertDataOf(error) ?? null
  if ((data === null || data === '0x') && /out ?of ?gas/i.test(error.message)) return failedInput('out of gas')
  const { name, args } = decodeRevert(data, [])
  const reason = name === 'Error' && typeof args?.[0] === 'string' ? `: ${args[0]}` : ''
  return new CallRefused({ code: 3, message: `execution reverted${reason}`, ...(data === null ? {} : { data }) })
}

/**
 * Converts an error of a call to JSON-RPC. Does not repeat a node's message, which may contain the node's URL.
 * @throws the error itself  if it is a bug of ours
 */
export function errorOf(thrown: unknown, context: ProblemContext): JsonRpcError {
  if (thrown instanceof CallRefused) return thrown.error
  if (thrown instanceof RpcError && isMissingMethod(thrown))
    return { code: -32601, message: 'No node of the network has this method.' }
  if (thrown instanceof RpcTooLarge) return tooLong.error
  const error = toAppError(thrown)
  if (error.code === 'internal_error') throw thrown
  // Clients retry a call only after -32603, not after the other codes.
  const code = describeError(error.code).retryable ? -32603 : error.code === 'invalid_request' ? -32602 : -32000
  return { code, message: error.message, data: problemOf(error, context) }
}

export const tooLong = new CallRefused({
  code: -32602,
  message: 'The result is longer than this service returns. Ask for less.',
})
