/** A JSON-RPC call. `maxBytes`: maximum response bytes, for a call that is sent alone; default: by its method */
export type Call = { method: string; params: unknown[]; maxBytes?: number }

/**
 * Sends several calls at once. Each result is a value, an RpcError, or an RpcUnavailable if the response lacks that
 * call.
 * @throws RpcUnavailable  if no call has a result
 */
export type AskNode = (calls: readonly Call[], options: { timeoutMs: number }) => Promise<unknown[]>
