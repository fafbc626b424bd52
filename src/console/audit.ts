import { html } from 'ghtml'
import type { App } from '../app.ts'
import { listActions, verifyActions } from '../operator/actions.ts'
import type { OperatorAction } from '../operator/wire.ts'
import type { Texts } from '../texts/en.ts'
import type { ConsoleDoor } from './door.ts'
import { card, code, linkTo, long, mono, nextLink, table, time } from './layout.ts'

const ROWS = 50

/** Registers GET /console/audit: `before`, and `verify`, which reads the whole chain of records. */
export function auditPage(app: App, door: ConsoleDoor): void {
  door.page('/console/audit', async ({ words, query }) => {
    const texts = words.console.audit
    const before = /^\d{1,15}$/.test(query.before ?? '') ? Number(query.before) : undefined
    const [actions, verified] = await Promise.all([
      listActions(app.db, { limit: ROWS, ...(before === undefined ? {} : { before }) }),
      query.verify === '1' ? verifyActions(app.db) : null,
    ])
    const titles = [texts.number, texts.at, texts.actor, texts.via, texts.action, texts.target, texts.change]
    const last = actions.at(-1)
    const next = last === undefined || actions.length < ROWS ? null : { before: String(last.seq) }
    const title = words.console.nav.audit
    const said =
      verified === null
        ? html`<p>!${linkTo('/console/audit?verify=1', texts.verify)}</p>`
        : verified.firstWrong === null
          ? html`<p class="good" role="status">${texts.intact(String(verified.actions), verified.newest)}</p>`
          : html`<p class="danger" role="status">
              ${texts.changed(String(verified.firstWrong), String(verified.actions))}
            </p>`
    const body = card(
      title,
      `${said}${table(
        words,
        titles,
        actions.map((one) => rowOf(words, one)),
        title,
      )}${nextLink(words, '/console/audit', next)}${html`<p class="muted"><small>${words.console.command}: !${code('chatelaine actions list')}</small></p>`}`,
      'h1',
    )
    return { place: 'audit', title, body }
  })
}

const rowOf = (words: Texts, { seq, at, actor, via, action, target, before, after }: OperatorAction): string[] => [
  html`${seq}`,
  time(words, at),
  mono(actor),
  html`${via}`,
  mono(action),
  mono(target),
  before === null && after === null ? '' : long(`${JSON.stringify(before ?? {})} → ${JSON.stringify(after ?? {})}`),
]
