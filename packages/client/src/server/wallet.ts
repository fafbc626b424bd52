import type { Settings } from './settings.ts'
import { SignedOut } from '../errors.ts'
import { isSameOrigin, OWN_HEADER } from './same-origin.ts'
import type { Visit } from './visit.ts'

/** Reads of the signed-in user's account: what pages may call if `walletPaths` is absent. */
export const walletReads: readonly string[] = [
  'GET /v1/me',
  'GET /v1/users/*',
  'GET /v1/users/*/balance',
  'GET /v1/users/*/balance/*',
  'GET /v1/users/*/balances',
  'GET /v1/users/*/history',
  'GET /v1/transactions',
  'GET /v1/transactions/*',
]

const MAX_BODY_BYTES = 1_000_000
/** longer than the service waits for a block */
const TIMEOUT_MS = 65_000
const REQUEST_HEADERS = ['accept', 'accept-language', 'content-type', 'idempotency-key', 'prefer']
const RESPONSE_HEADERS = /^(content-type|content-language|retry-after|x-.*)$/

/**
 * Forwards a request of a page of the application to the API, with the user's access token.
 * @param path  of the API, such as `/v1/me`
 */
export async function forward(settings: Settings, visit: Visit, request: Request, path: string): Promise<Response> {
  if (!isSameOrigin(request, settings.publicOrigin) || request.headers.get(OWN_HEADER) === null)
    return problem(403, 'request_refused', `Only scripts of ${settings.publicOrigin} that send the header ${OWN_HEADER} may call the API here. Nothing was done.`) // prettier-ignore
  const isListed = settings.walletPaths.some((pattern) => pattern.test(`${request.method} ${path}`))
  if (!isListed || /%2f|%5c|\\/i.test(path))
    return problem(403, 'path_not_listed', 'The application does not list this method and path in `walletPaths`. Nothing was done.') // prettier-ignore
  const body = request.body === null ? null : await bodyOf(request)
  if (body === undefined) return problem(413, 'request_too_large', 'The body is too large. Nothing was done.')
  const headers = new Headers()
  for (const name of REQUEST_HEADERS) if (request.headers.has(name)) headers.set(name, request.headers.get(name)!)
  const send = async (token: string): Promise<Response> => {
    headers.set('authorization', `Bearer ${token}`)
    return settings.fetch(`${settings.base}${path}${new URL(request.url).search}`, {
      method: request.method,
      headers,
      body,
      redirect: 'error',
      signal: AbortSignal.any([request.signal, AbortSignal.timeout(TIMEOUT_MS)]),
    })
  }
  let answer: Response
  try {
    answer = await withToken(visit, send)
  } catch (error) {
    if (error instanceof SignedOut) return problem(401, 'signed_out', error.message)
    // No problem document: the write may have been made.
    return new Response('The service did not answer.', { status: 502, headers: { 'cache-control': 'no-store' } })
  }
  const answered = new Headers({ 'cache-control': 'no-store' })
  for (const [name, value] of answer.headers) if (RESPONSE_HEADERS.test(name)) answered.set(name, value)
  return new Response(answer.body, { status: answer.status, headers: answered })
}

/** Sends with the access token, and once more with a renewed one if the service rejects it. @throws SignedOut */
export async function withToken(visit: Visit, send: (token: string) => Promise<Response>): Promise<Response> {
  const token = await visit.token()
  const response = await send(token)
  if (response.status !== 401) return response
  await response.body?.cancel()
  return send(await visit.token(token))
}

/** @returns undefined if the body is too large */
async function bodyOf(request: Request): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const chunks: Uint8Array[] = []
  let length = 0
  const reader = request.body!.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    length += value.length
    if (length > MAX_BODY_BYTES) {
      await reader.cancel()
      return undefined
    }
    chunks.push(value)
  }
  const whole = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.length
  }
  return whole
}

/** Makes a problem document, as those of the service. */
function problem(status: number, code: string, detail: string): Response {
  const userMessage =
    status === 401 ? 'You are not signed in. Sign in, then try again.' : 'This did not work. Contact the application.'
  const body = { type: 'about:blank', title: code.replaceAll('_', ' '), status, detail, code, retryable: false, userMessage } // prettier-ignore
  return Response.json(body, {
    status,
    headers: { 'content-type': 'application/problem+json', 'cache-control': 'no-store' },
  })
}
