/** Permissions of an application, which are also the scopes of its access tokens. */
export type Permission =
  | 'wallet:read'
  | 'contracts:read'
  | 'contracts:write'
  | 'messages:sign'
  | 'users:directory'
  | 'users:read'
  | 'events:read'
  | 'webhooks:manage'

/** Permissions that a user gives an application over their own account. */
export const userPermissions = [
  'wallet:read',
  'contracts:read',
  'contracts:write',
  'messages:sign',
  'users:directory',
] as const satisfies Permission[]

/** Permissions that only a machine token has: over the users who allowed it, and over the application's own feed of events and its webhooks. */
export const machinePermissions = ['users:read', 'events:read', 'webhooks:manage'] as const satisfies Permission[]

const all: readonly string[] = [...userPermissions, ...machinePermissions]

export const isPermission = (text: string): text is Permission => all.includes(text)
