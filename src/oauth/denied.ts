import type { FastifyRequest } from 'fastify'
import { sha256 } from '../sha256.ts'
import { cookieNames, readCookie } from './cookies.ts'

/*
 * The application that a user of this browser denied access last. Its next request asks which account to use, instead
 * of asking the same user the same question. A cookie suffices, because access does not depend on it.
 */

/** How long a denial is remembered, in seconds. */
const DENIED_SECONDS = 900

const markOf = (clientId: string): string => sha256(clientId).toString('hex').slice(0, 16)

const cookieOf = (origin: string, value: string, seconds: number): string =>
  `${cookieNames(origin).denied}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${origin.startsWith('https:') ? '; Secure' : ''}`

/** Returns the cookie that remembers a denial. */
export const deniedCookie = (origin: string, clientId: string): string =>
  cookieOf(origin, markOf(clientId), DENIED_SECONDS)

/** Returns the cookie that ends this memory after a sign-in; null if nothing is remembered. */
export const deniedOver = (origin: string, { headers }: FastifyRequest): string | null =>
  readCookie(headers.cookie, cookieNames(origin).denied) === null ? null : cookieOf(origin, '', 0)

/** Returns whether this browser last denied access to this application. @param cookies  the Cookie header */
export const wasDenied = (origin: string, clientId: string, cookies: string | undefined): boolean =>
  readCookie(cookies, cookieNames(origin).denied) === markOf(clientId)
