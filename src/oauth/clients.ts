import type { AdapterPayload } from 'oidc-provider'
import type { App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import { findClient } from './first-party.ts'
import { machineGrantable } from './scopes.ts'

/** Source: RFC 8693 §2.1 */
export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'

/**
 * Reads an application as a client of the library; undefined if it does not exist or is suspended. Our own rules in
 * authorization.ts check redirect URIs, secrets and origins; they find the application as `application`.
 */
export async function readClient(app: App, clientId: string): Promise<AdapterPayload | undefined> {
  const application = await findClient(app, clientId)
  if (application === null || application.isSuspended) return undefined
  const isNative = application.redirectUris.some((uri) => !/^https?:/.test(uri))
  return {
    client_id: application.clientId,
    client_name: application.name,
    redirect_uris: application.redirectUris,
    application_type: isNative ? 'native' : 'web',
    grant_types: [
      'authorization_code',
      'refresh_token',
      ...(mayActAlone(application) ? ['client_credentials'] : []),
      ...(mayExchange(application) ? [TOKEN_EXCHANGE] : []),
    ],
    response_types: ['code'],
    dpop_bound_access_tokens: application.needsDpop === true,
    // A confidential client may also send its secret in the body: the library accepts both.
    token_endpoint_auth_method: application.kind === 'public' ? 'none' : 'client_secret_basic',
    // The library requires a secret. Ours are hashes, and authorization.ts replaces the library's comparison.
    ...(application.kind === 'public' ? {} : { client_secret: 'kept as a hash' }),
    // Signing in does not need the sponsor, whose bigint the library could not write as JSON.
    application: { ...application, sponsor: null },
  }
}

/** Only a confidential application can prove its identity. */
const mayActAlone = (application: Application): boolean =>
  application.kind === 'confidential' && machineGrantable(application).length > 0

const mayExchange = ({ kind, issuers = [] }: Application): boolean => kind === 'confidential' && issuers.length > 0

/** Returns the application behind a client of the library. */
export const applicationOf = (client: unknown): Application => (client as { application: Application }).application
