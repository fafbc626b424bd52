const LOOPBACK_HOSTS = new Set(['localhost', '127.0.0.1', '[::1]'])

/**
 * Returns whether a registered address covers the one that a client requests.
 *
 * They must be identical, with two exceptions for http on loopback: any port, because a native application cannot
 * choose one (RFC 8252 §7.3), and any path if the registered one is `/*`, which only the demo application uses.
 * Source: RFC 9700 §2.1
 */
export function coversRedirect(registered: string, asked: string): boolean {
  if (registered === asked && !registered.endsWith('/*')) return true
  const pattern = loopbackUrl(registered)
  const url = loopbackUrl(asked)
  if (pattern === null || url === null || pattern.hostname !== url.hostname) return false
  if (pattern.pathname === '/*') return true
  return pattern.pathname === url.pathname && pattern.search === url.search
}

/** Explains why an address cannot be registered, as the end of a sentence; null if it can. */
export function explainRedirect(text: string): string | null {
  if (!URL.canParse(text)) return 'is not an absolute URI'
  const url = new URL(text)
  if (text.includes('#')) return 'has a fragment'
  if (url.username !== '' || url.password !== '') return 'holds a user name or password'
  if (url.protocol === 'https:') return text.includes('*') ? 'has a wildcard' : null
  if (url.protocol === 'http:') {
    if (!LOOPBACK_HOSTS.has(url.hostname)) return 'is http and not loopback'
    return text.includes('*') && url.pathname !== '/*' ? 'has a wildcard' : null
  }
  // A private-use scheme is a domain name in reverse (RFC 8252 §7.1): no javascript:, data:, file:, blob:.
  return /^[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+:$/.test(url.protocol) ? null : 'has a scheme without a dot'
}

/**
 * Returns whether any program of the device could receive a redirect: on loopback, or by a private-use scheme, which
 * nobody owns.
 * Source: RFC 8252 §8.6
 */
export const isOpenToPrograms = (uri: string): boolean => !uri.startsWith('https:')

/** Returns the origin that a response goes to; for a private-use scheme, which has no origin, the whole address. */
export function redirectOrigin(redirectUri: string): string {
  const { origin } = new URL(redirectUri)
  return origin === 'null' ? redirectUri : origin
}

/** Returns the web origin of an address: https, or http on loopback. Returns null for any other: its host belongs to nobody. */
export function webOrigin(uri: string): string | null {
  if (!URL.canParse(uri)) return null
  const { protocol, hostname, origin } = new URL(uri)
  return protocol === 'https:' || (protocol === 'http:' && LOOPBACK_HOSTS.has(hostname)) ? origin : null
}

/** Returns an http URL on loopback in plain form; null for anything that a reader could take for another host. */
function loopbackUrl(text: string): URL | null {
  // Parsers disagree about backslashes, user names, spaces and encoded dots in a host: none is allowed.
  if (!/^http:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?(\/[^\\#\s]*)?$/.test(text) || !URL.canParse(text))
    return null
  const url = new URL(text)
  return LOOPBACK_HOSTS.has(url.hostname) ? url : null
}
