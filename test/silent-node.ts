import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A node that knows its chain id and its genesis block and nothing else. */
export type SilentNode = { url: string; port: number; close(): Promise<void> }

/** @param port  0 takes any free one */
export async function openSilentNode({ chainId, port = 0 }: { chainId: number; port?: number }): Promise<SilentNode> {
  const answers: Record<string, unknown> = {
    eth_chainId: `0x${chainId.toString(16)}`,
    eth_getBlockByNumber: { hash: `0x${'5e'.repeat(32)}` },
  }
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    type Asked = { id: number; method: string }
    const asked = JSON.parse(Buffer.concat(chunks).toString()) as Asked | Asked[]
    const answer = ({ id, method }: Asked) => ({ jsonrpc: '2.0', id, result: answers[method] ?? null })
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(Array.isArray(asked) ? asked.map(answer) : answer(asked)))
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const taken = (server.address() as AddressInfo).port
  return {
    url: `http://127.0.0.1:${taken}/key-of-the-node`,
    port: taken,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
