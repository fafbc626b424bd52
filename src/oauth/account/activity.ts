import type { FastifyInstance } from 'fastify'
import { html } from 'ghtml'
import { OWN_CLIENT } from '../../ids.ts'
import type { App } from '../../app.ts'
import { sendPage, textsOf } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import { coverageHtml } from './body.ts'
import { hidden, leaveFor, type AccountDoor } from './access.ts'
import { entriesHtml, isPending } from './entries.ts'
import { SECONDS_TO_NEXT_LOOK } from './overview.ts'
import type { PictureOf } from './pictures.ts'
import type { AccountSlices, ActivityEntry, CoinCoverage, Direction } from './slices.ts'
import { listAllowed } from './allowed.ts'
import { inTabs } from './tabs.ts'
import { ownSignIn } from '../first-party.ts'
import { chainName } from '../page-context.ts'

const ROWS = 25

const DIRECTIONS = ['all', 'in', 'out'] as const satisfies Direction[]

type SelectOption<T> = { value: T; title: string }
type ActivityFilters = { network: number; direction: Direction; application: string | null }

/**
 * Registers the activity on a network, page by page: writes of the user and of applications, and transfers by others,
 * each once.
 */
export function activityPage(
  server: FastifyInstance,
  app: App,
  { door, slices, pictureOf }: { door: AccountDoor; slices: AccountSlices; pictureOf: PictureOf },
): void {
  /** GET /account/activity: `network`, `direction`, `application`, `cursor`. Errors: invalid_cursor. */
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
    const { network, direction, application: clientId } = filters
    const cursor = typeof request.query.cursor === 'string' ? request.query.cursor : undefined
    const page = { limit: ROWS, cursor, direction, clientId }
    const { entries, nextCursor, coverage } = app.networks.has(network)
      ? await slices.readActivity(visitor.user, network, page)
      : { entries: [], nextCursor: null, coverage: null }
    const isFirst = cursor === undefined
    const body = `${await door.noticeFor(visitor, words)}${activityBody(words, {
      filters,
      networks,
      applications,
      entries,
      nextCursor,
      coverage: clientId === null ? coverage : undefined,
      isFirst,
      pictureOf,
    })}`
    return sendPage(reply, 200, {
      words,
      title: words.activity.title,
      ...inTabs(words, 'activity'),
      hasScript: app.authOrigin,
      ...(entries.some(isPending) ? { live: { seconds: SECONDS_TO_NEXT_LOOK, path: '/account/activity' } } : {}),
      body,
    })
  })
}

/** Reads the filters. An unknown value counts as not chosen. Transfers of a direction have no application. */
function readFilters(
  query: Record<string, unknown>,
  { networks, applications }: { networks: SelectOption<number>[]; applications: SelectOption<string>[] },
): ActivityFilters {
  const direction = DIRECTIONS.find((one) => one === query.direction) ?? 'all'
  const application = applications.find(({ value }) => value === query.application)?.value ?? null
  return {
    network: networks.find(({ value }) => String(value) === query.network)?.value ?? networks[0]?.value ?? 0,
    direction,
    application: direction === 'all' ? application : null,
  }
}

type ActivityPageParts = {
  filters: ActivityFilters
  networks: SelectOption<number>[]
  applications: SelectOption<string>[]
  entries: ActivityEntry[]
  nextCursor: string | null
  /** null if native currency cannot be read; undefined: it is not part of the list */
  coverage: CoinCoverage | null | undefined
  isFirst: boolean
  pictureOf: PictureOf
}

export function activityBody(
  words: Texts,
  { filters, networks, applications, entries, nextCursor, coverage, isFirst, pictureOf }: ActivityPageParts,
): string {
  const texts = words.activity
  const { network, direction, application } = filters
  const query = (changed: Record<string, string | null>): string =>
    new URLSearchParams(
      Object.entries({ ...filters, ...changed }).flatMap(([key, value]) =>
        value === null ? [] : [[key, String(value)] as [string, string]],
      ),
    ).toString()
  const chip = (value: Direction): string =>
    html`<a
      href="/account/activity?${query({ direction: value, application: null })}"
      !${value === direction && application === null ? 'aria-current="true"' : ''}
      >${texts[value]}</a
    >`
  return html`
    <h1>${texts.title}</h1>
    <nav class="chips" aria-label="${texts.show}">!${DIRECTIONS.map(chip).join('')}</nav>
    !${
      networks.length < 2 && applications.length < 2
        ? ''
        : html`<details class="card" !${application === null ? '' : 'open'}>
            <summary>${words.wallet.filter}</summary>
            <form class="stack" method="get" action="/account/activity">
              <div class="columns narrow">
                !${networks.length < 2 ? html`<input type="hidden" name="network" value="${String(network)}" />` : choose('network', texts.network, networks, network)}
                !${choose('application', texts.application, [{ value: '', title: texts.all }, ...applications], application ?? '')}
              </div>
              <button class="button quiet">${texts.apply}</button>
            </form>
          </details>`
    }
    <section class="card stack" aria-label="${texts.title}">
      !${
        entries.length === 0
          ? html`<p class="muted">${texts.nothing}</p>`
          : entriesHtml(
              words,
              entries.map((entry) => ({ chainId: network, entry })),
              { name: 'activity', pictureOf },
            )
      }
      !${
        isFirst && nextCursor === null
          ? ''
          : html`<nav class="row spread go" aria-label="${texts.older}">
              !${isFirst ? '' : html`<a href="/account/activity?${query({})}">${texts.newest}</a>`}
              !${nextCursor === null ? '' : html`<a rel="next" href="/account/activity?${query({ cursor: nextCursor })}">${texts.older}</a>`}
            </nav>`
      }
      !${application === null ? html`<p class="muted"><small>${texts.tokensHint}</small></p>` : ''}
      !${coverage === undefined ? '' : coverageHtml(words, coverage)}
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
