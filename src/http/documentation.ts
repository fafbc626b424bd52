import { randomBytes } from 'node:crypto'
import swagger from '@fastify/swagger'
import reference from '@scalar/fastify-api-reference'
import type { FastifyInstance } from 'fastify'
import { html } from 'ghtml'
import type { App } from '../app.ts'
import { describeError, errorCodes } from '../errors.ts'
import { sendPage } from './page.ts'

const DESCRIPTION = `Wallet accounts for people who sign in with an account they already have.

Every request carries \`Authorization: Bearer <access token>\`. Get one by the authorization code flow with PKCE
(S256) at the authorization server of this origin: its discovery document is
[/oauth/.well-known/openid-configuration](/oauth/.well-known/openid-configuration). An application is bound to one
network, so no request names one. Refusals are problem documents (RFC 9457) with a stable \`code\`: see
[the list of errors](/docs/errors).`

/** The OpenAPI 3.1 document, written from the schemas that validate. Register before the routes. */
export async function openapi(server: FastifyInstance, app: App): Promise<void> {
  await server.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Chatelaine',
        version: '1',
        description: DESCRIPTION,
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: app.origin }],
      components: {
        securitySchemes: {
          bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: 'A user’s access token' },
          operator: { type: 'http', scheme: 'bearer', description: 'A token of the operator; never a user’s' },
          oauth: { type: 'openIdConnect', openIdConnectUrl: `${app.origin}/oauth/.well-known/openid-configuration` },
        },
      },
      tags: [
        { name: 'Users', description: 'The signed-in user' },
        { name: 'Balances' },
        { name: 'History', description: 'Transfers of ERC-20, ERC-721 and ERC-1155 tokens' },
        { name: 'Contracts', description: 'Reads and writes of any contract' },
        { name: 'Transfers', description: 'Coins and tokens for people, also for those who have not signed in yet' },
        { name: 'Transactions', description: 'Sending one, and what became of it' },
        { name: 'Operator', description: 'Applications and networks of this installation, for whoever runs it' },
      ],
    },
    // Only what carries a tag belongs to the API; pages and probes do not.
    transform: ({ schema, url }) => ({ schema: schema?.tags === undefined ? { ...schema, hide: true } : schema, url }),
  })
  server.get('/openapi.json', { schema: { hide: true } }, (_request, reply) =>
    reply.header('access-control-allow-origin', '*').send(server.swagger()),
  )
}

/** /docs: the API reference, and a page that explains every error code. */
export async function documentation(server: FastifyInstance): Promise<void> {
  // The reference starts from an inline script; the nonce allows that one only.
  const nonce = randomBytes(16).toString('base64')
  await server.register(async (docs) => {
    docs.addHook('onSend', async (_request, reply) => {
      reply.header(
        'content-security-policy',
        `default-src 'none'; script-src 'self' 'nonce-${nonce}'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; frame-ancestors 'none'`,
      )
    })
    await docs.register(reference, {
      routePrefix: '/docs',
      configuration: {
        url: '/openapi.json',
        pageTitle: 'Chatelaine API',
        nonce,
        telemetry: false,
        withDefaultFonts: false,
        hideClientButton: true,
        showDeveloperTools: 'never',
        agent: { disabled: true },
        mcp: { disabled: true },
      } as object,
    })
  })
  server.get('/docs/errors', { schema: { hide: true } }, (_request, reply) =>
    sendPage(reply, 200, { title: 'Errors', layout: 'wide', body: errorsPage() }),
  )
}

/** Text between backticks as code; everything escaped. */
const withCode = (text: string): string =>
  text
    .split('`')
    .map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : html`${part}`))
    .join('')

function errorsPage(): string {
  const rows = errorCodes.map((code) => {
    const { status, title, help, retryable } = describeError(code)
    return html`<tr id="${code}">
      <td class="mono">${code}</td>
      <td>${String(status)}</td>
      <td><strong>${title}.</strong> !${withCode(help)}${retryable ? ' The same request may be repeated.' : ''}</td>
    </tr>`
  })
  return html`<div class="card stack">
    <h1>Errors</h1>
    <p>Every refusal is a problem document (RFC 9457) with one of these codes. A code never changes its meaning.</p>
    <table>
      <thead>
        <tr>
          <th>Code</th>
          <th>Status</th>
          <th>Meaning</th>
        </tr>
      </thead>
      <tbody>
        !${rows.join('')}
      </tbody>
    </table>
  </div>`
}
