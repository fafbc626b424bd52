import type { Page, Store } from '../src/browser/index.ts'

export const ORIGIN = 'https://wallet.example'
const ISSUER = `${ORIGIN}/oauth`
export const REDIRECT = 'https://app.example/callback'

/** The authorization server and the API, as far as a session sees them: refresh tokens rotate, and each counts once. */
export function fakeService() {
  const valid = new Set<string>()
  let issued = 0
  const service = {
    /** paths of the requests, in order */
    log: [] as string[],
    revoked: [] as string[],
    issuer: ISSUER,
    nonce: '',
    /** the nonce that proofs must have; null: none */
    wanted: null as string | null,
    /** path and nonce of each proof */
    proofs: [] as string[],
    /** a test replaces it: what happens before the answer of a path */
    before: async (_path: string): Promise<void> => {},
    /** a test replaces it: another answer of a path */
    instead: (_path: string): Response | null => null,
    fetch: async (input: unknown, init: RequestInit = {}): Promise<Response> => {
      const { pathname } = new URL(String(input))
      const form = new URLSearchParams(init.body instanceof URLSearchParams ? init.body : '')
      service.log.push(pathname)
      await service.before(pathname)
      const other = service.instead(pathname)
      if (other !== null) return other
      const proof = new Headers(init.headers).get('dpop')
      if (proof !== null) {
        const { nonce = null } = JSON.parse(Buffer.from(proof.split('.')[1]!, 'base64url').toString()) as { nonce?: string } // prettier-ignore
        service.proofs.push(`${pathname} ${nonce}`)
        const isToken = pathname === '/oauth/token'
        const { wanted } = service
        if (wanted !== null && nonce !== wanted) {
          const headers = {
            'dpop-nonce': wanted,
            ...(!isToken && { 'www-authenticate': 'DPoP error="use_dpop_nonce"' }),
          }
          return Response.json({ error: 'use_dpop_nonce' }, { status: isToken ? 400 : 401, headers })
        }
      }
      if (pathname.includes('.well-known'))
        return Response.json({
          issuer: service.issuer,
          authorization_endpoint: `${ISSUER}/authorize`,
          token_endpoint: `${ISSUER}/token`,
          revocation_endpoint: `${ISSUER}/revoke`,
          authorization_response_iss_parameter_supported: true,
          id_token_signing_alg_values_supported: ['ES256'],
        })
      if (pathname === '/oauth/revoke') {
        service.revoked.push(form.get('token')!)
        return new Response()
      }
      if (pathname !== '/oauth/token') return Response.json({ authorization: new Headers(init.headers).get('authorization') }) // prettier-ignore
      const old = form.get('refresh_token')
      if (old !== null && !valid.delete(old)) return Response.json({ error: 'invalid_grant' }, { status: 400 })
      const number = ++issued
      valid.add(`secret-refresh-${number}`)
      return Response.json({
        access_token: `secret-access-${number}`,
        refresh_token: `secret-refresh-${number}`,
        token_type: 'DPoP',
        expires_in: 100,
        scope: 'openid wallet:read',
        id_token: idToken(service.nonce),
      })
    },
  }
  return service
}

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
const idToken = (nonce: string) => {
  const now = Math.floor(Date.now() / 1_000)
  const claims = { iss: ISSUER, aud: 'demo', sub: 'rosa', iat: now, exp: now + 60, nonce }
  return `${part({ alg: 'ES256' })}.${part(claims)}.${'A'.repeat(86)}`
}

/** The store of one browser. Like IndexedDB, it gives copies. */
export function memoryStore(): Store & { entries: Map<string, unknown> } {
  const entries = new Map<string, unknown>()
  return {
    entries,
    get: async <T>(key: string) => structuredClone(entries.get(key)) as T | undefined,
    update: async <T>(key: string, change: (value: T | undefined) => T | undefined) => {
      const value = change(structuredClone(entries.get(key)) as T | undefined)
      if (value === undefined) entries.delete(key)
      else entries.set(key, value)
      return value
    },
  }
}

/** A page without windows. `went` and `replaced`: where it was sent. */
type FakePage = Page & { at: string; went: string; replaced: string }

export function fakePage(): FakePage {
  const page: FakePage = {
    at: 'https://app.example/shop?item=1',
    went: '',
    replaced: '',
    href: () => page.at,
    open: () => null,
    goTo: (url: string) => void (page.went = url),
    replace: (url: string) => void (page.replaced = url),
    close: () => {},
    hasFocus: () => true,
    channel: (name: string) => {
      const channel = new BroadcastChannel(name)
      // A channel of Node keeps the process.
      ;(channel as unknown as { unref(): void }).unref()
      return {
        post: (message: unknown) => channel.postMessage(message),
        listen: (listener: (message: unknown) => void) =>
          void (channel.onmessage = (event) => listener((event as MessageEvent).data)),
        close: () => channel.close(),
      }
    },
  }
  return page
}
