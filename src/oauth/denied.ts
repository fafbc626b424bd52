import type { FastifyRequest } from 'fastify'
import { sha256 } from '../sha256.ts'
import { cookieNames, readCookie } from './cookies.ts'

/*
 * Which application a person of this browser has denied access last: its next sign-in asks who it is, and does not lead the same person to
 * the same question. A cookie, because nothing depends on it.
 */

/** How long that is remembered, seconds. */
const DENIED_SECONDS = 900

const markOf = (clientId: string): string => sha256(clientId).toString('hex').slice(0, 16)

const cookieOf = (origin: string, value: string, seconds: number): string =>
  `${cookieNames(origin).denied}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${origin.startsWith('https:') ? '; Secure' : ''}`

/** The cookie that remembers it. */
export const deniedCookie = (origin: string, clientId: string): string =>
  cookieOf(origin, markOf(clientId), DENIED_SECONDS)

/** The cookie that forgets it, once someone has said who they are; null where nothing is remembered. */
export const deniedOver = (origin: string, { headers }: FastifyRequest): string | null =>
  readCookie(headers.cookie, cookieNames(origin).denied) === null ? null : cookieOf(origin, '', 0)

/** @param cookies  the Cookie header of the request */
export const wasDenied = (origin: string, clientId: string, cookies: string | undefined): boolean =>
  readCookie(cookies, cookieNames(origin).denied) === markOf(clientId)
