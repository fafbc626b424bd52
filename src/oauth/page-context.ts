import type { App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import type { Texts } from '../texts/en.ts'
import { networkTitle } from '../texts/network-names.ts'
import { OWN_CLIENT } from './first-party.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * Where a page that fails may send its visitor and in which language, set as soon as the visitor is known to be the
     * right one.
     */
    backLink: { href: string; text: string; words: Texts } | null
  }
}

/** The network of an application as people call it; null for our own pages, which have none. */
export const networkName = (app: App, words: Texts, { clientId, chainId }: Application): string | null =>
  clientId === OWN_CLIENT ? null : chainName(app, words, chainId)

/** A network as people call it. */
export const chainName = (app: App, words: Texts, chainId: number): string =>
  networkTitle(words, { chainId, name: app.networks.get(chainId)?.name ?? null })
