import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { html } from 'ghtml'

/** What stands around every page, in English; the texts of the pages themselves are in oauth/texts.ts. */
const around = {
  language: 'en',
  name: 'Chatelaine',
  notice: 'Notice',
  footer: 'Chatelaine, self-hosted wallet accounts',
}

/**
 * A whole HTML document around `body`: the shell of every page this service renders.
 * @param title   plain text, escaped here
 * @param body    HTML that is already escaped
 * @param layout  `narrow` for one card in the middle (sign-in, consent, errors), `wide` for tables
 * @param notice  plain text of the strip above the page, for example that this is a development installation
 */
export function page({ title, body, layout = 'narrow', notice, copiesAt }: PageParts): string {
  return html`<!doctype html>
    <html lang="${around.language}">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex" />
        <meta name="referrer" content="no-referrer" />
        <title>${title} · ${around.name}</title>
        <link rel="icon" type="image/svg+xml" href="${MARK.path}" />
        <link rel="stylesheet" href="${STYLESHEET.path}" />
        !${copiesAt === undefined ? '' : html`<script defer src="${copiesAt}${COPY.path}"></script>`}
      </head>
      <body class="${layout}">
        !${notice === undefined ? '' : html`<aside class="notice strip" aria-label="${around.notice}">${notice}</aside>`}
        <header class="masthead">!${KEY_MARK}<span>${around.name}</span></header>
        <main class="stack">!${body}</main>
        <footer class="muted">${around.footer}</footer>
      </body>
    </html> `
}

export type PageParts = {
  title: string
  body: string
  layout?: 'narrow' | 'wide'
  notice?: string
  /** our origin, on a page with something to copy: the one script that a page may have, and works without */
  copiesAt?: string
}

/**
 * Content-Security-Policy of the pages. There is no `form-action`: a sign-in form posts here and the
 * redirects that answer it end at the application, on another origin, where browsers apply it too.
 */
export const PAGE_CSP =
  "default-src 'none'; style-src 'self'; img-src 'self' data: https:; base-uri 'none'; frame-ancestors 'none'"

/** The same, and that one file as a script. */
const copyingCsp = (origin: string): string => `${PAGE_CSP}; script-src ${origin}${COPY.route}`

/** Sends a page with the headers that belong to it; pages show somebody's data, so nothing may store them. */
export function sendPage(reply: FastifyReply, status: number, parts: PageParts): FastifyReply {
  return reply
    .code(status)
    .header('content-type', 'text/html; charset=utf-8')
    .header('content-security-policy', parts.copiesAt === undefined ? PAGE_CSP : copyingCsp(parts.copiesAt))
    .header('cache-control', 'no-store')
    .header('referrer-policy', 'no-referrer')
    .header('x-content-type-options', 'nosniff')
    .send(page(parts))
}

/** GET /assets/pages.css, /assets/mark.svg and /assets/copy.js: the pages ask by content hash, so a copy is good for ever. */
export function pageAssets(server: FastifyInstance): void {
  for (const asset of [STYLESHEET, MARK, COPY]) {
    server.get(asset.route, { schema: { hide: true } }, (_request, reply) =>
      reply
        .header('content-type', asset.type)
        .header('cache-control', 'public, max-age=31536000, immutable')
        .header('x-content-type-options', 'nosniff')
        .send(asset.content),
    )
  }
}

const KEY_MARK = mark('currentColor')
const STYLESHEET = asset(
  '/assets/pages.css',
  'text/css; charset=utf-8',
  readFileSync(new URL('pages.css', import.meta.url), 'utf8'),
)
const COPY = asset(
  '/assets/copy.js',
  'text/javascript; charset=utf-8',
  readFileSync(new URL('copy.js', import.meta.url), 'utf8'),
)
const MARK = asset('/assets/mark.svg', 'image/svg+xml', mark('#a97b22'))

function asset(
  route: string,
  type: string,
  content: string,
): { route: string; path: string; type: string; content: string } {
  const hash = createHash('sha256').update(content).digest('base64url').slice(0, 12)
  return { route, path: `${route}?v=${hash}`, type, content }
}

/** A key on a ring. Drawn with attributes only: a `style` would need `unsafe-inline`. */
function mark(colour: string): string {
  return `<svg class="mark" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" width="24" height="24" fill="none" stroke="${colour}" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><circle cx="8" cy="8" r="5"/><path d="M11.6 11.6 21 21M16.5 16.5l2.6-2.6M19.2 19.2l1.9-1.9"/></svg>`
}
