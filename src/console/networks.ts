import { html } from 'ghtml'
import type { App } from '../app.ts'
import { listNetworks } from '../applications/networks.ts'
import { AppError } from '../errors.ts'
import { listSponsors } from '../sponsors/list.ts'
import type { ListedSponsor } from '../sponsors/wire.ts'
import { spentOfPages } from '../store/sponsor-budget.ts'
import type { Texts } from '../texts/en.ts'
import { actionForm } from './act.ts'
import type { ConsoleDoor, ConsoleVisit } from './door.ts'
import { sponsorLimitInputs } from './sponsor-limits.ts'
import { card, doneHtml, field, linkTo, mono, nativeHtml, table, userPath } from './layout.ts'

type ConsoleNetwork = Awaited<ReturnType<typeof listNetworks>>[number]

/** Registers GET /console/networks: how far each network is followed, and its sponsors. */
export function networksPage(app: App, door: ConsoleDoor): void {
  door.page('/console/networks', async (visit) => {
    const { words, query } = visit
    const texts = words.console.networks
    const [networks, cursors, sponsors] = await Promise.all([listNetworks(app.db), readCursors(app), readSponsors(app)])
    const rows = networks.map((one) => networkRow(app, words, one, cursors.get(one.chainId)))
    const titles = [texts.name, texts.transactions, texts.history, texts.node, texts.silent, texts.gas, texts.spent]
    const title = words.console.nav.networks
    const cards = await Promise.all(networks.map((one) => cardOf(app, visit, one)))
    const body = html`!${doneHtml(words, query.done)} !${card(title, table(words, titles, rows, title), 'h1')}
    !${card(texts.sponsors, `${sponsorsHtml(app, words, sponsors, networks)}${app.chains.size === 0 ? html`<p class="muted">${words.console.noNode}</p>` : ''}`)}
    !${cards.join('')}`
    return { place: 'networks', title, body }
  })
}

async function readCursors({ db }: App): Promise<Map<number, { block: number | null; indexed: number | null }>> {
  const rows = await db
    .selectFrom('cursors as cursor')
    .leftJoin('history_cursors as history', 'history.chain_id', 'cursor.chain_id')
    .select(['cursor.chain_id', 'cursor.block_number', 'history.block_number as indexed'])
    .execute()
  return new Map(rows.map((row) => [row.chain_id, { block: row.block_number, indexed: row.indexed }]))
}

/** Returns null if the signer, which attests the addresses, does not respond. */
const readSponsors = (app: App): Promise<ListedSponsor[] | null> =>
  listSponsors(app).catch((error: unknown) => {
    if (error instanceof AppError) return null
    throw error
  })

function networkRow(
  app: App,
  words: Texts,
  one: ConsoleNetwork,
  cursor: { block: number | null; indexed: number | null } | undefined,
): string[] {
  const head = app.chains.get(one.chainId)?.head
  const silent = head === undefined ? null : Math.floor(head.node.silentMs() / 1_000)
  const known = (value: number | null | undefined) =>
    value === null || value === undefined ? html`<span class="muted">${words.console.unknown}</span>` : html`${value}`
  return [
    html`${one.name} <span class="muted">${one.chainId}</span>`,
    known(cursor?.block),
    known(cursor?.indexed),
    known(head?.node.newest()),
    silent === null ? known(null) : html`${words.console.networks.ago(String(silent))}`,
    html`${one.gas}`,
    one.gas === 'self' ? '' : nativeHtml(app, words, one.chainId, BigInt(one.sponsorSpent)),
  ]
}

function sponsorsHtml(app: App, words: Texts, sponsors: ListedSponsor[] | null, networks: ConsoleNetwork[]): string {
  const texts = words.console.networks
  if (sponsors === null) return html`<p class="danger">${words.console.problems.signer}</p>`
  const rows = sponsors.map((one) => {
    const network = networks.find(({ chainId }) => chainId === one.chainId)
    const badge = (text: string) => html` <span class="badge danger">${text}</span>`
    return [
      `${linkTo(userPath(`SPONSOR-${one.name}`), one.name)}${one.lowSince === null ? '' : badge(texts.low)}${one.stoppedSince === null ? '' : badge(texts.stopped)}`,
      html`${one.network ?? one.chainId}`,
      mono(one.address),
      one.balance === null
        ? html`<span class="muted">${words.console.unknown}</span>`
        : nativeHtml(app, words, one.chainId, BigInt(one.balance)),
      html`${daysLeft(one, network) ?? ''}`,
      html`${one.openTransactions}`,
    ]
  })
  return table(words, [texts.sponsorName, texts.name, words.console.user.address, texts.balance, texts.days, texts.open], rows, texts.sponsors) // prettier-ignore
}

/** Divides a balance by its share of what all sponsors of the network spent in the last day; null if they spent nothing. */
function daysLeft({ balance }: ListedSponsor, network: ConsoleNetwork | undefined): string | null {
  if (balance === null || network === undefined || network.sponsors === 0) return null
  const share = BigInt(network.sponsorSpent) / BigInt(network.sponsors)
  return share === 0n ? null : String(BigInt(balance) / share)
}

/** Renders what the account pages may spend, and the actions of a network: sponsors and their limits. */
async function cardOf(app: App, visit: ConsoleVisit, network: ConsoleNetwork): Promise<string> {
  const { name, gas, sponsorPerDay, sponsorLow, pagesPerUser, pagesPerDay } = network
  if (gas === 'self') return ''
  const texts = visit.words.console.networks
  const limits = { sponsorPerDay, sponsorLow, pagesPerUser, pagesPerDay }
  const forms = [
    actionForm(visit, 'create-sponsor', name, {
      html: field({ id: `name-${name}`, name: 'name', label: texts.sponsorName }),
      values: { name: 'NAME' },
    }),
    name === app.config.NETWORK_NAME
      ? ''
      : actionForm(visit, 'set-network', name, {
          html: sponsorLimitInputs(visit.words, { name, ...limits }),
          values: Object.fromEntries(Object.entries(limits).map(([field, wei]) => [field, wei ?? ''])),
        }),
  ].join('')
  return card(name, `${await pagesHtml(app, visit.words, network)}${forms}`)
}

/** Renders the gas budget of the account pages. Without one, users of a network that sponsors pay for send nothing there. */
async function pagesHtml(
  app: App,
  words: Texts,
  { chainId, gas, pagesPerUser, pagesPerDay }: ConsoleNetwork,
): Promise<string> {
  const texts = words.console.networks
  if (pagesPerUser === null || pagesPerDay === null)
    return html`<p class="${gas === 'sponsor' ? 'notice' : 'muted'}">
      ${gas === 'sponsor' ? texts.pagesSendNothing : texts.pagesNoBudget}
    </p>`
  const native = (wei: bigint) => nativeHtml(app, words, chainId, wei)
  return html`<dl class="facts">
    <dt>${texts.limits.pagesPerUser}</dt>
    <dd>!${native(BigInt(pagesPerUser))}</dd>
    <dt>${texts.limits.pagesPerDay}</dt>
    <dd>!${native(BigInt(pagesPerDay))}</dd>
    <dt>${texts.pagesSpent}</dt>
    <dd>!${native(await spentOfPages(app.db, chainId))}</dd>
  </dl>`
}
