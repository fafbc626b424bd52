/**
 * oauth: the authorization server, its sign-in and consent pages, and /oauth/me.
 * Owns: codes, tokens, sessions, consents, token exchange, revocations and the list that the signer gets.
 * Does not own: the protocol itself (oidc-provider), identity providers (`federation/`), the account page (`account/`),
 *   tokens at the API (`http/bearer.ts`).
 * Start with `authorization.ts`, then `login.ts` and `consent.ts`.
 * Tables: consents, oauth_records, provider_issuers, revoked_grants, sign_ins.
 */

import type { FastifyInstance } from 'fastify'
import type { Provider } from 'oidc-provider'
import type { App } from '../app.ts'
import { describeError } from '../errors.ts'
import { sendPage, textsOf } from '../http/page.ts'
import { toAppError } from '../http/problems.ts'
import { explainError } from '../texts/page-error.ts'
import type { AccountSlices } from './account/slices.ts'
import { accountPages } from './account/account.ts'
import { openProvider } from './authorization.ts'
import { consentPages } from './consent.ts'
import { openFederation, refusalOf } from './federation/federation.ts'
import type { PrivateKeys } from './keys.ts'
import { loginPages } from './login.ts'
import { me } from './me.ts'
import { mount, mountPosted } from './mount.ts'
import { errorBody } from './pages.ts'
import { bindProviders, type ProviderSettings } from './federation/providers.ts'
import { refusePrefetch } from './prefetch.ts'
import { openSecrets, type Secrets } from './secrets.ts'
import { openSignInLimit } from './sign-in-limit.ts'

/** Maximum body of a form, in bytes. Our forms hold only a CSRF token and an answer. */
const MAX_FORM_BYTES = 8_192

/**
 * Registers the authorization server (/oauth), its pages (/login, /consent), the account pages (/account) and
 * /oauth/me.
 */
export async function oauth(
  server: FastifyInstance,
  app: App,
  { keys, cookieKeys, providers, isLimited = false, slices, more }: OauthOptions,
): Promise<void> {
  await bindProviders(app.db, providers)
  const secrets = openSecrets(cookieKeys)
  const provider = openProvider(app, { keys, cookieKeys, providers, secrets, brand: server.brand })
  const federation = openFederation(app)

  const limited = isLimited ? openSignInLimit(app) : () => {}

  server.decorateRequest('backLink', null)
  await server.register(async (scope) => {
    // Limits only the start of a sign-in. Application servers call the other routes for many users from one address.
    limited(scope, (path) => path === '/oauth/auth')
    refusePrefetch(scope)
    pagesOfErrors(scope, app)
    mount(scope, app, provider)
  })
  await server.register(async (scope) => {
    pagesOfErrors(scope, app)
    mountPosted(scope)
  })
  await server.register(async (scope) => me(scope, app))
  await server.register(async (scope) => {
    limited(scope)
    refusePrefetch(scope)
    hostedPages(scope, app)
    loginPages(scope, app, { provider, providers, federation, secrets })
    consentPages(scope, app, { provider, secrets })
  })
  // Without the sign-in limit: viewing the account page is not a sign-in.
  await server.register(async (scope) => {
    hostedPages(scope, app)
    accountPages(scope, app, { provider, providers, federation, secrets, keys, slices: slices ?? nothing })
    more?.(scope, { provider, secrets })
  })
}

/** Lists nothing, for an authorization server that runs without the other slices. */
export const nothing: AccountSlices = {
  readBalances: async () => [],
  readCollectibles: async () => [],
  readTransfers: async () => ({ entries: [], nextCursor: null }),
  readNativeTransfers: async () => ({ entries: [], nextCursor: null, coverage: { from: null, internalFrom: null } }),
  readNativeEntries: async () => ({ entries: [], nextCursor: null, coverage: { from: null, internalFrom: null } }),
  readSent: async () => ({ entries: [], nextCursor: null }),
  readActivity: async () => ({ entries: [], nextCursor: null, coverage: { from: null, internalFrom: null } }),
  readReceipt: async () => null,
  readKnown: async () => ({ native: null, tokens: [], dealtWith: null }),
  simulate: async () => null,
  readMessages: async () => ({ entries: [], nextCursor: null }),
  readSignatures: async () => ({ entries: [], nextCursor: null }),
  sending: null,
}

/** Accepts forms as bodies and shows errors as pages. */
function hostedPages(scope: FastifyInstance, app: App): void {
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: MAX_FORM_BYTES },
    (_request, text, done) => done(null, new URLSearchParams(text as string)),
  )
  pagesOfErrors(scope, app)
}

function pagesOfErrors(scope: FastifyInstance, app: App): void {
  scope.setErrorHandler((thrown, request, reply) => {
    const error = toAppError(thrown)
    const { status } = describeError(error.code)
    app.telemetry.refusals.inc({ code: error.code })
    const refused = refusalOf(error.cause)
    if (error.code !== 'database_unavailable' && (status >= 500 || error.cause !== undefined))
      app.telemetry.log[status === 500 ? 'error' : 'warn'](
        'sign_in_failed',
        { code: error.code, requestId: request.id, ...(refused === null ? {} : { providerError: refused }) },
        error.cause ?? error,
      )
    if (error.retryAfter !== undefined) reply.header('retry-after', String(error.retryAfter))
    const { href, text, words = textsOf(request) } = request.backLink ?? {}
    const { title, help, detail } = explainError(words, error)
    const body = errorBody(words, {
      code: error.code,
      title,
      help,
      detail: status === 500 ? null : detail,
      ...(href === undefined || text === undefined ? {} : { back: { href, text } }),
    })
    return sendPage(reply, status, { words, title, body })
  })
}

export type OauthOptions = {
  keys: PrivateKeys
  /** keys for signing cookies, newest first: `cookieKeysOf(keys)` */
  cookieKeys: string[]
  providers: ProviderSettings[]
  /** whether SIGN_IN_PER_MINUTE applies; default false */
  isLimited?: boolean
  /** data and sending of other slices, for the account pages; default: none */
  slices?: AccountSlices
  /** registers pages of another slice for signed-in users, such as the console */
  more?: (scope: FastifyInstance, parts: SignedInParts) => void
}

/** Parts by which pages find the signed-in user and verify that a form is theirs. */
export type SignedInParts = { provider: Provider; secrets: Secrets }
