import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import Fastify, { type FastifyInstance } from 'fastify'
import { html } from 'ghtml'
import { describeError, errorCodes } from '../errors.ts'
import { en } from '../texts/en.ts'
import { asset } from './asset.ts'
import { compressed, sendCompressed, type CompressedAsset } from './compressed-asset.ts'
import { sendPage } from './page.ts'

/** Registers /docs: the API reference, and a page that explains every error code. */
export async function documentation(server: FastifyInstance): Promise<void> {
  await server.register(async (docs) => {
    docs.addHook('onSend', async (_request, reply, payload) => {
      // The reference starts from an inline script. A new nonce per response allows only that script.
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
    // This route matches with and without the slash. The page's script URL is relative, so it needs the slash.
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

/** Loads the library's pages at the first request, not at start: it has 300 modules and 4 MB. */
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
  // A URL with the content hash, so that browsers cache it permanently.
  return { page: page.payload.replaceAll(SCRIPT, script.path.slice('/docs/'.length)), script }
}

/** Name of the script in the library's page. */
const SCRIPT = 'js/scalar.js'

/** Placeholder for the nonce in the library’s page, which is built once. */
const NONCE = 'nonce-of-this-answer'

const NAMES = asset(
  '/assets/reference.js',
  'text/javascript; charset=utf-8',
  readFileSync(new URL('reference.js', import.meta.url), 'utf8'),
)

/** Adds the language and a script that names the buttons, both missing in the library's page. */
const accessible = (page: string): string =>
  page.replace('<html>', '<html lang="en">').replace('</body>', `<script defer src="${NAMES.path}"></script></body>`)

/**
 * Increases the contrast of the library's colours to WCAG 2.2 (success criterion 1.4.3), clips what is wider than a phone,
 * and keeps the names of links where the library would hide them (2.4.4): their row scrolls.
 */
const READABLE = `
.scalar-app { overflow-x: clip; }
.scalar-app .icons-only a span { display: block; }
.light-mode { --scalar-color-2: #555555; --scalar-color-3: #666666; --scalar-color-blue: #00629e; --scalar-color-green: #04683f; --scalar-color-orange: #8a4b00; --scalar-color-red: #b3261e; --scalar-color-purple: #5b3fb5; --scalar-color-yellow: #7a5b00; }
.dark-mode { --scalar-color-2: #c0c0c0; --scalar-color-3: #a8a8a8; --scalar-color-blue: #6cc0ff; --scalar-color-green: #4fd39a; --scalar-color-orange: #ffb366; --scalar-color-red: #ff9b93; --scalar-color-purple: #c3b0ff; --scalar-color-yellow: #f0d060; }
`

/** Escapes a text and marks the parts between backticks as code. */
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
