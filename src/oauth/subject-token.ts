import { decodeJwt, decodeProtectedHeader, errors, jwtVerify, type JWTPayload } from 'jose'
import type { TrustedIssuer } from '../applications/application.ts'
import { AppError } from '../errors.ts'
import type { IssuerKeys } from './federation/issuer-keys.ts'

/** Tokens of identity providers have 1,000 to 3,000 characters. */
const MAX_CHARACTERS = 8_192
/** Maximum difference between the issuer's clock and ours, in seconds. */
const SLACK_SECONDS = 30
/** Maximum lifetime of a subject token, in seconds. */
const MAX_LIFE = 86_400

/** Explains to the developer why a subject token is rejected; never includes values of the token. */
export class SubjectTokenRefused extends Error {}

export type SubjectToken = {
  trusted: TrustedIssuer
  claims: JWTPayload
  /** distinguishes it from every other token of its issuer; the same if its signature is encoded differently */
  mark: string
  /** seconds since 1970 */
  expiresAt: number
}

/**
 * Verifies a subject token: a signed JWT of an issuer that this application is configured with, made for it, valid now,
 * and of a kind that identifies a user.
 * @param now  milliseconds since 1970
 * @throws SubjectTokenRefused, provider_unavailable
 * Source: RFC 8725 §3, RFC 7519 §7.2, OpenID Connect Core §3.1.3.7
 */
export async function verifySubjectToken(
  token: string,
  issuers: readonly TrustedIssuer[],
  { keysOf, now }: { keysOf: IssuerKeys; now: number },
): Promise<SubjectToken> {
  if (token.length > MAX_CHARACTERS) throw refused(`is longer than ${MAX_CHARACTERS} characters`)
  const trusted = issuerOf(token, issuers)
  const { payload } = await jwtVerify(token, keysOf(trusted), {
    issuer: trusted.issuer,
    audience: trusted.audience,
    algorithms: trusted.algorithms,
    requiredClaims: ['iss', 'aud', 'exp', 'iat', trusted.subjectClaim],
    maxTokenAge: trusted.maxAgeSeconds,
    clockTolerance: SLACK_SECONDS,
    currentDate: new Date(now),
  }).catch((error: unknown) => {
    throw error instanceof AppError ? error : refused(explain(error))
  })
  const { aud, azp, exp, iat, jti, cnf, events } = payload
  if (exp! <= iat! || exp! - iat! > MAX_LIFE) throw refused(`must live for at most ${MAX_LIFE} seconds`)
  // With several audiences, `azp` must be ours: another audience could have passed the token on.
  if (Array.isArray(aud) && aud.length > 1 && azp !== trusted.audience)
    throw refused('has several audiences and is not authorised for the configured one (azp)')
  const mark = ACCESS_TOKEN_MARKS.find((one) => isMarked(payload, one))
  if (mark !== undefined)
    throw refused(`is an access token, which says what its holder may do, not who signed in (${mark})`)
  if (cnf !== undefined) throw refused('is bound to a key, which cannot be checked here (cnf)')
  if (events !== undefined) throw refused('is about an event, not about a sign-in (events)')
  const id = typeof jti === 'string' && jti !== '' ? `jti ${jti}` : token.slice(0, token.lastIndexOf('.'))
  return { trusted, claims: payload, mark: id, expiresAt: exp! }
}

/**
 * Claims that mark access tokens of type `JWT` or without a type. Keycloak and Cognito name the kind of token; other
 * issuers name its scope or its client (RFC 9068 §2.2, Auth0, Okta, Entra). An access token's holder need not be the
 * user: it may be the server of another client.
 */
const ACCESS_TOKEN_MARKS = ['typ', 'token_use', 'scope', 'scp', 'gty', 'client_id', 'cid', 'appid'] as const

/** Keycloak's id tokens say `typ: ID`, Cognito's `token_use: id`. */
function isMarked(claims: JWTPayload, mark: (typeof ACCESS_TOKEN_MARKS)[number]): boolean {
  const value = claims[mark]
  if (mark === 'typ' || mark === 'token_use')
    return value !== undefined && !(typeof value === 'string' && /^(id|jwt)$/i.test(value))
  return value !== undefined
}

/** Returns the configured issuer that an unverified token names, to choose the keys that verify it. */
function issuerOf(token: string, issuers: readonly TrustedIssuer[]): TrustedIssuer {
  let named: unknown
  let typ: unknown
  try {
    named = decodeJwt(token).iss
    typ = decodeProtectedHeader(token).typ
  } catch {
    throw refused('is not a signed JWT')
  }
  // Access tokens, logout tokens and proofs have types of their own (RFC 8725 §3.11).
  if (typ !== undefined && !(typeof typ === 'string' && /^(application\/)?jwt$/i.test(typ)))
    throw refused('is of a type that does not identify a person (typ)')
  const trusted = issuers.find(({ issuer }) => issuer === named)
  if (trusted === undefined) throw refused('is not of an issuer that this application is configured with (iss)')
  return trusted
}

const refused = (why: string): SubjectTokenRefused => new SubjectTokenRefused(`The subject token ${why}.`)

function explain(error: unknown): string {
  if (error instanceof errors.JWTExpired)
    return error.claim === 'iat' ? 'was issued too long ago (iat)' : 'has expired (exp)'
  if (error instanceof errors.JWTClaimValidationFailed)
    return error.reason === 'missing'
      ? `lacks the claim ${error.claim}`
      : `does not pass the check of its claim ${error.claim}`
  if (error instanceof errors.JOSEAlgNotAllowed) return 'is signed with an algorithm that is not configured (alg)'
  if (error instanceof errors.JWKSNoMatchingKey) return 'is signed with a key that its issuer does not publish (kid)'
  return error instanceof errors.JWSSignatureVerificationFailed ? 'is not signed by its issuer' : 'is not a signed JWT'
}
