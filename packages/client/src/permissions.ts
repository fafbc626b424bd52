/** Returns the permissions of a scope, without the scopes of OpenID Connect. */
export const permissionsOf = (scope: string | undefined): string[] =>
  (scope ?? '').split(' ').filter((one) => one.includes(':'))
