import { readFileSync } from 'node:fs'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { html } from 'ghtml'
import { textsFor } from '../texts/choose.ts'
import type { Texts } from '../texts/en.ts'
import type { Rich } from '../texts/rich.ts'
import { timeText } from '../texts/time.ts'
import { asset } from './asset.ts'
import type { Brand } from './brand.ts'
import { mark, PAPER } from './icons.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** brand of the installation; set by `pageAssets` */
    brand: Brand
  }
}

/** Returns the texts in the language that the browser asks for. */
export const textsOf = ({ headers }: FastifyRequest): Texts => textsFor({ accept: headers['accept-language'] })

/** Shortens an address, a hash or an id to its beginning and its end. */
export const ends = (text: string): string => `${text.slice(0, 8)}…${text.slice(-6)}`

/** Formats a time in UTC. The page's script converts it to the reader's time zone. */
export const timeHtml = (words: Texts, time: Date): string =>
  html`<time datetime="${time.toISOString()}">${timeText(words, time)}</time>`

/** Escapes a sentence and emphasizes its marked parts. */
export const rich = (parts: Rich): string =>
  parts.map((part) => (typeof part === 'string' ? html`${part}` : html`<b>${part.strong}</b>`)).join('')

/**
 * Renders a whole HTML document around `body`. Every page of this service uses it. Text from elsewhere cannot reorder or hide
 * other text on it.
 * @param brand   brand of the installation
 * @param words   texts in the page's language
 * @param title   plain text, escaped here
 * @param body    HTML, already escaped
 * @param layout  `narrow` for one card (sign-in, consent, errors), `wide` for tables, `wallet` for pages with tabs
 * @param tabs    HTML of the tabs, already escaped
 * @param notice  plain text of the strip above the page, such as the notice of development mode
 */
export function page(
  brand: Brand,
  { words, title, body, layout = 'narrow', tabs, notice, hasScript, script, live }: PageParts,
): string {
  const { icons } = brand
  return withoutHidden(
    html`<!doctype html>
      <html lang="${words.language}">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="color-scheme" content="light dark" />
          <meta name="robots" content="noindex" />
          <meta name="referrer" content="no-referrer" />
          <title>${title} · ${brand.name}</title>
          <meta name="theme-color" media="(prefers-color-scheme: light)" content="${PAPER.light}" />
          <meta name="theme-color" media="(prefers-color-scheme: dark)" content="${PAPER.dark}" />
          <link rel="icon" type="${icons.icon.type}" href="${icons.icon.path}" />
          !${icons.touch === null ? '' : html`<link rel="apple-touch-icon" href="${icons.touch.path}" />`}
          <link rel="manifest" href="${icons.manifest.path}" />
          <link rel="stylesheet" href="${STYLESHEET.path}" />
          !${live === undefined ? '' : html`<noscript><meta http-equiv="refresh" content="${String(live.seconds)}" /></noscript>`}
          !${brand.stylesheet === null ? '' : html`<link rel="stylesheet" href="${brand.stylesheet.path}" />`}
          !${hasScript === undefined ? '' : html`<script defer src="${hasScript}${COPY.path}"></script>`}
          !${script === undefined ? '' : html`<script defer src="${hasScript ?? ''}${script.path}"></script>`}
        </head>
        <body class="${layout}">
          !${notice === undefined ? '' : html`<aside class="notice strip" aria-label="${words.around.notice}">${notice}</aside>`}
          <header class="masthead">
            <a href="/"
              >!${brand.logo === null ? KEY_MARK : html`<img src="${brand.logo.path}" alt="" height="28" />`}<span
                >${brand.name}</span
              ></a
            >
          </header>
          !${tabs ?? ''}
          <main class="stack" !${live === undefined ? '' : html`data-live="${String(live.seconds)}"`}>!${body}</main>
          <footer>!${footerOf(brand, words, tabs !== undefined)}</footer>
        </body>
      </html> `,
  )
}

/** Renders the links below a page. Pages with tabs do not link to the account again. */
function footerOf({ links }: Brand, { around }: Texts, hasTabs: boolean): string {
  const places = { account: hasTabs ? null : '/account', ...links }
  const shown = (['account', 'support', 'privacy', 'terms'] as const).flatMap((place) =>
    places[place] === null ? [] : [html`<a href="${places[place]}">${around[place]}</a>`],
  )
  return shown.length === 0 ? '' : html`<nav aria-label="${around.links}">!${shown.join('')}</nav>`
}

/** Characters that change the order of others, or that nobody sees. Joiners are not among them: names and emoji need them. */
const HIDDEN =
  /[\p{Bidi_Control}\p{Zl}\p{Zp}\u00AD\u115F\u1160\u180E\u200B\u2060-\u206F\u3164\uFEFF\uFFA0\uFFF9-\uFFFB\u{E0001}]|\u034F|\u17B4|\u17B5/gu
const codePoint = (character: string): string => character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')

/** Returns a text as pages show it: hidden characters as their code points, such as ⟨U+202E⟩. */
export const shownText = (text: string): string => text.replaceAll(HIDDEN, (one) => `⟨U+${codePoint(one)}⟩`)

/**
 * Makes hidden characters of a whole document visible. In tags they become character references: a form posts the value
 * that it was given.
 */
const withoutHidden = (document: string): string =>
  document.search(HIDDEN) >= 0
    ? document.replaceAll(/<[^>]*>|[^<]+/g, (part) =>
        part.startsWith('<')
          ? part.replaceAll(HIDDEN, (one) => `&#x${codePoint(one).replace(/^0+/, '')};`)
          : shownText(part),
      )
    : document

export type PageParts = {
  words: Texts
  title: string
  body: string
  layout?: 'narrow' | 'wide' | 'wallet'
  /** HTML of the tabs of the account pages */
  tabs?: string
  notice?: string
  /**
   * our origin, on a page with times or copy buttons: allows the one common script, without which the page still works
   */
  hasScript?: string
  /** a second script in addition to `hasScript`, and the only path that it may request, if any */
  script?: { path: string; route: string; connectsTo?: string }
  /** the page updates its parts (`data-part`) from itself, at `path`; without JavaScript the browser reloads it */
  live?: { seconds: number; path: string }
}

/**
 * Content-Security-Policy of the pages. There is no `form-action`: Chromium applies it to every redirect after a form
 * post. A form of ours leads to the application, or to an identity provider, and from there on to origins that nobody
 * here knows (SECURITY.md, sign-in and tokens).
 */
export const PAGE_CSP =
  "default-src 'none'; style-src 'self'; img-src 'self' data: https:; manifest-src 'self'; base-uri 'none'; frame-ancestors 'none'"

/**
 * The policy of a page with the common script and, if there is one, the second script with the path that it requests.
 */
function scriptedCsp(origin: string, { script, live }: PageParts): string {
  const second = script === undefined ? '' : ` ${origin}${script.route}`
  const paths = [script?.connectsTo, live?.path].flatMap((path) => (path === undefined ? [] : [`${origin}${path}`]))
  const connects = paths.length === 0 ? '' : `; connect-src ${paths.join(' ')}`
  return `${PAGE_CSP}; script-src ${origin}${COPY.route}${second}${connects}`
}

/** Sends a page with its headers. Pages show personal data, so nothing may cache them. */
export function sendPage(reply: FastifyReply, status: number, parts: PageParts): FastifyReply {
  return reply
    .code(status)
    .header('content-type', 'text/html; charset=utf-8')
    .header('content-security-policy', parts.hasScript === undefined ? PAGE_CSP : scriptedCsp(parts.hasScript, parts))
    .header('cache-control', 'no-store')
    .header('referrer-policy', 'no-referrer')
    .header('x-content-type-options', 'nosniff')
    .send(page(reply.server.brand, parts))
}

/**
 * Registers GET /assets/…: stylesheet, mark, script and brand files. URLs contain the content hash, so copies never
 * expire.
 */
export function pageAssets(server: FastifyInstance, brand: Brand): void {
  server.decorate('brand', brand)
  const { icon, touch, manifest } = brand.icons
  // Browsers request this path for pages without an icon, such as JSON.
  server.get('/favicon.ico', { schema: { hide: true } }, (_request, reply) => reply.redirect(icon.path, 302))
  for (const asset of new Set([STYLESHEET, COPY, icon, touch, manifest, brand.stylesheet, brand.logo])) {
    if (asset === null) continue
    server.get(asset.route, { schema: { hide: true } }, (_request, reply) =>
      reply
        .header('content-type', asset.type)
        .header('cache-control', 'public, max-age=31536000, immutable')
        .header('x-content-type-options', 'nosniff')
        // A drawing that someone opens by itself is a page on our origin: it runs nothing.
        .header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'; sandbox")
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
