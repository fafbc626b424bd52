import { spawn } from 'node:child_process'
import http from 'node:http'
import { text } from 'node:stream/consumers'
import { findAnvil } from '../../src/devnet/anvil-binary.ts'

export type Answer = {
  jsonrpc: '2.0'
  id: unknown
  result?: unknown
  error?: { code: number; message: string; data?: unknown }
}
export type Asked = { jsonrpc: '2.0'; id: unknown; method: string; params: unknown[] }

/** A real chain that mines only when told to. */
export type Anvil = {
  /** where it is asked without any fault in between */
  url: string
  /** asks without any fault in between. @throws Error with what the node said */
  rpc<T = unknown>(method: string, ...params: unknown[]): Promise<T>
  /** the answers as they come, errors too */
  ask(calls: Asked[]): Promise<Answer[]>
  stop(): Promise<void>
}

/** @param options  of anvil, beside those that every test needs */
export async function startAnvil(options: readonly string[] = []): Promise<Anvil> {
  // What anvil keeps on disk loses its contracts when a reorganisation brings it back: so many states stay in memory.
  const args = ['--port', '0', '--no-mining', '--chain-id', '31337', '--prune-history', '1000', ...options]
  const child = spawn(findAnvil(), args, { stdio: ['ignore', 'pipe', 'ignore'] })
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  const port = await new Promise<number>((resolve, reject) => {
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (more: string) => {
      said += more
      const found = /Listening on 127\.0\.0\.1:(\d+)/.exec(said)
      if (found === null) return
      resolve(Number(found[1]))
      // It prints every call, which nobody reads.
      child.stdout.removeAllListeners('data').resume()
    })
    child.once('exit', () => reject(new Error('anvil ended before it listened')))
  })
  const agent = new http.Agent({ keepAlive: true, maxSockets: 16 })

  async function post(body: string, retries = 3): Promise<unknown> {
    try {
      return JSON.parse(await once(body))
    } catch (error) {
      // A kept connection that the node had closed: the direct way to the node has no faults of its own.
      if (retries === 0 || child.exitCode !== null || child.signalCode !== null) throw error
      return post(body, retries - 1)
    }
  }

  function once(body: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
      const request = http.request({ agent, host: '127.0.0.1', port, method: 'POST', headers }, (response) => {
        text(response).then(resolve, reject)
      })
      request.on('error', reject)
      request.end(body)
    })
  }

  const ask = async (calls: Asked[]): Promise<Answer[]> => {
    if (calls.length === 0) return []
    return (await post(JSON.stringify(calls))) as Answer[]
  }
  return {
    url: `http://127.0.0.1:${port}`,
    ask,
    rpc: async <T>(method: string, ...params: unknown[]): Promise<T> => {
      const [answer] = await ask([{ jsonrpc: '2.0', id: 1, method, params }])
      if (answer!.error !== undefined) throw new Error(`${method}: ${answer!.error.message}`)
      return answer!.result as T
    },
    stop: async () => {
      agent.destroy()
      process.off('exit', end)
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await ended
    },
  }
}
