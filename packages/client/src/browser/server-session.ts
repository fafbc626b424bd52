import { InvalidInput, SignedOut } from '../errors.ts'
import type { Session, SessionState } from '../session.ts'
import { thisPage, type Page } from './page.ts'

/** Settings of a session whose tokens the application's server has. */
export type ServerSessionOptions = {
  /** of the server's `redirectUri`, without `/callback`; `/auth` if absent */
  path?: string
  page?: Page
  fetch?: typeof globalThis.fetch
}

/**
 * Opens the session of a page whose application signs its users in with `/server`. The page has no token: calls go to the server.
 * Outside of a browser the session stays `unknown` and sends nothing.
 */
export function createServerSession(options: ServerSessionOptions = {}): Session {
  const { path = '/auth', page = thisPage } = options
  const send: typeof globalThis.fetch = options.fetch ?? ((...args) => globalThis.fetch(...args))
  const isBrowser = options.page !== undefined || typeof document !== 'undefined'
  const listeners = new Set<(state: SessionState) => void>()
  let state: SessionState = { status: 'unknown' }

  function become(next: SessionState): void {
    state = next
    for (const listener of listeners) listener(state)
  }

  async function load(): Promise<void> {
    const response = await request(`${path}/session`, {})
    if (response.ok) become((await response.json()) as SessionState)
  }

  async function request(input: string | URL, init: RequestInit): Promise<Response> {
    const url = new URL(input, page.href())
    if (url.origin !== new URL(page.href()).origin)
      throw new InvalidInput({
        code: 'invalid_argument',
        message: 'This session calls its own server only. Nothing was sent.',
      })
    const headers = new Headers(init.headers)
    headers.set('x-chatelaine', '1')
    return send(url, { ...init, headers })
  }

  // A server that does not answer now: the state stays unknown until a call succeeds.
  if (isBrowser) void load().catch(() => {})

  return {
    get state() {
      return state
    },
    subscribe(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    async fetch(input, init = {}) {
      if (!isBrowser) throw new SignedOut()
      const response = await request(input, init)
      if (response.status === 401) become({ status: 'signed-out' })
      else if (state.status === 'unknown') await load().catch(() => {})
      return response
    },
    signIn() {
      const { pathname, search } = new URL(page.href())
      page.goTo(`${path}/sign-in?${new URLSearchParams({ return_to: pathname + search }).toString()}`)
      // The page is about to be left.
      return new Promise<void>(() => {})
    },
    async signOut() {
      if (!isBrowser) return
      const response = await request(`${path}/sign-out`, { method: 'POST' })
      if (!response.ok) throw new Error(`The sign-out was answered with ${response.status}.`)
      become({ status: 'signed-out' })
    },
  }
}
