import { errors, type Provider, type TokenEndpointGrantContext } from 'oidc-provider'
import { audienceOf, type App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import { noteUser } from '../applications/registry.ts'
import { AppError, describeError } from '../errors.ts'
import { openLimit } from '../http/limits.ts'
import { userIdOf } from '../ids.ts'
import { signIn } from '../users/sign-in.ts'
import { applicationOf, TOKEN_EXCHANGE } from './clients.ts'
import { saveGrant } from './grants.ts'
import { openIssuerKeys, type IssuerKeys } from './federation/issuer-keys.ts'
import { personOf, subjectOf } from './federation/claims.ts'
import { keyOfRequest } from './proofs.ts'
import { apiResource } from './resource.ts'
import { grantable, resolveScopes } from './scopes.ts'
import { spendOnce } from './spend-once.ts'
import { SubjectTokenRefused, verifySubjectToken, type SubjectToken } from './subject-token.ts'

const TYPE = 'urn:ietf:params:oauth:token-type:'
const ACCESS_TOKEN = `${TYPE}access_token`
const SUBJECT_TYPES = [`${TYPE}jwt`, `${TYPE}id_token`]

type Parameters = {
  subject_token?: string
  subject_token_type?: string
  requested_token_type?: string
  actor_token?: string
  actor_token_type?: string
  scope?: string
  resource?: string | string[]
  audience?: string | string[]
}
type Context = TokenEndpointGrantContext<Parameters>

/**
 * Adds token exchange, for applications that bring their own identity provider. Its subject token becomes a user and an
 * access token of the usual kind, bound to the application and its network. There is no refresh token: the next subject
 * token gets the next access token.
 *
 * The library has authenticated the application; only a confidential one with an issuer has this grant type. A user is
 * identified by the subject and the provider name that the operator gave the issuer, never by an e-mail address. So no
 * issuer can name a user of this installation's own providers.
 * Source: RFC 8693
 */
export function addTokenExchange(provider: Provider, app: App): void {
  const { config } = app
  const keysOf = openIssuerKeys(app)
  const perSecond = config.APPLICATION_PER_SECOND
  const limit = openLimit({ name: 'token-exchange', perSecond, burst: perSecond, now: () => app.clock.wall() })
  const parameters = ['subject_token', 'subject_token_type', 'requested_token_type', 'actor_token', 'actor_token_type', 'scope', 'resource', 'audience'] // prettier-ignore

  provider.registerGrantType<Parameters>(
    TOKEN_EXCHANGE,
    async (ctx) => {
      try {
        const { clientId } = ctx.oidc.client
        const taken = config.RATE_LIMITS === 'on' ? limit.take(clientId) : null
        if (taken?.allowed === false)
          throw new AppError(
            'rate_limited',
            `The limit is ${perSecond} token exchanges per second. Nothing was done. Retry after \`Retry-After\` seconds.`,
            taken,
          )
        ctx.body = await exchange(app, provider, { ctx, keysOf })
        app.telemetry.signIns.inc({ provider: EXCHANGED })
      } catch (error) {
        app.telemetry.signInsFailed.inc({ provider: EXCHANGED, reason: reasonOf(error) })
        throw asOauthError(ctx, error)
      }
    },
    parameters,
    ['resource', 'audience'],
  )
}

async function exchange(
  app: App,
  provider: Provider,
  { ctx, keysOf }: { ctx: Context; keysOf: IssuerKeys },
): Promise<Record<string, unknown>> {
  const { client, params } = ctx.oidc
  const application = applicationOf(client)
  const token = subjectTokenOf(params)
  assertTarget(app, params)
  const scopes = scopesFor(application, params.scope)
  const subject = await verifySubjectToken(token, application.issuers ?? [], { keysOf, now: app.clock.wall() })
  const profile = profileOf(subject)
  const jkt = await keyOfRequest(app, ctx)
  const { userId, accountId } = await signIn(app, profile)
  // Spend it as late as possible: if an earlier step fails, the same token can be sent again.
  if (!subject.trusted.isReusable) await spend(app, subject)
  await noteUser(app.db, { clientId: client.clientId, accountId })
  const expiresIn = app.config.ACCESS_TOKEN_SECONDS
  const grant = await saveGrant(app, provider, {
    userId,
    clientId: client.clientId,
    scopes,
    identity: userIdOf(profile.provider, profile.subject),
    expiresIn,
  })
  ctx.oidc.entity('Grant', grant)
  // The customizer in authorization.ts builds the token's `scope` from this.
  params.scope = scopes.join(' ')
  const permissions = grantable(application).filter((one) => scopes.includes(one))
  const accessToken = new provider.AccessToken({
    client,
    accountId: userId,
    grantId: grant.jti,
    gty: 'token_exchange',
    resourceServer: new provider.ResourceServer(audienceOf(app.origin), apiResource(app, permissions)),
    scope: permissions.join(' '),
  })
  if (jkt !== null) accessToken.setThumbprint('jkt', jkt)
  const value = await accessToken.save()
  app.telemetry.log.info('token_exchanged', { provider: subject.trusted.provider, clientId: client.clientId })
  return {
    access_token: value,
    issued_token_type: ACCESS_TOKEN,
    token_type: accessToken.tokenType,
    expires_in: accessToken.expiration,
    scope: accessToken.scope,
  }
}

/** Returns the subject token. @throws invalid_request for missing and unsupported parameters (RFC 8693 §2.1) */
function subjectTokenOf(params: Parameters): string {
  const { subject_token, subject_token_type, requested_token_type, actor_token, actor_token_type } = params
  if (!subject_token) throw new errors.InvalidRequest('subject_token is missing')
  if (subject_token_type === undefined || !SUBJECT_TYPES.includes(subject_token_type))
    throw new errors.InvalidRequest(`subject_token_type must be ${SUBJECT_TYPES.join(' or ')}`)
  if (requested_token_type !== undefined && requested_token_type !== ACCESS_TOKEN)
    throw new errors.InvalidRequest(`requested_token_type must be ${ACCESS_TOKEN}`)
  if (actor_token !== undefined || actor_token_type !== undefined)
    throw new errors.InvalidRequest('delegation is not supported: actor_token is not accepted')
  return subject_token
}

/** @throws invalid_target for any resource but the API */
function assertTarget({ origin }: App, { resource, audience }: Parameters): void {
  for (const one of [resource ?? [], audience ?? []].flat())
    if (one !== audienceOf(origin)) throw new errors.InvalidTarget(`the only resource here is ${audienceOf(origin)}`)
}

/** Returns the requested scopes, or all that the application may have. @throws invalid_scope */
function scopesFor(application: Application, asked: string | undefined): string[] {
  const possible: string[] = ['openid', 'profile', 'email', ...grantable(application)]
  for (const scope of asked?.split(' ') ?? [])
    if (!possible.includes(scope)) throw new errors.InvalidScope('a token exchange cannot grant this', scope)
  return resolveScopes(asked, application)
}

function profileOf({ trusted, claims }: SubjectToken) {
  try {
    return personOf({ name: trusted.provider, ...trusted }, subjectOf(trusted, claims), claims)
  } catch {
    throw new SubjectTokenRefused(`The subject token has no usable user id in ${trusted.subjectClaim}.`)
  }
}

/** Uses up a subject token: of parallel exchanges, the first one succeeds. @throws SubjectTokenRefused */
async function spend({ db }: App, { trusted, mark, expiresAt }: SubjectToken): Promise<void> {
  // A minute later, because clocks differ.
  const until = expiresAt + 60
  if (!(await spendOnce(db, { kind: 'SubjectToken', parts: [trusted.issuer, trusted.audience, mark], until })))
    throw new SubjectTokenRefused('The subject token was already exchanged.')
}

/** One label for all issuers: applications bring any number of them. */
const EXCHANGED = 'token_exchange'

function reasonOf(error: unknown): string {
  if (error instanceof SubjectTokenRefused) return 'subject_token_refused'
  if (error instanceof AppError) return error.code
  return error instanceof errors.OIDCProviderError ? error.error : 'internal_error'
}

/** Maps an error to OAuth (RFC 6749 §5.2). A failure of ours has its own status, and the request may be retried. */
function asOauthError(ctx: Context, error: unknown): unknown {
  if (error instanceof SubjectTokenRefused) return new errors.InvalidRequest(error.message)
  if (!(error instanceof AppError) || describeError(error.code).status === 500) return error
  if (error.retryAfter !== undefined) ctx.set('retry-after', String(error.retryAfter))
  const answer = new errors.OIDCProviderError(describeError(error.code).status, 'temporarily_unavailable')
  return Object.assign(answer, { error_description: error.message, expose: true })
}
