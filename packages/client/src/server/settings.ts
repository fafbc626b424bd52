import { isLoopback } from '../loopback.ts'
import { openSeal, type Seal } from './seal.ts'
import { walletReads } from './wallet.ts'

/** Stores sessions outside of cookies. Values are encrypted. */
export type SessionStore = {
  get(key: string): Promise<string | null | undefined>
  /** @param seconds  after which the entry may be deleted */
  set(key: string, value: string, seconds: number): Promise<unknown>
  delete(key: string): Promise<unknown>
}

/** A replacement of the global one. */
export type Fetch = (input: string, init?: RequestInit) => Promise<Response>

/** Settings of `createAuth`. */
export type AuthOptions = {
  /** of the service, such as `https://wallet.example` */
  origin: string
  clientId: string
  /** may be absent on loopback only, for a public application such as `demo` of a development installation */
  clientSecret?: string | undefined
  /** registered for the application; ends with `/callback`. The other paths are beside it: `/sign-in`, `/session`, … */
  redirectUri: string
  /** at least 32 random characters. Of several, the first encrypts, and all decrypt */
  cookieSecret: string | readonly string[]
  /** to request at sign-in; all of the application if absent */
  permissions?: readonly string[]
  /** what pages may call below `/wallet`, such as `GET /v1/me`; `*` is one part of a path. `walletReads` if absent */
  walletPaths?: readonly string[]
  /** stores sessions; without it they are in cookies */
  store?: SessionStore
  /** seconds after a sign-in until the user must sign in again; 90 days if absent */
  maxAge?: number
  /** beginning of the names of cookies; `chatelaine` if absent */
  cookieName?: string
  /** is called with errors that the user sees only as a failed sign-in; `console.error` of the message if absent */
  onError?: (error: unknown) => void
  /** the OAuth issuer, if it is not `/oauth` of `origin` */
  issuer?: string
  fetch?: Fetch
  /** milliseconds since 1970 */
  now?: () => number
}

/** What `createAuth` works with. */
export type Settings = {
  serviceOrigin: string
  /** of the service, without a slash at its end */
  base: string
  issuer: URL
  clientId: string
  clientSecret: string | null
  redirectUri: string
  /** of the application */
  publicOrigin: string
  /** beginning of the paths of `handle`, such as `/auth` */
  path: string
  permissions: readonly string[]
  walletPaths: readonly RegExp[]
  seal: Seal
  store: SessionStore | null
  maxAge: number
  isSecure: boolean
  names: { session: string; signIn: string }
  onError: (error: unknown) => void
  fetch: Fetch
  now: () => number
}

const CALLBACK = '/callback'

/** Checks the options, and adds what is absent. @throws Error  naming the option that is not safe */
export function settingsOf(options: AuthOptions): Settings {
  const { clientId, clientSecret = null, cookieSecret, cookieName = 'chatelaine' } = options
  const origin = safeUrl('origin', options.origin)
  const issuer = safeUrl('issuer', options.issuer ?? `${options.origin.replace(/\/+$/, '')}/oauth`)
  const redirectUri = safeUrl('redirectUri', options.redirectUri)
  if (!redirectUri.pathname.endsWith(CALLBACK) || redirectUri.search !== '' || redirectUri.hash !== '')
    throw new Error(`redirectUri must end with ${CALLBACK}, such as https://shop.example/auth${CALLBACK}.`)
  const isSecure = redirectUri.protocol === 'https:'
  if (!isSecure && !/^(localhost|127\.0\.0\.1|\[::1\])$/.test(redirectUri.hostname))
    throw new Error('redirectUri must be https, except on localhost, 127.0.0.1 and [::1].')
  if (!clientId) throw new Error('clientId is missing.')
  if (!clientSecret && isSecure) throw new Error('clientSecret is missing: register a confidential application.')
  if (!/^[\w-]+$/.test(cookieName)) throw new Error('cookieName may have letters, digits, `_` and `-`.')
  // Browsers do not tell the ports of one computer apart.
  const name = isSecure ? `__Host-${cookieName}` : `${cookieName}-${redirectUri.port || '80'}`
  return {
    serviceOrigin: origin.origin,
    base: origin.href.replace(/\/+$/, ''),
    issuer,
    clientId,
    clientSecret: clientSecret || null,
    redirectUri: redirectUri.href,
    publicOrigin: redirectUri.origin,
    path: redirectUri.pathname.slice(0, -CALLBACK.length),
    permissions: options.permissions ?? [],
    walletPaths: (options.walletPaths ?? walletReads).map(patternOf),
    seal: openSeal(typeof cookieSecret === 'string' ? [cookieSecret] : (cookieSecret ?? [])),
    store: options.store ?? null,
    maxAge: options.maxAge ?? 90 * 24 * 3_600,
    isSecure,
    names: { session: `${name}-session`, signIn: `${name}-sign-in` },
    onError: options.onError ?? printed,
    fetch: options.fetch ?? ((...args) => globalThis.fetch(...args)),
    now: options.now ?? Date.now,
  }
}

function safeUrl(name: string, text: string): URL {
  if (!URL.canParse(text)) throw new Error(`${name} is not an address: ${text}`)
  const url = new URL(text)
  if (url.protocol !== 'https:' && !isLoopback(url)) throw new Error(`${name} must be https, except on this computer.`)
  return url
}

function patternOf(path: string): RegExp {
  if (!/^[A-Z]+ \/v1(\/([\w.~-]+|\*))+$/.test(path))
    throw new Error(`walletPaths: \`${path}\` is not a method and a path, such as \`GET /v1/users/*/history\`.`)
  return new RegExp(`^${path.replaceAll('.', '\\.').replaceAll('*', '[^/]+')}$`)
}

function printed(error: unknown): void {
  const { code = '', message } = error as { code?: string; message: string }
  console.error(`chatelaine: ${code} ${message}`)
}
