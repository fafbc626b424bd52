import type { ResourceServer } from 'oidc-provider'
import { audienceOf, type App } from '../app.ts'

/** Describes the API to the library: the only resource, with JWT access tokens (RFC 9068). */
export const apiResource = (
  { config, origin }: Pick<App, 'config' | 'origin'>,
  permissions: readonly string[],
): ResourceServer => ({
  audience: audienceOf(origin),
  scope: permissions.join(' '),
  accessTokenTTL: config.ACCESS_TOKEN_SECONDS,
  accessTokenFormat: 'jwt',
  jwt: { sign: { alg: 'ES256' } },
})
