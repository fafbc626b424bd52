import assert from 'node:assert/strict'
import { createHash, createHmac, createSecretKey, timingSafeEqual, type KeyObject } from 'node:crypto'

export type CookieNames = { session: string; interaction: string; resume: string; browser: string; denied: string }

/**
 * Returns the names of our cookies. Cookies ignore ports, so a short hash of the origin distinguishes installations on
 * one host. On https, browsers guarantee that `__Host-` cookies came from this host alone; cookies of one path can only
 * be `__Secure-`.
 * Source: RFC 6265bis §4.1.3
 */
export function cookieNames(origin: string): CookieNames {
  const mark = createHash('sha256').update(origin).digest('hex').slice(0, 8)
  const isSecure = origin.startsWith('https:')
  const host = isSecure ? '__Host-' : ''
  const secure = isSecure ? '__Secure-' : ''
  return {
    session: `${host}chatelaine_${mark}_session`,
    browser: `${host}chatelaine_${mark}_browser`,
    denied: `${host}chatelaine_${mark}_denied`,
    interaction: `${secure}chatelaine_${mark}_interaction`,
    resume: `${secure}chatelaine_${mark}_resume`,
  }
}

/** Returns the value of a cookie in a Cookie header; null if it is not there. */
export function readCookie(header: string | undefined, name: string): string | null {
  for (const pair of header?.split(';') ?? []) {
    const [key, value] = pair.split('=', 2)
    if (key?.trim() === name) return value?.trim() ?? null
  }
  return null
}

/** The interface that the library expects of a cookie signer. */
type CookieSigner = {
  sign: (data: string) => string
  verify: (data: string, signature: string) => boolean
  /** @returns the index of the key that signed it; -1 for none */
  index: (data: string, signature: string) => number
}

/**
 * Opens a signer with the same signatures as the library's (keygrip: HMAC-SHA1 of `name=value`, base64url). The
 * library's imports each key again for every cookie, and compares by two more HMACs: 5 % of the CPU of a sign-in.
 * @param keys  newest first
 */
export function openCookieSigner(keys: string[]): CookieSigner {
  assert(keys.length > 0)
  const secrets = keys.map((key) => createSecretKey(key, 'utf8'))
  const sign = (data: string, key: KeyObject): string => createHmac('sha1', key).update(data).digest('base64url')
  const index = (data: string, signature: string): number => {
    const given = Buffer.from(signature)
    return secrets.findIndex((key) => {
      const expected = Buffer.from(sign(data, key))
      return given.length === expected.length && timingSafeEqual(given, expected)
    })
  }
  return {
    sign: (data) => sign(data, secrets[0]!),
    verify: (data, signature) => index(data, signature) !== -1,
    index,
  }
}
