import * as openid from 'openid-client'
import type { Profile } from '../../users/profile.ts'
import { personOf, subjectOf } from './claims.ts'
import type { Endpoints } from './presets.ts'
import type { ProviderSettings } from './providers.ts'

/**
 * The person behind an access token of a provider without id tokens. The token came from the provider's own token
 * endpoint for our code, client and verifier, so it is this visitor's and was made for us.
 * @throws Error when the answer is unusable, with the status of a provider that fails
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
 * The answer without the `iss` of RFC 9207: a provider without discovery has no issuer to compare it with. An answer
 * meant for another provider is told by its address, which each provider has of its own (RFC 9700 §4.4.2.2).
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

/** The address marked as primary in a list of addresses. */
function primaryOf(list: unknown): { email: unknown; email_verified: boolean } | { email: null } {
  const primary = Array.isArray(list)
    ? (list as { email?: unknown; primary?: unknown; verified?: unknown }[]).find((one) => one.primary === true)
    : undefined
  return primary === undefined ? { email: null } : { email: primary.email, email_verified: primary.verified === true }
}
