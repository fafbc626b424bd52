import { createHash } from 'node:crypto'
import { issuerOf, type App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import { findApplication } from '../applications/registry.ts'
import { isId, newSecret, OWN_CLIENT } from '../ids.ts'

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
 * Destination of a repeated sign-in: to sending, to the export, to an approval by its id, or (`again`) to the security page,
 * to repeat the action there. `act.`: to a path of the console, for the same.
 */
export type ComesBackTo = 'again' | 'send' | 'export' | `approve.${string}` | `act.${string}`

/** Where a first sign-in leads: to the account page, the list of approvals, an approval by its id, or a path of the console. */
type FirstVisit = 'first' | 'approvals' | `approval.${string}` | `open.${string}`

const isFirstVisit = (place: ComesBackTo | FirstVisit): place is FirstVisit =>
  place === 'first' || place === 'approvals' || place.startsWith('approval.') || place.startsWith('open.')

/**
 * Returns the path to which a sign-in comes back. `state` can be written by anyone: it chooses among our own pages.
 */
export function pathAfter(state: unknown): string {
  if (typeof state !== 'string') return '/account'
  if (state === 'send' || state === 'export' || state === 'approvals') return `/account/${state}`
  const [, id = ''] = /^appro(?:val|ve)\.(.*)$/s.exec(state) ?? []
  if (isId(id)) return `/account/approvals/${id}`
  const [, how, path] = /^(open|act)\.(\/console(?:\/[\w.~%:@-]+)*)$/.exec(state) ?? []
  if (path !== undefined) return how === 'act' ? `${path}?done=again` : path
  return state === 'again' ? '/account/security?done=again' : '/account'
}

const returnOf = (origin: string): string => `${origin}/account/signed-in`

/**
 * Returns the address where a browser signs in to the account pages. They need only the resulting session; nobody can
 * redeem the code, because its verifier is dropped.
 * @param comesBackTo  a first visit: an existing session suffices; otherwise the user must sign in again for that action
 */
export function ownSignIn(authOrigin: string, { comesBackTo }: { comesBackTo: FirstVisit | ComesBackTo }): string {
  const query = new URLSearchParams({
    client_id: OWN_CLIENT,
    response_type: 'code',
    scope: 'openid',
    redirect_uri: returnOf(authOrigin),
    code_challenge: createHash('sha256').update(newSecret()).digest('base64url'),
    code_challenge_method: 'S256',
    state: comesBackTo,
    ...(isFirstVisit(comesBackTo) ? {} : { prompt: 'login' }),
  })
  return `${issuerOf({ authOrigin })}/auth?${query.toString()}`
}
