import { html } from 'ghtml'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { includesRole, type ConsoleRole } from '../operator/operators.ts'
import type { DeliveryKind } from '../store/column-values.ts'
import type { Texts } from '../texts/en.ts'
import { listDead, pageWebhooks, readBacklogs, WEBHOOK_STATES, type WebhookBacklog } from '../webhooks/backlog.ts'
import { listDeliveries, readWebhook } from '../webhooks/manage.ts'
import { withoutQuery } from '../webhooks/shown-url.ts'
import type { WireDelivery, WireWebhook } from '../webhooks/wire.ts'
import { actionForm } from './act.ts'
import { nothingThere, type ConsoleDoor, type ConsoleVisit } from './door.ts'
import {
  applicationPath,
  card,
  code,
  doneHtml,
  facts,
  field,
  linkTo,
  list,
  mono,
  nextLink,
  quoted,
  time,
  webhookPath,
} from './layout.ts'

const [ROWS, DEAD_ROWS, LOG_ROWS] = [50, 20, 50]
/** Maximum of events that are read for the backlog of one webhook, in the list and on its own page. */
const [LOOKS_IN_LIST, LOOKS] = [200, 10_000]
const KINDS: DeliveryKind[] = ['event', 'retry', 'probe', 'replay', 'test', 'redelivery']

/**
 * Registers GET /console/webhooks (`state`, `application`, `cursor`), and GET /console/webhooks/:id (`kind`, `cursor` of the
 * log, `dead` for the cursor of dead events).
 */
export function webhookPages(app: App, door: ConsoleDoor): void {
  door.page('/console/webhooks', async (visit) => {
    const { words, query } = visit
    const state = WEBHOOK_STATES.find((one) => one === query.state) ?? null
    const clientId = (query.application ?? '').trim() || null
    const { webhooks, nextCursor } = await pageWebhooks(
      app.db,
      { state, clientId },
      { limit: ROWS, cursor: query.cursor },
    )
    const backlogs = await readBacklogs(
      app.db,
      webhooks.map(({ id }) => id),
      LOOKS_IN_LIST,
    )
    const items = webhooks.flatMap((one) => {
      const backlog = backlogs.get(one.id)
      return backlog === undefined ? [] : [itemOf(visit, one, backlog)]
    })
    const title = words.console.nav.webhooks
    const chosen = { state: state ?? undefined, application: clientId ?? undefined }
    const body = html`!${filtersHtml(words, chosen)} !${list(words, items)}
      !${nextLink(words, '/console/webhooks', nextCursor === null ? null : { ...chosen, cursor: nextCursor })}
      <p class="muted"><small>${words.console.command}: !${code('chatelaine webhook list')}</small></p>`
    return { place: 'webhooks', title, body: card(title, body, 'h1') }
  })

  door.page('/console/webhooks/:id', async (visit) => {
    const { words, params, query } = visit
    const texts = words.console.webhook
    const one = await readWebhook(app.db, { id: params.id ?? '', clientId: null }).catch((error: unknown) => {
      throw error instanceof AppError && error.code === 'not_found' ? nothingThere() : error
    })
    const backlog = (await readBacklogs(app.db, [one.id], LOOKS)).get(one.id)
    // It was deleted since.
    if (backlog === undefined) throw nothingThere()
    const forms = formsOf(visit, one)
    const asked = query.done === 'test-webhook' || query.done === 'redeliver-event'
    const title = `Webhook ${one.id}`
    const body = html`!${doneHtml(words, query.done)} !${asked ? html`<p class="notice">${texts.requested}</p>` : ''}
    !${card(title, `${factsHtml(visit, one, backlog)}${backlog.isAllowed ? '' : html`<p class="danger">${texts.notAllowed}</p>`}`, 'h1')}
    !${forms === '' ? '' : card(words.console.user.acts, forms)} !${await deadHtml(app, visit, one)}
    !${await logHtml(app, visit, one)}`
    return { place: 'webhooks', title, body }
  })
}

function filtersHtml(words: Texts, chosen: { state: string | undefined; application: string | undefined }): string {
  const texts = words.console.webhook
  const chips = ([undefined, ...WEBHOOK_STATES] as const).map((state) =>
    chip('/console/webhooks', { ...chosen, state }, { text: state ?? texts.all, isChosen: chosen.state === state }),
  )
  const label = words.console.application.clientId
  return html`<nav class="chips" aria-label="${words.console.application.state}">!${chips.join('')}</nav>
    <form class="stack tight" method="get" action="/console/webhooks">
      !${chosen.state === undefined ? '' : html`<input type="hidden" name="state" value="${chosen.state}" />`}
      !${field({ id: 'application', name: 'application', label }, { value: chosen.application ?? '', maxlength: '200' })}
      <button class="button quiet">${texts.filter}</button>
    </form>`
}

/** Renders a link to the same page with other filters. */
function chip(
  path: string,
  query: Record<string, string | undefined>,
  { text, isChosen }: { text: string; isChosen: boolean },
): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined)
  return html`<a
    href="${given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString()}`}"
    !${isChosen ? 'aria-current="true"' : ''}
    >${text}</a
  >`
}

function itemOf({ words, role }: ConsoleVisit, one: WireWebhook, backlog: WebhookBacklog): string {
  const texts = words.console.webhook
  const last = one.lastSuccessAt === null ? html`${texts.never}` : time(words, one.lastSuccessAt)
  return html`<p>!${linkTo(webhookPath(one.id), one.id)} !${stateHtml(one)}</p>
    <p>!${linkTo(applicationPath(one.clientId), one.clientId)} !${mono(urlFor(role, one.url))}</p>
    <p class="muted figures">
      ${texts.behind}: !${behindHtml(words, backlog)} · ${texts.dead}: ${one.dead} · ${texts.lastSuccess}: !${last}
    </p>`
}

const stateHtml = ({ state }: WireWebhook): string =>
  html`<span class="badge !${state === 'enabled' ? 'good' : 'danger'}">${state}</span>`

function behindHtml(words: Texts, { behind, isMore, oldestAt }: WebhookBacklog): string {
  const number = `${isMore ? '≥ ' : ''}${new Intl.NumberFormat(words.locale).format(behind)}`
  if (oldestAt === null) return html`${number}`
  return html`${number}, ${words.console.webhook.oldest} !${time(words, oldestAt)}`
}

/** Viewers do not see the query of a URL, which often has a token. */
const urlFor = (role: ConsoleRole, url: string): string => (includesRole(role, 'support') ? url : withoutQuery(url))

function factsHtml({ words, role }: ConsoleVisit, one: WireWebhook, backlog: WebhookBacklog): string {
  const texts = words.console.webhook
  const { failingSince, disabledAt, probeAt } = backlog
  const since = disabledAt ?? failingSince
  const { disabledReason, lastFailureAt, replay } = one
  return facts([
    [texts.url, mono(urlFor(role, one.url))],
    [words.console.transaction.application, linkTo(applicationPath(one.clientId), one.clientId)],
    [texts.types, mono(one.types.join(' '))],
    [
      words.console.application.state,
      `${stateHtml(one)}${since === null ? '' : html` ${words.console.application.since} !${time(words, since)}`}`,
    ],
    [texts.reason, disabledReason === null ? null : html`<span class="danger">${texts.reasons[disabledReason]}</span>`],
    [texts.nextProbe, one.state === 'failing' && probeAt !== null ? time(words, probeAt) : null],
    [texts.behind, behindHtml(words, backlog)],
    [texts.dead, html`${one.dead}`],
    [texts.delivered, html`${new Intl.NumberFormat(words.locale).format(one.delivered)}`],
    [texts.lastSuccess, one.lastSuccessAt === null ? html`${texts.never}` : time(words, one.lastSuccessAt)],
    [
      texts.lastFailure,
      lastFailureAt === null
        ? html`${texts.never}`
        : html`!${time(words, lastFailureAt)} <span lang="en">${one.lastFailure ?? ''}</span>`,
    ],
    [texts.formerSecret, one.oldSecretEndsAt === null ? null : time(words, one.oldSecretEndsAt)],
    [
      texts.replay,
      replay === null
        ? null
        : html`!${time(words, replay.createdAt)} ${texts.replayed(String(replay.delivered), String(replay.failures))}`,
    ],
  ])
}

function formsOf(visit: ConsoleVisit, { id, state, replay }: WireWebhook): string {
  const texts = visit.words.console.webhook
  const input = (name: string, label: string, { example, isNeeded }: { example: string; isNeeded: boolean }) =>
    field(
      { id: `webhook-${name}`, name, label },
      { class: 'mono', placeholder: example, maxlength: '40', required: isNeeded },
    )
  const event = input('event', texts.event, { example: 'evt_…', isNeeded: true })
  const range = `${input('from', texts.from, { example: '2026-01-31T12:00:00Z', isNeeded: true })}${input('until', texts.until, { example: '2026-01-31T13:00:00Z', isNeeded: false })}`
  return [
    actionForm(visit, 'test-webhook', id),
    state === 'enabled' ? '' : actionForm(visit, 'enable-webhook', id),
    actionForm(visit, 'redeliver-event', id, { html: event, values: { event: 'evt_…' } }),
    replay === null ? actionForm(visit, 'replay-webhook', id, { html: range, values: { from: 'TIME' } }) : '',
    actionForm(visit, 'rotate-webhook-secret', id),
  ].join('')
}

async function deadHtml(app: App, visit: ConsoleVisit, one: WireWebhook): Promise<string> {
  const { words, query } = visit
  const texts = words.console.webhook
  const { page, nextCursor } = await listDead(app.db, one, { limit: DEAD_ROWS, cursor: query.dead })
  if (page.length === 0) return ''
  const items = page.map(({ event, attempts }) => {
    const tried = html`${texts.attempt}: ${attempts}`
    if (event === null) return html`<p class="muted">${texts.deleted} · !${tried}</p>`
    const { id, type, subject, at } = event
    return html`<p>!${mono(id)} ${type}</p>
      <p class="muted">!${mono(subject)} · !${time(words, at)} · !${tried}</p>
      !${actionForm(visit, 'redeliver-event', one.id, { html: html`<input type="hidden" name="event" value="${id}" />`, values: { event: id } })}`
  })
  const next = nextCursor === null ? null : { kind: query.kind, dead: nextCursor }
  return card(texts.dead, `${list(words, items)}${nextLink(words, webhookPath(one.id), next)}`)
}

async function logHtml({ db }: App, { words, query, role }: ConsoleVisit, one: WireWebhook): Promise<string> {
  const texts = words.console.webhook
  const path = webhookPath(one.id)
  const kind = KINDS.find((known) => known === query.kind)
  const which = { id: one.id, clientId: null }
  const { deliveries, nextCursor } = await listDeliveries(db, which, { limit: LOG_ROWS, cursor: query.cursor, kind })
  // A response may repeat the token of the request.
  const isAnswerShown = includesRole(role, 'support') || withoutQuery(one.url) === one.url
  const chips = [undefined, ...KINDS].map((each) =>
    chip(path, { kind: each }, { text: each ?? texts.all, isChosen: kind === each }),
  )
  const items = deliveries.map((delivery) => {
    const { kind: how, type, eventId, attempt, createdAt, answer } = delivery
    const said = !isAnswerShown || answer === null || answer === '' ? '' : html`<p><small>!${code(answer)}</small></p>`
    return html`<p>${how} ${type} !${resultHtml(words, delivery)}</p>
      <p class="muted">!${mono(eventId)} · !${time(words, createdAt)} · ${texts.attempt}: ${attempt}</p>
      !${said}`
  })
  const next = nextCursor === null ? null : { kind, dead: query.dead, cursor: nextCursor }
  return card(
    texts.log,
    html`<p class="muted"><small>${texts.logHint}</small></p>
      <nav class="chips" aria-label="${words.console.transaction.kind}">!${chips.join('')}</nav>
      !${list(words, items)} !${nextLink(words, path, next)}
      <p class="muted">
        <small>${words.console.command}: !${code(`chatelaine webhook show ${quoted(one.id)}`)}</small>
      </p>`,
  )
}

function resultHtml(words: Texts, { doneAt, error, status, durationMs }: WireDelivery): string {
  if (doneAt === null) return html`<span class="muted">${words.console.webhook.notSent}</span>`
  const took = durationMs === null ? '' : html` <span class="muted">${durationMs} ms</span>`
  return error === null
    ? html`<span class="good">${status ?? ''}</span>!${took}`
    : html`<span class="danger" lang="en">${error}</span>!${took}`
}
