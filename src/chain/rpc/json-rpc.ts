/** One call of a node. */
export type Call = { method: string; params: unknown[] }

/**
 * Asks several calls at once. Each answer is a result, an RpcError, or an RpcUnavailable where the answer lacks this
 * one call.
 * @throws RpcUnavailable for all of them
 */
export type AskNode = (calls: readonly Call[], options: { timeoutMs: number }) => Promise<unknown[]>
