import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

/**
 * JSON-RPC over HTTP for the nodes of tests and measurements that are no real ones: each says what it answers, and what it
 * does to a whole request. faulty-node.ts and proxy.ts pass requests on to a real node.
 */
export type Asked = { jsonrpc: string; id: number; method: string; params: unknown[] }
export type Said = { result: unknown } | { error: { code: number; message: string; data?: unknown } }
export type RpcServer = { url: string; port: number; close(): Promise<void> }

/**
 * @param answer     what one call is answered with; a text is JSON of the result already
 * @param interfere  answers a whole request instead; true when it did, or when nobody is to answer
 * @param around     the answers of a whole request, made and sent as it likes
 * @param port       0 takes any free one
 */
export async function serveRpc({
  answer,
  interfere = () => false,
  around = (answerAll) => answerAll(),
  port = 0,
}: {
  answer: (call: Asked) => Said | string
  interfere?: (calls: Asked[], response: ServerResponse, request: IncomingMessage) => boolean | Promise<boolean>
  around?: (answerAll: () => string[]) => string[]
  port?: number
}): Promise<RpcServer> {
  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = JSON.parse(await text(request)) as Asked | Asked[]
    const calls = [body].flat()
    if (await interfere(calls, response, request)) return
    const answers = around(() => calls.map((call) => answerText(call.id, answer(call))))
    sendJson(response, Array.isArray(body) ? `[${answers.join()}]` : answers[0]!)
  }
  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const taken = (server.address() as AddressInfo).port
  return {
    url: `http://127.0.0.1:${taken}`,
    port: taken,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const answerText = (id: number, said: Said | string): string =>
  typeof said === 'string'
    ? `{"jsonrpc":"2.0","id":${id},"result":${said}}`
    : JSON.stringify({ jsonrpc: '2.0', id, ...said })

export function sendJson(response: ServerResponse, body: string, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(body)
}
