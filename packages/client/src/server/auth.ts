import { createClient } from '../client.ts'
import type { Client } from '../calls.ts'
import { ClientError, InvalidInput, SignedOut } from '../errors.ts'
import type { ClientOptions } from '../request.ts'
import { SignInCancelled } from '../sign-in-errors.ts'
import { type CookieJar, type Incoming, cookiesOf, headerOf, lineOf } from './cookies.ts'
import { isOpened, isSameOrigin, OWN_HEADER, pageOf } from './same-origin.ts'
import { type AuthOptions, settingsOf } from './settings.ts'
import { type Attempt, openTokens, type SessionUser } from './tokens.ts'
import { openVisit, type Visit } from './visit.ts'
import { forward, withToken } from './wallet.ts'

/** The session of the user who made a request. */
export type ServerSession = {
  readonly user: SessionUser
  readonly permissions: readonly string[]
  /**
   * Whether the session must first be renewed where cookies can be set: send the browser to `renewUrl`. Only in a server
   * component, without a store, after the end of the access token.
   */
  readonly mustRenew: boolean
  /**
   * Returns the access token, renewed when it is due and the new one can be stored.
   * @throws SignedOut  if the session has ended or must be renewed elsewhere; the error of the network
   */
  token(): Promise<string>
}

/** Sets cookies of the response. */
export type WithCookies = {
  /** `await cookies()` of Next.js, `event.cookies` of SvelteKit. Absent, or one that throws: nothing is renewed into cookies */
  cookies?: CookieJar | undefined
}

/** The sign-in of users of one application. */
export type Auth = {
  /** Answers the paths beside `redirectUri`: `/sign-in`, `/callback`, `/sign-out`, `/session`, `/renew` and `/wallet/…`. */
  handle(request: Request): Promise<Response>
  /** Returns the session of a request; null if nobody is signed in. */
  session(request: Incoming, where?: WithCookies): Promise<ServerSession | null>
  /** Opens a client of the wallet of the signed-in user. Its calls throw `SignedOut` if nobody is. */
  client(
    request: Incoming,
    options?: WithCookies & Omit<ClientOptions, 'origin' | 'session' | 'token' | 'fetch'>,
  ): Client
  /**
   * Renews the session of a request if it is due, ahead of pages that cannot set cookies.
   * @returns the headers to hand on to the page, and values of `Set-Cookie` for the response
   */
  renew(request: Incoming): Promise<{ headers: Headers; setCookies: string[] }>
  /** Returns the address that renews the session, then shows a page of the application. @param returnTo  its path */
  renewUrl(returnTo: string): string
  /** the address registered for the application */
  readonly redirectUri: string
}

type Begun = Attempt & { returnTo: string; begunAt: number }
type ErrorCode = 'denied' | 'expired' | 'failed' | 'unavailable'

const MAX_SIGN_IN_MS = 15 * 60_000
/** sign-ins that one browser can have begun, in several tabs */
const MAX_BEGUN = 5

/**
 * Opens the sign-in of an application with a server. Tokens remain on the server: in encrypted cookies or in `store`.
 * @throws Error  if an option is missing or not safe
 */
export function createAuth(options: AuthOptions): Auth {
  const settings = settingsOf(options)
  const tokens = openTokens(settings)
  const { publicOrigin, path, serviceOrigin, onError } = settings
  const visitOf = (request: Incoming, jar: CookieJar | null = null) => openVisit(settings, tokens, request, jar)

  async function handle(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url)
    const route = pathname.startsWith(`${path}/`) ? pathname.slice(path.length) : ''
    const jar = openJar()
    const visit = visitOf(request, jar)
    const returnTo = pageOf(searchParams.get('return_to'), publicOrigin)
    const answer = async (): Promise<Response> => {
      if (route.startsWith('/wallet/')) return forward(settings, visit, request, route.slice('/wallet'.length))
      if (route === '/sign-out') return signOut(request, visit, returnTo)
      if (!['/sign-in', '/callback', '/session', '/renew'].includes(route))
        return refusal(404, 'There is no such page.')
      if (request.method !== 'GET') return refusal(405, 'Use GET.', { allow: 'GET' })
      if (route === '/session') return Response.json(await stateOf(visit))
      if (!isOpened(request)) return refusal(403, 'Open this address as a page.')
      if (route === '/sign-in') return signIn(request, jar, returnTo)
      if (route === '/callback') return callback(request, visit, jar)
      return renewFor(visit, returnTo)
    }
    const response = await answer()
    response.headers.set('cache-control', 'no-store')
    for (const line of jar.lines()) response.headers.append('set-cookie', line)
    return response
  }

  async function signIn(request: Request, jar: CookieJar, returnTo: URL): Promise<Response> {
    try {
      const { url, attempt } = await tokens.begin()
      const begun = { ...attempt, returnTo: returnTo.href, begunAt: settings.now() }
      await setBegun(jar, [begun, ...(await begunOf(request))].slice(0, MAX_BEGUN))
      return redirect(url)
    } catch (error) {
      return failed(error, returnTo.href)
    }
  }

  async function callback(request: Request, visit: Visit, jar: CookieJar): Promise<Response> {
    const answered = new URL(settings.redirectUri)
    answered.search = new URL(request.url).search
    const all = await begunOf(request)
    const begun = all.find(({ state }) => state === answered.searchParams.get('state'))
    if (begun === undefined) return redirect(withError(publicOrigin, 'expired'))
    // Each counts once.
    await setBegun(jar, all.filter((one) => one !== begun)) // prettier-ignore
    try {
      const fresh = await tokens.complete(answered, begun)
      const previous = await visit.end()
      await visit.begin(fresh)
      if (previous !== null) await tokens.revoke(previous).catch(onError)
      return redirect(begun.returnTo)
    } catch (error) {
      return failed(error, begun.returnTo)
    }
  }

  async function renewFor(visit: Visit, returnTo: URL): Promise<Response> {
    try {
      await visit.token()
    } catch (error) {
      reportOthers(error)
      // The page would only come back here.
      if (!(error instanceof SignedOut)) return refusal(503, 'The service does not answer. Try again later.', { 'retry-after': '5' }) // prettier-ignore
    }
    return redirect(returnTo)
  }

  async function signOut(request: Request, visit: Visit, returnTo: URL): Promise<Response> {
    if (request.method !== 'POST') return refusal(405, 'Use POST.', { allow: 'POST' })
    if (!isSameOrigin(request, publicOrigin)) return refusal(403, 'Only the application can sign its users out.')
    const ended = await visit.end()
    if (ended !== null) await tokens.revoke(ended).catch(onError)
    return request.headers.has(OWN_HEADER) ? new Response(null, { status: 204 }) : redirect(returnTo)
  }

  async function stateOf(visit: Visit) {
    await visit.token().catch(reportOthers)
    const found = await visit.signIn()
    if (found === null) return { status: 'signed-out' }
    return { status: 'signed-in', user: found.user, permissions: found.permissions }
  }

  const reportOthers = (error: unknown): void => {
    if (!(error instanceof SignedOut)) onError(error)
  }

  const signInPlace = `sign-in ${settings.clientId}`

  async function begunOf(request: Incoming): Promise<Begun[]> {
    const sealed = cookiesOf(request).get(settings.names.signIn)
    const text = sealed === undefined ? null : await settings.seal.open(sealed, signInPlace)
    const all = text === null ? [] : (JSON.parse(text) as Begun[])
    return all.filter(({ begunAt }) => settings.now() < begunAt + MAX_SIGN_IN_MS)
  }

  async function setBegun(jar: CookieJar, all: Begun[]): Promise<void> {
    const value = all.length === 0 ? '' : await settings.seal.close(JSON.stringify(all), signInPlace)
    const maxAge = all.length === 0 ? 0 : MAX_SIGN_IN_MS / 1_000
    jar.set(settings.names.signIn, value, { httpOnly: true, secure: settings.isSecure, sameSite: 'lax', path: '/', maxAge }) // prettier-ignore
  }

  function failed(error: unknown, page: string): Response {
    if (error instanceof SignInCancelled) return redirect(withError(page, 'denied'))
    onError(error)
    return redirect(withError(page, error instanceof ClientError ? 'failed' : 'unavailable'))
  }

  async function session(request: Incoming, { cookies }: WithCookies = {}): Promise<ServerSession | null> {
    const visit = visitOf(request, cookies ?? null)
    const found = await visit.signIn()
    if (found === null) return null
    const mustRenew = settings.now() >= found.expiresAt && !visit.canRenew()
    return { user: found.user, permissions: found.permissions, mustRenew, token: () => visit.token() }
  }

  const client: Auth['client'] = (request, { cookies, ...rest } = {}) => {
    const visit = visitOf(request, cookies ?? null)
    const authorizedFetch = async (input: string | URL, init: RequestInit = {}): Promise<Response> => {
      const url = new URL(input)
      if (url.origin !== serviceOrigin)
        throw new InvalidInput({
          code: 'invalid_argument',
          message: `A session sends its token to ${serviceOrigin} only. Nothing was sent.`,
        })
      return withToken(visit, async (token) => {
        const headers = new Headers(init.headers)
        headers.set('authorization', `Bearer ${token}`)
        return settings.fetch(url.href, { ...init, headers })
      })
    }
    const language = headerOf(request, 'accept-language')
    return createClient({ ...(language === null ? {} : { language }), ...rest, origin: settings.base, session: { fetch: authorizedFetch } }) // prettier-ignore
  }

  async function renew(request: Incoming): Promise<{ headers: Headers; setCookies: string[] }> {
    const jar = openJar()
    await visitOf(request, jar).token().catch(reportOthers)
    const headers = headersOf(request)
    const cookies = new Map([...cookiesOf(request), ...jar.values()])
    const pairs = [...cookies].filter(([name, value]) => value !== '' || !jar.values().has(name))
    if (pairs.length > 0) headers.set('cookie', pairs.map(([name, value]) => `${name}=${value}`).join('; '))
    else headers.delete('cookie')
    return { headers, setCookies: jar.lines() }
  }

  return {
    handle,
    session,
    client,
    renew,
    renewUrl: (returnTo) => `${publicOrigin}${path}/renew?${new URLSearchParams({ return_to: returnTo }).toString()}`,
    redirectUri: settings.redirectUri,
  }
}

/** Collects the cookies of one response; the last value of a name counts. */
function openJar(): CookieJar & { lines(): string[]; values(): ReadonlyMap<string, string> } {
  const values = new Map<string, string>()
  const lines = new Map<string, string>()
  return {
    set(name, value, options) {
      values.set(name, value)
      lines.set(name, lineOf(name, value, options))
    },
    lines: () => [...lines.values()],
    values: () => values,
  }
}

function headersOf({ headers }: Incoming): Headers {
  if (headers instanceof Headers) return new Headers(headers)
  const copy = new Headers()
  for (const [name, value] of Object.entries(headers as Record<string, string | string[] | undefined>))
    for (const one of [value ?? []].flat()) if (!name.startsWith(':')) copy.append(name, one)
  return copy
}

const redirect = (to: string | URL): Response => new Response(null, { status: 303, headers: { location: String(to) } })

const refusal = (status: number, text: string, headers: Record<string, string> = {}): Response =>
  new Response(text, { status, headers: { 'content-type': 'text/plain; charset=utf-8', ...headers } })

/** Returns the address of a page, which reads `sign_in_error` and tells the user. */
function withError(page: string, code: ErrorCode): URL {
  const url = new URL(page)
  url.searchParams.set('sign_in_error', code)
  return url
}
