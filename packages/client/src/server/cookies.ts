/** Attributes of a cookie, named as in the cookie stores of Next.js, SvelteKit and Hono. `maxAge` is in seconds. */
export type CookieOptions = {
  readonly httpOnly: true
  readonly secure: boolean
  readonly sameSite: 'lax'
  readonly path: '/'
  readonly maxAge: number
}

/** Sets a cookie of the response: `await cookies()` of Next.js, `event.cookies` of SvelteKit. It throws if that is too late. */
export type CookieJar = { set(name: string, value: string, options: CookieOptions): unknown }

/** A request, as far as its headers: a web Request, one of Node.js, or `{ headers: await headers() }` of Next.js. */
export type Incoming = {
  readonly headers: { get(name: string): string | null } | Readonly<Record<string, string | string[] | undefined>>
}

/** Browsers drop a cookie above 4,096 bytes of name and value. */
const MAX_VALUE_CHARACTERS = 3_800
/** A session has one or two: more would not fit into the headers that servers accept. */
const MAX_CHUNKS = 4

/** Returns a header of a request; null if it is absent. */
export function headerOf({ headers }: Incoming, name: string): string | null {
  if (typeof headers.get === 'function') return headers.get(name)
  const value = (headers as Record<string, string | string[] | undefined>)[name]
  return Array.isArray(value) ? value.join(name === 'cookie' ? '; ' : ', ') : (value ?? null)
}

/** Reads the cookies of a request. The first of two with one name counts. */
export function cookiesOf(request: Incoming): Map<string, string> {
  const found = new Map<string, string>()
  for (const pair of (headerOf(request, 'cookie') ?? '').split(';')) {
    const at = pair.indexOf('=')
    const name = pair.slice(0, at).trim()
    if (at > 0 && !found.has(name)) found.set(name, pair.slice(at + 1).trim())
  }
  return found
}

/** Puts a value together again that `chunksOf` has split; null if it is absent or not complete. */
export function joined(cookies: ReadonlyMap<string, string>, name: string): string | null {
  const [, count, first] = /^([1-9])\.(.*)$/.exec(cookies.get(name) ?? '') ?? []
  if (first === undefined || Number(count) > MAX_CHUNKS) return null
  const rest = Array.from({ length: Number(count) - 1 }, (_, index) => cookies.get(`${name}.${index + 1}`))
  return rest.includes(undefined) ? null : [first, ...rest].join('')
}

/**
 * Splits a value into cookies, of which each is small enough for browsers.
 * @returns value by cookie name; an empty value deletes a chunk of `present` that is no longer used
 * @throws Error  if the value is too long for cookies
 */
export function chunksOf(name: string, value: string, present: ReadonlyMap<string, string>): Map<string, string> {
  const count = Math.ceil(value.length / MAX_VALUE_CHARACTERS)
  if (count > MAX_CHUNKS) throw new Error('The session does not fit into cookies. Give createAuth a store.')
  const chunks = new Map<string, string>()
  for (let index = 0; index < count; index++) {
    const chunk = value.slice(index * MAX_VALUE_CHARACTERS, (index + 1) * MAX_VALUE_CHARACTERS)
    chunks.set(index === 0 ? name : `${name}.${index}`, index === 0 ? `${count}.${chunk}` : chunk)
  }
  for (const other of namesOf(name, present)) if (!chunks.has(other)) chunks.set(other, '')
  return chunks
}

/** Returns the names under which chunks of a value are present. */
export const namesOf = (name: string, present: ReadonlyMap<string, string>): string[] =>
  [name, ...Array.from({ length: MAX_CHUNKS - 1 }, (_, index) => `${name}.${index + 1}`)].filter((one) =>
    present.has(one),
  )

/** Writes a cookie as the value of a Set-Cookie header. */
export const lineOf = (name: string, value: string, { secure, maxAge }: CookieOptions): string =>
  `${name}=${value}; Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`
