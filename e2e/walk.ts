/**
 * The browser's part of a sign-in, without one: follows redirects, keeps cookies, fills the forms of the hosted pages.
 * Stops at the first address of another origin, which is the client's redirect URI.
 * @param answers  `username` for the development sign-in, `consent` for the question, `by` for the origin of the identity
 *                 provider, where nobody is asked anything
 */
export async function walk(
  from: string,
  {
    origin,
    username = '',
    consent = 'allow',
    by,
  }: { origin: string; username?: string; consent?: 'allow' | 'deny'; by?: string },
): Promise<{ url: URL; pages: string[] }> {
  const jar = new Map<string, string>()
  const pages: string[] = []
  let url = new URL(from)
  let init: { method?: string; body?: string; headers?: Record<string, string> } = {}
  for (let hops = 0; hops < 30; hops++) {
    if (url.origin !== origin && url.origin !== by) return { url, pages }
    const response = await fetch(url, {
      ...init,
      redirect: 'manual',
      headers: { ...init.headers, cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') },
    })
    for (const line of response.headers.getSetCookie()) {
      const [pair = ''] = line.split(';')
      const at = pair.indexOf('=')
      if (/expires=Thu, 01 Jan 1970/i.test(line)) jar.delete(pair.slice(0, at))
      else jar.set(pair.slice(0, at), pair.slice(at + 1))
    }
    const location = response.headers.get('location')
    init = {}
    if (location !== null) {
      await response.body?.cancel()
      url = new URL(location, url)
      continue
    }
    const html = await response.text()
    pages.push(html)
    const form = fill(html, { username, consent })
    if (form === null)
      throw new Error(
        `a page without a way on, status ${response.status}: ${html.replaceAll(/\s+/g, ' ').slice(0, 600)}`,
      )
    url = new URL(form.action, url)
    init = { method: 'POST', headers: { 'content-type': 'application/x-www-form-urlencoded' }, body: form.body }
  }
  throw new Error('the sign-in never came to an end')
}

/** The first form of a page with its hidden fields, its text field and the wanted button. */
function fill(
  html: string,
  { username, consent }: { username: string; consent: string },
): { action: string; body: string } | null {
  const form = /<form[^>]*action="([^"]+)"[^>]*>([\s\S]*?)<\/form>/.exec(html)
  if (form === null) return null
  const body = new URLSearchParams()
  for (const [field] of form[2]!.matchAll(/<input[^>]*>/g)) {
    const name = /name="([^"]+)"/.exec(field)?.[1]
    if (name === undefined) continue
    const isHidden = /type="hidden"/.test(field)
    body.set(name, isHidden ? (/value="([^"]*)"/.exec(field)?.[1] ?? '') : username)
  }
  if (/name="answer"/.test(form[2]!)) body.set('answer', consent)
  return { action: form[1]!.replaceAll('&amp;', '&'), body: body.toString() }
}
