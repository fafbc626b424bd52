import * as oauth from 'oauth4webapi'
import { SignedOut } from '../errors.ts'
import { isLoopback } from '../loopback.ts'
import { permissionsOf } from '../permissions.ts'
import { failureOf } from '../sign-in-errors.ts'
import type { Fetch } from './settings.ts'

/** Settings of `verifyToken`. */
export type VerifyOptions = {
  /** of the service, such as `https://wallet.example` */
  origin: string
  /** the applications whose tokens are accepted: a token of any other application is not meant for you */
  clientId: string | readonly string[]
  /** the OAuth issuer, if it is not `/oauth` of `origin` */
  issuer?: string
  fetch?: Fetch
}

/** The user of a verified access token. `expiresAt`: milliseconds since 1970. */
export type VerifiedToken = {
  readonly userId: string
  readonly clientId: string
  readonly permissions: readonly string[]
  readonly chainId: number
  readonly expiresAt: number
}

type Issuer = { as: oauth.AuthorizationServer; options: object }

const TIMEOUT_MS = 15_000
const globalFetch: Fetch = (...args) => globalThis.fetch(...args)
/** by issuer, which is never read from a token */
const known = new WeakMap<Fetch, Map<string, Promise<Issuer>>>()

/**
 * Verifies a user's access token, such as one that a page sends to your own API. The service's keys are cached for five minutes; an
 * unknown key id reads them again at most once a minute. A revoked token counts until it expires.
 * @param presented  the token; or the request, if the token may be bound to a key (DPoP). Its URL must be the public one. A
 *                   proof that is sent twice is not recognized
 * @throws SignedOut  if the token is not valid for one of the applications, belongs to no user, or is bound and has no proof
 * Source: RFC 9068 §4, RFC 9449 §7
 */
export async function verifyToken(presented: string | Request, options: VerifyOptions): Promise<VerifiedToken> {
  const base = options.origin.replace(/\/+$/, '')
  const { as, options: how } = await issuerOf(options.issuer ?? `${base}/oauth`, options.fetch)
  let claims: oauth.JWTAccessTokenClaims
  try {
    const request = typeof presented === 'string' ? bearing(presented) : presented
    claims = await oauth.validateJwtAccessToken(as, request, `${base}/v1`, { ...how, signingAlgorithms: ['ES256'] })
  } catch (error) {
    throw isRefusal(error) ? notValid() : failureOf(error)
  }
  const { sub: userId, client_id: clientId, scope, exp, gid, chain_id: chainId } = claims
  // An application's own token has no sign-in.
  if (![options.clientId].flat().includes(clientId) || typeof gid !== 'string' || typeof chainId !== 'number')
    throw notValid()
  return { userId, clientId, permissions: permissionsOf(scope), chainId, expiresAt: exp * 1_000 }
}

function bearing(token: string): Request {
  if (!/^[\w.-]+$/.test(token)) throw notValid()
  return new Request('http://localhost', { headers: { authorization: `Bearer ${token}` } })
}

function issuerOf(text: string, send = globalFetch): Promise<Issuer> {
  const issuers = known.get(send) ?? new Map<string, Promise<Issuer>>()
  known.set(send, issuers)
  const found = issuers.get(text) ?? discover(text, send)
  issuers.set(text, found)
  found.catch(() => issuers.delete(text))
  return found
}

function discover(text: string, send: Fetch): Promise<Issuer> {
  const issuer = new URL(text)
  const inFlight = new Map<string, Promise<Response>>()
  // Concurrent verifications share one request.
  const shared = async (input: string, init: RequestInit): Promise<Response> => {
    const flight = inFlight.get(input) ?? send(input, init).finally(() => inFlight.delete(input))
    inFlight.set(input, flight)
    return (await flight).clone()
  }
  const options = {
    [oauth.allowInsecureRequests]: isLoopback(issuer),
    [oauth.customFetch]: shared as never,
    signal: () => AbortSignal.timeout(TIMEOUT_MS),
  }
  return oauth
    .discoveryRequest(issuer, options)
    .then((response) => oauth.processDiscoveryResponse(issuer, response))
    .then(
      (as) => ({ as, options }),
      (error: unknown) => {
        throw failureOf(error)
      },
    )
}

const notValid = (): SignedOut =>
  new SignedOut({ code: 'invalid_token', message: 'The access token is not valid here. Sign the user in.' })

/** Returns whether the token is at fault, not the service. */
const isRefusal = (error: unknown): boolean =>
  error instanceof SignedOut ||
  error instanceof oauth.UnsupportedOperationError ||
  (error instanceof oauth.OperationProcessingError &&
    error.code !== oauth.RESPONSE_IS_NOT_CONFORM &&
    error.code !== oauth.RESPONSE_IS_NOT_JSON) ||
  // Of a proof whose key is none.
  (error instanceof TypeError && (error as { code?: string }).code !== undefined) ||
  (error instanceof DOMException && error.name === 'DataError')
