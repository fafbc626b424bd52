import * as openid from 'openid-client'
import { describe, discover, wayTo, type ProviderConnection } from './connection.ts'
import { callbackOf, ID_TOKEN_ALGORITHMS } from './federation.ts'
import type { Outbound } from '../../http/outbound.ts'
import { bindsCode, type ProviderSettings } from './providers.ts'
import { systemClock } from '../../clock.ts'

/** One result of a check; `advice` says how to fix a problem. */
export type Finding = { about: string; isGood: boolean; says: string; advice?: string }

/**
 * Checks an identity provider as far as possible without a user: its discovery document, its keys, whether it accepts
 * our client authentication and our callback URL, and for one without discovery the configured URLs. Nobody is signed
 * in and nothing is stored.
 * @param origin  of the authorization server
 */
export async function checkProvider(provider: ProviderSettings, { origin }: { origin: string }): Promise<Finding[]> {
  const way = wayTo(provider)
  const findings: Finding[] = []
  const found = (about: string, isGood: boolean, says: string, advice?: string) =>
    void findings.push({ about, isGood, says, ...(isGood || advice === undefined ? {} : { advice }) })

  const connection = await connect(provider, way).catch((error: unknown) => {
    found('description', false, explain(error), adviceFor(error, provider))
    return null
  })
  if (connection === null) return findings
  const metadata = connection.config.serverMetadata()
  if (connection.keys === null) found('description', true, 'none: the URLs are those in the settings')
  else {
    found('description', true, `issuer ${metadata.issuer} found`)
    checkAbilities(metadata, found)
    await checkKeys(metadata.jwks_uri!, way, found)
  }
  await checkProof({ provider, connection, way, origin }, found)
  await checkCallback({ provider, connection, way, origin }, found)
  const profile = provider.dialect?.endpoints?.profile
  if (profile !== undefined) {
    await checkProfile(profile, way, found)
    const says = bindsCode(provider)
      ? 'PKCE was checked: users can link this provider'
      : `PKCE was not checked: users can sign in but cannot link this provider. Run \`chatelaine provider check ${provider.name} --sign-in\``
    found('linking', true, says)
  }
  return findings
}

type ReportFinding = (about: string, isGood: boolean, says: string, advice?: string) => void
type Looked = { provider: ProviderSettings; connection: ProviderConnection; way: Outbound; origin: string }

/** Connects to a provider, by discovery or by its configured URLs. */
export const connect = async (provider: ProviderSettings, way: Outbound): Promise<ProviderConnection> =>
  provider.dialect?.endpoints === undefined
    ? discover(provider, way, systemClock)
    : describe(provider, way, systemClock)

/** Checks the abilities in the discovery document. A missing list is no fault. */
function checkAbilities(metadata: openid.ServerMetadata, found: ReportFinding): void {
  const { authorization_endpoint, token_endpoint, response_types_supported: types } = metadata
  if (authorization_endpoint === undefined || token_endpoint === undefined)
    found('flow', false, 'the discovery document lacks the authorization or the token endpoint')
  else if (types !== undefined && !types.includes('code'))
    found('flow', false, `the code flow is not offered, only ${types.join(', ')}`)
  else found('flow', true, 'the code flow is offered')
  const signing = metadata.id_token_signing_alg_values_supported
  if (signing === undefined) return
  const shared = signing.filter((one) => ID_TOKEN_ALGORITHMS.includes(one))
  found(
    'signatures',
    shared.length > 0,
    shared.length > 0 ? `id tokens are signed with ${shared.join(', ')}` : `id tokens are signed with ${signing.join(', ')} only`,
    `Configure the provider to sign with one of ${ID_TOKEN_ALGORITHMS.join(', ')}.`,
  ) // prettier-ignore
}

async function checkKeys(jwksUri: string, way: Outbound, found: ReportFinding): Promise<void> {
  try {
    const answer = await way(jwksUri)
    const { keys } = (await answer.json()) as { keys?: { kty?: unknown }[] }
    const count = Array.isArray(keys) ? keys.filter(({ kty }) => ['RSA', 'EC', 'OKP'].includes(String(kty))).length : 0
    found('keys', count > 0, count > 0 ? `${count} at ${jwksUri}` : `no keys at ${jwksUri}`)
  } catch (error) {
    found('keys', false, `${jwksUri}: ${explain(error)}`)
  }
}

/**
 * Errors that reject the client, and errors that reject an unknown code: those of RFC 6749 §5.2, and those of GitHub
 * and Glewlwyd.
 */
export const REFUSED_PROOF = ['invalid_client', 'unauthorized_client', 'incorrect_client_credentials']
const REFUSED_CODE = ['invalid_grant', 'bad_verification_code', 'invalid_code']

/**
 * Checks whether the provider accepts our client id and secret, by a code that nobody issued. The provider must
 * authenticate the client before it rejects the code (RFC 6749 §5.2).
 */
async function checkProof({ provider, connection, way, origin }: Looked, found: ReportFinding): Promise<void> {
  const token = connection.config.serverMetadata().token_endpoint
  if (token === undefined) return
  const word = await redeemNothing(provider, origin, way)
  if (REFUSED_PROOF.includes(word)) {
    const advice = await adviceForProof(word, { provider, way, origin })
    found('client', false, `the provider rejects the client authentication: ${word}`, advice)
  } else if (REFUSED_CODE.includes(word))
    found('client', true, 'client id and secret are accepted: the provider rejects only the test code')
  else if (word === 'redirect_uri_mismatch')
    found(
      'client',
      false,
      'the provider rejects the callback URL',
      `Register ${callbackOf(origin, provider)} at the provider.`,
    )
  else found('client', false, `${token} responds to a test code with ${word} instead of invalid_grant`)
}

/** Returns another client authentication method that the provider accepts, or the meaning of its error. */
async function adviceForProof(word: string, { provider, way, origin }: Omit<Looked, 'connection'>): Promise<string> {
  const plain = provider.dialect?.endpoints !== undefined
  for (const proof of ['basic', 'post'] as const) {
    const other = plain ? { ...provider, dialect: { ...provider.dialect, proof } } : { ...provider, proof }
    if (REFUSED_CODE.includes(await redeemNothing(other, origin, way)))
      return `Set "clientAuthentication": "client_secret_${proof}", which the provider accepts.`
  }
  if (word === 'unauthorized_client')
    return 'Enable the code flow for this client at the provider. Some providers also report a wrong secret this way.'
  return 'Compare clientId and clientSecret with the values at the provider. Some secrets expire.'
}

/** @returns the provider's own error code, or our description if it has none */
async function redeemNothing(provider: ProviderSettings, origin: string, way: Outbound): Promise<string> {
  const { config } = await connect(provider, way)
  const callback = new URL(`${callbackOf(origin, provider)}?code=a-code-that-nobody-issued&state=check`)
  // The client library requires `iss` in the callback of a provider that supports it (RFC 9207).
  if (config.serverMetadata().authorization_response_iss_parameter_supported === true)
    callback.searchParams.set('iss', config.serverMetadata().issuer)
  const verifier = provider.dialect?.refusesPkce === true ? null : openid.randomPKCECodeVerifier()
  const redeemed = await redeem(config, callback, { state: 'check', verifier })
  if (redeemed === 'tokens') return redeemed
  return 'word' in redeemed ? redeemed.word : redeemed.says
}

/** The outcome of redeeming a code: tokens, the provider's own error code, or anything else in our words. */
export type Redeemed = 'tokens' | { word: string } | { says: string }

/** Errors of a provider that could not judge the code (RFC 6749 §4.1.2.1, RFC 8628 §3.5). */
const NOT_NOW = ['server_error', 'temporarily_unavailable', 'slow_down']

/** Redeems the code in a callback URL. @param verifier  of PKCE; null: none */
export async function redeem(
  config: openid.Configuration,
  callback: URL,
  { state, verifier }: { state: string; verifier: string | null },
): Promise<Redeemed> {
  try {
    await openid.authorizationCodeGrant(config, callback, {
      expectedState: state,
      ...(verifier === null ? {} : { pkceCodeVerifier: verifier }),
    })
    return 'tokens'
  } catch (error) {
    const { error: word = wordOf(error), status } = error as { error?: unknown; status?: number }
    if ((status ?? 0) >= 500 || status === 429 || NOT_NOW.includes(String(word))) return { says: explain(error) }
    if (typeof word === 'string' && /^[\w.:-]{1,64}$/.test(word)) return { word }
    const { challenge, code } = wwwAuthenticateOf(error)
    if (challenge !== null) return { word: challenge }
    return status === 401 || code === 401 ? { word: 'invalid_client' } : { says: explain(error) }
  }
}

/** Returns the error in a response with a success status, which GitHub sends. */
function wordOf(error: unknown): unknown {
  const { body } = (innermost(error).cause ?? {}) as { body?: { error?: unknown } }
  return body?.error
}

/** Returns the error of a rejection that came as a challenge, which RFC 6749 §5.2 allows. */
function wwwAuthenticateOf(error: unknown): { challenge: string | null; code: number | null } {
  const { cause, status } = error as { cause?: unknown; status?: number }
  const first = Array.isArray(cause) ? (cause[0] as { parameters?: { error?: string } }) : undefined
  return { challenge: first?.parameters?.error ?? null, code: status ?? null }
}

/** Requests the sign-in page without a user: a provider that does not know the callback URL rejects it immediately. */
async function checkCallback({ provider, connection, way, origin }: Looked, found: ReportFinding): Promise<void> {
  const { authorization_endpoint } = connection.config.serverMetadata()
  if (authorization_endpoint === undefined) return
  const redirect = callbackOf(origin, provider)
  const url = openid.buildAuthorizationUrl(connection.config, {
    ...provider.parameters,
    redirect_uri: redirect,
    scope: provider.scopes.join(' '),
    state: 'check',
    ...(connection.keys === null ? {} : { nonce: 'check' }),
    code_challenge: await openid.calculatePKCECodeChallenge(openid.randomPKCECodeVerifier()),
    code_challenge_method: 'S256',
  })
  try {
    const { status, headers } = await way(url.href)
    const location = headers.get('location')
    const next = location !== null && URL.canParse(location, url.href) ? new URL(location, url) : null
    const error = next?.searchParams.get('error') ?? null
    if (error !== null && next!.href.startsWith(redirect))
      found('callback', false, `the provider redirects back immediately with ${error.slice(0, 64)}`, 'Compare scopes and parameters with the client settings at the provider.') // prettier-ignore
    else if (status >= 400)
      found(
        'callback',
        false,
        `the sign-in page responds with ${status}`,
        `Register exactly ${redirect} at the provider.`,
      )
    else found('callback', true, `the sign-in page opens and does not reject ${redirect}`)
  } catch (error) {
    found('callback', false, `${url.origin}${url.pathname}: ${explain(error)}`)
  }
}

/** Checks that the profile URL exists, and that it rejects a made-up token. */
async function checkProfile(profile: string, way: Outbound, found: ReportFinding): Promise<void> {
  try {
    const { status } = await way(profile, { headers: { accept: 'application/json', authorization: 'Bearer check' } })
    if (status === 401 || status === 403) found('profile', true, `${profile} requires a token`)
    else if (status < 400)
      found('profile', false, `${profile} responds with ${status} to a test token`, 'A URL that responds without a valid token cannot identify a user.') // prettier-ignore
    else found('profile', false, `${profile} responds with ${status} to a test token instead of 401`, 'Compare userUrl with the provider’s documentation.') // prettier-ignore
  } catch (error) {
    found('profile', false, `${profile}: ${explain(error)}`)
  }
}

const TLS = new Set(['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'UNABLE_TO_GET_ISSUER_CERT']) // prettier-ignore

/** Returns the innermost cause in our words. Texts of foreign responses are dropped: they may hold anything. */
function explain(error: unknown): string {
  const { code, message, name } = innermost(error)
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'the host name does not resolve'
  if (code === 'ECONNREFUSED') return 'the connection was refused'
  if (TLS.has(code ?? '')) return 'this machine does not trust the authority of its certificate'
  if (code === 'CERT_HAS_EXPIRED') return 'its certificate has expired'
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return 'its certificate is for another name'
  if (name === 'TimeoutError' || name === 'AbortError') return 'no response within 5 seconds'
  if (OURS.some((one) => message.startsWith(one))) return message
  if (code === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED') return 'the provider describes itself as another issuer'
  const { cause } = innermost(error)
  const { status } = (cause ?? {}) as { status?: unknown }
  if (typeof status === 'number') return `it responds with ${status} instead of a discovery document or a token`
  return 'its response does not conform to the standard'
}

function innermost(error: unknown): NodeJS.ErrnoException {
  let at = error as NodeJS.ErrnoException
  while (at.cause instanceof Error) at = at.cause
  return at
}

/** Beginnings of our own messages about a provider. */
const OURS = ['the provider describes', 'the provider has no', 'the host has', 'the address is', 'the answer is too']

function adviceFor(error: unknown, { issuer }: ProviderSettings): string {
  const says = explain(error)
  if (says.includes('authority')) return 'Set NODE_EXTRA_CA_CERTS to a file with the certificate of your own authority.'
  if (says.includes('not public')) return 'If the provider is in a private network, set "allowPrivate": true.'
  if (says.includes('another issuer')) return 'Set issuer to exactly the `issuer` in the discovery document.'
  return `Open ${issuer.replace(/\/$/, '')}/.well-known/openid-configuration in a browser. If the document does not exist, use kind oauth2.`
}
