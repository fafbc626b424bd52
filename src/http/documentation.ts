import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import Fastify, { type FastifyInstance } from 'fastify'
import { html } from 'ghtml'
import { describeError, errorCodes } from '../errors.ts'
import { en } from '../texts/en.ts'
import { asset } from './asset.ts'
import { compressed, sendCompressed, type CompressedAsset } from './compressed-asset.ts'
import { sendPage } from './page.ts'

/** /docs: the API reference, and a page that explains every error code. */
export async function documentation(server: FastifyInstance): Promise<void> {
  await server.register(async (docs) => {
    docs.addHook('onSend', async (_request, reply, payload) => {
      // The reference starts from an inline script; the nonce, another one in each answer, allows that one only.
      const nonce = randomBytes(16).toString('base64')
      reply.header(
        'content-security-policy',
        `default-src 'none'; script-src 'self' 'nonce-${nonce}'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; frame-ancestors 'none'`,
      )
      if (typeof payload !== 'string' || !payload.includes(NONCE)) return payload
      reply.header('cache-control', 'no-store')
      return accessible(payload.replaceAll(NONCE, nonce))
    })
    docs.get(NAMES.route, { schema: { hide: true } }, (_request, reply) =>
      reply
        .header('content-type', NAMES.type)
        .header('cache-control', 'public, max-age=31536000, immutable')
        .send(NAMES.content),
    )
    let opened: Promise<ApiReference> | undefined
    const open = () => (opened ??= openReference())
    // Both with the slash and without one come here; the page names its script from where it stands.
    docs.get('/docs/', { schema: { hide: true } }, async ({ url }, reply) =>
      url.split('?')[0] === '/docs/'
        ? reply.header('content-type', 'text/html; charset=utf-8').send((await open()).page)
        : reply.redirect('/docs/', 301),
    )
    docs.get('/docs/js/scalar.js', { schema: { hide: true } }, async (request, reply) =>
      sendCompressed(request, reply, (await open()).script),
    )
  })
  server.get('/docs/errors', { schema: { hide: true } }, (_request, reply) =>
    sendPage(reply, 200, { words: en, title: 'Errors', layout: 'wide', body: errorsPage() }),
  )
}

type ApiReference = { page: string; script: CompressedAsset }

/** The library's pages. It is 300 modules and four megabytes, so it is loaded when someone reads them, not at each start. */
async function openReference(): Promise<ApiReference> {
  const { default: reference } = await import('@scalar/fastify-api-reference')
  const server = Fastify()
  await server.register(reference, {
    routePrefix: '/docs',
    configuration: {
      url: '/openapi.json',
      pageTitle: 'Chatelaine API',
      customCss: READABLE,
      nonce: NONCE,
      telemetry: false,
      withDefaultFonts: false,
      hideClientButton: true,
      showDeveloperTools: 'never',
      agent: { disabled: true },
      mcp: { disabled: true },
    } as object,
  })
  const [page, { headers, rawPayload }] = await Promise.all([server.inject('/docs/'), server.inject(`/docs/${SCRIPT}`)])
  await server.close()
  const script = await compressed(asset(`/docs/${SCRIPT}`, String(headers['content-type']), rawPayload))
  // By the hash of its content, so that a browser that has it never asks again.
  return { page: page.payload.replaceAll(SCRIPT, script.path.slice('/docs/'.length)), script }
}

/** What the library's page calls its script. */
const SCRIPT = 'js/scalar.js'

/** Placeholder in the library’s page, which is made once, for the nonce of the response. */
const NONCE = 'nonce-of-this-answer'

const NAMES = asset(
  '/assets/reference.js',
  'text/javascript; charset=utf-8',
  readFileSync(new URL('reference.js', import.meta.url), 'utf8'),
)

/** The library's page says neither its language nor what its buttons do. */
const accessible = (page: string): string =>
  page.replace('<html>', '<html lang="en">').replace('</body>', `<script defer src="${NAMES.path}"></script></body>`)

/** Its colours, as much stronger as the contrast of WCAG 2.2 wants (success criterion 1.4.3); nothing wider than a phone. */
const READABLE = `
.scalar-app { overflow-x: clip; }
.light-mode { --scalar-color-2: #555555; --scalar-color-3: #666666; --scalar-color-blue: #00629e; --scalar-color-green: #04683f; --scalar-color-orange: #8a4b00; --scalar-color-red: #b3261e; --scalar-color-purple: #5b3fb5; --scalar-color-yellow: #7a5b00; }
.dark-mode { --scalar-color-2: #c0c0c0; --scalar-color-3: #a8a8a8; --scalar-color-blue: #6cc0ff; --scalar-color-green: #4fd39a; --scalar-color-orange: #ffb366; --scalar-color-red: #ff9b93; --scalar-color-purple: #c3b0ff; --scalar-color-yellow: #f0d060; }
`

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
      <td>
        <strong>${title}.</strong>
        !${withCode(help)}${retryable ? ' The same request may be retried.' : ''}<br />“${en.userMessages[code]}”
      </td>
    </tr>`
  })
  return html`<div class="card stack">
    <h1>Errors</h1>
    <p>
      Every error response is a problem document (RFC 9457) with one of these codes. A code never changes its meaning.
      An application may show the text in quotes, <code>userMessage</code>, to its user:
      <code>Accept-Language</code> chooses its language.
    </p>
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
