import type { FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import type { Application } from '../applications/registry.ts'

/** Where a page that fails may send its visitor, set as soon as the visitor is known to be the right one. */
export const wayBack = new WeakMap<FastifyRequest, { href: string; text: string }>()

/** The name of an application's network, as people read it. */
export const networkName = (app: App, { chainId }: Application): string =>
  app.chains.get(chainId)?.name ?? `chain ${chainId}`
