import type { AdapterPayload } from 'oidc-provider'
import type { App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import { findClient } from './first-party.ts'
import { machineGrantable } from './scopes.ts'

/** Source: RFC 8693 §2.1 */
export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'

/**
 * An application in the words of the library. Redirect addresses, secrets and origins are judged by our own rules
 * (see authorization.ts), which find the application under `application`. A suspended one does not exist.
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
    // A confidential client may prove its secret either way: the library takes Basic and body alike.
    token_endpoint_auth_method: application.kind === 'public' ? 'none' : 'client_secret_basic',
    // The library wants one; ours are hashes, and its own comparison is never reached.
    ...(application.kind === 'public' ? {} : { client_secret: 'kept as a hash' }),
    // What sponsors may send for it is no matter of signing in, and the library writes its clients as JSON, which has no bigint.
    application: { ...application, sponsor: null },
  }
}

/** Only who can keep a secret can prove that it is itself. */
const mayActAlone = (application: Application): boolean =>
  application.kind === 'confidential' && machineGrantable(application).length > 0

const mayExchange = ({ kind, issuers = [] }: Application): boolean => kind === 'confidential' && issuers.length > 0

/** The application behind a client of the library. */
export const applicationOf = (client: unknown): Application => (client as { application: Application }).application
