type DevnetResponse = { result?: unknown; error?: { message: string } }

/**
 * Calls a JSON-RPC method of the development chain.
 * @throws Error with the node's message, or after 60 s without a response
 */
export async function rpc<Result = unknown>(url: string, method: string, ...params: unknown[]): Promise<Result> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    signal: AbortSignal.timeout(60_000),
  })
  const { result, error } = (await response.json()) as DevnetResponse
  if (error !== undefined) throw new Error(`${method}: ${error.message}`)
  return result as Result
}
