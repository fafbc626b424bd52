import type { Auth } from '../src/server/index.ts'

/** A browser at an application that answers with `auth.handle`: it has cookies, and sends what browsers send of a page. */
export function visitorOf(auth: Pick<Auth, 'handle' | 'redirectUri'>, jar = new Map<string, string>()) {
  const { origin } = new URL(auth.redirectUri)
  const lines: string[] = []
  const cookie = () => [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
  const keep = (line: string) => {
    lines.push(line)
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
    if (/Max-Age=0/.test(line)) jar.delete(name!)
    else jar.set(name!, value!)
  }
  async function visit(path: string, init: Omit<RequestInit, 'headers'> & { headers?: Record<string, string> } = {}) {
    const headers = { 'sec-fetch-site': 'same-origin', ...init.headers, cookie: cookie() }
    const response = await auth.handle(new Request(new URL(path, origin), { ...init, headers }))
    for (const line of response.headers.getSetCookie()) keep(line)
    const text = await response.text()
    const location = response.headers.get('location')
    return { status: response.status, location, text, headers: response.headers }
  }
  return { jar, lines, cookie, keep, visit, headers: () => ({ cookie: cookie() }) }
}
