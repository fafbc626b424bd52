import type { Application } from '../applications/application.ts'
import { machinePermissions, userPermissions, type Permission } from '../applications/permissions.ts'
import { webOrigin } from '../applications/redirects.ts'

/** Scopes of OpenID Connect. The scopes of the API are the permissions of applications. */
export const openidScopes = ['openid', 'profile', 'email', 'offline_access'] as const

/**
 * Returns the claim that tells the signer for which hosts a token may sign in with its account (ERC-4361): those of the
 * application's origins and redirect addresses. Only tokens that may sign messages have it.
 */
export function domainsClaim(scope: string | undefined, application: Registered): { domains?: string[] } {
  const isSigning = (scope ?? '').split(' ').includes('messages:sign' satisfies Permission)
  return isSigning ? { domains: domainsOf(application) } : {}
}

type Registered = Pick<Application, 'allowedOrigins' | 'redirectUris'>

/** Returns the web origins of an application: its origins, and those of its redirect addresses. */
export const webOriginsOf = ({ allowedOrigins, redirectUris }: Registered): string[] => [
  ...new Set([...allowedOrigins, ...redirectUris].flatMap((uri) => webOrigin(uri) ?? [])),
]

/** Returns the hosts of an application's web origins. A redirect address with a private-use scheme has none. */
export const domainsOf = (application: Registered): string[] => [
  ...new Set(webOriginsOf(application).map((origin) => new URL(origin).host)),
]

/** The permission that costs money: it is shown separately and needs a recent sign-in. */
export const SPENDS = 'contracts:write' satisfies Permission

const isOpenid = (scope: string): boolean => (openidScopes as readonly string[]).includes(scope)

/** Returns the permissions that a user can give an application. */
export const grantable = ({ permissions }: Application): Permission[] =>
  userPermissions.filter((one) => permissions.includes(one))

/** Returns the permissions that an application has for itself. */
export const machineGrantable = ({ permissions }: Application): Permission[] =>
  machinePermissions.filter((one) => permissions.includes(one))

/**
 * Resolves the scopes of an authorization request into those that are asked for and granted.
 * - Without a scope of the API, it adds every permission of the application: the client may know only OpenID Connect.
 * - It drops unknown scopes and permissions that the application does not have. The token response lists what was
 *   granted.
 * - Without any known scope, it adds `openid`.
 */
export function resolveScopes(asked: string | undefined, application: Application): string[] {
  const names = new Set((asked ?? '').split(' ').filter((scope) => scope !== ''))
  const openid = [...names].filter(isOpenid)
  const api: readonly string[] = userPermissions
  const named = [...names].filter((scope) => api.includes(scope))
  const allowed = grantable(application)
  const permissions = named.length === 0 ? allowed : allowed.filter((one) => names.has(one))
  return [...(openid.length === 0 && named.length === 0 ? ['openid'] : openid), ...permissions]
}

/** Returns the scopes that need the user's consent: permissions, and the e-mail address. */
export const askedOf = (scopes: Iterable<string>): string[] =>
  [...scopes].filter((scope) => scope === 'email' || !isOpenid(scope))

/**
 * Returns the questions to the user: `askedOf`, and the permissions of the application's own requests for their
 * account.
 */
export const questionsOf = (scopes: Iterable<string>, application: Application): string[] => [
  ...askedOf(scopes),
  ...(application.kind === 'confidential' ? machineGrantable(application) : []),
]

/** Returns the scopes of OpenID Connect. */
export const openidOf = (scopes: Iterable<string>): string[] => [...scopes].filter(isOpenid)
