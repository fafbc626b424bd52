export { createSession, type BrowserSession, type SessionOptions } from './session.ts'
export { SignInCancelled, SignInFailed } from '../sign-in-errors.ts'
export type { Page } from './page.ts'
export type { Store } from './store.ts'
