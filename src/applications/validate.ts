import type { FieldError } from '../errors.ts'
import { parseUserId } from '../ids.ts'
import type { Quota } from '../store/column-values.ts'
import type { Application } from './application.ts'
import { isPermission, machinePermissions, userPermissions } from './permissions.ts'
import { explainRedirect } from './redirects.ts'
import type { ApplicationSettings } from './wire.ts'
import { isAddress, amountIn } from '../digits.ts'

const MAX_LIST = 50
const MAX_URI = 2_000
const MAX_QUOTA = 1_000_000_000_000
const MAX_WEIGHT = 100
const MAX_CONTRACTS = 1_000

/** An application before any check: its texts may be anything. */
export type Claimed = Omit<Application, 'permissions' | 'chainId' | 'isSuspended' | 'sponsor'> &
  Pick<ApplicationSettings, 'permissions' | 'sponsor'>

/** Returns everything that makes an application unsafe, each with its place; empty if nothing does. */
export function explainApplication(application: Claimed): FieldError[] {
  const { clientId, name, kind, redirectUris, permissions, allowedOrigins, secretHashes, logoUri, needsPkce } =
    application
  const { quotas = [], weight = 1, sponsor, postLogoutRedirectUris = [] } = application
  const problems: FieldError[] = []
  const refuse = (pointer: string, detail: string) => problems.push({ pointer, code: 'invalid', detail })

  if (!/^[\w.-]{1,100}$/.test(clientId)) refuse('/clientId', 'The client id must be letters, digits, `.`, `_` or `-`.')
  // It is the `sub` of the application's own tokens, so it must not be a user id.
  if (parseUserId(clientId) !== null) refuse('/clientId', 'The client id must not look like the id of a user.')
  const problem = explainName(name)
  if (problem !== null) refuse('/name', `The name ${problem}.`)
  if (redirectUris.length === 0) refuse('/redirectUris', 'At least one redirect URI is required.')
  if (redirectUris.length > MAX_LIST) refuse('/redirectUris', `At most ${MAX_LIST} redirect URIs are allowed.`)
  for (const [index, uri] of redirectUris.entries()) {
    const wrong = explainLength(uri) ?? explainRedirect(uri)
    if (wrong !== null) refuse(`/redirectUris/${index}`, `The redirect URI ${shown(uri)} ${wrong}.`)
  }
  if (postLogoutRedirectUris.length > MAX_LIST)
    refuse('/postLogoutRedirectUris', `At most ${MAX_LIST} post-logout redirect URIs are allowed.`)
  for (const [index, uri] of postLogoutRedirectUris.entries()) {
    const wrong = explainLength(uri) ?? (uri.endsWith('/*') ? 'has a wildcard' : explainRedirect(uri))
    if (wrong !== null)
      refuse(`/postLogoutRedirectUris/${index}`, `The post-logout redirect URI ${shown(uri)} ${wrong}.`)
  }
  if (permissions.length === 0) refuse('/permissions', 'At least one permission is required.')
  for (const [index, permission] of permissions.entries()) {
    if (!isPermission(permission))
      refuse(
        `/permissions/${index}`,
        `The permission ${shown(permission)} does not exist. Known permissions: ${[...userPermissions, ...machinePermissions].join(', ')}.`,
      )
  }
  if (allowedOrigins.length > MAX_LIST) refuse('/allowedOrigins', `At most ${MAX_LIST} origins are allowed.`)
  for (const [index, origin] of allowedOrigins.entries()) {
    const wrong = explainOrigin(origin)
    if (wrong !== null) refuse(`/allowedOrigins/${index}`, `The origin ${shown(origin)} ${wrong}.`)
  }
  if (logoUri !== null && !(explainLength(logoUri) === null && URL.canParse(logoUri) && logoUri.startsWith('https://')))
    refuse('/logoUri', 'The logo must be an https address.')
  if (kind === 'public' && needsPkce === false) refuse('/needsPkce', 'Only a confidential application may omit PKCE.')
  if (kind === 'public' && secretHashes.length > 0) refuse('/kind', 'A public application has no secret.')
  if (kind === 'confidential' && secretHashes.length === 0)
    refuse('/kind', 'A confidential application needs a secret.')
  if (secretHashes.some((hash) => !/^[0-9a-f]{64}$/.test(hash)))
    refuse('/kind', 'The hash of a secret must be 64 hexadecimal digits.')
  for (const [index, quota] of quotas.entries()) {
    const wrong = explainQuota(quota, quotas.slice(0, index))
    if (wrong !== null) refuse(`/quotas/${index}`, `The quota ${wrong}.`)
  }
  if (!Number.isInteger(weight) || weight < 1 || weight > MAX_WEIGHT)
    refuse('/weight', `The weight must be a whole number from 1 to ${MAX_WEIGHT}.`)
  const contracts = sponsor?.contracts ?? []
  if (contracts.length > MAX_CONTRACTS)
    refuse('/sponsor/contracts', `A budget names at most ${MAX_CONTRACTS} contracts.`)
  for (const [index, contract] of contracts.entries())
    if (!isAddress(contract)) refuse(`/sponsor/contracts/${index}`, 'A contract must be 0x and 40 hexadecimal digits.')
  for (const [which, whom] of Object.entries({ perUser: 'one person', perApplication: 'all its people' } as const))
    if (sponsor !== null && amountIn(sponsor[which as 'perUser' | 'perApplication']) === null)
      refuse(
        `/sponsor/${which}`,
        `The amount that sponsors may pay ${whom} must be wei: decimal digits of a number below 2^256.`,
      )
  return problems
}

/** Returns the same, and the problems of settings that only this program may use, for its demo application. */
export function explainRegistration(application: Claimed): FieldError[] {
  const { kind, redirectUris, permissions } = application
  const problems = explainApplication(application)
  for (const [index, uri] of redirectUris.entries())
    if (uri.endsWith('/*') && explainRedirect(uri) === null)
      problems.push({
        pointer: `/redirectUris/${index}`,
        code: 'invalid',
        detail: `The redirect URI ${shown(uri)} has a wildcard.`,
      })
  for (const [index, permission] of permissions.entries())
    if (kind === 'public' && permission === 'users:read')
      problems.push({
        pointer: `/permissions/${index}`,
        code: 'invalid',
        detail: `The permission ${permission} needs a confidential application.`,
      })
  return problems
}

/** Explains why a quota is invalid. `counts` and `per` are checked where they are read. */
function explainQuota({ counts, limit, per }: Quota, before: readonly Quota[]): string | null {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_QUOTA)
    return `must allow 1 to ${MAX_QUOTA} ${counts} per ${per}`
  return before.some((other) => other.counts === counts && other.per === per)
    ? `is the second one of ${counts} per ${per}`
    : null
}

function explainLength(uri: string): string | null {
  if (uri.length > MAX_URI) return `is longer than ${MAX_URI} characters`
  // URL parsers ignore such characters, and PostgreSQL rejects some.
  return /[\p{C}\s]/u.test(uri) ? 'has characters that a URI cannot have' : null
}

/**
 * Explains why a name is invalid. It is shown on the consent page, so it may not have invisible characters or reverse
 * the text.
 */
function explainName(name: string): string | null {
  if (name.trim() === '' || name.length > 100) return 'must have 1 to 100 characters'
  if (name !== name.trim()) return 'begins or ends with a space'
  return /\p{C}|[\u2028\u2029]/u.test(name) ? 'has invisible characters' : null
}

function explainOrigin(text: string): string | null {
  if (text.length > MAX_URI || !URL.canParse(text) || new URL(text).origin !== text)
    return 'must be a scheme, a host and nothing behind it, such as https://app.example'
  return /^https:|^http:\/\/(localhost|127\.0\.0\.1|\[::1\])(:|$)/.test(text)
    ? null
    : 'must be https, or http on loopback'
}

const shown = (text: string): string => JSON.stringify(text.slice(0, 200))
