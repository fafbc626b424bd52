import { createHash } from 'node:crypto'

export type CookieNames = { session: string; interaction: string; resume: string; browser: string }

/**
 * Names of our cookies. Cookies ignore ports, so two installations on one host are told apart by a short hash of
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
