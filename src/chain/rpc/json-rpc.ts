/** A JSON-RPC call. `maxBytes`: longest response that is read, if it is sent alone; default: by its method */
export type Call = { method: string; params: unknown[]; maxBytes?: number }

/**
 * Sends several calls at once. Each result is a value, an RpcError, or an RpcUnavailable if the response lacks that
 * call.
 * @throws RpcUnavailable  for all of them
 */
export type AskNode = (calls: readonly Call[], options: { timeoutMs: number }) => Promise<unknown[]>
