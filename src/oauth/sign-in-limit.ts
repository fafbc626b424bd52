import type { FastifyInstance } from 'fastify'
import type { App } from '../app.ts'
import { addressOf, openLimit, spend } from '../http/limits.ts'

/** Limits the requests of one IP address to each step of a sign-in: its start, each page, each form, the callback. */
export type SignInLimit = (scope: FastifyInstance, isLimited?: (path: string) => boolean) => void

/**
 * Opens the limit, with a bucket for each step, so that SIGN_IN_PER_MINUTE counts sign-ins and not their pages. Every
 * step costs something: starting writes rows, and leaving and coming back send requests to the provider.
 */
export function openSignInLimit(app: Pick<App, 'config' | 'clock'>): SignInLimit {
  const perMinute = app.config.SIGN_IN_PER_MINUTE
  const limit = openLimit({ name: 'sign-in', perSecond: perMinute / 60, burst: perMinute, now: () => app.clock.wall() })
  return (scope, isLimited = () => true) => {
    scope.addHook('onRequest', async (request, reply) => {
      const path = request.routeOptions.url ?? ''
      if (isLimited(path)) spend(limit, `${request.method} ${path} ${addressOf(request.ip)}`, reply)
    })
  }
}
