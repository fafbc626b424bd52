import type { FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import type { Application } from '../applications/registry.ts'
import { OWN_CLIENT } from './first-party.ts'

/** Where a page that fails may send its visitor, set as soon as the visitor is known to be the right one. */
export const wayBack = new WeakMap<FastifyRequest, { href: string; text: string }>()

/** The name of an application's network, as people read it; null for our own pages, which have none. */
export const networkName = (app: App, { clientId, chainId }: Application): string | null =>
  clientId === OWN_CLIENT ? null : chainName(app, chainId)

/** The name of a network, as people read it. */
export const chainName = (app: App, chainId: number): string => app.chains.get(chainId)?.name ?? `chain ${chainId}`
