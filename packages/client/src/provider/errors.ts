import { ClientError, SignedOut, Unknown } from '../errors.ts'

/**
 * An error of a wallet: EIP-1193, EIP-1474, EIP-5792. `data`: the API's problem document, if there is one. For a
 * revert, `data.data` is the revert data, where viem and ethers search for it.
 */
export class ProviderError extends Error {
  readonly code: number
  readonly data: unknown
  constructor(code: number, message: string, data?: unknown) {
    super(message)
    this.name = 'ProviderError'
    this.code = code
    this.data = data
  }
}

export const denied = (message: string): ProviderError => new ProviderError(4001, message)
export const unauthorized = (message: string): ProviderError => new ProviderError(4100, message)
export const unsupported = (method: string): ProviderError =>
  new ProviderError(4200, `This wallet does not support ${method}.`)
export const invalidParams = (message: string): ProviderError => new ProviderError(-32602, message)

/** Codes by the service's error code. For all other errors, the HTTP status determines the code. */
const CODES: Record<string, number> = {
  approval_denied: 4001,
  approval_required: 4001,
  policy_denied: -32_003,
  account_frozen: -32_003,
  gas_not_sponsored: -32_003,
  execution_reverted: 3,
  atomic_unsupported: 5760,
}

/**
 * Converts an error of the client.
 * @param isWrite  whether the request signs. Libraries repeat a request after -32603, which would send a write a
 *   second time, so a write gets -32000 instead
 */
export function toProviderError(error: unknown, { isWrite }: { isWrite: boolean }): ProviderError {
  if (error instanceof ProviderError) return error
  const { message } = error as Error
  if (!(error instanceof ClientError)) return new ProviderError(isWrite ? -32_000 : -32_603, message)
  const { problem } = error
  const code = codeOf(error, isWrite)
  if (problem === null) return new ProviderError(code, message)
  const revert = code === 3 ? { message: 'execution reverted', data: problem.revert?.data } : {}
  // Libraries recognize some failures by words, such as "insufficient funds". Titles include these words.
  return new ProviderError(code, `${problem.title}. ${message}`, { ...problem, ...revert })
}

function codeOf(error: ClientError, isWrite: boolean): number {
  const { code, status } = error
  if (error instanceof SignedOut) return 4100
  if (error instanceof Unknown) return -32_000
  const known = CODES[code]
  if (known !== undefined) return known
  if (status === 401 || status === 403) return 4100
  if (status === 429) return -32_005
  if (status >= 500 || status === 0) return isWrite ? -32_000 : -32_603
  return status === 422 && isWrite ? -32_003 : -32_602
}
