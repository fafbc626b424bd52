import http from 'node:http'
import https from 'node:https'
import { RpcTooLarge, RpcUnavailable } from './failures.ts'

/** Posts JSON to one address over kept connections. @throws RpcUnavailable, RpcTooLarge */
export type Post = {
  (body: string, limits: { timeoutMs: number; maxBytes: number }): Promise<unknown>
  close(): void
}

/** @param url  of the node; user and password in it become basic authentication */
export function openPost(url: string): Post {
  const target = new URL(url)
  const client = target.protocol === 'https:' ? https : http
  const agent = new client.Agent({ keepAlive: true, maxSockets: 32 })
  const options: https.RequestOptions = {
    agent,
    host: target.hostname.replace(/^\[|\]$/g, ''),
    port: target.port,
    path: target.pathname + target.search,
    method: 'POST',
    ...(target.username === ''
      ? {}
      : { auth: `${decodeURIComponent(target.username)}:${decodeURIComponent(target.password)}` }),
  }

  function once(body: string, limits: { timeoutMs: number; maxBytes: number }): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const request = client.request({ ...options, headers }, (response) => {
      const chunks: Buffer[] = []
      let size = 0
      response.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size > limits.maxBytes) stop(new RpcTooLarge())
        else chunks.push(chunk)
      })
      response.on('error', fail)
      response.on('end', () => {
        clearTimeout(timer)
        try {
          resolve(JSON.parse(chunks.length === 1 ? chunks[0]!.toString() : Buffer.concat(chunks).toString()))
        } catch (cause) {
          const message = `the node answered with status ${response.statusCode} and no JSON`
          reject(new RpcUnavailable(message, { cause, timedOut: false }))
        }
      })
    })
    const stop = (reason: RpcUnavailable) => {
      clearTimeout(timer)
      reject(reason)
      request.destroy()
    }
    const timer = setTimeout(
      () => stop(new RpcUnavailable('the node took too long', { timedOut: true })),
      limits.timeoutMs,
    )
    const fail = (cause: Error) => {
      clearTimeout(timer)
      reject(
        isStale(request, cause)
          ? new StaleConnection()
          : new RpcUnavailable('the node could not be reached', { cause, timedOut: false }),
      )
    }
    request.on('error', fail)
    request.end(body)
    return promise
  }

  const post = async (body: string, limits: { timeoutMs: number; maxBytes: number }): Promise<unknown> => {
    for (let attempt = 0; ; attempt++) {
      try {
        return await once(body, limits)
      } catch (error) {
        if (!(error instanceof StaleConnection)) throw error
        // As many as the agent may have kept: all of them can be stale after the node's restart.
        if (attempt === agent.maxSockets)
          throw new RpcUnavailable('the node closes its connections', { timedOut: false })
      }
    }
  }
  return Object.assign(post, { close: () => agent.destroy() })
}

/** A kept connection that the node had closed in the meantime: nothing was answered, the same is asked on another. */
class StaleConnection extends Error {}

const isStale = (request: http.ClientRequest, cause: Error): boolean =>
  request.reusedSocket && ['ECONNRESET', 'EPIPE'].includes((cause as NodeJS.ErrnoException).code ?? '')
