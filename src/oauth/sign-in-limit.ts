import type { FastifyInstance } from 'fastify'
import type { App } from '../app.ts'
import { addressOf, openLimit, spend } from '../http/limits.ts'

/** Requests of one IP address to each step of a sign-in: beginning it, each page, each form, the way back. */
export type SignInLimit = (scope: FastifyInstance, isLimited?: (path: string) => boolean) => void

/**
 * Each step has a bucket of its own, so that SIGN_IN_PER_MINUTE is about sign-ins and not about their pages. Every
 * step costs something: beginning one writes rows, leaving and coming back ask the provider.
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
