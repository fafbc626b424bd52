import type { Grant, KoaContextWithOIDC, Provider } from 'oidc-provider'
import { audienceOf, type App } from '../app.ts'
import { noteUser } from '../applications/registry.ts'
import { findUser } from '../users/find.ts'
import { readConsent } from './consents.ts'
import { OWN_CLIENT } from './first-party.ts'
import { askedOf, openidOf } from './scopes.ts'

/**
 * The grant of an authorization request, made without asking when the user has allowed all of it before.
 *
 * Each sign-in of an application has a grant of its own: a stolen code or refresh token ends the sign-in it was
 * stolen from, not the user's other devices. What the user allowed is remembered apart from it, per application.
 */
export async function grantFor(app: App, ctx: KoaContextWithOIDC): Promise<Grant | undefined> {
  const { oidc } = ctx
  const grantId = oidc.result?.consent?.grantId
  if (grantId !== undefined) return oidc.provider.Grant.find(grantId)
  const accountId = oidc.account!.accountId
  const { clientId } = oidc.client!
  const scopes = oidc.requestParamScopes
  if (oidc.promptPending('login') || oidc.promptPending('consent')) return undefined
  const user = await findUser(app.db, accountId)
  if (user === null) return undefined
  const allowed = await readConsent(app.db, { accountId: user.accountId, clientId })
  if (!askedOf(scopes).every((scope) => allowed.has(scope))) return undefined
  if (clientId !== OWN_CLIENT) await noteUser(app.db, { clientId, accountId: user.accountId })
  return saveGrant(app, oidc.provider, { userId: accountId, clientId, scopes })
}

type Terms = {
  userId: string
  clientId: string
  scopes: Iterable<string>
  /** where no refresh token comes of it: seconds */
  expiresIn?: number
}

/** Stores a grant of these scopes. */
export async function saveGrant(
  app: App,
  provider: Provider,
  { userId, clientId, scopes, ...lifetime }: Terms,
): Promise<Grant> {
  const grant = new provider.Grant({ accountId: userId, clientId, ...lifetime })
  const all = [...scopes]
  grant.addOIDCScope(openidOf(all).join(' '))
  const permissions = askedOf(all).filter((scope) => scope !== 'email')
  if (permissions.length > 0) grant.addResourceScope(audienceOf(app.origin), permissions.join(' '))
  await grant.save()
  return grant
}
