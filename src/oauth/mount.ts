import { Readable } from 'node:stream'
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Provider } from 'oidc-provider'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { PAGE_CSP } from '../http/page.ts'
import { ACCESS_TOKEN_MARK } from './records.ts'

/** Maximum body of an introspection or revocation request, in bytes; a longer one counts as empty. */
const MAX_TOKEN_REQUEST_BYTES = 32_768
/** Maximum body that the library reads, in bytes. */
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

/** Registers the library's routes one by one under `/oauth`, so that unknown paths get our own 404. */
export function mount(server: FastifyInstance, app: App, provider: Provider): void {
  const answer = provider.callback()
  // Read the whole body, whatever its type, before calling the library: a slow upload would hold a place there.
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('*', (_request: FastifyRequest, payload: AsyncIterable<Buffer>) => readWhole(payload))

  for (const [method, path] of routes) {
    server.route({
      method,
      url: `/oauth${path}`,
      schema: { hide: true },
      // Reject revocation and sign-out only for a client that floods the server.
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
        // The library appends the hash of its only inline script, in the form_post response, to `script-src`.
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

/** Maximum form of a POST that becomes the query of a redirect, in bytes. */
const MAX_POSTED_BYTES = 8_192

/**
 * Registers POST /oauth/auth and /oauth/session/end, which redirect to the same request by GET. Another site's POST
 * comes without our cookies (SameSite=Lax); the GET after it includes them.
 * Source: OpenID Connect Core §3.1.2.1, RP-Initiated Logout §2
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
 * Sets the host and protocol headers from our own settings, because the library builds every URL from them. A host or
 * protocol that a client or proxy sends must not end up in a redirect.
 */
export function pinOrigin({ headers }: IncomingMessage, origin: string): void {
  const { host, protocol } = new URL(origin)
  headers.host = host
  headers['x-forwarded-host'] = host
  headers['x-forwarded-proto'] = protocol.slice(0, -1)
}

/**
 * Returns the configured address of a sign-in that begins at 127.0.0.1 or [::1] although the origin is localhost;
 * otherwise null. Cookies belong to a host name, so the browser must move before the first one is set. On loopback
 * only: behind a proxy, Host need not be ours.
 */
function canonicalOf({ headers, url }: IncomingMessage, origin: string): string | null {
  const { host, hostname, protocol } = new URL(origin)
  if (protocol !== 'http:' || hostname !== 'localhost' || headers.host === host) return null
  return /^(127\.0\.0\.1|\[::1\])(:\d+)?$/.test(headers.host ?? '') ? `${origin}${url}` : null
}

/**
 * Reads a body. Of a body that is too large, it returns enough for the library to reject it.
 * @throws invalid_request  if the connection ends early
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

/** Builds a request from the body that was read, because the library reads it again. */
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
 * Marks the access token in a request to introspect (RFC 7662) or revoke (RFC 7009) it. The library rejects any token
 * that it recognises as a JWT, because it does not store JWTs. A marked token reaches our own storage, which verifies
 * it.
 */
function markAccessToken(body: Buffer): Buffer {
  const text = body.length > MAX_TOKEN_REQUEST_BYTES ? '' : body.toString()
  const form = new URLSearchParams(text)
  const token = form.get('token')
  if (form.getAll('token').length !== 1 || !/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token!)) return Buffer.from(text)
  form.set('token', `${ACCESS_TOKEN_MARK}${token}`)
  return Buffer.from(form.toString())
}
