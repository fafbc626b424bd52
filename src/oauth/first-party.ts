import { createHash } from 'node:crypto'
import { issuerOf, type App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import { findApplication } from '../applications/registry.ts'
import { newSecret } from '../ids.ts'

/** Client id of our own pages. No registered application can have it: theirs hold no colon. */
export const OWN_CLIENT = 'urn:chatelaine:account'

/** An application as the sign-in pages see it: a registered one, or our own account pages. */
export const findClient = async (
  app: Pick<App, 'clock' | 'db' | 'state' | 'authOrigin' | 'sealKeys' | 'telemetry'>,
  clientId: string,
) => (clientId === OWN_CLIENT ? ownClient(app.authOrigin) : findApplication(app, clientId))

/**
 * The account pages as a client of the authorization server: a sign-in for them is one like any other, with the same
 * providers and checks. It has no permission, no network and one redirect address, on our own origin.
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

/** Where a sign-in that was asked for again leads: to what was wanted, or to the account, to repeat it there. */
export type ComesBackTo = 'again' | 'send' | 'export'

const returnOf = (origin: string): string => `${origin}/account/signed-in`

/**
 * Where a browser signs in for the account pages. What they need is the session that comes of it; the code in the
 * answer is for nobody, because nobody knows its verifier.
 * @param comesBackTo  `first`: anyone who is signed in will do; otherwise it is asked again who it is, for what is said
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
