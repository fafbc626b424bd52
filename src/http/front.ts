import type { FastifyInstance } from 'fastify'
import { html } from 'ghtml'
import type { App } from '../app.ts'
import { isEmbedded } from '../chain/network.ts'
import { issuerOf } from '../app.ts'
import type { Texts } from '../texts/en.ts'
import { networkTitle } from '../texts/network-names.ts'
import { sendPage, textsOf } from './page.ts'

/** Registers GET /: a page for users that describes the installation, with links for developers. */
export function front(server: FastifyInstance, app: App): void {
  const isDevelopment = app.config.NODE_ENV !== 'production'
  server.get('/', { schema: { hide: true } }, (request, reply) => {
    const words = textsOf(request)
    const chains = [...app.chains.values()]
    return sendPage(reply, 200, {
      words,
      title: words.front.title,
      ...(isDevelopment ? { notice: words.development.strip } : {}),
      body: frontBody(words, {
        account: `${app.authOrigin}/account`,
        issuer: issuerOf(app),
        networks: chains.map((chain) => ({ title: networkTitle(words, chain), chainId: chain.chainId })),
        hasExplorer: isDevelopment && chains.some(isEmbedded),
      }),
    })
  })
}

type Front = { account: string; issuer: string; networks: { title: string; chainId: number }[]; hasExplorer: boolean }

export const frontBody = ({ front: words }: Texts, { account, issuer, networks, hasExplorer }: Front): string =>
  html`<div class="card stack">
      <h1>${words.title}</h1>
      <p>${words.what}</p>
      <p>${words.account}</p>
      <a class="button" href="${account}">${words.open}</a>
    </div>
    <div class="card stack">
      <h2>${words.developers}</h2>
      <dl class="facts">
        <dt>${words.api}</dt>
        <dd>
          <a href="/docs/">${words.reference}</a> · <a href="/openapi.json">${words.openapi}</a> ·
          <a href="/docs/errors">${words.errors}</a>
        </dd>
        <dt>${words.issuer}</dt>
        <dd><a href="${issuer}/.well-known/openid-configuration">${issuer}</a></dd>
        <dt>${words.networks}</dt>
        <dd>${networks.map(({ title, chainId }) => words.chainId(title, String(chainId))).join(', ')}</dd>
        !${
          hasExplorer
            ? html`<dt>${words.explorer}</dt>
                <dd><a href="/explorer">${words.blocks}</a></dd>`
            : ''
        }
      </dl>
    </div>`
