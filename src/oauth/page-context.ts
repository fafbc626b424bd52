import { OWN_CLIENT } from '../ids.ts'
import type { App } from '../app.ts'
import type { Application } from '../applications/application.ts'
import type { Texts } from '../texts/en.ts'
import { networkTitle } from '../texts/network-names.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Where a page that reports an error links to, and its language; null until the visitor may be sent there. */
    backLink: { href: string; text: string; words: Texts } | null
  }
}

/** Returns the display name of an application's network; null for our own pages, which have none. */
export const networkName = (app: App, words: Texts, { clientId, chainId }: Application): string | null =>
  clientId === OWN_CLIENT ? null : chainName(app, words, chainId)

/** Returns the display name of a network. */
export const chainName = (app: App, words: Texts, chainId: number): string =>
  networkTitle(words, { chainId, name: app.networks.get(chainId)?.name ?? null })
