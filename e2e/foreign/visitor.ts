import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import { text as read } from 'node:stream/consumers'
import { walk } from '../walk.ts'

/**
 * A browser without one that visits a site: its cookies, and the way through our pages where it is sent there.
 * @param origin  the site's own address
 * @param ours    the origin of the server that signs people in
 * @param printed what the site said so far, for a failure
 */
export function visitor(
  { origin, printed }: { origin: string; printed: () => string },
  { ours, username }: { ours: string; username: string },
) {
  const jar = new Map<string, string>()
  return async (path: string): Promise<{ text: string; headers: Headers }> => {
    let url = new URL(path, origin)
    for (let hops = 0; hops < 10; hops++) {
      if (url.origin === ours) ({ url } = await walk(url.href, { origin: ours, username }))
      const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
      const { status, text, headers } = await get(url, cookie).catch((cause: unknown) => {
        throw new Error(`${url.href} does not answer: ${printed()}`, { cause })
      })
      for (const line of headers.getSetCookie()) {
        const pair = line.split(';')[0]!
        jar.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1))
      }
      const location = headers.get('location')
      if (location === null) {
        assert.equal(status, 200, `${url.href}: ${text}\n${printed()}`)
        return { text, headers }
      }
      url = new URL(location, url)
    }
    throw new Error(`sent around in a circle: ${url.href}`)
  }
}

/** As a browser asks for a page. `fetch` says of itself that it is a script, and some send only people to sign in. */
async function get(url: URL, cookie: string): Promise<{ status: number; text: string; headers: Headers }> {
  const request = http.get(url, { headers: { accept: 'text/html', 'sec-fetch-mode': 'navigate', cookie } })
  const [answer] = (await once(request, 'response')) as [http.IncomingMessage]
  const headers = new Headers()
  for (const [name, values = []] of Object.entries(answer.headersDistinct))
    for (const value of values) headers.append(name, value)
  return { status: answer.statusCode!, text: await read(answer), headers }
}
