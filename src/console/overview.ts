import { html } from 'ghtml'
import type { App } from '../app.ts'
import { listActions } from '../operator/actions.ts'
import type { OperatorAction } from '../operator/wire.ts'
import type { Texts } from '../texts/en.ts'
import { ACTIVITY_KINDS, readActivity, type ActivitySeries } from './activity.ts'
import type { ConsoleDoor } from './door.ts'
import { card, linkTo, mono, table, time } from './layout.ts'
import { findProblems, type ConsoleProblem } from './problems.ts'

/** Newest actions on the page. */
const CHANGES = 5

/** Registers GET /console: the known problems with their next steps, and the use of the last hour and day. */
export function overviewPage(app: App, door: ConsoleDoor): void {
  door.page('/console', async ({ words }) => {
    const [problems, activity, actions] = await Promise.all([
      findProblems(app),
      readActivity(app),
      listActions(app.db, { limit: CHANGES }),
    ])
    const texts = words.console.overview
    const charts = ACTIVITY_KINDS.map((kind) => chart(words, texts[kind], activity[kind])).join('')
    const apart = app.config.AUTH_SOCKET === undefined ? '' : html`<p class="muted">${texts.apart}</p>`
    const body = html`
      <h1>${words.console.title}</h1>
      !${card(texts.wrong, `${problemsHtml(words, problems)}${apart}`)}
      !${card(texts.changes, changesHtml(words, actions))}
      <section class="stack tight">
        <h2>${texts.activity}</h2>
        <p class="muted"><small>${texts.activityHint}</small></p>
        <div class="columns narrow">!${charts}</div>
      </section>
    `
    return { place: 'overview', title: words.console.title, body }
  })
}

function problemsHtml(words: Texts, problems: ConsoleProblem[]): string {
  if (problems.length === 0) return html`<p class="good">${words.console.overview.fine}</p>`
  const item = ({ isUrgent, say, href }: ConsoleProblem) => {
    const text = html`${say(words.console.problems)}`
    return html`<li class="!${isUrgent ? 'danger' : ''}">
      <p>!${href === null ? text : html`<a href="${href}">!${text}</a>`}</p>
    </li>`
  }
  return html`<ul class="rows problems">
    !${problems.map(item).join('')}
  </ul>`
}

function changesHtml(words: Texts, actions: OperatorAction[]): string {
  const { audit: texts, nav } = words.console
  const titles = [texts.at, texts.actor, texts.action, texts.target]
  const rows = actions.map(({ at, actor, action, target }) => [
    time(words, at),
    mono(actor),
    mono(action),
    mono(target),
  ])
  return `${table(words, titles, rows, words.console.overview.changes)}<p>${linkTo('/console/audit', nav.audit)}</p>`
}

const WIDTH = 240
const HEIGHT = 56

/** Renders bars of 24 hours with their numbers in a table: nothing is readable from the drawing alone. */
function chart(words: Texts, title: string, { lastHour, lastDay, hours }: ActivitySeries): string {
  const { overview: texts } = words.console
  const { format: number } = new Intl.NumberFormat(words.locale)
  const most = Math.max(1, ...hours.map(({ count }) => count))
  const wide = WIDTH / hours.length
  const bars = hours.map(({ count }, index) => {
    const tall = count === 0 ? 1 : Math.max(2, Math.round((count / most) * HEIGHT))
    return html`<rect x="${index * wide}" y="${HEIGHT - tall}" width="${wide - 2}" height="${tall}" rx="1" />`
  })
  const rows = hours.toReversed().map(({ at, count }) => [time(words, at), html`${number(count)}`])
  return html`<section class="card stack tight">
    <h3>${title}</h3>
    <p class="figures"><b>${number(lastHour)}</b> <span class="muted">${texts.hour}</span></p>
    <p class="figures"><b>${number(lastDay)}</b> <span class="muted">${texts.day}</span></p>
    <svg
      class="bars"
      viewBox="0 0 ${WIDTH} ${HEIGHT}"
      preserveAspectRatio="none"
      role="img"
      aria-label="${texts.chart(title)}"
    >
      !${bars.join('')}
    </svg>
    <details>
      <summary>${texts.table}</summary>
      !${table(words, [texts.from, texts.count], rows, texts.chart(title))}
    </details>
  </section>`
}
