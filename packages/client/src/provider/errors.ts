/** The parts of an error of the API that decide what a wallet answers. */
type ApiError = { status: number; code: string; message: string; problem?: Problem | null }

/** Fields of a problem document (RFC 9457) that are read here. */
export type Problem = {
  code: string
  status: number
  title: string
  detail: string
  retryable: boolean
  revert?: { data: string }
  approval?: { id: string; url: string; expiresAt: string }
}

/**
 * An error of a wallet: EIP-1193, EIP-1474, EIP-5792. `data`: the problem document of the API, if there is one; for a
 * revert with the revert data as `data.data`, where viem and ethers look for it.
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

/** Codes by the error of the API. Any other one is judged by its status. */
const CODES: Record<string, number> = {
  signed_out: 4100,
  approval_denied: 4001,
  approval_required: 4001,
  policy_denied: -32_003,
  account_frozen: -32_003,
  gas_not_sponsored: -32_003,
  execution_reverted: 3,
  atomic_unsupported: 5760,
}

/**
 * Converts an error of the API or of the network.
 * @param isWrite  whether the request signs: libraries repeat a request after -32603, which for a write would be a
 *     second one, so a write gets -32000 instead
 */
export function toProviderError(error: unknown, { isWrite }: { isWrite: boolean }): ProviderError {
  if (error instanceof ProviderError) return error
  if (!isApiError(error)) {
    const message = isWrite
      ? 'The wallet service did not answer. The request may have been carried out.'
      : 'The wallet service did not answer.'
    return new ProviderError(isWrite ? -32_000 : -32_603, message)
  }
  const { status, problem } = error
  const code = CODES[error.code] ?? codeOf(status, isWrite)
  // Libraries recognise some failures by words, such as "insufficient funds", and titles have these words.
  const message = !problem ? error.message : `${problem.title}. ${problem.detail}`
  const revert = code === 3 ? { message: 'execution reverted', data: problem?.revert?.data } : {}
  return new ProviderError(code, message, problem ? { ...problem, ...revert } : undefined)
}

function codeOf(status: number, isWrite: boolean): number {
  // Without a status there was no answer.
  if (status === 0) return isWrite ? -32_000 : -32_603
  if (status === 401 || status === 403) return 4100
  if (status === 429) return -32_005
  if (status >= 500) return isWrite ? -32_000 : -32_603
  return status === 422 && isWrite ? -32_003 : -32_602
}

const isApiError = (error: unknown): error is ApiError =>
  error instanceof Error && typeof (error as Partial<ApiError>).status === 'number' && typeof (error as Partial<ApiError>).code === 'string' // prettier-ignore
