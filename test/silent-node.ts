import { serveRpc, type RpcServer } from './nodes/rpc-server.ts'

/** A node that knows its chain id and its genesis block and nothing else. @param port  0 takes any free one */
export async function openSilentNode({ chainId, port = 0 }: { chainId: number; port?: number }): Promise<RpcServer> {
  const answers: Record<string, unknown> = {
    eth_chainId: `0x${chainId.toString(16)}`,
    eth_getBlockByNumber: { hash: `0x${'5e'.repeat(32)}` },
  }
  const node = await serveRpc({ port, answer: ({ method }) => ({ result: answers[method] ?? null }) })
  return { ...node, url: `${node.url}/key-of-the-node` }
}
