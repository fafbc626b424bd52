import type { Application } from '../applications/application.ts'
import { machinePermissions, userPermissions, type Permission } from '../applications/permissions.ts'

/** Scopes of OpenID Connect; those of the API are the permissions of applications. */
export const openidScopes = ['openid', 'profile', 'email', 'offline_access'] as const

/** The permission that costs: it is said apart from the others, and takes a recent sign-in. */
export const SPENDS = 'contracts:write' satisfies Permission

const isOpenid = (scope: string): boolean => (openidScopes as readonly string[]).includes(scope)

/** Permissions that an application may be given by a person. */
export const grantable = ({ permissions }: Application): Permission[] =>
  userPermissions.filter((one) => permissions.includes(one))

/** Permissions that an application has for itself. */
export const machineGrantable = ({ permissions }: Application): Permission[] =>
  machinePermissions.filter((one) => permissions.includes(one))

/**
 * The scopes of an authorization request, as they are then asked for and granted.
 *
 * Without a scope of the API, a client that knows only OpenID Connect gets every permission that its application is
 * registered with. What the application is not registered with, and what nobody knows, is dropped: the token response
 * says what was given. Without any scope the request is one for `openid`.
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

/** The part of the scopes that takes a person's word: the permissions, and their e-mail address. */
export const askedOf = (scopes: Iterable<string>): string[] =>
  [...scopes].filter((scope) => scope === 'email' || !isOpenid(scope))

/** What a person is asked about: those, and what a server of the application may do for itself with their account. */
export const questionsOf = (scopes: Iterable<string>, application: Application): string[] => [
  ...askedOf(scopes),
  ...(application.kind === 'confidential' ? machineGrantable(application) : []),
]

/** The part that concerns OpenID Connect. */
export const openidOf = (scopes: Iterable<string>): string[] => [...scopes].filter(isOpenid)
