import * as oauth from 'oauth4webapi'
import { InvalidInput, SignedOut } from '../errors.ts'
import { isLoopback } from '../loopback.ts'
import { permissionsOf } from '../permissions.ts'
import type { Session, SessionState } from '../session.ts'
import { failureOf, SignInCancelled, SignInFailed } from '../sign-in-errors.ts'
import { thisPage, type Channel, type Page, type Popup } from './page.ts'
import { indexedDbStore, type Begun, type Pending, type Store, type StoredSession } from './store.ts'

/** Settings of a session. */
export type SessionOptions = {
  /** of the service, such as `https://wallet.example` */
  origin: string
  clientId: string
  /** a page of yours that calls `handleCallback`, registered for the application; `/callback` of this origin if absent */
  redirectUri?: string
  /** `popup` opens a window, and falls back to `redirect` where windows do not work */
  mode?: 'popup' | 'redirect'
  /** to request at sign-in; all of the application if absent */
  permissions?: readonly string[]
  /** the OAuth issuer, if it is not `/oauth` of `origin` */
  issuer?: string
  store?: Store
  page?: Page
  fetch?: typeof globalThis.fetch
  /** milliseconds since 1970 */
  now?: () => number
}

/** A session of a browser. */
export type BrowserSession = Session & {
  /**
   * Finishes a sign-in. Call it on the page of `redirectUri`. A window closes itself; after a redirect the page that began
   * the sign-in is shown again.
   * @throws SignInFailed  if this browser has not begun the sign-in, or the answer is not valid
   */
  handleCallback(): Promise<void>
}

/** An access token of this page, which nothing stores. */
type Access = { token: string; renewAt: number; expiresAt: number; keys: CryptoKeyPair; signInId: string }

/** share of its life after which an access token is renewed */
const RENEW_AT = 0.8
const MAX_SIGN_IN_MS = 15 * 60_000
/** milliseconds between two looks whether the window is closed, and how long an answer may come after that */
const LOOK_MS = 500
const LATE_MS = 1_500

/**
 * Opens the session of a user in a browser. The refresh token is stored, bound (DPoP) to a key that no script can read; the access
 * token is only in memory. On a server the session stays `unknown` and reads nothing.
 */
export function createSession(options: SessionOptions): BrowserSession {
  const {
    clientId,
    mode = 'popup',
    page = thisPage,
    fetch: send = (...args) => globalThis.fetch(...args),
    now = Date.now,
  } = options
  const issuer = new URL(options.issuer ?? `${options.origin.replace(/\/+$/, '')}/oauth`)
  const store = options.store ?? indexedDbStore()
  const name = `${issuer.href} ${clientId}`
  const client: oauth.Client = { client_id: clientId }
  const serviceOrigin = new URL(options.origin).origin
  const insecure = { [oauth.allowInsecureRequests]: isLoopback(issuer), [oauth.customFetch]: send as never }
  const isBrowser = options.store !== undefined || typeof indexedDB !== 'undefined'

  let state: SessionState = { status: 'unknown' }
  const listeners = new Set<(state: SessionState) => void>()
  let access: Access | null = null
  let renewing: Promise<Access> | null = null
  let server: Promise<oauth.AuthorizationServer> | null = null
  let restoring: Promise<void> | null = null

  /** The proofs of one sign-in, which have the nonces that the service wants in them (RFC 9449 §8). */
  let proofs: { signInId: string; handle: oauth.DPoPHandle } | null = null
  const proofsOf = ({ signInId, keys }: Pick<StoredSession, 'signInId' | 'keys'>): oauth.DPoPHandle => {
    if (proofs?.signInId !== signInId) proofs = { signInId, handle: oauth.DPoP(client, keys) }
    return proofs.handle
  }

  /** the sign-in that `state` describes: another one can be another user's, even with the same permissions */
  let shown: string | undefined

  /** tells other pages of this origin that the stored session has changed */
  const changes: Channel | null = isBrowser ? page.channel(`chatelaine ${name}`) : null
  changes?.listen(() => void reload().catch(() => become(undefined)))

  /** Shows a stored session, and drops the access token of any other. */
  function become(stored: StoredSession | undefined): void {
    if (access?.signInId !== stored?.signInId) access = null
    if (proofs?.signInId !== stored?.signInId) proofs = null
    if (state.status !== 'unknown' && shown === stored?.signInId) return
    shown = stored?.signInId
    state = stored === undefined ? { status: 'signed-out' } : { status: 'signed-in', permissions: stored.permissions }
    for (const listener of listeners) listener(state)
  }

  const reload = async (): Promise<void> => become(await store.get<StoredSession>(name))

  const restore = (): Promise<void> =>
    (restoring ??= reload().catch((error: unknown) => {
      restoring = null
      become(undefined)
      throw error
    }))
  if (isBrowser) void restore().catch(() => {})

  const discover = (): Promise<oauth.AuthorizationServer> =>
    (server ??= oauth
      .discoveryRequest(issuer, insecure)
      .then((response) => oauth.processDiscoveryResponse(issuer, response))
      .catch((error: unknown) => {
        server = null
        throw failureOf(error)
      }))

  /** @throws SignedOut  if the session has ended */
  async function renew(): Promise<Access> {
    const as = await discover()
    // Read again: another page may have renewed it.
    const stored = await store.get<StoredSession>(name)
    if (stored === undefined) throw ended()
    const { refreshToken, signInId } = stored
    const begun = now()
    let answer: oauth.TokenEndpointResponse
    try {
      const settings = { ...insecure, DPoP: proofsOf(stored) }
      answer = await withNonce(async () => {
        const response = await oauth.refreshTokenGrantRequest(as, client, oauth.None(), refreshToken, settings)
        return oauth.processRefreshTokenResponse(as, client, response)
      })
    } catch (error) {
      if (!(error instanceof oauth.ResponseBodyError) || error.error !== 'invalid_grant') throw failureOf(error)
      const left = await store.update<StoredSession>(name, (value) =>
        value?.refreshToken === refreshToken ? undefined : value,
      )
      if (left !== undefined) return renew()
      changes?.post('changed')
      throw ended()
    }
    const successor = answer.refresh_token ?? refreshToken
    // The successor is stored before its access token is used. A session that was ended meanwhile is not put back.
    const kept = await store.update<StoredSession>(name, (value) =>
      value?.refreshToken === refreshToken ? { ...value, refreshToken: successor } : value,
    )
    if (kept?.signInId === signInId) return (access = accessOf(answer, kept, begun))
    if (kept === undefined) {
      await revoke(successor).catch(() => {})
      throw ended()
    }
    // Another user may have signed in: this access token is not theirs.
    return renew()
  }

  function ended(): SignedOut {
    become(undefined)
    return new SignedOut()
  }

  async function revoke(token: string): Promise<void> {
    try {
      const response = await oauth.revocationRequest(await discover(), client, oauth.None(), token, insecure)
      await oauth.processRevocationResponse(response)
    } catch (error) {
      throw failureOf(error)
    }
  }

  const accessOf = (
    { access_token: token, expires_in: seconds = 3_600 }: oauth.TokenEndpointResponse,
    { keys, signInId }: StoredSession,
    begun: number,
  ): Access => ({
    token,
    keys,
    signInId,
    renewAt: begun + seconds * 1_000 * RENEW_AT,
    expiresAt: begun + seconds * 1_000,
  })

  const renewOnce = (): Promise<Access> =>
    (renewing ??= renew().finally(() => {
      renewing = null
    }))

  async function currentAccess(): Promise<Access> {
    if (access !== null && now() < access.renewAt) return access
    const old = access
    return renewOnce().catch((error: unknown) => {
      // The service does not answer: the token still counts for a while.
      if (old !== null && access === old && now() < old.expiresAt) return old
      throw error
    })
  }

  async function request(input: URL, init: RequestInit, of: Access): Promise<Response> {
    const { method = 'GET', headers, body, signal } = init
    try {
      return await oauth.protectedResourceRequest(
        of.token,
        method,
        input,
        new Headers(headers),
        (body ?? null) as oauth.ProtectedResourceRequestBody | null,
        {
          ...insecure,
          DPoP: proofsOf(of),
          ...(signal === undefined || signal === null ? {} : { signal }),
        },
      )
    } catch (error) {
      if (error instanceof oauth.WWWAuthenticateChallengeError) return error.response
      throw failureOf(error)
    }
  }

  async function authorizedFetch(input: string | URL, init: RequestInit = {}): Promise<Response> {
    const url = new URL(input)
    if (url.origin !== serviceOrigin)
      throw new InvalidInput({
        code: 'invalid_argument',
        message: `A session sends its token to ${serviceOrigin} only. Nothing was sent.`,
      })
    if (!isBrowser) throw new SignedOut()
    await restore()
    const first = await currentAccess()
    const response = await request(url, init, first)
    // A proof that was refused needs only another proof, with the nonce of the answer if there is one.
    if (response.status !== 401) return response
    if (/invalid_dpop_proof|use_dpop_nonce/.test(response.headers.get('www-authenticate') ?? ''))
      return request(url, init, first)
    if (access === first) access = null
    return request(url, init, await currentAccess())
  }

  async function begin(
    how: Pending['mode'],
    permissions: readonly string[] | undefined,
  ): Promise<{ url: string; pending: Pending }> {
    const as = await discover()
    const keys = await oauth.generateKeyPair('ES256', { extractable: false })
    const pending: Pending = {
      keys,
      state: oauth.generateRandomState(),
      nonce: oauth.generateRandomNonce(),
      verifier: oauth.generateRandomCodeVerifier(),
      redirectUri: options.redirectUri ?? new URL('/callback', page.href()).href,
      mode: how,
      returnTo: page.href(),
      begunAt: now(),
    }
    await store.update<Begun>(begunKey, (all) => ({ ...inTime(all), [pending.state]: pending }))
    const url = new URL(as.authorization_endpoint!)
    url.search = new URLSearchParams({
      response_type: 'code',
      client_id: clientId,
      redirect_uri: pending.redirectUri,
      scope: ['openid', ...(permissions ?? [])].join(' '),
      state: pending.state,
      nonce: pending.nonce,
      code_challenge: await oauth.calculatePKCECodeChallenge(pending.verifier),
      code_challenge_method: 'S256',
      dpop_jkt: await oauth.DPoP(client, keys).calculateThumbprint(),
    }).toString()
    return { url: url.href, pending }
  }

  const begunKey = `${name} begun`

  /** those sign-ins that have not expired */
  const inTime = (all: Begun = {}): Begun =>
    Object.fromEntries(Object.entries(all).filter(([, { begunAt }]) => now() < begunAt + MAX_SIGN_IN_MS))

  /** Exchanges the code of an answer, and stores the session. */
  async function complete({ keys, state: sent, nonce, verifier, redirectUri }: Pending, answered: URL): Promise<void> {
    const as = await discover()
    const begun = now()
    try {
      const parameters = oauth.validateAuthResponse(as, client, answered, sent)
      const settings = { ...insecure, DPoP: oauth.DPoP(client, keys) }
      const answer = await withNonce(async () => {
        const response = await oauth.authorizationCodeGrantRequest(as, client, oauth.None(), parameters, redirectUri, verifier, settings) // prettier-ignore
        return oauth.processAuthorizationCodeResponse(as, client, response, {
          expectedNonce: nonce,
          requireIdToken: true,
        })
      })
      if (answer.refresh_token === undefined)
        throw new SignInFailed({ code: 'no_refresh_token', message: 'The service gave no refresh token.' })
      const stored: StoredSession = {
        signInId: crypto.randomUUID(),
        keys,
        refreshToken: answer.refresh_token,
        permissions: permissionsOf(answer.scope),
      }
      await store.update<StoredSession>(name, () => stored)
      proofs = { signInId: stored.signInId, handle: settings.DPoP }
      access = accessOf(answer, stored, begun)
      become(stored)
      changes?.post('changed')
    } catch (error) {
      throw failureOf(error)
    }
  }

  /** Takes a begun sign-in out of the store: an answer counts once. @throws SignInFailed  if it is not there */
  async function take(of: string): Promise<Pending> {
    let found: Pending | undefined
    await store.update<Begun>(begunKey, (all) => {
      const left = new Map(Object.entries(inTime(all)))
      found = left.get(of)
      left.delete(of)
      return Object.fromEntries(left)
    })
    if (found === undefined) throw expired()
    return found
  }

  /**
   * Signs in in a window. A window that looks closed is a hint only: pages of a provider can hide it from its opener
   * (Cross-Origin-Opener-Policy). So an answer that comes later still signs in.
   */
  async function inWindow(popup: Popup, permissions: readonly string[] | undefined): Promise<void> {
    const { url, pending } = await begin('popup', permissions).catch((error: unknown) => {
      popup.close()
      throw error
    })
    const channel = page.channel(`chatelaine callback ${pending.state}`)
    return new Promise((resolve, reject) => {
      let closedMs = 0
      const looks = setInterval(() => {
        // The user is back on this page, and the window is not to be seen.
        closedMs = popup.isClosed() && page.hasFocus() ? closedMs + LOOK_MS : 0
        if (now() >= pending.begunAt + MAX_SIGN_IN_MS) {
          clearInterval(looks)
          channel.close()
          reject(expired())
        } else if (closedMs > LATE_MS) reject(new SignInCancelled({ code: 'window_closed', message: 'The window was closed before the sign-in was finished.' })) // prettier-ignore
      }, LOOK_MS)
      channel.listen((message) => {
        clearInterval(looks)
        channel.close()
        take(pending.state)
          .then((taken) => complete(taken, new URL(String(message))))
          .then(resolve, (error: unknown) => {
            popup.close()
            reject(error)
          })
      })
      popup.goTo(url)
    })
  }

  return {
    get state() {
      return state
    },
    subscribe(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    fetch: authorizedFetch,
    // Not async: the window must open in the click itself.
    signIn({ permissions = options.permissions } = {}) {
      const popup = mode === 'popup' ? page.open() : null
      if (popup !== null) return inWindow(popup, permissions)
      return begin('redirect', permissions).then(({ url }) => {
        page.goTo(url)
        // The page is about to be left.
        return new Promise<void>(() => {})
      })
    },
    async signOut() {
      let stored: StoredSession | undefined
      if (!isBrowser) return
      await store.update<StoredSession>(name, (value) => {
        stored = value
        return undefined
      })
      become(undefined)
      changes?.post('changed')
      if (stored !== undefined) await revoke(stored.refreshToken)
    },
    async handleCallback() {
      const answered = new URL(page.href())
      const of = answered.searchParams.get('state') ?? ''
      const begun = inTime(await store.get<Begun>(begunKey))
      if (!Object.hasOwn(begun, of)) throw expired()
      const pending = begun[of]!
      if (pending.mode === 'popup') {
        const channel = page.channel(`chatelaine callback ${of}`)
        channel.post(answered.href)
        channel.close()
        page.close()
        return
      }
      await complete(await take(of), answered)
      page.replace(pending.returnTo)
    },
  }
}

const expired = (): SignInFailed =>
  new SignInFailed({
    code: 'sign_in_expired',
    message: 'This browser has not begun this sign-in, or began it too long ago. Start again.',
    userMessage: 'This sign-in is no longer valid. Start again.',
  })

/** Sends again, once, if the token endpoint wants a nonce in the proof: the DPoP handle has taken it from the answer. */
async function withNonce<T>(send: () => Promise<T>): Promise<T> {
  try {
    return await send()
  } catch (error) {
    if (oauth.isDPoPNonceError(error)) return send()
    throw error
  }
}
