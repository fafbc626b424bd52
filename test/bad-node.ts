import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TestContext } from 'node:test'
import { sendJson, serveRpc, type Asked, type Said } from './nodes/rpc-server.ts'

/** A node of a test: it has a short chain and does what the test says. */
export type BadNode = {
  url: string
  /** every call in the order it came */
  asked: Asked[]
  /** sizes of the requests in the order they came, in calls */
  requests: number[]
  chainId: number
  genesis: string
  /** newest block */
  head: number
  /** milliseconds before every answer */
  delayMs: number
  /** answers one call; undefined leaves it to the node's chain */
  answer: (call: Asked) => Said | undefined
  /** answers a whole request instead of the node; true when it did */
  interfere: (calls: Asked[], response: ServerResponse, request: IncomingMessage) => boolean
  close(): Promise<void>
}

export const hashOf = (number: number): string => `0x${number.toString(16).padStart(64, '0')}`

/** Starts one on a free port; it is closed when the test ends. */
export async function badNode(t: TestContext, behaviour: Partial<BadNode> = {}): Promise<BadNode> {
  const { url, close } = await serveRpc({
    answer: (call) => node.answer(call) ?? known(call),
    async interfere(calls, response, request) {
      node.asked.push(...calls)
      node.requests.push(calls.length)
      if (node.interfere(calls, response, request)) return true
      if (node.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, node.delayMs))
      return false
    },
  })
  const node: BadNode = {
    url: `${url}/key-${'k'.repeat(40)}`,
    asked: [],
    requests: [],
    chainId: 31_337,
    genesis: hashOf(0xabc),
    head: 100,
    delayMs: 0,
    answer: () => undefined,
    interfere: () => false,
    close,
    ...behaviour,
  }
  t.after(() => node.close())

  function known({ method, params }: Asked): Said {
    const at = (params.find((one) => typeof one === 'object' && one !== null && 'blockHash' in one) ?? {}) as {
      blockHash?: string
    }
    if (at.blockHash !== undefined && Number(at.blockHash) > node.head)
      return { error: { code: -32000, message: 'header not found' } }
    if (method === 'eth_chainId') return { result: `0x${node.chainId.toString(16)}` }
    if (method === 'eth_blockNumber') return { result: `0x${node.head.toString(16)}` }
    if (method === 'eth_getBlockByNumber') {
      const number = params[0] === 'latest' ? node.head : Number(params[0])
      return { result: number > node.head ? null : block(number) }
    }
    if (method === 'eth_getBlockByHash')
      return { result: Number(params[0]) > node.head ? null : block(Number(params[0])) }
    if (method === 'eth_getBalance') return { result: '0x2a' }
    if (method === 'eth_call') return { result: hashOf(42) }
    // It has what a node must have; what is asked of these here is what tests answer themselves.
    if (/^eth_(getCode|getTransaction|estimateGas|gasPrice|sendRawTransaction)/.test(method))
      return { error: { code: -32602, message: 'invalid argument' } }
    return { error: { code: -32601, message: 'Method not found' } }
  }

  const block = (number: number) => ({
    number: `0x${number.toString(16)}`,
    hash: number === 0 ? node.genesis : hashOf(number),
    parentHash: hashOf(Math.max(0, number - 1)),
    timestamp: '0x1',
  })

  return node
}

export const reply = (response: ServerResponse, body: unknown, status = 200): void =>
  sendJson(response, typeof body === 'string' ? body : JSON.stringify(body), status)
