import { isSubject } from '../../ids.ts'
import type { Profile } from '../../users/profile.ts'
import type { ProviderSettings } from './providers.ts'

/**
 * Returns the immutable id of a user from the claims of a provider. A number becomes its digits.
 * @throws Error  if it is missing or unusable
 */
export function subjectOf(
  { subjectClaim }: Pick<ProviderSettings, 'subjectClaim'>,
  claims: Record<string, unknown>,
): string {
  const value = claims[subjectClaim]
  const subject = typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : value
  if (typeof subject !== 'string' || !isSubject(subject)) throw new Error('the provider gave no usable subject')
  return subject
}

/** Returns the profile of a user from the claims of a provider, by the provider's names for them. */
export function personOf(
  provider: Pick<ProviderSettings, 'name' | 'usernameClaims' | 'pictureClaim' | 'dialect'>,
  subject: string,
  claims: Record<string, unknown>,
): Profile {
  const { dialect = {} } = provider
  const text = (name: string): string | null =>
    typeof claims[name] === 'string' && claims[name] !== '' ? claims[name] : null
  const verified = claims[dialect.emailVerifiedClaim ?? 'email_verified']
  const email = text(dialect.emailClaim ?? 'email')
  return {
    provider: provider.name,
    subject,
    username: provider.usernameClaims.map(text).find((name) => name !== null) ?? null,
    imageSrc: dialect.pictureTemplate === undefined ? text(provider.pictureClaim) : fill(dialect.pictureTemplate, text),
    email,
    // Some providers send `email_verified` as text.
    emailVerified: email === null ? null : verified === true || verified === 'true',
  }
}

/**
 * Adds claims of userinfo to those of an id token, which take precedence. `email_verified` of userinfo counts only for
 * the address that userinfo names.
 */
export function withMore(signed: Record<string, unknown>, more: Record<string, unknown>): Record<string, unknown> {
  const said = Object.fromEntries(Object.entries(signed).filter(([, value]) => value !== null && value !== ''))
  const joined = { ...more, ...said }
  if (said.email === undefined) joined.email_verified = more.email_verified
  else if (said.email !== more.email) joined.email_verified = said.email_verified
  return joined
}

/** Fills the fields of a template, each as one segment of a path; null if one of them is missing. */
function fill(template: string, text: (name: string) => string | null): string | null {
  const names = [...template.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
  if (names.some((name) => text(name) === null)) return null
  return template.replaceAll(/\{(\w+)\}/g, (_field, name: string) => encodeURIComponent(text(name)!))
}
