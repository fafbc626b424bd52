/**
 * oauth/federation: sign-in with an identity provider.
 * Owns: the settings of identity providers and their presets, visits to providers, profiles, guarded requests to the
 *   outside (`http/outbound.ts`).
 * Does not own: users (`users/sign-in.ts`), sessions and codes. It does not depend on the authorization server.
 * Start with `providers.ts` for settings.
 */

import { compactVerify, type CompactVerifyGetKey, type JWTVerifyGetKey } from 'jose'
import { sql, type RawBuilder } from 'kysely'
import * as openid from 'openid-client'
import type { App } from '../../app.ts'
import { AppError } from '../../errors.ts'
import { isAuthentic, type RowReader } from '../../http/authentic-row.ts'
import { newSecret } from '../../ids.ts'
import { prepared } from '../../store/prepared.ts'
import { sealOf, type SealedRows } from '../../store/seal.ts'
import type { Profile } from '../../users/profile.ts'
import { openConnections, unavailable } from './connection.ts'
import { isKeyMissing } from './issuer-keys.ts'
import { personOf, subjectOf, withMore } from './claims.ts'
import { askProfile, withoutIssuer } from './userinfo.ts'
import type { ProviderSettings } from './providers.ts'
import { sha256 } from '../../sha256.ts'
import { PageError } from '../../texts/page-error.ts'

/** Maximum duration of a visit to a provider, in seconds. */
const VISIT_SECONDS = 600
/** Accepted signature algorithms of id tokens: without `none` and those of shared secrets. */
export const ID_TOKEN_ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'] // prettier-ignore

export type Federation = {
  /** Stores a new visit. @returns where to send the browser. @throws provider_unavailable */
  visit: (
    provider: ProviderSettings,
    from: { interactionUid: string; browser: string; request: string | null; asksAgain?: boolean; loginHint?: string },
  ) => Promise<URL>
  /**
   * Uses up a visit whose callback arrives: once, in the browser that left, at the provider it left for. Later
   * callbacks of the same browser and provider get a `SpentVisit`.
   * @throws sign_in_expired
   */
  receive: (provider: ProviderSettings, at: { state: string; browser: string | null }) => Promise<Visit | SpentVisit>
  /** Returns the user that the provider vouches for. @throws sign_in_refused, provider_unavailable */
  identify: (provider: ProviderSettings, visit: Visit, callback: URL) => Promise<Identified>
}

/** `authTime`: when the provider asked the user, in seconds since 1970; null if it does not say. */
type Identified = { profile: Profile; authTime: number | null }

type Visit = {
  isSpent: false
  interactionUid: string
  state: string
  nonce: string
  codeVerifier: string
  /** seconds since 1970 */
  leftAt: number
}

/**
 * A visit whose callback was used before, or is too late. `request`: the query of the authorization request that it was
 * for.
 */
export type SpentVisit = { isSpent: true; interactionUid: string; request: string | null }

/**
 * Opens the visits to identity providers: authorization code flow with PKCE, state and nonce. The certified client
 * library checks the response; `verifySignature` checks the signature of the id token. A provider without id tokens is
 * asked for the profile, with the access token that it gave us directly.
 * Source: OpenID Connect Core §3.1, RFC 9700 §2.1
 */
export function openFederation(app: Pick<App, 'db' | 'authOrigin' | 'clock' | 'telemetry' | 'sealKeys'>): Federation {
  const { db, authOrigin, telemetry } = app
  const connect = openConnections(app)

  return {
    async visit(provider, { interactionUid, browser, request, asksAgain = false, loginHint }) {
      const { config } = await connect(provider)
      const visit = {
        state: openid.randomState(),
        nonce: openid.randomNonce(),
        codeVerifier: openid.randomPKCECodeVerifier(),
      }
      const row = {
        state_hash: sha256(visit.state),
        interaction_uid: interactionUid,
        provider: provider.name,
        nonce: visit.nonce,
        code_verifier: visit.codeVerifier,
        browser_hash: sha256(browser),
        request,
        expires_at: new Date(app.clock.wall() + VISIT_SECONDS * 1_000),
      }
      await sql`${prepared}
          insert into sign_ins (state_hash, interaction_uid, provider, nonce, code_verifier, browser_hash, request, expires_at, seal)
          values (${row.state_hash}, ${row.interaction_uid}, ${row.provider}, ${row.nonce}, ${row.code_verifier},
            ${row.browser_hash}, ${row.request}, ${row.expires_at}, ${sealOf(app.sealKeys, 'sign_ins', row)})`.execute(
        db,
      )
      // With max_age, an OpenID provider must return `auth_time` (Core §3.1.2.1).
      const {
        askAgain = { prompt: 'login', max_age: '0' },
        hintParameter = 'login_hint',
        endpoints,
        refusesPkce = false,
      } = provider.dialect ?? {}
      return openid.buildAuthorizationUrl(config, {
        ...provider.parameters,
        ...(asksAgain ? askAgain : {}),
        redirect_uri: callbackOf(authOrigin, provider),
        scope: provider.scopes.join(' '),
        state: visit.state,
        // Only an id token can return it.
        ...(endpoints === undefined ? { nonce: visit.nonce } : {}),
        // Sent to all others: a provider that does not know PKCE ignores it (RFC 6749 §3.1).
        ...(refusesPkce
          ? {}
          : {
              code_challenge: await openid.calculatePKCECodeChallenge(visit.codeVerifier),
              code_challenge_method: 'S256',
            }),
        ...(loginHint === undefined || hintParameter === null ? {} : { [hintParameter]: loginHint }),
      })
    },

    async receive(provider, { state, browser }) {
      const visit = browser === null ? null : await takeVisit(app, provider, { state, browser })
      if (visit === null) throw new PageError('sign_in_expired', ({ refused }) => refused.over)
      return visit
    },

    async identify(provider, visit, callback) {
      const { config, keys } = await connect(provider)
      const sentPkce = provider.dialect?.refusesPkce === true ? {} : { pkceCodeVerifier: visit.codeVerifier }
      const checks = { ...sentPkce, expectedState: visit.state }
      try {
        if (provider.dialect?.endpoints !== undefined) {
          const tokens = await openid.authorizationCodeGrant(config, withoutIssuer(callback), checks)
          const { access_token: accessToken } = tokens
          const profile = await askProfile(provider, provider.dialect.endpoints, { config, accessToken })
          return { profile, authTime: null }
        }
        const tokens = await openid.authorizationCodeGrant(config, callback, {
          ...checks,
          expectedNonce: visit.nonce,
          idTokenExpected: true,
        })
        await verifySignature(provider, keys!, tokens.id_token!)
        const { auth_time } = tokens.claims()!
        const profile = await profileOf({ provider, telemetry }, { config, tokens, answer: callback })
        // Glewlwyd on SQLite always sends 0, which is not a time.
        return { profile, authTime: typeof auth_time === 'number' && auth_time > 0 ? auth_time : null }
      } catch (error) {
        throw refusal(provider, error)
      }
    },
  }
}

/**
 * Uses up a visit, in one conditional statement: of parallel callbacks with one state, on any replica, one finds it
 * unused.
 */
async function takeVisit(
  app: RowReader & Pick<App, 'clock' | 'db'>,
  { name }: ProviderSettings,
  { state, browser }: { state: string; browser: string },
): Promise<Visit | SpentVisit | null> {
  const now = new Date(app.clock.wall())
  const isIt = sql`state_hash = ${sha256(state)} and provider = ${name} and browser_hash = ${sha256(browser)}`
  const columns = sql`state_hash, interaction_uid, provider, nonce, code_verifier, browser_hash, request, expires_at, seal`
  const read = async (statement: RawBuilder<VisitRow>): Promise<VisitRow | null> => {
    const { rows } = await statement.execute(app.db)
    const [row] = rows
    const about = { provider: name, interaction: row?.interaction_uid ?? '' }
    return row !== undefined && isAuthentic(app, 'sign_ins', row, about) ? row : null
  }
  const taken = await read(sql<VisitRow>`${prepared}
    update sign_ins set consumed_at = ${now} where ${isIt} and consumed_at is null and expires_at > ${now}
    returning ${columns}`)
  if (taken !== null) {
    const { interaction_uid: interactionUid, nonce, code_verifier: codeVerifier, expires_at: until } = taken
    const leftAt = until.getTime() / 1_000 - VISIT_SECONDS
    return { isSpent: false, interactionUid, state, nonce, codeVerifier, leftAt }
  }
  const spent = await read(sql<VisitRow>`select ${columns} from sign_ins where ${isIt}`)
  return spent === null ? null : { isSpent: true, interactionUid: spent.interaction_uid, request: spent.request }
}

type VisitRow = SealedRows['sign_ins'] & { seal: string | null }

/**
 * Returns the callback URL of a provider. Each provider has its own, so that no response is taken for another
 * provider's (RFC 9700 §4.4).
 */
export const callbackOf = (authOrigin: string, { name }: ProviderSettings): string =>
  `${authOrigin}/login/callback/${name}`

/** Returns a new random value that marks one browser. */
export const newBrowserId = (): string => newSecret(24)

/**
 * Returns the error code of a provider (RFC 6749 §5.2), for the log; null if there is none. Descriptions are dropped,
 * because they may hold anything.
 */
export function refusalOf(error: unknown): string | null {
  const { error: word } = (error ?? {}) as { error?: unknown }
  return typeof word === 'string' && /^[\w.:-]{1,64}$/.test(word) ? word : null
}

const AWAY_CODES = new Set(['OAUTH_TIMEOUT', 'OAUTH_ABORT'])

/**
 * Distinguishes an unavailable provider from a response that fails a check. The library's messages may contain codes,
 * so ours does not repeat them.
 */
function refusal(provider: ProviderSettings, error: unknown): AppError {
  if (error instanceof AppError) return error
  const { code, status, cause } = error as { code?: string; status?: number; cause?: { status?: number } }
  const isFetchFailure = error instanceof TypeError && error.message === 'fetch failed'
  if (isFetchFailure || AWAY_CODES.has(code ?? '') || (status ?? cause?.status ?? 0) >= 500)
    return unavailable(provider, error)
  return new PageError('sign_in_refused', ({ refused }) => refused.failedCheck(provider.label), { cause: error })
}

/**
 * Verifies the signature of an id token whose claims the library has checked. The library could verify it too, but
 * reads keys again after a minute at the earliest. Until then it would reject a provider that has just changed its
 * keys.
 */
async function verifySignature(provider: ProviderSettings, keys: JWTVerifyGetKey, idToken: string): Promise<void> {
  const keyOf: JWTVerifyGetKey = async (header, token) => {
    try {
      return await keys(header, token)
    } catch (error) {
      throw isKeyMissing(error) ? error : unavailable(provider, error)
    }
  }
  await compactVerify(idToken, keyOf as CompactVerifyGetKey, { algorithms: ID_TOKEN_ALGORITHMS })
}

type ProviderTokens = Awaited<ReturnType<typeof openid.authorizationCodeGrant>>

/**
 * Returns the profile of a user. The subject claim of the signed id token identifies the user. What else the id token
 * lacks may come from userinfo (OpenID Connect Core §5.4) or from the callback.
 */
async function profileOf(
  { provider, telemetry }: Pick<App, 'telemetry'> & { provider: ProviderSettings },
  { config, tokens, answer }: { config: openid.Configuration; tokens: ProviderTokens; answer: URL },
): Promise<Profile> {
  const signed = tokens.claims()!
  const subject = subjectOf(provider, signed)
  const { hasNameInAnswer = false, hasAllInIdToken = false } = provider.dialect ?? {}
  if (hasNameInAnswer) return personOf(provider, subject, { ...signed, name: answer.searchParams.get('name') })
  const person = personOf(provider, subject, signed)
  const isWhole = [person.username, person.imageSrc, person.email].every((one) => one !== null)
  if (isWhole || hasAllInIdToken || config.serverMetadata().userinfo_endpoint === undefined) return person
  const more = await openid
    .fetchUserInfo(config, tokens.access_token, openid.skipSubjectCheck)
    .catch((error: unknown) => {
      // Continue: the id token has identified the user.
      telemetry.log.warn('userinfo_unavailable', { provider: provider.name }, error)
      return null
    })
  if (more === null) return { ...person, isPartial: true }
  if (more.sub !== signed.sub) throw new Error('userinfo is about another subject')
  return personOf(provider, subject, withMore(signed, more))
}
