import { Readable } from 'node:stream'
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Provider } from 'oidc-provider'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { PAGE_CSP } from '../http/page.ts'
import { ACCESS_TOKEN_MARK } from './records.ts'

/** bytes of a request to introspect or revoke a token */
const MAX_TOKEN_REQUEST_BYTES = 32_768
/** bytes of any other: what the library reads at most */
const MAX_BODY_BYTES = 56 * 1_024

const routes = [
  ['GET', '/auth'],
  ['GET', '/auth/:uid'],
  ['POST', '/token'],
  ['OPTIONS', '/token'],
  ['GET', '/jwks'],
  ['HEAD', '/jwks'],
  ['OPTIONS', '/jwks'],
  ['GET', '/.well-known/openid-configuration'],
  ['HEAD', '/.well-known/openid-configuration'],
  ['OPTIONS', '/.well-known/openid-configuration'],
  ['GET', '/.well-known/oauth-authorization-server'],
  ['HEAD', '/.well-known/oauth-authorization-server'],
  ['POST', '/token/introspection'],
  ['OPTIONS', '/token/introspection'],
  ['POST', '/token/revocation'],
  ['OPTIONS', '/token/revocation'],
  ['GET', '/session/end'],
  ['POST', '/session/end/confirm'],
  ['GET', '/session/end/success'],
] as const

/** The routes of the library under `/oauth`, one by one: unknown paths stay with our own 404. */
export function mount(server: FastifyInstance, app: App, provider: Provider): void {
  const answer = provider.callback()
  // Whole before the library has it, of whatever type: it would hold a place for as long as a body is on its way.
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('*', (_request: FastifyRequest, payload: AsyncIterable<Buffer>) => readWhole(payload))

  for (const [method, path] of routes) {
    server.route({
      method,
      url: `/oauth${path}`,
      schema: { hide: true },
      // Taking access away is refused only to anyone who floods us with it.
      config: /^\/(token\/revocation|session\/end)/.test(path) ? { admission: 'vital' } : {},
      exposeHeadRoute: false,
      handler: (request, reply) => pass(request, reply),
    })
  }
  // RFC 8414 §3.1 puts the path of the issuer behind the well-known part.
  server.get('/.well-known/oauth-authorization-server/oauth', { schema: { hide: true } }, (request, reply) => {
    request.raw.url = '/oauth/.well-known/oauth-authorization-server'
    return pass(request, reply)
  })

  async function pass(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { raw } = request
    const path = raw.url!.slice('/oauth'.length)
    if (path.startsWith('/auth') && /%00/.test(path)) raw.url = '/oauth/auth?error=nul'
    const elsewhere = canonicalOf(raw, app.authOrigin)
    if (elsewhere !== null && path.startsWith('/auth?')) {
      await reply.redirect(elsewhere, 307)
      return
    }
    const response = reply.raw
    await request.answerPast(reply, async () => {
      try {
        for (const [name, value] of Object.entries(reply.getHeaders()))
          if (value !== undefined) response.setHeader(name, value)
        response.setHeader('x-content-type-options', 'nosniff')
        response.setHeader('referrer-policy', 'no-referrer')
        // The library adds the hash of its one inline script, that of the form_post response, to `script-src`.
        if (raw.method === 'GET') response.setHeader('content-security-policy', `${PAGE_CSP}; script-src 'none'`)
        pinOrigin(raw, app.authOrigin)
        const incoming = request.body instanceof Buffer ? replayed(raw, path, request.body) : raw
        Object.assign(incoming, { originalUrl: raw.url, url: path })
        await answer(incoming, response)
      } catch (error) {
        app.telemetry.log.error('oauth_failed', { requestId: request.id }, error)
        if (!response.headersSent) response.writeHead(500, { 'content-type': 'application/json' })
        response.end('{"error":"server_error"}')
      }
    })
  }
}

/** bytes of a request that becomes an address */
const MAX_POSTED_BYTES = 8_192

/**
 * Requests of a browser that come by POST (OpenID Connect Core §3.1.2.1, RP-Initiated Logout §2) continue by GET: another
 * site's POST comes without our cookies (SameSite=Lax), the GET that follows it brings them.
 */
export function mountPosted(server: FastifyInstance): void {
  server.removeAllContentTypeParsers()
  server.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: MAX_POSTED_BYTES },
    (_request, text, done) => done(null, new URLSearchParams(text as string)),
  )
  for (const path of ['/oauth/auth', '/oauth/session/end'])
    server.post(
      path,
      { schema: { hide: true }, config: path.endsWith('/end') ? { admission: 'vital' } : {} },
      ({ body }, reply) =>
        reply
          .header('cache-control', 'no-store')
          .header('referrer-policy', 'no-referrer')
          .redirect(`${path}?${body instanceof URLSearchParams ? body.toString() : ''}`, 303),
    )
}

/**
 * Makes the library build every address from our own settings: what a client or a proxy says about host and
 * protocol must not end up in a redirect.
 */
export function pinOrigin({ headers }: IncomingMessage, origin: string): void {
  const { host, protocol } = new URL(origin)
  headers.host = host
  headers['x-forwarded-host'] = host
  headers['x-forwarded-proto'] = protocol.slice(0, -1)
}

/**
 * Sign-ins that begin at another name of this machine (127.0.0.1 for localhost) move to the configured one before
 * the first cookie is set: cookies belong to a name. On loopback only; behind a proxy Host need not be ours.
 */
function canonicalOf({ headers, url }: IncomingMessage, origin: string): string | null {
  const { host, hostname, protocol } = new URL(origin)
  if (protocol !== 'http:' || hostname !== 'localhost' || headers.host === host) return null
  return /^(127\.0\.0\.1|\[::1\])(:\d+)?$/.test(headers.host ?? '') ? `${origin}${url}` : null
}

/**
 * A body; of one that the library takes for too large so much that it still does.
 * @throws invalid_request
 */
async function readWhole(payload: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of payload) {
      if (size <= MAX_BODY_BYTES) chunks.push(chunk)
      size += chunk.length
    }
  } catch {
    throw new AppError('invalid_request', 'The body ended early. Nothing was done. Send the request again.')
  }
  return Buffer.concat(chunks)
}

/** A POST whose body was read, for the library, which reads it again. */
function replayed(request: IncomingMessage, path: string, body: Buffer): IncomingMessage {
  const bytes = path.startsWith('/token/') ? markAccessToken(body) : body
  const { method, socket, httpVersion, httpVersionMajor, httpVersionMinor } = request
  const headers = { ...request.headers, 'content-length': String(bytes.length) }
  delete headers['transfer-encoding']
  const again = Readable.from([bytes], { objectMode: false })
  return Object.assign(again, {
    method,
    headers,
    socket,
    httpVersion,
    httpVersionMajor,
    httpVersionMinor,
  }) as unknown as IncomingMessage
}

/**
 * A request to introspect (RFC 7662) or revoke (RFC 7009) an access token. The library refuses what it recognises
 * as a JWT, because it does not store those; behind a mark the token reaches our own storage, which reads and
 * verifies it.
 */
function markAccessToken(body: Buffer): Buffer {
  const text = body.length > MAX_TOKEN_REQUEST_BYTES ? '' : body.toString()
  const form = new URLSearchParams(text)
  const token = form.get('token')
  if (form.getAll('token').length !== 1 || !/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token!)) return Buffer.from(text)
  form.set('token', `${ACCESS_TOKEN_MARK}${token}`)
  return Buffer.from(form.toString())
}
