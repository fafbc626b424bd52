import type { Grant, KoaContextWithOIDC, Provider } from 'oidc-provider'
import { audienceOf, type App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import { isOpenToPrograms } from '../applications/redirects.ts'
import { noteUser } from '../applications/registry.ts'
import type { UserId } from '../ids.ts'
import { cameByOf } from './came-by.ts'
import { applicationOf } from './clients.ts'
import { allowedBy, readConsent, readConsentForKey } from './consents.ts'
import { OWN_CLIENT } from './first-party.ts'
import { askedOf, openidOf, questionsOf } from './scopes.ts'
import { unitOfWork, userInRequest } from './unit-of-work.ts'

/**
 * The grant of an authorization request, made without asking when the user has allowed all of it before.
 *
 * Each sign-in of an application has a grant of its own: a stolen code or refresh token ends the sign-in it was
 * stolen from, not the user's other devices. What the user allowed is remembered apart from it, per application.
 *
 * An application that anything on the device can pass itself off as, a public one behind an address where any program may
 * wait, asks each time (RFC 8252 §8.6), unless its request names a key (`dpop_jkt`) to which the user allowed all of it
 * before: without that key the code is worth nothing (RFC 9449 §10).
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
  // Without a yes to that key there is nothing to go by, also where nothing but who they are is asked for.
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

/** Whether another program may take an application's answers. Our own pages take no code and are given nothing. */
export const isOpenToOthers = ({ clientId, kind }: Application, redirectUri: string): boolean =>
  kind === 'public' && clientId !== OWN_CLIENT && isOpenToPrograms(redirectUri)

/** The key that an authorization request names (`dpop_jkt`), if that can be the thumbprint of one. */
export const keyOf = (named: unknown): string | undefined =>
  typeof named === 'string' && /^[\w-]{43}$/.test(named) ? named : undefined

/** Lets a grant hold the identity it came by: the library stores the fields of this list. */
export function keepIdentity(provider: Provider): void {
  const { Grant } = provider as unknown as { Grant: { IN_PAYLOAD: string[] } }
  Object.defineProperty(Grant, 'IN_PAYLOAD', { value: [...Grant.IN_PAYLOAD, 'identity'] })
}

type GrantTerms = {
  userId: string
  clientId: string
  scopes: Iterable<string>
  /** by which the person came; undefined where that was not noted */
  identity: UserId | undefined
  /** where no refresh token comes of it: seconds */
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
