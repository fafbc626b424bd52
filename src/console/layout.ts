import { html } from 'ghtml'
import { timeHtml } from '../http/page.ts'
import type { ConsoleRole } from '../operator/operators.ts'
import type { Texts } from '../texts/en.ts'

export type PlaceInConsole = keyof typeof PLACES | 'other'

/** The pages that the navigation lists, with their paths. */
const PLACES = {
  overview: '/console',
  operators: '/console/operators',
} as const

/** Renders the navigation, the search and who is signed in, around the body of a page. */
export function consoleBody(
  words: Texts,
  { userId, role, place, body }: { userId: string; role: ConsoleRole; place: PlaceInConsole; body: string },
): string {
  const texts = words.console
  const link = (name: keyof typeof PLACES) =>
    html`<a href="${PLACES[name]}" !${name === place ? 'aria-current="page"' : ''}>${texts.nav[name]}</a>`
  return html`
    <div class="row spread">
      <nav class="places" aria-label="${texts.pages}">
        !${(Object.keys(PLACES) as (keyof typeof PLACES)[]).map(link).join('')}
      </nav>
    </div>
    !${body}
    <p class="muted"><small>${texts.signedInAs(userId, texts.roles[role])}</small></p>
  `
}

/** Renders a card with a heading. */
export const card = (title: string, body: string, level: 'h1' | 'h2' = 'h2'): string =>
  html`<section class="card stack"><!${level}>${title}</!${level}>!${body}</section>`

/** Renders a table that scrolls in its own box. Cells are HTML. */
export function table(words: Texts, titles: string[], rows: string[][], label: string): string {
  if (rows.length === 0) return html`<p class="muted">${words.console.none}</p>`
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${label}">
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
                !${cells.map((cell) => html`<td>!${cell}</td>`).join('')}
              </tr>`,
          )
          .join('')}
      </tbody>
    </table>
  </div>`
}

/** Renders the message after an action, or after a repeated sign-in. */
export const doneHtml = ({ console: texts }: Texts, done: string | undefined): string =>
  done === undefined ? '' : html`<p class="notice" role="status">${done === 'again' ? texts.again : texts.done}</p>`

export const time = (words: Texts, at: Date | string | null): string =>
  at === null ? '' : timeHtml(words, new Date(at))

export const code = (text: string): string => html`<code>${text}</code>`

export const userPath = (userId: string): string => `/console/users/${encodeURIComponent(userId)}`

/** Quotes an argument for a POSIX shell, if it needs quotes. */
export const quoted = (argument: string): string =>
  /^[\w.:@/-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", String.raw`'\''`)}'`
