import assert from 'node:assert/strict'
import { createHash, createHmac, createSecretKey, timingSafeEqual, type KeyObject } from 'node:crypto'

export type CookieNames = { session: string; interaction: string; resume: string; browser: string; denied: string }

/**
 * Names of our cookies. Cookies ignore ports, so two installations on one host are distinguished by a short hash of
 * their origin. On https the browser guarantees that `__Host-` cookies came from this host alone; `__Secure-` is for
 * those that belong to one path.
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

/** The value of one cookie in a Cookie header; null when it is not there. */
export function readCookie(header: string | undefined, name: string): string | null {
  for (const pair of header?.split(';') ?? []) {
    const [key, value] = pair.split('=', 2)
    if (key?.trim() === name) return value?.trim() ?? null
  }
  return null
}

/** As the library wants the signer of its cookies. */
type CookieSigner = {
  sign: (data: string) => string
  verify: (data: string, signature: string) => boolean
  /** @returns the place of the key that signed it; -1 for none */
  index: (data: string, signature: string) => number
}

/**
 * Signs cookies as the library would with the same keys (keygrip: HMAC-SHA1 of `name=value`, base64url), so that those of
 * before stay good. It would make each key anew for every cookie, and two more HMACs to compare: a twentieth of the CPU of
 * a sign-in.
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
