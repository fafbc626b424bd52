import { Pool } from 'undici'
import { openPost, type Post } from '../src/chain/rpc/http.ts'
import { RpcTooLarge, RpcUnavailable } from '../src/chain/rpc/failures.ts'
import type { Hex } from '../src/ids.ts'

export type ClientCost = { client: string; load: string; rate: number; micros: number }

const CONNECTIONS = 32
const LIMITS = { timeoutMs: 10_000, maxBytes: 24 * 1_048_576 }
const ROUNDS = 3

/** The same questions by our client and by undici's, in turn: requests in a second, and CPU of the asking process for each. */
export async function httpClients(url: string, erc20: Hex): Promise<ClientCost[]> {
  const clients: [string, Post][] = [
    ['ours', openPost(url)],
    ['undici Pool, dispatch', dispatching(url)],
    ['undici Pool, request', requesting(url)],
  ]
  const one = (id: number) =>
    `{"jsonrpc":"2.0","id":${id},"method":"eth_call","params":[{"to":"${erc20}","data":"0x70a08231${id.toString(16).padStart(64, '0')}"},"latest"]}`
  const loads: { load: string; lanes: number; requests: number; body: (id: number) => string }[] = [
    { load: 'one call, one after another', lanes: 1, requests: 150, body: one },
    { load: 'one call, 32 at once', lanes: 32, requests: 600, body: one },
    {
      load: 'batch of 50, 4 at once',
      lanes: 4,
      requests: 40,
      body: (id) => `[${Array.from({ length: 50 }, (_, at) => one(id * 50 + at)).join()}]`,
    },
  ]
  const costs: ClientCost[] = []
  for (const { load, lanes, requests, body } of loads) {
    const rounds = new Map<string, ClientCost[]>(clients.map(([client]) => [client, []]))
    // In turn, so that whatever else the machine does hits all of them alike; the first round is for the compiler.
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [client, post] of clients) {
        let count = 0
        const own = process.cpuUsage()
        const from = performance.now()
        const lane = async () => {
          while (count < requests) await post(body(count++), LIMITS)
        }
        await Promise.all(Array.from({ length: lanes }, lane))
        const { user, system } = process.cpuUsage(own)
        const rate = (count * 1_000) / (performance.now() - from)
        if (round > 0) rounds.get(client)!.push({ client, load, rate, micros: (user + system) / count })
      }
    }
    for (const [client] of clients) costs.push(median(rounds.get(client)!))
  }
  for (const [, post] of clients) post.close()
  return costs
}

const median = (rounds: ClientCost[]): ClientCost => {
  const middle = (of: 'rate' | 'micros') => rounds.map((one) => one[of]).toSorted((a, b) => a - b)[rounds.length >> 1]!
  return { ...rounds[0]!, rate: middle('rate'), micros: middle('micros') }
}

const HEADERS = { 'content-type': 'application/json', accept: 'application/json' }

/** Its lowest interface, bounded as ours: bytes of an answer, time of the whole, no redirects. */
function dispatching(url: string): Post {
  const { pool, path } = poolOf(url)
  const post = (body: string, { timeoutMs, maxBytes }: typeof LIMITS): Promise<unknown> => {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    const chunks: Buffer[] = []
    let size = 0
    let abort: (reason: Error) => void = reject
    const timer = setTimeout(() => abort(new RpcUnavailable('the node took too long', { timedOut: true })), timeoutMs)
    pool.dispatch(
      { path, method: 'POST', headers: HEADERS, body },
      {
        onRequestStart: (controller) => void (abort = (reason) => controller.abort(reason)),
        onResponseStart: () => {},
        onResponseData(controller, chunk) {
          size += chunk.length
          if (size > maxBytes) controller.abort(new RpcTooLarge())
          else chunks.push(chunk)
        },
        onResponseEnd() {
          clearTimeout(timer)
          resolve(JSON.parse((chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)).toString()))
        },
        onResponseError(_, error) {
          clearTimeout(timer)
          reject(error)
        },
      },
    )
    return promise
  }
  return Object.assign(post, { close: () => void pool.destroy() })
}

/** As most programs use it. */
function requesting(url: string): Post {
  const { pool, path } = poolOf(url)
  const post = async (body: string, { timeoutMs, maxBytes }: typeof LIMITS): Promise<unknown> => {
    const controller = new AbortController()
    const timer = setTimeout(
      () => controller.abort(new RpcUnavailable('the node took too long', { timedOut: true })),
      timeoutMs,
    )
    try {
      const answer = await pool.request({ path, method: 'POST', headers: HEADERS, body, signal: controller.signal })
      const chunks: Buffer[] = []
      let size = 0
      for await (const chunk of answer.body as AsyncIterable<Buffer>) {
        size += chunk.length
        if (size > maxBytes) throw new RpcTooLarge()
        chunks.push(chunk)
      }
      return JSON.parse((chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)).toString())
    } finally {
      clearTimeout(timer)
    }
  }
  return Object.assign(post, { close: () => void pool.destroy() })
}

function poolOf(url: string): { pool: Pool; path: string } {
  const { origin, pathname } = new URL(url)
  // The whole is timed by us: its own times are of heads and of pauses within bodies.
  const pool = new Pool(origin, { connections: CONNECTIONS, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 })
  return { pool, path: pathname }
}
