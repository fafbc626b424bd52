import { SignedOut } from '../errors.ts'
import { type CookieJar, type CookieOptions, type Incoming, chunksOf, cookiesOf, joined, namesOf } from './cookies.ts'
import type { Settings } from './settings.ts'
import type { SignIn, Tokens } from './tokens.ts'

/** The session of one request. */
export type Visit = {
  /** Reads the sign-in; null if there is none. */
  signIn(): Promise<SignIn | null>
  /**
   * Returns the access token, renewed when it is due.
   * @param refused  a token that the service rejected: another one is needed
   * @throws SignedOut  if there is no session, it has ended, or its token cannot be renewed here; the error of the network
   */
  token(refused?: string): Promise<string>
  /** Returns whether a renewed token could be stored. */
  canRenew(): boolean
  /** Stores a new sign-in in place of any other. */
  begin(signIn: SignIn): Promise<void>
  /** Forgets the session. @returns the sign-in, to revoke */
  end(): Promise<SignIn | null>
}

/** A process can hold the results of several renewals of one sign-in. */
const MAX_RENEWALS_IN_A_ROW = 10

/**
 * Opens the session of a request.
 * @param jar  sets cookies of the response; null, or one that throws, if that is not possible (a server component)
 */
export function openVisit(settings: Settings, tokens: Tokens, request: Incoming, jar: CookieJar | null): Visit {
  const { seal, store, names, now, isSecure, clientId } = settings
  const cookies = cookiesOf(request)
  const place = `session ${clientId}`
  let reading: Promise<SignIn | null> | null = null
  /** the session in the store; null: none, or it is in cookies */
  let key: string | null = null

  const signIn = (): Promise<SignIn | null> => (reading ??= read())

  async function read(): Promise<SignIn | null> {
    const sealed = joined(cookies, names.session)
    let text = sealed === null ? null : await seal.open(sealed, place)
    if (text !== null && store !== null) {
      key = text
      text = await fromStore(text)
    }
    return inTime(text)
  }

  async function fromStore(of: string): Promise<string | null> {
    const sealed = await store!.get(of)
    return typeof sealed === 'string' ? seal.open(sealed, `${place} ${of}`) : null
  }

  function inTime(text: string | null): SignIn | null {
    if (text === null) return null
    const found = JSON.parse(text) as SignIn
    return now() < found.endsAt ? found : null
  }

  async function token(refused?: string): Promise<string> {
    const first = await signIn()
    if (first === null) throw new SignedOut()
    let current = first
    const isDue = () => (refused === undefined ? now() >= current.renewAt : current.accessToken === refused)
    if (!isDue()) return current.accessToken
    const isUsable = () => refused === undefined && now() < current.expiresAt
    if (!canRenew()) {
      if (isUsable()) return current.accessToken
      throw new SignedOut({ code: 'renewal_needed', message: 'The session must be renewed where cookies can be set.' })
    }
    try {
      for (let count = 0; count < MAX_RENEWALS_IN_A_ROW && isDue(); count++) current = await tokens.renew(current)
    } catch (error) {
      if (error instanceof SignedOut) return renewedElsewhere(current)
      if (isUsable()) return current.accessToken
      throw error
    }
    return renewed(first, current)
  }

  /** Another process can have renewed the session, later than the authorization server lets this one do. */
  async function renewedElsewhere(old: SignIn): Promise<string> {
    const stored = store === null || key === null ? null : inTime(await fromStore(key))
    if (stored !== null && stored.refreshToken !== old.refreshToken && now() < stored.expiresAt) {
      reading = Promise.resolve(stored)
      return stored.accessToken
    }
    await end()
    throw new SignedOut()
  }

  /** Stores a renewed sign-in. @returns its access token @throws SignedOut  if the session was ended meanwhile */
  async function renewed(first: SignIn, fresh: SignIn): Promise<string> {
    let current = fresh
    if (store === null) await setCookie(JSON.stringify(fresh), fresh)
    else {
      const stored = inTime(await fromStore(key!))
      if (stored === null) {
        await tokens.revoke(fresh).catch(settings.onError)
        throw new SignedOut()
      }
      // Another process was first: what it stored can be newer, and is never replaced by something older.
      if (stored.refreshToken === first.refreshToken) await toStore(key!, fresh)
      else current = stored
    }
    reading = Promise.resolve(current)
    return current.accessToken
  }

  const secondsLeft = ({ endsAt }: SignIn): number => Math.max(1, Math.floor((endsAt - now()) / 1_000))

  async function toStore(of: string, value: SignIn): Promise<void> {
    await store!.set(of, await seal.close(JSON.stringify(value), `${place} ${of}`), secondsLeft(value))
  }

  const optionsOf = (maxAge: number): CookieOptions => ({ httpOnly: true, secure: isSecure, sameSite: 'lax', path: '/', maxAge }) // prettier-ignore

  async function setCookie(text: string, of: SignIn): Promise<void> {
    for (const [name, value] of chunksOf(names.session, await seal.close(text, place), cookies))
      jar!.set(name, value, optionsOf(value === '' ? 0 : secondsLeft(of)))
  }

  /**
   * Returns whether cookies can still be set: a refresh token whose successor is lost ends the sign-in. So the present cookie is
   * set once more first.
   */
  function canRenew(): boolean {
    if (store !== null) return true
    if (jar === null) return false
    try {
      for (const name of namesOf(names.session, cookies)) jar.set(name, cookies.get(name)!, optionsOf(settings.maxAge))
      return true
    } catch {
      return false
    }
  }

  async function begin(fresh: SignIn): Promise<void> {
    // A new id, so that nobody can have planted it before the sign-in.
    await end()
    if (store === null) await setCookie(JSON.stringify(fresh), fresh)
    else {
      key = crypto.randomUUID()
      await toStore(key, fresh)
      await setCookie(key, fresh)
    }
    reading = Promise.resolve(fresh)
  }

  async function end(): Promise<SignIn | null> {
    const ended = await signIn()
    if (key !== null) await store!.delete(key)
    key = null
    reading = Promise.resolve(null)
    try {
      for (const name of namesOf(names.session, cookies)) jar?.set(name, '', optionsOf(0))
    } catch {
      // A server component: the cookie opens nothing that the service accepts.
    }
    return ended
  }

  return { signIn, token, canRenew, begin, end }
}
