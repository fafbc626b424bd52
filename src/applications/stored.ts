import { areTexts } from '../store/column-values.ts'
import type { TrustedIssuer } from './application.ts'
import type { StoredApplication } from './authentic.ts'

/*
 * Columns of `applications` that are JSON: their types say what was written, not what someone else may have written since.
 */

const isText = (value: unknown): value is string => typeof value === 'string'

const isIssuer = (value: unknown): value is TrustedIssuer => {
  if (typeof value !== 'object' || value === null) return false
  const one = value as Partial<Record<keyof TrustedIssuer, unknown>>
  return (
    [one.provider, one.issuer, one.audience, one.subjectClaim, one.pictureClaim].every(isText) &&
    (one.jwksUri === null || isText(one.jwksUri)) &&
    areTexts(one.algorithms) &&
    areTexts(one.usernameClaims) &&
    Number.isSafeInteger(one.maxAgeSeconds) &&
    typeof one.isReusable === 'boolean' &&
    typeof one.allowsPrivate === 'boolean'
  )
}

/** Of a list the identity providers that can be read. */
export const issuersIn = (value: unknown): TrustedIssuer[] => (Array.isArray(value) ? value.filter(isIssuer) : [])

/** Of each list of an application whether it is one of what it should be; null: all are. */
export function damagedColumn(row: StoredApplication): string | null {
  const lists = [
    'redirect_uris',
    'permissions',
    'allowed_origins',
    'secret_hashes',
    'post_logout_redirect_uris',
  ] as const
  const list = lists.find((column) => !areTexts(row[column]))
  if (list !== undefined) return list
  if (!row.secret_hashes.every((hash) => /^[0-9a-f]{64}$/.test(hash))) return 'secret_hashes'
  return Array.isArray(row.issuers) && row.issuers.every(isIssuer) ? null : 'issuers'
}
