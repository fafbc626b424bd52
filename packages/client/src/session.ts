/** State of the sign-in. `unknown`: the session was not read yet, as during rendering on a server. */
export type SessionState =
  | { readonly status: 'unknown' }
  | { readonly status: 'signed-out' }
  | { readonly status: 'signed-in'; readonly permissions: readonly string[] }

/** One user's sign-in to one application. */
export interface Session {
  readonly state: SessionState
  /** Calls a listener after each change. @returns a function that stops the calls */
  subscribe(listener: (state: SessionState) => void): () => void
  /**
   * Sends a request with the session's access token, renewed when needed.
   * @throws SignedOut  if there is no session, or it has ended
   */
  fetch(input: string | URL, init?: RequestInit): Promise<Response>
  /**
   * Signs a user in. Call it in a click, before any `await`. @param permissions  to request; absent: those of the
   * session
   */
  signIn(options?: { permissions?: readonly string[] }): Promise<void>
  /** Ends the session in this browser, and revokes its tokens. */
  signOut(): Promise<void>
}
