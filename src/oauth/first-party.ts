import { createHash } from 'node:crypto'
import { issuerOf, type App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import { findApplication } from '../applications/registry.ts'
import { newSecret } from '../ids.ts'

/** Client id of our own pages. Ids of registered applications contain no colon, so none can equal it. */
export const OWN_CLIENT = 'urn:chatelaine:account'

/** Finds an application for the sign-in pages: a registered one, or our own account pages. */
export const findClient = async (
  app: Pick<App, 'clock' | 'db' | 'state' | 'authOrigin' | 'sealKeys' | 'telemetry'>,
  clientId: string,
) => (clientId === OWN_CLIENT ? ownClient(app.authOrigin) : findApplication(app, clientId))

/**
 * Describes the account pages as a client of the authorization server, so that signing in to them has the same
 * providers and checks. It has no permission, no network and one redirect URI, on our own origin.
 */
const ownClient = (origin: string): Application => ({
  clientId: OWN_CLIENT,
  name: 'your account',
  chainId: 0,
  kind: 'public',
  redirectUris: [returnOf(origin)],
  permissions: [],
  allowedOrigins: [],
  secretHashes: [],
  logoUri: null,
  isSuspended: false,
  sponsor: null,
})

/**
 * Destination of a repeated sign-in: to sending, to the export, or (`again`) to the account page, to repeat the action
 * there.
 */
export type ComesBackTo = 'again' | 'send' | 'export'

const returnOf = (origin: string): string => `${origin}/account/signed-in`

/**
 * Returns the address where a browser signs in to the account pages. They need only the resulting session; nobody can
 * redeem the code, because its verifier is dropped.
 * @param comesBackTo  `first`: an existing session suffices; otherwise the user must sign in again for that action
 */
export function ownSignIn(authOrigin: string, { comesBackTo }: { comesBackTo: 'first' | ComesBackTo }): string {
  const query = new URLSearchParams({
    client_id: OWN_CLIENT,
    response_type: 'code',
    scope: 'openid',
    redirect_uri: returnOf(authOrigin),
    code_challenge: createHash('sha256').update(newSecret()).digest('base64url'),
    code_challenge_method: 'S256',
    state: comesBackTo,
    ...(comesBackTo === 'first' ? {} : { prompt: 'login' }),
  })
  return `${issuerOf({ authOrigin })}/auth?${query.toString()}`
}
