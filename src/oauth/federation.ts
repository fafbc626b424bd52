import * as openid from 'openid-client'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { isSubject, newSecret } from '../ids.ts'
import { retrying } from '../store/db.ts'
import type { Profile } from '../users/profile.ts'
import type { ProviderSettings } from './providers.ts'
import { sha256 } from './secrets.ts'

/** How long a visit to a provider may take, seconds. */
const VISIT_SECONDS = 600
/** How long one request to a provider may take, seconds. */
const PATIENCE_SECONDS = 5
/** Discovery documents are read again after this, milliseconds: providers move their endpoints, seldom. */
const DISCOVERY_MS = 3_600_000
/** Signature algorithms of id tokens; `none` and shared-secret ones are not among them. */
const ID_TOKEN_ALGORITHMS = new Set(['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA', 'Ed25519'])

export type Federation = {
  /** Prepares a visit and remembers it. @returns where to send the browser. @throws provider_unavailable */
  visit: (
    provider: ProviderSettings,
    from: { interactionUid: string; browser: string; prompt?: string; loginHint?: string },
  ) => Promise<URL>
  /**
   * Takes a visit that comes back out of use: once, in the browser that left, at the provider it left for.
   * @throws sign_in_expired
   */
  receive: (provider: ProviderSettings, at: { state: string; browser: string | null }) => Promise<Visit>
  /** The person the provider vouches for. @throws sign_in_refused, provider_unavailable */
  identify: (provider: ProviderSettings, visit: Visit, callback: URL) => Promise<Profile>
}

export type Visit = { interactionUid: string; state: string; nonce: string; codeVerifier: string }

/**
 * The way to identity providers and back: authorization code flow with PKCE, state and nonce, every check of the
 * answer by the certified client library, the id token's signature included.
 * Source: OpenID Connect Core §3.1, RFC 9700 §2.1
 */
export function openFederation(app: Pick<App, 'db' | 'origin' | 'now' | 'telemetry'>): Federation {
  const { db, origin } = app
  const discovered = new Map<string, { config: openid.Configuration; readAt: number }>()

  return {
    async visit(provider, { interactionUid, browser, prompt, loginHint }) {
      const config = await discover(provider)
      const visit = {
        state: openid.randomState(),
        nonce: openid.randomNonce(),
        codeVerifier: openid.randomPKCECodeVerifier(),
      }
      await retrying(() =>
        db
          .insertInto('sign_ins')
          .values({
            state_hash: sha256(visit.state),
            interaction_uid: interactionUid,
            provider: provider.name,
            nonce: visit.nonce,
            code_verifier: visit.codeVerifier,
            browser_hash: sha256(browser),
            expires_at: new Date(Date.now() + VISIT_SECONDS * 1_000),
          })
          .execute(),
      )
      return openid.buildAuthorizationUrl(config, {
        ...provider.parameters,
        redirect_uri: callbackOf(origin, provider),
        scope: provider.scopes.join(' '),
        state: visit.state,
        nonce: visit.nonce,
        code_challenge: await openid.calculatePKCECodeChallenge(visit.codeVerifier),
        code_challenge_method: 'S256',
        ...(prompt === undefined ? {} : { prompt }),
        ...(loginHint === undefined ? {} : { login_hint: loginHint }),
      })
    },

    async receive(provider, { state, browser }) {
      const row =
        browser === null
          ? undefined
          : await retrying(() =>
              db
                .updateTable('sign_ins')
                .set({ consumed_at: new Date() })
                .where('state_hash', '=', sha256(state))
                .where('provider', '=', provider.name)
                .where('browser_hash', '=', sha256(browser))
                .where('consumed_at', 'is', null)
                .where('expires_at', '>', new Date())
                .returning(['interaction_uid', 'nonce', 'code_verifier'])
                .executeTakeFirst(),
            )
      if (row === undefined)
        throw new AppError('sign_in_expired', 'It expired, was finished already, or was started in another browser.')
      return { interactionUid: row.interaction_uid, state, nonce: row.nonce, codeVerifier: row.code_verifier }
    },

    async identify(provider, visit, callback) {
      const config = await discover(provider)
      try {
        const tokens = await openid.authorizationCodeGrant(config, callback, {
          pkceCodeVerifier: visit.codeVerifier,
          expectedState: visit.state,
          expectedNonce: visit.nonce,
          idTokenExpected: true,
        })
        assertAlgorithm(tokens.id_token!)
        return await profileOf(provider, config, tokens)
      } catch (error) {
        throw refusal(provider, error)
      }
    },
  }

  /** The provider's own description of itself. Not at start: a provider that is down must not keep the service down. */
  async function discover(provider: ProviderSettings): Promise<openid.Configuration> {
    const known = discovered.get(provider.name)
    if (known !== undefined && app.now() - known.readAt < DISCOVERY_MS) return known.config
    try {
      const config = await openid.discovery(
        new URL(provider.issuer),
        provider.clientId,
        undefined,
        provider.clientSecret === null ? openid.None() : openid.ClientSecretPost(provider.clientSecret),
        // Without the second, the signature of an id token that came over TLS would not be looked at.
        {
          timeout: PATIENCE_SECONDS,
          execute: [
            openid.enableNonRepudiationChecks,
            ...(provider.isDevelopment ? [openid.allowInsecureRequests] : []),
          ],
        },
      )
      discovered.set(provider.name, { config, readAt: app.now() })
      return config
    } catch (error) {
      // A description that was good an hour ago is better than no sign-in.
      if (known !== undefined) return known.config
      app.telemetry.log.warn('provider_unavailable', { provider: provider.name }, error)
      throw unavailable(provider, error)
    }
  }
}

/** Where a provider sends the browser back to; one address per provider, so that no answer is taken for another's (RFC 9700 §4.4). */
export const callbackOf = (origin: string, { name }: ProviderSettings): string => `${origin}/login/callback/${name}`

/** A random value that stays in one browser. */
export const newBrowserId = (): string => newSecret(24)

const unavailable = (provider: ProviderSettings, cause: unknown): AppError =>
  new AppError(
    'provider_unavailable',
    `${provider.label} does not answer at the moment. Try again, or sign in another way.`,
    { cause },
  )

const AWAY_CODES = new Set(['OAUTH_TIMEOUT', 'OAUTH_ABORT'])

/** A provider that is away is told from an answer that fails a check. Messages of the library may hold codes: they stay behind. */
function refusal(provider: ProviderSettings, error: unknown): AppError {
  if (error instanceof AppError) return error
  const { code, status, cause } = error as { code?: string; status?: number; cause?: { status?: number } }
  const isFetchFailure = error instanceof TypeError && error.message === 'fetch failed'
  if (isFetchFailure || AWAY_CODES.has(code ?? '') || (status ?? cause?.status ?? 0) >= 500)
    return unavailable(provider, error)
  return new AppError('sign_in_refused', `The answer of ${provider.label} did not pass a check.`, { cause: error })
}

function assertAlgorithm(idToken: string): void {
  const { alg } = JSON.parse(Buffer.from(idToken.split('.', 1)[0]!, 'base64url').toString()) as { alg?: string }
  if (alg === undefined || !ID_TOKEN_ALGORITHMS.has(alg))
    throw new Error('the id token is signed with an algorithm that is not accepted')
}

type Tokens = Awaited<ReturnType<typeof openid.authorizationCodeGrant>>

/** The claims we keep. The key is the subject claim of the signed id token; the rest may come from userinfo. */
async function profileOf(provider: ProviderSettings, config: openid.Configuration, tokens: Tokens): Promise<Profile> {
  const signed = tokens.claims()!
  const value = signed[provider.subjectClaim]
  const subject = typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : value
  if (typeof subject !== 'string' || !isSubject(subject)) throw new Error('the id token holds no usable subject')
  let claims: Record<string, unknown> = signed
  if (
    !provider.usernameClaims.some((name) => typeof signed[name] === 'string') &&
    config.serverMetadata().userinfo_endpoint !== undefined
  ) {
    claims = { ...(await openid.fetchUserInfo(config, tokens.access_token, signed.sub)), ...signed }
  }
  const text = (name: string): string | null =>
    typeof claims[name] === 'string' && claims[name] !== '' ? claims[name] : null
  const { email_verified: verified } = claims
  return {
    provider: provider.name,
    subject,
    username: provider.usernameClaims.map(text).find((name) => name !== null) ?? null,
    imageSrc: text(provider.pictureClaim),
    email: text('email'),
    // Some providers send it as text.
    emailVerified: text('email') === null ? null : verified === true || verified === 'true',
  }
}
