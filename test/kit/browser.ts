/**
 * A browser without JavaScript: cookies by name and path, redirects within our origin, forms.
 * @param language  what it asks for with each request
 */
export function openBrowser(origin: string, language?: string) {
  const cookies = new Map<string, { name: string; path: string; value: string }>()

  /** Follows redirects until a page, or until an address elsewhere, which is not visited. */
  async function go(address: string, init: Visit = {}): Promise<Page> {
    let url = new URL(address, origin)
    let request: Visit = init
    for (let hops = 0; hops < 20; hops++) {
      const cookie = [...cookies.values()]
        .filter(({ path }) => url.pathname === path || url.pathname.startsWith(path.endsWith('/') ? path : `${path}/`))
        .map(({ name, value }) => `${name}=${value}`)
      const response = await fetch(url, {
        ...request,
        redirect: 'manual',
        headers: {
          accept: 'text/html',
          ...(language === undefined ? {} : { 'accept-language': language }),
          ...request.headers,
          cookie: cookie.join('; '),
        },
      })
      for (const line of response.headers.getSetCookie()) keep(line, url)
      const location = response.headers.get('location')
      if (location === null)
        return { url, status: response.status, headers: response.headers, text: await response.text() }
      await response.body?.cancel()
      url = new URL(location, url)
      request = {}
      if (url.origin !== origin) return { url, status: response.status, headers: response.headers, text: '' }
    }
    throw new Error('too many redirects')
  }

  function keep(line: string, url: URL): void {
    const [pair, ...attributes] = line.split(';').map((part) => part.trim())
    const at = pair!.indexOf('=')
    const name = pair!.slice(0, at)
    const attribute = (key: string): string | undefined =>
      attributes.find((one) => one.toLowerCase().startsWith(`${key}=`))?.slice(key.length + 1)
    const path = attribute('path') ?? url.pathname.slice(0, url.pathname.lastIndexOf('/')) ?? '/'
    const expires = attribute('expires')
    if (expires !== undefined && new Date(expires).getTime() < Date.now()) cookies.delete(`${name} ${path}`)
    else cookies.set(`${name} ${path}`, { name, path, value: pair!.slice(at + 1) })
  }

  /** Sends the form of a page whose action contains a text, with more fields. */
  async function submit(page: Page, action: string, fields: Record<string, string> = {}): Promise<Page> {
    const form = formsOf(page.text).find((one) => one.action.includes(action))
    if (form === undefined)
      throw new Error(`no form to ${action} on ${page.url.pathname}: ${page.status} ${textOf(page.text)}`)
    return go(new URL(form.action, page.url).href, {
      method: 'POST',
      body: new URLSearchParams({ ...form.fields, ...fields }),
    })
  }

  /** The whole way of a person through our pages and the development provider's, allowing what is asked. */
  async function signIn(address: string, username: string): Promise<Page> {
    let page = await go(address)
    for (let step = 0; step < 6 && page.url.origin === origin; step++) {
      if (page.url.pathname.startsWith('/login/')) page = await submit(page, '/DEV')
      else if (page.url.pathname.startsWith('/devnet/idp/sign-in')) page = await submit(page, '/sign-in/', { username })
      else if (page.url.pathname.startsWith('/consent/')) page = await submit(page, '/consent/', { answer: 'allow' })
      else break
    }
    return page
  }

  return { go, submit, signIn, cookies }
}

type Visit = { method?: string; body?: URLSearchParams; headers?: Record<string, string> }

export type Page = { url: URL; status: number; headers: Headers; text: string }

export const textOf = (text: string): string =>
  text
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()

/** Decodes character references, as a browser does. */
const unescaped = (text: string): string =>
  text.replaceAll(/&#(x?)([\da-f]+);/gi, (_all, hex: string, digits: string) =>
    String.fromCodePoint(Number.parseInt(digits, hex === '' ? 10 : 16)),
  )

function formsOf(text: string): { action: string; fields: Record<string, string> }[] {
  return [...text.matchAll(/<form[^>]*action="([^"]*)"[^>]*>(.*?)<\/form>/gs)].map(([, action, inside]) => ({
    action: action!,
    fields: Object.fromEntries(
      [...inside!.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)].map(([, name, value]) => [
        name!,
        unescaped(value!),
      ]),
    ),
  }))
}
