import type { FastifyInstance } from 'fastify'
import { html } from 'ghtml'
import type { App } from '../../app.ts'
import { sendPage, textsOf } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import { coverageHtml, transferItem, sentItem } from './body.ts'
import { hidden, leaveFor, type AccountDoor } from './access.ts'
import type { AccountOwner, AccountSlices, CoinCoverage, Direction, Listed } from './slices.ts'
import { listAllowed } from './allowed.ts'
import { inTabs } from './tabs.ts'
import { OWN_CLIENT, ownSignIn } from '../first-party.ts'
import { chainName } from '../page-context.ts'

const ROWS = 25

const KINDS = ['tokens', 'coins', 'done'] as const
const DIRECTIONS = ['all', 'in', 'out'] as const satisfies Direction[]

type SelectOption<T> = { value: T; title: string }
type ActivityFilters = {
  network: number
  show: (typeof KINDS)[number]
  direction: Direction
  application: string | null
}

/**
 * Registers the activity on a network, page by page: tokens, native currency, and transactions of applications and the
 * user.
 */
export function activityPage(
  server: FastifyInstance,
  app: App,
  { door, slices }: { door: AccountDoor; slices: AccountSlices },
): void {
  /** GET /account/activity: `network`, `show`, `direction`, `application`, `cursor`. Errors: invalid_cursor. */
  server.get<{ Querystring: Record<string, unknown> }>('/account/activity', hidden, async (request, reply) => {
    const visitor = await door.arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(app.authOrigin, { comesBackTo: 'first' }))
    const words = textsOf(request)
    const networks = [...app.networks.keys()].map((value) => ({ value, title: chainName(app, words, value) }))
    const allowed = await listAllowed(app, visitor.user)
    const applications = [
      ...allowed.map(({ clientId, name }) => ({ value: clientId, title: name })),
      { value: OWN_CLIENT, title: words.activity.yourself },
    ]
    const filters = readFilters(request.query, { networks, applications })
    const cursor = typeof request.query.cursor === 'string' ? request.query.cursor : undefined
    const { rows, nextCursor, coverage } = await readRows(words, visitor.user, filters, cursor)
    const body = `${await door.noticeFor(visitor, words)}${activityBody(words, {
      filters,
      networks,
      applications,
      rows,
      nextCursor,
      coverage,
      isFirst: cursor === undefined,
    })}`
    return sendPage(reply, 200, {
      words,
      title: words.activity.title,
      ...inTabs(words, 'activity'),
      hasScript: app.authOrigin,
      body,
    })
  })

  async function readRows(
    words: Texts,
    owner: AccountOwner,
    filters: ActivityFilters,
    cursor: string | undefined,
  ): Promise<Rows> {
    const { network, show, direction, application } = filters
    const page = { limit: ROWS, cursor }
    if (!app.networks.has(network)) return { rows: [], nextCursor: null }
    if (show === 'done')
      return rowsOf(await slices.readSent(owner, network, { ...page, clientId: application }), (one) =>
        sentItem(words, one),
      )
    if (show === 'tokens')
      return rowsOf(await slices.readTransfers(owner, network, { ...page, direction }), (one) =>
        transferItem(words, one),
      )
    const listed = await slices.readNativeTransfers(owner, network, { ...page, direction })
    return { ...rowsOf(listed, (one) => transferItem(words, one)), coverage: listed.coverage }
  }
}

/** `coverage`: of native currency only */
type Rows = { rows: string[]; nextCursor: string | null; coverage?: CoinCoverage }
const rowsOf = <T>({ entries, nextCursor }: Listed<T>, draw: (entry: T) => string): Rows => ({
  rows: entries.map(draw),
  nextCursor,
})

/** Reads the filters. An unknown value counts as not chosen. */
function readFilters(
  query: Record<string, unknown>,
  { networks, applications }: { networks: SelectOption<number>[]; applications: SelectOption<string>[] },
): ActivityFilters {
  return {
    network: networks.find(({ value }) => String(value) === query.network)?.value ?? networks[0]?.value ?? 0,
    show: KINDS.find((one) => one === query.show) ?? 'tokens',
    direction: DIRECTIONS.find((one) => one === query.direction) ?? 'all',
    application: applications.find(({ value }) => value === query.application)?.value ?? null,
  }
}

type ActivityPageParts = {
  filters: ActivityFilters
  networks: SelectOption<number>[]
  applications: SelectOption<string>[]
  /** HTML */
  rows: string[]
  nextCursor: string | null
  coverage: CoinCoverage | undefined
  isFirst: boolean
}

export function activityBody(
  words: Texts,
  { filters, networks, applications, rows, nextCursor, coverage, isFirst }: ActivityPageParts,
): string {
  const texts = words.activity
  const query = (cursor: string | null): string =>
    new URLSearchParams(
      Object.entries({ ...filters, cursor }).flatMap(([key, value]) =>
        value === null ? [] : [[key, String(value)] as [string, string]],
      ),
    ).toString()
  return html`
    <h1>${texts.title}</h1>
    <form class="card stack" method="get" action="/account/activity">
      <div class="columns narrow">
        !${choose('network', texts.network, networks, filters.network)}
        !${choose(
          'show',
          texts.show,
          KINDS.map((value) => ({ value, title: texts[value] })),
          filters.show,
        )}
        !${
          filters.show === 'done'
            ? choose(
                'application',
                texts.application,
                [{ value: '', title: texts.all }, ...applications],
                filters.application ?? '',
              )
            : choose(
                'direction',
                texts.direction,
                DIRECTIONS.map((value) => ({ value, title: texts[value] })),
                filters.direction,
              )
        }
      </div>
      <button class="button quiet">${texts.apply}</button>
    </form>
    <section class="card stack" aria-label="${texts[filters.show]}">
      <h2>${texts[filters.show]}</h2>
      !${filters.show === 'tokens' ? html`<p class="muted"><small>${texts.tokensHint}</small></p>` : ''}
      !${coverage === undefined ? '' : coverageHtml(words, coverage)}
      !${
        rows.length === 0
          ? html`<p class="muted">${texts.nothing}</p>`
          : html`<ul class="rows">
              !${rows.join('')}
            </ul>`
      }
      !${
        isFirst && nextCursor === null
          ? ''
          : html`<nav class="row spread" aria-label="${texts.show}">
              !${isFirst ? '' : html`<a href="/account/activity?${query(null)}">${texts.newest}</a>`}
              !${nextCursor === null ? '' : html`<a rel="next" href="/account/activity?${query(nextCursor)}">${texts.older}</a>`}
            </nav>`
      }
    </section>
  `
}

function choose<T extends string | number>(name: string, label: string, choices: SelectOption<T>[], chosen: T): string {
  const options = choices.map(
    ({ value, title }) =>
      html`<option value="${String(value)}" !${value === chosen ? 'selected' : ''}>${title}</option>`,
  )
  return html`<div class="field">
    <label for="${name}">${label}</label
    ><select id="${name}" name="${name}">
      !${options.join('')}
    </select>
  </div>`
}
