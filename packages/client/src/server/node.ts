import type { Auth } from './auth.ts'

/** A request of Node.js, as in Express. */
export type NodeRequest = AsyncIterable<Uint8Array> & {
  method?: string | undefined
  url?: string | undefined
  /** of Express: `url` before a router cut it */
  originalUrl?: string
  headers: Record<string, string | string[] | undefined>
  readableEnded?: boolean
}

/** A response of Node.js. */
export type NodeResponse = {
  statusCode: number
  appendHeader(name: string, value: string): unknown
  write(chunk: Uint8Array): boolean
  once(event: 'drain' | 'close', listener: () => void): unknown
  end(): unknown
  destroyed?: boolean
}

/** A handler of Express and Connect, or of `node:http` if `next` answers the other requests. */
export type NodeHandler = (
  request: NodeRequest,
  response: NodeResponse,
  next: (error?: unknown) => void,
) => Promise<void>

/**
 * Makes a handler for Node.js. It answers the paths of `auth.handle`. Ahead of any other request it renews the session if that is
 * due, so that `auth.session(request)` and `auth.client(request)` have a valid token. Mount it before parsers of bodies.
 */
export function nodeHandler(auth: Auth): NodeHandler {
  const { origin, pathname } = new URL(auth.redirectUri)
  const path = pathname.slice(0, pathname.lastIndexOf('/'))
  const own = ['/sign-in', '/callback', '/sign-out', '/session', '/renew'].map((route) => `${path}${route}`)

  return async (request, response, next) => {
    try {
      // A path such as `//host` must not become another host.
      const url = new URL(`${origin}${request.originalUrl ?? request.url ?? '/'}`)
      if (own.includes(url.pathname) || url.pathname.startsWith(`${path}/wallet/`)) {
        const closing = new AbortController()
        response.once('close', () => closing.abort())
        await answer(await auth.handle(webRequest(request, url, closing.signal)), response)
        return
      }
      const { headers, setCookies } = await auth.renew(request)
      for (const line of setCookies) response.appendHeader('set-cookie', line)
      request.headers.cookie = headers.get('cookie') ?? undefined
    } catch (error) {
      next(error)
      return
    }
    next()
  }
}

function webRequest(request: NodeRequest, url: URL, signal: AbortSignal): Request {
  const { method = 'GET' } = request
  const headers = new Headers()
  for (const [name, value] of Object.entries(request.headers))
    for (const one of [value ?? []].flat()) if (!name.startsWith(':')) headers.append(name, one)
  if (method === 'GET' || method === 'HEAD') return new Request(url, { method, headers, signal })
  if (request.readableEnded === true) throw new Error('Mount the handler of the sign-in before parsers of bodies.')
  // `duplex` is needed for a body that is a stream; TypeScript does not know it.
  const init = { method, headers, signal, body: streamOf(request), duplex: 'half' }
  return new Request(url, init as RequestInit)
}

function streamOf(request: NodeRequest): ReadableStream<Uint8Array> {
  const chunks = request[Symbol.asyncIterator]()
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await chunks.next()
      if (done === true) controller.close()
      else controller.enqueue(value)
    },
  })
}

async function answer(from: Response, to: NodeResponse): Promise<void> {
  to.statusCode = from.status
  for (const [name, value] of from.headers) to.appendHeader(name, value)
  const reader = from.body?.getReader()
  for (;;) {
    const { done = true, value } = (await reader?.read()) ?? {}
    if (done || to.destroyed === true) break
    if (!to.write(value!))
      await new Promise<void>((resolve) => {
        to.once('drain', resolve)
        to.once('close', resolve)
      })
  }
  to.end()
}
