import type { FastifyInstance } from 'fastify'
import { html } from 'ghtml'
import type { App } from '../app.ts'
import { issuerOf } from '../app.ts'
import { sendPage } from './page.ts'

/** GET /: what this is and where everything is. */
export function front(server: FastifyInstance, app: App): void {
  const isDevelopment = app.config.NODE_ENV !== 'production'
  server.get('/', { schema: { hide: true } }, (_request, reply) =>
    sendPage(reply, 200, {
      title: 'Wallet accounts',
      ...(isDevelopment ? { notice: 'Development installation: anyone may sign in as anyone.' } : {}),
      body: html`<div class="card stack">
        <h1>Wallet accounts</h1>
        <p>
          People sign in with an account they already have; this service holds a blockchain account for each of them,
          and applications call contracts in their name.
        </p>
        <dl class="facts">
          <dt>API</dt>
          <dd>
            <a href="/docs/">reference</a> · <a href="/openapi.json">OpenAPI 3.1</a> · <a href="/docs/errors">errors</a>
          </dd>
          <dt>Sign-in</dt>
          <dd><a href="/oauth/.well-known/openid-configuration">${issuerOf(app.origin)}</a></dd>
          <dt>Networks</dt>
          <dd>${[...app.chains.values()].map((chain) => `${chain.name} (chain id ${chain.chainId})`).join(', ')}</dd>
          !${
            isDevelopment && [...app.chains.values()].some((chain) => chain.faucet !== null)
              ? html`<dt>Explorer</dt>
                  <dd><a href="/explorer">blocks of the development chain</a></dd>`
              : ''
          }
        </dl>
      </div>`,
    }),
  )
}
