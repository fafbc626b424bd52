import type { Person } from '../../../test/world.ts'
import type { Session, SessionState } from '../src/session.ts'

/** A session whose sign-in is a person's token. */
export function sessionOf(
  { token }: Pick<Person, 'token'>,
  {
    isSignedIn = false,
    answer = fetch,
  }: { isSignedIn?: boolean; answer?: (input: string | URL, init?: RequestInit) => Promise<Response> } = {},
): Session & { signIns: number; set(state: SessionState): void } {
  const signedIn: SessionState = { status: 'signed-in', permissions: [] }
  let state: SessionState = isSignedIn ? signedIn : { status: 'signed-out' }
  const listeners = new Set<(state: SessionState) => void>()
  const set = (next: SessionState) => {
    state = next
    for (const listener of listeners) listener(state)
  }
  const session = {
    signIns: 0,
    get state() {
      return state
    },
    set,
    subscribe: (listener: (state: SessionState) => void) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    fetch: (input: string | URL, init: RequestInit = {}) =>
      answer(input, { ...init, headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${token}` } }), // prettier-ignore
    signIn: async () => {
      session.signIns++
      set(signedIn)
    },
    signOut: async () => set({ status: 'signed-out' }),
  }
  return session
}
