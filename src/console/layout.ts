import { html } from 'ghtml'
import type { App } from '../app.ts'
import { amountHtml } from '../http/amount.ts'
import { timeHtml } from '../http/page.ts'
import type { ConsoleRole } from '../operator/operators.ts'
import type { Texts } from '../texts/en.ts'

export type PlaceInConsole = keyof typeof PLACES | 'other'

/** The pages that the navigation lists, with their paths. */
const PLACES = {
  overview: '/console',
  applications: '/console/applications',
  webhooks: '/console/webhooks',
  networks: '/console/networks',
  policy: '/console/policy',
  audit: '/console/audit',
  operators: '/console/operators',
} as const

/** Renders the navigation, the search and who is signed in, around the body of a page. */
export function consoleBody(
  words: Texts,
  {
    userId,
    role,
    place,
    search,
    body,
  }: { userId: string; role: ConsoleRole; place: PlaceInConsole; search: string; body: string },
): string {
  const texts = words.console
  const link = (name: keyof typeof PLACES) =>
    html`<a href="${PLACES[name]}" !${name === place ? 'aria-current="page"' : ''}>${texts.nav[name]}</a>`
  return html`
    <div class="row spread">
      <nav class="places" aria-label="${texts.pages}">
        !${(Object.keys(PLACES) as (keyof typeof PLACES)[]).map(link).join('')}
      </nav>
      <form class="search row" method="get" action="/console/search" role="search">
        <input
          type="search"
          name="q"
          aria-label="${texts.search.label}"
          placeholder="${texts.search.button}"
          title="${texts.search.label}"
          accesskey="k"
          maxlength="200"
          value="${search}"
        />
      </form>
    </div>
    !${body}
    <p class="muted"><small>${texts.signedInAs(userId, texts.roles[role])}</small></p>
  `
}

/** Renders a card with a heading. */
export const card = (title: string, body: string, level: 'h1' | 'h2' = 'h2'): string =>
  html`<section class="card stack"><!${level}>${title}</!${level}>!${body}</section>`

/**
 * Renders an amount of a network's native currency. Without the network's settings, which a separate authorization server
 * lacks, its decimals are unknown: then in its smallest unit.
 */
export function nativeHtml({ chains }: Pick<App, 'chains'>, words: Texts, chainId: number, value: bigint): string {
  const chain = chains.get(chainId)
  if (chain?.decimals === undefined) return html`${value} wei`
  return amountHtml(words, { value, decimals: chain.decimals, symbol: chain.symbol })
}

/** Renders names and values. Values are HTML; null omits a row. */
export const facts = (rows: [name: string, value: string | null][]): string =>
  html`<dl class="facts">
    !${rows
      .map(([name, value]) =>
        value === null
          ? ''
          : html`<dt>${name}</dt>
              <dd>!${value}</dd>`,
      )
      .join('')}
  </dl>`

type FormField = { id: string; name: string; label: string; hint?: string }

/**
 * Renders an input with its label and hint.
 * @param attributes  further attributes of the input; true: without a value, false: absent
 */
export function field(
  { id, name, label, hint }: FormField,
  attributes: Readonly<Record<string, string | boolean>> = {},
): string {
  const more = Object.entries(attributes).map(([key, value]) =>
    typeof value === 'string' ? html` !${key}="${value}"` : value ? ` ${key}` : '',
  )
  return html`<div class="field">
    <label for="${id}">${label}</label>
    <input id="${id}" name="${name}" !${more.join('')} autocomplete="off" />
    !${hint === undefined ? '' : html`<small>${hint}</small>`}
  </div>`
}

/** Renders inputs of whole numbers beside each other, with one hint. */
export const numberFields = (fields: (FormField & { value: string })[], hint: string): string =>
  html`<div class="columns narrow">
      !${fields.map(({ value, ...one }) => field(one, { value, inputmode: 'numeric', pattern: '[0-9]*' })).join('')}
    </div>
    <small>${hint}</small>`

/** Renders a table that scrolls in its own box; on a phone, each row is a list of its cells with their titles. Cells are HTML. */
export function table(words: Texts, titles: string[], rows: string[][], label: string): string {
  if (rows.length === 0) return html`<p class="muted">${words.console.none}</p>`
  return html`<div class="scroll listed" tabindex="0" role="region" aria-label="${label}">
    <table>
      <thead>
        <tr>
          !${titles.map((title) => html`<th scope="col">${title}</th>`).join('')}
        </tr>
      </thead>
      <tbody>
        !${rows
          .map(
            (cells) =>
              html`<tr>
                !${cells.map((cell, index) => html`<td data-title="${titles[index] ?? ''}">!${cell}</td>`).join('')}
              </tr>`,
          )
          .join('')}
      </tbody>
    </table>
  </div>`
}

/** Renders a list of things with several lines each, as HTML, which fit a phone better than a table. */
export const list = (words: Texts, items: string[]): string =>
  items.length === 0
    ? html`<p class="muted">${words.console.none}</p>`
    : html`<ul class="rows">
        !${items.map((item) => html`<li class="stack tight">!${item}</li>`).join('')}
      </ul>`

/** Renders the message after an action, or after a repeated sign-in. */
export const doneHtml = ({ console: texts }: Texts, done: string | undefined): string =>
  done === undefined ? '' : html`<p class="notice" role="status">${done === 'again' ? texts.again : texts.done}</p>`

export const time = (words: Texts, at: Date | string | null): string =>
  at === null ? '' : timeHtml(words, new Date(at))

/** Renders that something is unknown. */
export const unknownHtml = ({ console: texts }: Texts): string => html`<span class="muted">${texts.unknown}</span>`

export const code = (text: string): string => html`<code>${text}</code>`

export const linkTo = (href: string, text: string): string => html`<a href="${href}">${text}</a>`
/** Long text in a cell, which wraps: ids and hashes do not. */
export const long = (text: string): string => html`<span class="mono long">${text}</span>`
export const mono = (text: string): string => html`<span class="mono">${text}</span>`

/** Renders a link to the page after this one; nothing if there is none. */
export function nextLink(words: Texts, path: string, query: Record<string, string | undefined> | null): string {
  if (query === null) return ''
  const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined)
  return html`<p><a href="${path}?${new URLSearchParams(given).toString()}">${words.console.next}</a></p>`
}

export const transactionPath = (id: string): string => `/console/transactions/${encodeURIComponent(id)}`
export const applicationPath = (clientId: string): string => `/console/applications/${encodeURIComponent(clientId)}`
export const webhookPath = (id: string): string => `/console/webhooks/${encodeURIComponent(id)}`

export const userPath = (userId: string): string => `/console/users/${encodeURIComponent(userId)}`

/** Quotes an argument for a POSIX shell, if it needs quotes. */
export const quoted = (argument: string): string =>
  /^[\w.:@/=-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", String.raw`'\''`)}'`
