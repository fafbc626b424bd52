import * as oauth from 'oauth4webapi'
import { SignedOut } from '../errors.ts'
import { isLoopback } from '../loopback.ts'
import { permissionsOf } from '../permissions.ts'
import { failureOf, SignInFailed } from '../sign-in-errors.ts'
import type { Settings } from './settings.ts'

/** The signed-in user, from the id token. */
export type SessionUser = { readonly id: string; readonly username: string; readonly address: string }

/** A sign-in with its tokens. Times are milliseconds since 1970. */
export type SignIn = {
  readonly user: SessionUser
  readonly permissions: readonly string[]
  readonly accessToken: string
  readonly refreshToken: string
  readonly renewAt: number
  readonly expiresAt: number
  /** until the user must sign in again */
  readonly endsAt: number
}

/** What a sign-in that was begun needs when it comes back. */
export type Attempt = { readonly state: string; readonly nonce: string; readonly verifier: string }

/** The requests to the authorization server. */
export type Tokens = {
  /** Begins a sign-in. @returns the address for the browser @throws if the authorization server does not answer */
  begin(): Promise<{ url: string; attempt: Attempt }>
  /** Exchanges the code of an answer. @throws SignInCancelled, SignInFailed, or the error of the network */
  complete(answered: URL, attempt: Attempt): Promise<SignIn>
  /** Renews a sign-in: once per refresh token. @throws SignedOut  if the sign-in has ended; the error of the network */
  renew(old: SignIn): Promise<SignIn>
  /** Ends a sign-in at the service. */
  revoke(old: SignIn): Promise<void>
}

/** share of its life after which an access token is renewed */
const RENEW_AT = 0.8
const TIMEOUT_MS = 15_000
/** renewals whose result is stored for requests that still come with the old refresh token */
const MAX_RENEWALS = 1_000

/** Opens the requests of one application to its authorization server. */
export function openTokens(settings: Settings): Tokens {
  const { issuer, clientId, clientSecret, redirectUri, permissions, fetch: send, now } = settings
  const client: oauth.Client = { client_id: clientId }
  const auth = clientSecret === null ? oauth.None() : oauth.ClientSecretBasic(clientSecret)
  const options = {
    [oauth.allowInsecureRequests]: isLoopback(issuer),
    [oauth.customFetch]: send as never,
    signal: () => AbortSignal.timeout(TIMEOUT_MS),
  }
  let server: Promise<oauth.AuthorizationServer> | null = null
  const renewals = new Map<string, Promise<SignIn>>()

  const discover = (): Promise<oauth.AuthorizationServer> =>
    (server ??= oauth
      .discoveryRequest(issuer, options)
      .then((response) => oauth.processDiscoveryResponse(issuer, response))
      .catch((error: unknown) => {
        server = null
        throw failureOf(error)
      }))

  async function begin(): Promise<{ url: string; attempt: Attempt }> {
    const as = await discover()
    const attempt = {
      state: oauth.generateRandomState(),
      nonce: oauth.generateRandomNonce(),
      verifier: oauth.generateRandomCodeVerifier(),
    }
    const url = new URL(as.authorization_endpoint!)
    url.search = new URLSearchParams({
      response_type: 'code',
      client_id: clientId,
      redirect_uri: redirectUri,
      scope: ['openid', ...permissions].join(' '),
      state: attempt.state,
      nonce: attempt.nonce,
      code_challenge: await oauth.calculatePKCECodeChallenge(attempt.verifier),
      code_challenge_method: 'S256',
    }).toString()
    return { url: url.href, attempt }
  }

  async function complete(answered: URL, { state, nonce, verifier }: Attempt): Promise<SignIn> {
    const as = await discover()
    const begunAt = now()
    try {
      const parameters = oauth.validateAuthResponse(as, client, answered, state)
      const response = await oauth.authorizationCodeGrantRequest(as, client, auth, parameters, redirectUri, verifier, options) // prettier-ignore
      const answer = await oauth.processAuthorizationCodeResponse(as, client, response, {
        expectedNonce: nonce,
        requireIdToken: true,
      })
      const { sub, username, address } = oauth.getValidatedIdTokenClaims(answer)!
      if (answer.refresh_token === undefined)
        throw new SignInFailed({ code: 'no_refresh_token', message: 'The service gave no refresh token.' })
      return {
        ...timesOf(answer, begunAt),
        user: { id: sub, username: textOf(username), address: textOf(address) },
        permissions: permissionsOf(answer.scope),
        accessToken: answer.access_token,
        refreshToken: answer.refresh_token,
        endsAt: begunAt + settings.maxAge * 1_000,
      }
    } catch (error) {
      throw failureAt(error)
    }
  }

  function renew(old: SignIn): Promise<SignIn> {
    const known = renewals.get(old.refreshToken)
    if (known !== undefined) return known
    const renewal = refresh(old)
    renewals.set(old.refreshToken, renewal)
    renewal.catch(() => renewals.delete(old.refreshToken))
    if (renewals.size > MAX_RENEWALS) renewals.delete(renewals.keys().next().value!)
    return renewal
  }

  async function refresh(old: SignIn): Promise<SignIn> {
    const as = await discover()
    const begunAt = now()
    try {
      const response = await oauth.refreshTokenGrantRequest(as, client, auth, old.refreshToken, options)
      const answer = await oauth.processRefreshTokenResponse(as, client, response)
      const claims = oauth.getValidatedIdTokenClaims(answer)
      if (claims !== undefined && claims.sub !== old.user.id)
        throw new SignInFailed({ code: 'invalid_answer', message: 'The answer is about another user.' })
      return {
        ...old,
        ...timesOf(answer, begunAt),
        permissions: answer.scope === undefined ? old.permissions : permissionsOf(answer.scope),
        accessToken: answer.access_token,
        refreshToken: answer.refresh_token ?? old.refreshToken,
      }
    } catch (error) {
      if (error instanceof oauth.ResponseBodyError && error.error === 'invalid_grant') throw new SignedOut()
      throw failureAt(error)
    }
  }

  async function revoke({ refreshToken }: SignIn): Promise<void> {
    renewals.delete(refreshToken)
    try {
      const response = await oauth.revocationRequest(await discover(), client, auth, refreshToken, options)
      await oauth.processRevocationResponse(response)
    } catch (error) {
      throw failureAt(error)
    }
  }

  return { begin, complete, renew, revoke }
}

const textOf = (claim: unknown): string => (typeof claim === 'string' ? claim : '')

/** As `failureOf`. The token endpoint challenges only an application that it does not know (RFC 6749 §5.2). */
const failureAt = (error: unknown): unknown =>
  error instanceof oauth.WWWAuthenticateChallengeError
    ? new SignInFailed({ code: 'invalid_client', message: 'The service rejected clientId or clientSecret.' })
    : failureOf(error)

function timesOf({ expires_in: seconds = 3_600 }: oauth.TokenEndpointResponse, begunAt: number) {
  return { renewAt: begunAt + seconds * 1_000 * RENEW_AT, expiresAt: begunAt + seconds * 1_000 }
}
