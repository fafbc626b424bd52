import { errors, interactionPolicy, Provider, type Configuration, type KoaContextWithOIDC } from 'oidc-provider'
import { audienceOf, issuerOf, type App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import { isOriginAllowed, isPostLogoutAllowed, isRedirectAllowed, isSecretRight } from '../applications/registry.ts'
import { machinePermissions, userPermissions } from '../applications/permissions.ts'
import { AppError, type ErrorCode } from '../errors.ts'
import { parseUserId } from '../ids.ts'
import type { Brand } from '../http/brand.ts'
import { PROOF_ALGORITHMS } from '../http/dpop.ts'
import { PAGE_CSP, page } from '../http/page.ts'
import { languages, textsFor } from '../texts/choose.ts'
import type { Texts } from '../texts/en.ts'
import { describeCode } from '../texts/page-error.ts'
import { provenUser, userWire } from '../users/find.ts'
import { ifProven } from '../users/proven-identity.ts'
import { cameByOf, stillHolds } from './came-by.ts'
import { applicationOf } from './clients.ts'
import { cookieNames, openCookieSigner } from './cookies.ts'
import { wasDenied } from './denied.ts'
import { addTokenExchange } from './exchange.ts'
import { grantFor, keepIdentity } from './grants.ts'
import { NEW_SPENDING } from './interactions.ts'
import type { PrivateKeys } from './keys.ts'
import { badRequestBody, errorBody, signedOutBody, signOutBody } from './pages.ts'
import { keepProofsOnce } from './proofs.ts'
import type { ProviderSettings } from './federation/providers.ts'
import { recordsOf } from './records.ts'
import { apiResource } from './resource.ts'
import { domainsClaim, grantable, machineGrantable, openidScopes, resolveScopes, SPENDS } from './scopes.ts'
import type { Secrets } from './secrets.ts'
import { isFresh } from './sessions.ts'
import { userInRequest, writeAtEnd } from './unit-of-work.ts'

/** Maximum time from the first page of a sign-in to the last, in seconds. */
const INTERACTION_SECONDS = 3_600

/** Opens the authorization server: the certified library with our storage, our policy and our pages. */
export function openProvider(
  app: App,
  {
    keys,
    cookieKeys,
    providers,
    secrets,
    brand,
  }: { keys: PrivateKeys; cookieKeys: string[]; providers: ProviderSettings[]; secrets: Secrets; brand: Brand },
): Provider {
  const { config, origin, authOrigin } = app
  const issuer = issuerOf(app)
  const showPage = (ctx: KoaContextWithOIDC, words: Texts, title: string, body: string): void => {
    ctx.type = 'html'
    ctx.set('content-security-policy', PAGE_CSP)
    ctx.set('cache-control', 'no-store')
    ctx.body = page(brand, { words, title, body })
  }
  const provider = new Provider(issuer, {
    adapter: recordsOf(app),
    jwks: { keys: keys.keys.map((key) => ({ ...key })) },
    cookies: cookieSettings(authOrigin, cookieKeys),
    responseTypes: ['code'],
    pkce: { required: (ctx, client) => isPkceNeeded(applicationOf(client), ctx.oidc.params ?? {}) },
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
    enabledJWA: { idTokenSigningAlgValues: ['RS256', 'ES256'], dPoPSigningAlgValues: [...PROOF_ALGORITHMS] },
    scopes: [...openidScopes],
    claims: {
      // Some clients read only the id token: NextAuth takes the whole profile from it, with `openid email`.
      openid: ['sub', 'username', 'address'],
      profile: ['name', 'preferred_username', 'picture'],
      email: ['email', 'email_verified'],
    },
    extraClientMetadata: { properties: ['application'] },
    features: {
      devInteractions: { enabled: false },
      // `/oauth/me` is our own route. It accepts the same access token as the API.
      userinfo: { enabled: false },
      clientCredentials: { enabled: true },
      pushedAuthorizationRequests: { enabled: false },
      dPoP: { enabled: true },
      introspection: { enabled: true, allowedPolicy: (_ctx, client, token) => token.clientId === client.clientId },
      revocation: { enabled: true, allowedPolicy: (_ctx, client, token) => token.clientId === client.clientId },
      rpInitiatedLogout: {
        enabled: true,
        logoutSource: (ctx, form) => {
          const words = textsOf(ctx)
          showPage(ctx, words, words.leaving.title, signOutBody(words, { application: applicationName(ctx), form }))
        },
        postLogoutSuccessSource: (ctx) => {
          const words = textsOf(ctx)
          showPage(ctx, words, words.leaving.doneTitle, signedOutBody(words, { application: applicationName(ctx) }))
        },
      },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audienceOf(origin),
        useGrantedResource: () => true,
        getResourceServerInfo: (ctx, resource, client) => {
          if (resource !== audienceOf(origin)) throw new errors.InvalidTarget('the only resource here is the API')
          const isMachine = ctx.oidc.params?.grant_type === 'client_credentials'
          if (isMachine) resolveMachineScope(ctx, applicationOf(client))
          return apiResource(app, (isMachine ? machineGrantable : grantable)(applicationOf(client)))
        },
      },
    },
    discovery: {
      userinfo_endpoint: `${issuer}/me`,
      ui_locales_supported: languages.map(({ language }) => language),
    },
    ttl: {
      AccessToken: config.ACCESS_TOKEN_SECONDS,
      ClientCredentials: config.ACCESS_TOKEN_SECONDS,
      AuthorizationCode: config.CODE_SECONDS,
      IdToken: config.ID_TOKEN_SECONDS,
      RefreshToken: (_ctx, token) =>
        Math.max(1, Math.min(config.REFRESH_TOKEN_SECONDS, config.REFRESH_FAMILY_SECONDS - token.totalLifetime())),
      Grant: config.REFRESH_TOKEN_SECONDS + config.ACCESS_TOKEN_SECONDS,
      Session: config.SESSION_SECONDS,
      Interaction: INTERACTION_SECONDS,
    },
    extraParams: {
      // The library calls this for every authorization request, with or without the parameter.
      login_provider: (ctx, name) => {
        const { params, client } = ctx.oidc
        params!.scope = resolveScopes(params!.scope as string | undefined, applicationOf(client)).join(' ')
        if (name === undefined) return
        // An unknown provider is ignored: the user chooses on the page.
        params!.login_provider = providers.find((one) => one.name === name.toUpperCase())?.name
      },
    },
    interactions: {
      policy: policy(app),
      url: (_ctx, { prompt, uid }) => (prompt.name === 'consent' ? `/consent/${uid}` : `/login/${uid}`),
    },
    // `source` is a code or a refresh token; without it, the session decides.
    findAccount: async (ctx, userId, source) => {
      const user = await ifProven(userInRequest(app, userId))
      const cameBy = cameByOf((source ?? ctx.oidc.session) as { amr?: unknown } | undefined)
      if (user === null || !(await stillHolds(app, user, cameBy))) return undefined
      const { id, username, address, imageSrc } = userWire(await provenUser(app, user))
      return {
        accountId: id,
        claims: () => ({
          sub: id,
          name: username,
          username,
          address,
          preferred_username: username,
          ...(imageSrc === null ? {} : { picture: imageSrc }),
          ...(user.email === null ? {} : { email: user.email, email_verified: user.emailVerified === true }),
        }),
      }
    },
    loadExistingGrant: (ctx) => grantFor(app, ctx),
    // Refresh tokens depend on the client's grant types, not on offline_access with prompt=consent.
    issueRefreshToken: (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    expiresWithSession: () => false,
    revokeGrantPolicy: () => true,
    extraTokenClaims: (_ctx, token) => {
      const application = applicationOf((token as { client?: unknown }).client)
      const { grantId, scope } = token as { grantId?: string; scope?: string }
      return { chain_id: application.chainId, gid: grantId, ...domainsClaim(scope, application) }
    },
    formats: {
      customizers: {
        // The API and `/oauth/me` accept the same token, so its scope and the token response list both kinds of scope.
        jwt: (ctx, token, jwt) => {
          const { entities, params, requestParamScopes } = ctx.oidc
          const source = entities.AuthorizationCode ?? entities.RefreshToken
          const asked = params?.scope === undefined && source !== undefined ? source.scopes : requestParamScopes
          const openid = entities.Grant?.getOIDCScopeFiltered(asked) ?? ''
          const scope = [openid, token.scope].filter((one) => one !== undefined && one !== '').join(' ')
          token.scope = scope
          ;(jwt.payload as { scope?: string }).scope = scope
        },
      },
    },
    clientBasedCORS: (_ctx, from, client) => isOriginAllowed(applicationOf(client), from),
    renderError: (ctx, out, error) => {
      const words = textsOf(ctx)
      const refuse = (code: ErrorCode): void => {
        const [title, help] = describeCode(words, code)
        showPage(ctx, words, title, errorBody(words, { code, title, help, detail: null }))
      }
      if (isAway(error)) return refuse(error.code)
      if (out.error === 'server_error') return refuse('internal_error')
      if (error instanceof errors.SessionNotFound) return refuse('sign_in_expired')
      const of = ctx.path.startsWith('/session/end') ? 'badSignOut' : 'badSignIn'
      // Names the failed check: it helps the application's developer and reveals nothing to others.
      const isUnknown = error instanceof errors.InvalidClient
      const detail = isUnknown ? UNKNOWN_CLIENT : (out.error_description ?? null)
      const addresses = config.NODE_ENV === 'production' ? null : refusedAddress(ctx, of)
      showPage(
        ctx,
        words,
        words.refused[of].pageTitle,
        badRequestBody(words, { of, error: out.error, detail, addresses }),
      )
    },
  } satisfies Configuration)

  const client = provider.Client.prototype as unknown as Record<string, (this: unknown, value: string) => boolean>
  client.redirectUriAllowed = function (value) {
    return typeof value === 'string' && isRedirectAllowed(applicationOf(this), value)
  }
  client.postLogoutRedirectUriAllowed = function (value) {
    return typeof value === 'string' && isPostLogoutAllowed(applicationOf(this), value)
  }
  client.compareClientSecret = function (value) {
    return isSecretRight(applicationOf(this), value)
  }
  const refreshTokens = provider.RefreshToken.prototype as unknown as { generateTokenId: () => string }
  const randomId = refreshTokens.generateTokenId
  refreshTokens.generateTokenId = function () {
    const used = Provider.ctx?.oidc.entities.RotatedRefreshToken?.jti
    return used === undefined ? randomId.call(this) : secrets.successorOf(used)
  }

  writeAtEnd(provider, app)
  keepIdentity(provider)
  keepProofsOnce(provider, app)
  addTokenExchange(provider, app)

  correct(provider)

  // Use the forwarded host and protocol, which mount.ts sets from our own settings.
  provider.proxy = true
  provider.silent = true
  provider.on('server_error', (ctx, error) => {
    app.telemetry.log.error('oauth_failed', {}, error)
    if (isAway(error)) repeatLater(ctx, error)
  })
  return provider
}

/**
 * Returns whether an authorization request must use PKCE. A confidential application whose library does not support
 * PKCE may be registered without it. Then a nonce must bind the code to the browser, which only an OpenID Connect
 * request has.
 * Source: RFC 9700 §2.1.1
 */
const isPkceNeeded = ({ kind, needsPkce }: Application, params: { nonce?: unknown; scope?: unknown }): boolean =>
  needsPkce !== false ||
  kind === 'public' ||
  typeof params.nonce !== 'string' ||
  params.nonce === '' ||
  !String(params.scope).split(' ').includes('openid')

/**
 * Returns the redirect address that was rejected and those that are registered; null if the address is not the problem.
 */
function refusedAddress(
  { oidc }: KoaContextWithOIDC,
  of: 'badSignIn' | 'badSignOut',
): { sent: string; registered: string[] } | null {
  if (oidc?.client === undefined) return null
  const application = applicationOf(oidc.client)
  const [name, isAllowed] =
    of === 'badSignIn'
      ? (['redirect_uri', isRedirectAllowed] as const)
      : (['post_logout_redirect_uri', isPostLogoutAllowed] as const)
  const sent = oidc.params?.[name]
  if (typeof sent !== 'string' || isAllowed(application, sent)) return null
  const { redirectUris, allowedOrigins, postLogoutRedirectUris = [] } = application
  const registered =
    of === 'badSignIn'
      ? redirectUris
      : [...postLogoutRedirectUris, ...redirectUris, ...allowedOrigins.map((origin) => `${origin}/`)]
  return { sent, registered: [...new Set(registered)] }
}

const isAway = (error: unknown): error is AppError => error instanceof AppError && error.code === 'database_unavailable'

/** Replaces `server_error`, which clients treat as final. The library has already set the status from the error. */
function repeatLater(ctx: KoaContextWithOIDC, { message, retryAfter = 1 }: AppError): void {
  ctx.set('retry-after', String(retryAfter))
  if ((ctx.body as { error?: string } | undefined)?.error === 'server_error')
    ctx.body = { error: 'temporarily_unavailable', error_description: message }
}

/** Detail for the application's developer, in English like every `error_description`. */
const UNKNOWN_CLIENT = 'No application has this client_id, or the operator has suspended the application.'

/** Claims that the library lists in discovery, but this server never gives. */
const NEVER_GIVEN = ['acr', 'sid']

/**
 * Corrects responses of the library. Discovery lists the scopes and claims that this server gives. A successful
 * revocation has a JSON body, because clients stumble over an empty one (RFC 7009 §2.2 ignores the body).
 */
function correct(provider: Provider): void {
  provider.use(async (ctx, next) => {
    await next()
    const { route } = (ctx.oidc ?? {}) as { route?: string }
    if (route === 'discovery') {
      const described = ctx.body as { scopes_supported: string[]; claims_supported: string[] }
      described.scopes_supported = [...openidScopes, ...userPermissions, ...machinePermissions]
      described.claims_supported = described.claims_supported.filter((claim) => !NEVER_GIVEN.includes(claim))
    }
    if (route === 'revocation' && ctx.status === 200) ctx.body = {}
  })
}

/**
 * Builds the rules for when a user must sign in or consent: the library's rules, with these changes.
 * - Consent is remembered for native applications too.
 * - After the user denied access, the application's next request asks which account to use.
 * - A session whose sign-in was ended asks for a new sign-in.
 * - `login_provider` asks for a sign-in if the session came from another provider.
 * - A new permission to spend asks for a sign-in if the last one is not recent.
 */
function policy(app: Pick<App, 'clock' | 'authOrigin'>): interactionPolicy.DefaultPolicy {
  const { base, Check, Prompt } = interactionPolicy
  const prompts = base()
  prompts.get('consent')!.checks.remove('native_client_prompt')
  // Shown on the sign-in page. Whether a provider offers several accounts is up to the provider.
  const denied = new Check(
    'denied_before',
    'the person who is signed in denied access',
    'account_selection_required',
    ({ oidc, req }) => {
      const isAsked =
        oidc.session?.accountId !== undefined &&
        oidc.result?.select_account === undefined &&
        wasDenied(app.authOrigin, oidc.client!.clientId, req.headers.cookie)
      return isAsked ? Check.REQUEST_PROMPT : Check.NO_NEED_TO_PROMPT
    },
  )
  prompts.add(new Prompt({ name: 'select_account', requestable: true }, denied), 0)
  prompts
    .get('login')!
    .checks.add(
      new Check('sign_in_ended', 'the sign-in of this session was ended', ({ oidc }) =>
        oidc.session?.accountId !== undefined && oidc.account === undefined
          ? Check.REQUEST_PROMPT
          : Check.NO_NEED_TO_PROMPT,
      ),
    )
  prompts.get('login')!.checks.add(
    new Check('other_provider', 'a sign-in with another provider is requested', ({ oidc }) => {
      const asked = oidc.params?.login_provider
      const userId = cameByOf(oidc.session)?.identity ?? oidc.session?.accountId
      if (asked === undefined || userId === undefined || oidc.result?.login !== undefined)
        return Check.NO_NEED_TO_PROMPT
      return parseUserId(userId)?.provider === asked ? Check.NO_NEED_TO_PROMPT : Check.REQUEST_PROMPT
    }),
  )
  prompts.get('login')!.checks.add(
    new Check(NEW_SPENDING, 'a new permission to spend takes a recent sign-in', ({ oidc }) => {
      const { session, result, requestParamScopes, entities } = oidc
      // A grant without an id is not saved yet, so the user has not allowed it.
      const isNew = requestParamScopes.has(SPENDS) && entities.Grant?.jti === undefined
      if (!isNew || session?.accountId === undefined || result?.login !== undefined) return Check.NO_NEED_TO_PROMPT
      return isFresh(session.loginTs, app.clock) ? Check.NO_NEED_TO_PROMPT : Check.REQUEST_PROMPT
    }),
  )
  return prompts
}

/**
 * Sets the scope of a client credentials request: the requested one, or all that the application may have. A scope that
 * only users can grant is rejected, because dropping it would hide the developer's mistake.
 * @throws invalid_scope
 */
function resolveMachineScope({ oidc }: KoaContextWithOIDC, application: Application): void {
  const allowed: string[] = machineGrantable(application)
  const params = oidc.params as { scope?: string }
  params.scope ??= allowed.join(' ')
  for (const scope of params.scope.split(' '))
    if (!allowed.includes(scope)) throw new errors.InvalidScope('not available to an application by itself', scope)
}

function cookieSettings(origin: string, keys: string[]): Configuration['cookies'] {
  const { session, interaction, resume } = cookieNames(origin)
  const attributes = {
    signed: true,
    httpOnly: true,
    overwrite: true,
    sameSite: 'lax',
    secure: origin.startsWith('https:'),
  } as const
  return {
    keys: openCookieSigner(keys),
    names: { session, interaction, resume },
    long: { ...attributes, path: '/' },
    short: attributes,
  }
}

/**
 * Returns texts in the language of `ui_locales`, otherwise of the browser. For a rejected request, `ctx.oidc` may be
 * missing.
 */
const textsOf = (ctx: KoaContextWithOIDC): Texts => {
  const asked = (ctx.oidc as KoaContextWithOIDC['oidc'] | undefined)?.params?.ui_locales
  return textsFor({ accept: ctx.get('accept-language'), uiLocales: typeof asked === 'string' ? asked : null })
}

const applicationName = (ctx: KoaContextWithOIDC): string | null =>
  ctx.oidc.client === undefined ? null : applicationOf(ctx.oidc.client).name
