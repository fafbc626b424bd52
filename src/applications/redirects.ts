const LOOPBACK_HOSTS = new Set(['localhost', '127.0.0.1', '[::1]'])

/**
 * Whether a registered address covers the one a client asks for.
 *
 * Character by character, with two exceptions for http on loopback: any port, because a native application cannot
 * choose one (RFC 8252 §7.3), and any path when the registered one is `/*`, which only the demo application uses.
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

/** What is wrong with an address to be registered, as the end of a sentence; null when nothing is. */
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
 * Whether any program of the device may wait at an address: on loopback, or behind a private scheme, which nobody owns.
 * Source: RFC 8252 §8.6
 */
export const isOpenToPrograms = (uri: string): boolean => !uri.startsWith('https:')

/** The origin where an answer goes; of an address with a scheme of a program's own, which has no origin, all of it. */
export function redirectOrigin(redirectUri: string): string {
  const { origin } = new URL(redirectUri)
  return origin === 'null' ? redirectUri : origin
}

/** An http URL on loopback in plain form; anything a reader could take for another host is not. */
function loopbackUrl(text: string): URL | null {
  // Parsers disagree about backslashes, user names, spaces and encoded dots; none of them has a place here.
  if (!/^http:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?(\/[^\\#\s]*)?$/.test(text) || !URL.canParse(text))
    return null
  const url = new URL(text)
  return LOOPBACK_HOSTS.has(url.hostname) ? url : null
}
