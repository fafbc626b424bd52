import * as openid from 'openid-client'
import type { Profile } from '../../users/profile.ts'
import { personOf, subjectOf } from './claims.ts'
import type { Endpoints } from './presets.ts'
import type { ProviderSettings } from './providers.ts'

/**
 * Requests the profile of a user from a provider without id tokens. The access token came from the provider's own token
 * endpoint for our code, client and verifier. So it belongs to this visitor and was issued to us.
 * @throws Error  if the response is unusable, with the status of a provider that fails
 */
export async function askProfile(
  provider: ProviderSettings,
  { profile, emails }: Endpoints,
  { config, accessToken }: { config: openid.Configuration; accessToken: string },
): Promise<Profile> {
  const { wrapper } = provider.dialect!
  const said = objectOf(await request(profile))
  const claims = wrapper === undefined ? said : objectOf(said[wrapper])
  const subject = subjectOf(provider, claims)
  if (emails === undefined) return personOf(provider, subject, claims)
  return personOf(provider, subject, { ...claims, ...primaryOf(await request(emails)) })

  async function request(url: string): Promise<unknown> {
    const headers = new Headers({ accept: 'application/json' })
    const answer = await openid.fetchProtectedResource(config, accessToken, new URL(url), 'GET', null, headers)
    if (answer.status !== 200)
      throw Object.assign(new Error('the provider does not give the profile'), { status: answer.status })
    return answer.json()
  }
}

/**
 * Returns the callback URL without the `iss` of RFC 9207: a provider without discovery has no issuer to compare it
 * with. A response meant for another provider is recognised by its callback URL, which differs for each (RFC 9700
 * §4.4.2.2).
 */
export function withoutIssuer(callback: URL): URL {
  const url = new URL(callback)
  url.searchParams.delete('iss')
  return url
}

function objectOf(value: unknown): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw new Error('the profile is not an object')
}

/** Returns the address that is marked as primary in a list. */
function primaryOf(list: unknown): { email: unknown; email_verified: boolean } | { email: null } {
  const primary = Array.isArray(list)
    ? (list as { email?: unknown; primary?: unknown; verified?: unknown }[]).find((one) => one.primary === true)
    : undefined
  return primary === undefined ? { email: null } : { email: primary.email, email_verified: primary.verified === true }
}
