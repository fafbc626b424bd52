import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import { describeError } from '../errors.ts'
import { sendPage } from '../http/page.ts'
import { toAppError } from '../http/problems.ts'
import { accountPages, type AccountReads } from './account.ts'
import { openProvider } from './authorization.ts'
import { consentPages } from './consent.ts'
import { openFederation } from './federation.ts'
import type { PrivateKeys } from './keys.ts'
import { loginPages } from './login.ts'
import { me } from './me.ts'
import { mount } from './mount.ts'
import { errorBody } from './pages.ts'
import { bindProviders, type ProviderSettings } from './providers.ts'
import { openSecrets } from './secrets.ts'
import { wayBack } from './steps.ts'
import { texts } from './texts.ts'

/** bytes of a form; ours hold a token and an answer */
const MAX_FORM_BYTES = 8_192

/** The authorization server under /oauth, its pages under /login and /consent, and /oauth/me. */
export async function oauth(
  server: FastifyInstance,
  app: App,
  { keys, cookieKeys, providers, signInLimit, reads }: OauthOptions,
): Promise<void> {
  await bindProviders(app.db, providers)
  const secrets = openSecrets(cookieKeys)
  const provider = openProvider(app, { keys, cookieKeys, providers, secrets })
  const federation = openFederation(app)

  await server.register(async (scope) => mount(scope, app, provider))
  await server.register(async (scope) => me(scope, app))
  await server.register(async (scope) => {
    if (signInLimit !== undefined) scope.addHook('onRequest', async (request, reply) => signInLimit(request, reply))
    hostedPages(scope, app)
    loginPages(scope, app, { provider, providers, federation, secrets })
    consentPages(scope, app, { provider, secrets })
  })
  // Apart from the above: whoever looks at their account is not signing in again and again.
  await server.register(async (scope) => {
    hostedPages(scope, app)
    accountPages(scope, app, { provider, providers, federation, secrets, reads: reads ?? nothing })
  })
}

/** Where nothing else knows of accounts: an authorization server alone. */
const nothing: AccountReads = { readHoldings: async () => [], readMovements: async () => [] }

/** What every page of ours needs: forms as bodies, refusals as pages. */
function hostedPages(scope: FastifyInstance, app: App): void {
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: MAX_FORM_BYTES },
    (_request, text, done) => done(null, new URLSearchParams(text as string)),
  )
  scope.setErrorHandler((thrown, request, reply) => {
    const error = toAppError(thrown)
    const { status } = describeError(error.code)
    app.telemetry.refusals.inc({ code: error.code })
    if (status >= 500 || error.cause !== undefined)
      app.telemetry.log[status === 500 ? 'error' : 'warn'](
        'sign_in_failed',
        { code: error.code, requestId: request.id },
        error.cause ?? error,
      )
    const back = wayBack.get(request)
    const body = errorBody({
      code: error.code,
      detail: status === 500 ? null : error.message,
      ...(back === undefined ? {} : { back }),
    })
    return sendPage(reply, status, { title: texts.refused.title(error.code), body })
  })
}

export type OauthOptions = {
  keys: PrivateKeys
  /** for signing cookies, newest first; `cookieKeysOf(keys)` */
  cookieKeys: string[]
  providers: ProviderSettings[]
  /** Throws rate_limited; called for every request of a sign-in page. */
  signInLimit?: (request: FastifyRequest, reply: FastifyReply) => void
  /** what other slices know of an account, for its page */
  reads?: AccountReads
}
