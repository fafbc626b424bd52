import { html } from 'ghtml'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { listApplications, readApplication } from '../applications/manage.ts'
import { readUsage } from '../applications/usage.ts'
import type { ApplicationUsage, RegisteredApplication } from '../applications/wire.ts'
import { AppError } from '../errors.ts'
import { cutPage, foreignCursor, isMoment, readPageCursor } from '../http/cursor.ts'
import { momentText } from '../store/read-time.ts'
import type { Texts } from '../texts/en.ts'
import { listWebhooks } from '../webhooks/manage.ts'
import type { WireWebhook } from '../webhooks/wire.ts'
import { actionForm } from './act.ts'
import { limitInputs, limitValues } from './application-limits.ts'
import { nothingThere, type ConsoleDoor } from './door.ts'
import { applicationPath, card, doneHtml, facts, linkTo, mono, nextLink, table, time, userPath } from './layout.ts'

const ROWS = 50

/** Registers GET /console/applications (`after`), and GET /console/applications/:clientId (`cursor`). */
export function applicationPages(app: App, door: ConsoleDoor): void {
  door.page('/console/applications', async ({ words, query }) => {
    const texts = words.console.application
    const found = await listApplications(app.db, { after: query.after ?? '', limit: ROWS })
    const rows = found.map(({ clientId, name, network, kind, suspendedAt }) => [
      linkTo(applicationPath(clientId), name),
      mono(clientId),
      html`${network}`,
      html`${kind}`,
      stateHtml(words, suspendedAt),
    ])
    const title = words.console.nav.applications
    const next = found.length < ROWS ? null : { after: found.at(-1)!.clientId }
    const titles = [texts.name, texts.clientId, texts.network, texts.kind, texts.state]
    return { place: 'applications', title, body: card(title, `${table(words, titles, rows, title)}${nextLink(words, '/console/applications', next)}`, 'h1') } // prettier-ignore
  })

  door.page('/console/applications/:clientId', async (visit) => {
    const { words, params, query } = visit
    const texts = words.console.application
    const clientId = params.clientId ?? ''
    const one = await readApplication(app.db, clientId).catch((error: unknown) => {
      throw error instanceof AppError && error.code === 'not_found' ? nothingThere() : error
    })
    const [usage, users, webhooks] = await Promise.all([
      readUsage(app.db, clientId),
      listUsers(app, clientId, query.cursor),
      listWebhooks(app.db, clientId),
    ])
    const limits = limitValues(one)
    const forms = [
      actionForm(visit, 'update-application', clientId, { html: limitInputs(words, limits), values: limits }),
      one.suspendedAt === null ? actionForm(visit, 'suspend', clientId) : actionForm(visit, 'resume', clientId),
      ...(one.kind === 'public'
        ? []
        : [actionForm(visit, 'rotate-secret', clientId), actionForm(visit, 'reset-secret', clientId)]),
    ].join('')
    const rows = users.page.map(({ user_id: userId, created_at: at }) => [
      linkTo(userPath(userId), userId),
      time(words, at),
    ])
    const body = html`!${doneHtml(words, query.done)}
    !${card(one.name, `${html`<h2>${texts.use}</h2>`}${usageHtml(words, usage, one.sponsor)}${settingsHtml(words, one, webhooks)}`, 'h1')}
    !${forms === '' ? '' : card(words.console.user.acts, forms)}
    !${card(texts.users, `${table(words, [words.console.operators.userId, texts.since], rows, texts.users)}${nextLink(words, applicationPath(clientId), users.nextCursor === null ? null : { cursor: users.nextCursor })}`)}`
    return { place: 'applications', title: one.name, body }
  })
}

const stateHtml = ({ console: { application: texts } }: Texts, suspendedAt: string | null): string =>
  suspendedAt === null ? html`${texts.active}` : html`<span class="badge danger">${texts.suspended}</span>`

function settingsHtml(words: Texts, one: RegisteredApplication, webhooks: WireWebhook[]): string {
  const texts = words.console.application
  const lines = (all: readonly string[]) => all.map((line) => mono(line)).join('<br />')
  return facts([
    [texts.clientId, mono(one.clientId)],
    [texts.state, stateHtml(words, one.suspendedAt)],
    [texts.kind, html`${one.kind}`],
    [texts.network, html`${one.network}`],
    [texts.permissions, html`${one.permissions.join(' ')}`],
    [texts.redirectUris, lines(one.redirectUris)],
    [texts.contracts, contractsHtml(words, one.sponsor)],
    [words.console.nav.webhooks, webhooksHtml(words, one.clientId, webhooks)],
    [texts.origins, one.allowedOrigins.length === 0 ? null : lines(one.allowedOrigins)],
  ])
}

/** Renders the link to an application's webhooks, and how many do not work. */
function webhooksHtml(words: Texts, clientId: string, webhooks: WireWebhook[]): string | null {
  if (webhooks.length === 0) return null
  const badges = (['failing', 'disabled'] as const).flatMap((state) => {
    const count = webhooks.filter((one) => one.state === state).length
    return count === 0 ? [] : [html` <span class="badge danger">${count} ${state}</span>`]
  })
  const path = `/console/webhooks?${new URLSearchParams({ application: clientId }).toString()}`
  return `${linkTo(path, `${words.console.nav.webhooks} (${webhooks.length})`)}${badges.join('')}`
}

function contractsHtml(words: Texts, sponsor: RegisteredApplication['sponsor']): string | null {
  if (sponsor === null) return null
  if (sponsor.contracts === null) return html`${words.console.application.anyContract}`
  return sponsor.contracts.map((contract) => mono(contract)).join('<br />')
}

function usageHtml(
  words: Texts,
  { quotas, sponsored }: ApplicationUsage,
  sponsor: RegisteredApplication['sponsor'],
): string {
  const texts = words.console.application
  if (quotas.length === 0 && sponsored === null) return html`<p class="muted">${texts.unlimited}</p>`
  const meter = (used: number | string, limit: number | string, label: string) =>
    html`<div class="stack tight">
      <p class="figures">${label}: <b>${used}</b> / ${limit}</p>
      <meter min="0" max="${limit}" value="${used}" aria-label="${label}"></meter>
    </div>`
  return [
    ...quotas.map(({ counts, per, used, limit }) => meter(used, limit, texts.quota(counts, per))),
    ...(sponsored === null ? [] : [meter(sponsored.used, sponsored.perApplication, texts.budget)]),
    ...(sponsor === null ? [] : [html`<p class="figures">${texts.perUser}: <b>${sponsor.perUser}</b></p>`]),
  ].join('')
}

/** Lists the users of an application, newest first. Uses the index (application, time, account). */
async function listUsers({ db }: App, clientId: string, cursor: string | undefined) {
  const after = cursor === undefined ? null : readPageCursor(cursor, ['string', 'string', 'string'])
  if (
    after !== null &&
    (after[0] !== clientId || !isMoment(after[1] as string) || !/^[\da-f-]{36}$/.test(after[2] as string))
  )
    // prettier-ignore
    throw foreignCursor()
  const rows = await db
    .selectFrom('application_users as use')
    .innerJoin('accounts as account', 'account.account_id', 'use.account_id')
    .select(['account.user_id', 'use.account_id', 'use.created_at', momentText('use.created_at').as('since')])
    .where('use.client_id', '=', clientId)
    .$if(after !== null, (query) =>
      query.where(sql<boolean>`(use.created_at, use.account_id) < (${after![1]}::timestamptz, ${after![2]}::uuid)`),
    )
    .orderBy('use.created_at', 'desc')
    .orderBy('use.account_id', 'desc')
    .limit(ROWS + 1)
    .execute()
  return cutPage(rows, ROWS, ({ since, account_id: accountId }) => [clientId, since, accountId])
}
