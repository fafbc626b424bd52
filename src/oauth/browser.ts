import type { FastifyRequest } from 'fastify'
import { cookieNames, readCookie } from './cookies.ts'
import { newBrowserId } from './federation/federation.ts'

/** Returns the random value that marks this browser, existing or new, and the cookie that stores it. */
export function browserOf(request: FastifyRequest, origin: string): { browser: string; cookie: string } {
  const name = cookieNames(origin).browser
  const known = readCookie(request.headers.cookie, name)
  const browser = known !== null && /^[\w-]{32}$/.test(known) ? known : newBrowserId()
  const secure = origin.startsWith('https:') ? '; Secure' : ''
  return { browser, cookie: `${name}=${browser}; Path=/; HttpOnly; SameSite=Lax${secure}` }
}
