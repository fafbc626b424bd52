import type { Grant, KoaContextWithOIDC, Provider } from 'oidc-provider'
import { audienceOf, type App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import { isOpenToPrograms } from '../applications/redirects.ts'
import { noteUser } from '../applications/registry.ts'
import { OWN_CLIENT, type UserId } from '../ids.ts'
import { cameByOf } from './came-by.ts'
import { applicationOf } from './clients.ts'
import { allowedBy, readConsent, readConsentForKey } from './consents.ts'
import { askedOf, openidOf, questionsOf } from './scopes.ts'
import { unitOfWork, userInRequest } from './unit-of-work.ts'

/**
 * Returns the grant of an authorization request. It makes one without asking if the user has already allowed all of it;
 * otherwise it returns undefined.
 *
 * Each sign-in of an application has a grant of its own: a stolen code or refresh token ends only the sign-in that it
 * was stolen from. The user's consent is stored separately, per application.
 *
 * A public application with a redirect URI that any program can receive asks each time (RFC 8252 §8.6), because another
 * program could impersonate it. It does not ask if its request names a key (`dpop_jkt`) to which the user has already
 * allowed all of it: without that key, the code is worthless (RFC 9449 §10).
 */
export async function grantFor(app: App, ctx: KoaContextWithOIDC): Promise<Grant | undefined> {
  const { oidc } = ctx
  const grantId = oidc.result?.consent?.grantId
  if (grantId !== undefined) return oidc.provider.Grant.find(grantId)
  const accountId = oidc.account!.accountId
  const application = applicationOf(oidc.client)
  const { clientId } = application
  const scopes = oidc.requestParamScopes
  const isOpen = isOpenToOthers(application, oidc.params!.redirect_uri as string)
  const key = keyOf(oidc.params!.dpop_jkt)
  if (isOpen && key === undefined) return undefined
  if (oidc.promptPending('login') || oidc.promptPending('consent')) return undefined
  const user = await userInRequest(app, accountId)
  if (user === null) return undefined
  const whose = { accountId: user.accountId, clientId }
  const known = unitOfWork()?.consent
  const isRead = known?.clientId === clientId && known.accountId === user.accountId
  const allowed = isOpen
    ? await readConsentForKey(app, whose, { key: key!, application })
    : isRead
      ? allowedBy(known, application)
      : await readConsent(app, whose, application)
  // The user has not allowed this key: ask, even if only their identity is requested.
  if (allowed === null) return undefined
  const questions = questionsOf(scopes, application)
  if (!questions.every((scope) => allowed.has(scope))) return undefined
  if (clientId !== OWN_CLIENT && !(isRead && known.isNoted))
    await noteUser(app.db, { clientId, accountId: user.accountId })
  const work = unitOfWork()
  if (work !== null && clientId !== OWN_CLIENT && (isOpen || questions.length > 0)) work.restsOn = whose
  const identity = cameByOf(oidc.session)?.identity
  return saveGrant(app, oidc.provider, { userId: accountId, clientId, scopes, identity })
}

/**
 * Returns whether another program could receive an application's responses. Our own pages redeem no code and have no
 * permissions.
 */
export const isOpenToOthers = ({ clientId, kind }: Application, redirectUri: string): boolean =>
  kind === 'public' && clientId !== OWN_CLIENT && isOpenToPrograms(redirectUri)

/** Returns the key that an authorization request names (`dpop_jkt`); undefined if it is no thumbprint. */
export const keyOf = (named: unknown): string | undefined =>
  typeof named === 'string' && /^[\w-]{43}$/.test(named) ? named : undefined

/** Makes the library store the identity that a grant came by: it stores only the fields of this list. */
export function keepIdentity(provider: Provider): void {
  const { Grant } = provider as unknown as { Grant: { IN_PAYLOAD: string[] } }
  Object.defineProperty(Grant, 'IN_PAYLOAD', { value: [...Grant.IN_PAYLOAD, 'identity'] })
}

type GrantTerms = {
  userId: string
  clientId: string
  scopes: Iterable<string>
  /** the identity that the user signed in with; undefined if it was not recorded */
  identity: UserId | undefined
  /** seconds, for a grant without a refresh token */
  expiresIn?: number
}

/** Stores a grant of these scopes. */
export async function saveGrant(
  app: App,
  provider: Provider,
  { userId, clientId, scopes, identity, ...lifetime }: GrantTerms,
): Promise<Grant> {
  const grant = Object.assign(new provider.Grant({ accountId: userId, clientId, ...lifetime }), { identity })
  const all = [...scopes]
  grant.addOIDCScope(openidOf(all).join(' '))
  const permissions = askedOf(all).filter((scope) => scope !== 'email')
  if (permissions.length > 0) grant.addResourceScope(audienceOf(app.origin), permissions.join(' '))
  await grant.save()
  return grant
}
