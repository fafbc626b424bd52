export { createSession, SignInCancelled, SignInFailed, type BrowserSession, type SessionOptions } from './session.ts'
export type { Page } from './page.ts'
export type { Store } from './store.ts'
