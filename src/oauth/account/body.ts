import { html } from 'ghtml'
import type { Texts } from '../../texts/en.ts'
import { timeText } from '../../texts/time.ts'
import { OWN_CLIENT } from '../first-party.ts'
import { amountHtml } from '../../http/amount.ts'
import { ends, timeHtml } from '../../http/page.ts'
import type { Identity } from '../../users/identities.ts'
import type { CoinCoverage, ShownBalance, ShownTransfer, ShownCollectible, SentTransaction } from './slices.ts'
import type { AllowedApplication } from './allowed.ts'
import { meaningOf, picture } from '../pages.ts'
import { bindsCode, type ProviderSettings } from '../federation/providers.ts'
import { qrSvg } from './qr.ts'
import type { ListedSession } from '../sessions.ts'

/** The shown data of an account on one network; null for data that could not be read. */
export type OnNetwork = {
  chainId: number
  network: string
  balances: ShownBalance[] | null
  collectibles: ShownCollectible[]
  transfers: ShownTransfer[] | null
  /** null if native currency cannot be read now */
  coverage: CoinCoverage | null
  sent: SentTransaction[]
  canSend: boolean
}

export type AccountParts = {
  words: Texts
  csrf: string
  username: string
  provider: string
  imageSrc: string | null
  address: string
  isFrozen: boolean
  networks: OnNetwork[]
  applications: (AllowedApplication & { network: string })[]
  identities: Identity[]
  providers: ProviderSettings[]
  sessions: ListedSession[]
  /** uid of the session of this browser */
  session: string
  /** HTML at the top of the page: see `AccountDoor.noticeFor` */
  notice: string
  /** when the key was exported; null: never */
  exportedAt: Date | null
  /** number of requests that wait for the user’s approval */
  waiting: number
  canExport: boolean
  /** sentence about the action that the user has just taken */
  done: string | null
}

/** Renders the overview of an account, with all actions that the user can take. Each function returns HTML, escaped. */
export function accountBody(parts: AccountParts): string {
  const { done, isFrozen, words, notice, exportedAt, canExport, waiting } = parts
  const { exporting } = words
  const [frozen, whatItMeans] = words.codes.account_frozen
  const networks = parts.networks.map((one) => ({ ...one, canSend: one.canSend && !isFrozen }))
  return html`
    !${notice} !${done === null ? '' : html`<p class="notice" role="status">${done}</p>`}
    !${isFrozen ? html`<div class="danger stack tight"><b>${frozen}</b><span>${whatItMeans}</span></div>` : ''}
    !${waiting === 0 ? '' : html`<p class="notice" role="status"><a href="/account/approvals">${words.approvals.link(waiting)}</a></p>`}
    !${exportedAt === null ? '' : html`<p class="notice">${exporting.exported(timeText(words, exportedAt))}</p>`}
    <h1>${words.account.title}</h1>
    <div class="columns">
      <div class="stack">!${personCard(parts)} !${networks.map((one) => networkCard(words, one)).join('')}</div>
      <div class="stack">!${applicationsCard(parts)} !${identitiesCard(parts)} !${sessionsCard(parts)}</div>
    </div>
    <p><a href="/account/approvals">${words.approvals.inbox}</a></p>
    <p><a href="/account/signatures">${words.signatures.link}</a></p>
    <p><a href="/account/data.json" download>${words.account.data}</a></p>
    !${canExport ? html`<p><a href="/account/export">${exporting.title}</a></p>` : ''}
    <p><a class="danger" href="/account/erase">${words.account.erase}</a></p>
  `
}

function personCard({ words, csrf, username, provider, imageSrc, address, session }: AccountParts): string {
  const texts = words.account
  return html`
    <section class="card stack">
      <div class="row">
        !${picture(imageSrc, 'avatar')}
        <p><b>${username}</b> <span class="badge">${provider}</span></p>
      </div>
      <div class="field">
        <label for="address">${texts.address}</label>
        <input class="mono" id="address" value="${address}" readonly aria-describedby="address-hint" />
        <small class="hint" id="address-hint">${texts.addressHint}</small>
        <span aria-live="polite"
          ><button class="button quiet" type="button" data-copies="address" data-done="${texts.copied}" hidden>
            ${texts.copy}
          </button></span
        >
      </div>
      !${qrSvg(address, texts.qrLabel)}
      !${form('/account/sessions/end', csrf, { uid: session }, html`<button class="button quiet">${texts.signOut}</button>`)}
    </section>
  `
}

function networkCard(words: Texts, parts: OnNetwork): string {
  const { chainId, network, balances, collectibles, transfers, coverage, sent, canSend } = parts
  const texts = words.account
  return html`
    <section class="card stack">
      <div class="row spread">
        <h2>${network}</h2>
        !${canSend ? html`<a class="button small" href="/account/send">${words.send.title}</a>` : ''}
      </div>
      !${
        balances === null
          ? html`<p class="muted">${texts.unreadable}</p>`
          : html`<dl class="facts">
              !${spamLast(balances)
                .map(
                  (balance) =>
                    html`<dt>${balance.name === '' ? balance.symbol : balance.name}!${spamBadge(words, balance)}</dt>
                      <dd>!${amountHtml(words, balance)}</dd>`,
                )
                .join('')}
            </dl>`
      }
      !${
        collectibles.length === 0
          ? ''
          : html`<h3>${texts.collectibles}</h3>
              <ul class="rows">
                !${spamLast(collectibles)
                  .map((one) => collectibleItem(words, one))
                  .join('')}
              </ul>`
      }
      <h3>${texts.transfers}</h3>
      !${
        transfers === null
          ? html`<p class="muted">${texts.unreadable}</p>`
          : transfers.length === 0
            ? html`<p class="muted">${texts.noTransfers}</p>`
            : html`<ul class="rows">
                !${transfers.map((one) => transferItem(words, one)).join('')}
              </ul>`
      }
      !${transfers === null || isListed(coverage) ? '' : coverageHtml(words, coverage)}
      !${
        sent.length === 0
          ? ''
          : html`<h3>${texts.sentByApplications}</h3>
              <ul class="rows">
                !${sent.map((one) => sentItem(words, one)).join('')}
              </ul>`
      }
      <p><a href="/account/activity?network=${String(chainId)}">${texts.showAll}</a></p>
    </section>
  `
}

/** Returns the name of a collectible: its collection and id. */
export const collectibleName = ({ name, symbol, tokenId }: ShownCollectible): string =>
  `${name || symbol || '?'} #${shortId(tokenId)}`

/** Shortens an id. Ids may be hashes of 78 digits, which differ at their ends. */
const shortId = (id: bigint | string): string => {
  const text = String(id)
  return text.length <= 20 ? text : ends(text)
}

/** Sorts suspected spam behind everything else. */
const spamLast = <T extends { isSpam: boolean }>(all: T[]): T[] =>
  all.toSorted((a, b) => Number(a.isSpam) - Number(b.isSpam))

const spamBadge = (words: Texts, { isSpam }: { isSpam: boolean }): string =>
  isSpam ? html` <span class="badge danger" title="${words.account.spamHint}">${words.account.spam}</span>` : ''

const collectibleItem = (words: Texts, collectible: ShownCollectible): string =>
  html`<li>
    <span title="${String(collectible.tokenId)}">${collectibleName(collectible)}</span
    >!${collectible.count > 1n ? html` <span class="badge">× ${String(collectible.count)}</span>` : ''}!${spamBadge(words, collectible)}
  </li>`

/** The address that created tokens come from and destroyed tokens go to. Source: ERC-20, ERC-721, ERC-1155 */
const ZERO_ADDRESS = `0x${'0'.repeat(40)}`

export function transferItem(
  words: Texts,
  { direction, amount, tokenId, other, at, explorerUrl, coinKind, fee }: ShownTransfer,
): string {
  const texts = words.account
  const { activity, native } = words
  const plain =
    other === ZERO_ADDRESS && coinKind === undefined
      ? { IN: texts.created, OUT: texts.destroyed, SELF: texts.toMyself }[direction]
      : { IN: texts.received(other), OUT: texts.sent(other), SELF: texts.toMyself }[direction]
  const where =
    coinKind === undefined || coinKind === 'INTERNAL'
      ? plain
      : { FEE: native.feeAlone, MINT: native.minted, WITHDRAWAL: native.unstaked, REWARD: native.reward }[coinKind] // prettier-ignore
  const contract = coinKind === 'INTERNAL' ? html` <span class="badge">${native.internal}</span>` : ''
  const costs = fee === undefined ? '' : html`${activity.fee}: !${amountHtml(words, fee)}<br />`
  const sign = { IN: '+', OUT: '−', SELF: '' }[direction]
  const id = tokenId === null ? '' : html` <span title="${tokenId}">#${shortId(tokenId)}</span>`
  return html`<li>
    <p><b>!${amountHtml(words, amount, sign)}!${id}</b> ${where}!${contract}</p>
    <p class="muted">
      <small>!${costs}<a href="${explorerUrl}">!${timeHtml(words, at)}</a></small>
    </p>
  </li>`
}

/**
 * Returns whether native currency is listed from some block on, and with payments by contracts. If not, the overview
 * says so.
 */
const isListed = (coverage: CoinCoverage | null): boolean =>
  coverage !== null && coverage.from !== null && coverage.internalFrom !== null

/** Says which native currency is not listed, in at most two sentences; empty if all of it is. */
export function coverageHtml({ native, account }: Texts, coverage: CoinCoverage | null): string {
  const said = (text: string): string => html`<p class="muted"><small>${text}</small></p>`
  if (coverage === null) return said(account.unreadable)
  const { from, internalFrom } = coverage
  if (from === null) return said(native.notListed)
  const internal =
    internalFrom === null ? native.noInternal : internalFrom > from ? native.internalFrom(internalFrom) : null
  return [from > 0 ? native.listedFrom(from) : null, internal].flatMap((text) => (text === null ? [] : [said(text)])).join('') // prettier-ignore
}

/** Renders a transaction: its sender, its action, and its cost. */
export function sentItem(words: Texts, sent: SentTransaction): string {
  const { activity } = words
  const { clientId, application, state, called, to, value, fee, explorerUrl, sentAt } = sent
  const who = clientId === OWN_CLIENT ? activity.yourself : (application ?? activity.unknown)
  const short = ends(to)
  const costs = [
    ...(value.value > 0n ? [html`${activity.value}: !${amountHtml(words, value)}`] : []),
    ...(fee === null ? [] : [html`${activity.fee}: !${amountHtml(words, fee)}`]),
  ]
  return html`<li>
    <p><b>${who}</b> <span class="badge">${words.account.states[state]}</span></p>
    <p title="${to}">${called === null ? activity.transferred(short) : activity.called(called, short)}</p>
    <p class="muted">
      <small
        >!${costs.join(' · ')}!${costs.length === 0 ? '' : '<br />'}<a href="${explorerUrl}"
          >!${timeHtml(words, sentAt)}</a
        ></small
      >
    </p>
  </li>`
}

function applicationsCard({ words, csrf, applications }: AccountParts): string {
  const texts = words.account
  return html`
    <section class="card stack">
      <h2>${texts.applications}</h2>
      !${
        applications.length === 0
          ? html`<p class="muted">${texts.noApplications}</p>`
          : html`<ul class="rows">
              !${applications.map((one) => applicationItem(words, csrf, one)).join('')}
            </ul>`
      }
    </section>
  `
}

function applicationItem(
  words: Texts,
  csrf: string,
  { clientId, name, network, permissions, signIns }: AccountParts['applications'][number],
): string {
  const texts = words.account
  const meanings = permissions.map((permission) => meaningOf(words, permission))
  const may = [words.consent.always, ...meanings.filter((meaning) => meaning !== undefined)]
  return html`<li class="stack tight">
    <div class="row spread">
      <p><b>${name}</b> <span class="badge">${network}</span></p>
      !${form('/account/applications/revoke', csrf, { clientId }, html`<button class="button quiet danger" aria-label="${`${texts.revoke}: ${name}`}">${texts.revoke}</button>`)}
    </div>
    <ul class="grants">
      !${may.map((meaning) => html`<li>${meaning}</li>`).join('')}
    </ul>
    <p class="muted"><small>${texts.signIns(signIns)}</small></p>
  </li>`
}

function identitiesCard({ words, csrf, identities, providers }: AccountParts): string {
  const texts = words.account
  const item = ({ userId, provider, username, isFirst }: Identity): string =>
    html`<li class="row spread">
      <p>
        ${username}
        <span class="badge">${provider}</span
        >!${isFirst ? html` <span class="badge good">${texts.firstIdentity}</span>` : ''}
      </p>
      !${isFirst ? '' : form('/account/identities/remove', csrf, { identity: userId }, html`<button class="button quiet danger" aria-label="${`${texts.remove}: ${username} (${provider})`}">${texts.remove}</button>`)}
    </li>`
  return html`
    <section class="card stack">
      <h2>${texts.identities}</h2>
      <p class="muted">${texts.identitiesHint}</p>
      <ul class="rows">
        !${identities.map(item).join('')}
      </ul>
      !${providers
        .filter(bindsCode)
        .map(({ name, label }) =>
          form(
            '/account/identities/add',
            csrf,
            { provider: name },
            html`<button class="button quiet">${texts.add(label)}</button>`,
          ),
        )
        .join('')}
      !${providers
        .filter((one) => !bindsCode(one))
        .map(({ label }) => html`<p class="muted"><small>${words.refused.cannotLink(label)}</small></p>`)
        .join('')}
    </section>
  `
}

function sessionsCard({ words, csrf, sessions, session }: AccountParts): string {
  const texts = words.account
  const item = ({ uid, signedInAt, browser, system }: ListedSession): string => {
    const where =
      browser !== null && system !== null
        ? texts.browserOn(browser, system)
        : (browser ?? system ?? texts.unknownBrowser)
    const time = timeText(words, signedInAt)
    // The label begins with the text of the button, for speech input (WCAG 2.5.3).
    const label = `${texts.signOut}: ${where}, ${texts.since(time)}`
    return html`<li class="row spread">
      <p>
        <b>${where}</b
        >!${uid === session ? html` <span class="badge good">${texts.thisBrowser}</span>` : ''}<br /><small
          class="muted"
          >!${sinceHtml(words, signedInAt)}</small
        >
      </p>
      !${form('/account/sessions/end', csrf, { uid }, html`<button class="button quiet" aria-label="${label}">${texts.signOut}</button>`)}
    </li>`
  }
  return html`
    <section class="card stack">
      <h2>${texts.sessions}</h2>
      <p class="muted">${texts.sessionsHint}</p>
      <ul class="rows">
        !${sessions.map(item).join('')}
      </ul>
      !${sessions.length < 2 ? '' : form('/account/sessions/end-others', csrf, {}, html`<button class="button quiet">${texts.signOutOthers}</button>`)}
      !${form('/account/sessions/end-everywhere', csrf, {}, html`<button class="button quiet danger">${texts.signOutEverywhere}</button>`)}
    </section>
  `
}

/** Renders a time as an element within its sentence, so that it can be shown in the reader's zone. */
function sinceHtml(words: Texts, time: Date): string {
  const [before, after] = words.account.since('\0').split('\0') as [string, string]
  return html`${before}!${timeHtml(words, time)}${after}`
}

/** Renders the consequences of a deletion, before the user confirms it. */
export function eraseBody(
  { erase: texts }: Texts,
  { csrf, firstIdentity }: { csrf: string; firstIdentity: string },
): string {
  const list = (lines: string[]): string =>
    html`<ul>
      !${lines.map((line) => html`<li>${line}</li>`).join('')}
    </ul>`
  const rest = html`
    <label class="row"><input type="checkbox" name="sure" value="yes" required /> <span>${texts.sure}</span></label>
    <button class="button danger">${texts.delete}</button>
    <a class="button quiet" href="/account">${texts.keep}</a>
  `
  return html`
    <div class="card stack">
      <h1>${texts.title}</h1>
      <h2>${texts.goesTitle}</h2>
      !${list(texts.goes)}
      <h2>${texts.staysTitle}</h2>
      !${list(texts.stays)}
      <p class="notice">${texts.back(firstIdentity)}</p>
      !${form('/account/erase', csrf, {}, rest)}
    </div>
  `
}

/** Renders one sentence, and at most one link. */
export const shortBody = (title: string, hint: string | null, next: { href: string; text: string } | null): string =>
  html`<div class="card stack">
    <h1>${title}</h1>
    !${hint === null ? '' : html`<p class="muted">${hint}</p>`}
    !${next === null ? '' : html`<a class="button" href="${next.href}">${next.text}</a>`}
  </div>`

/** Renders a form that is posted with a CSRF token and hidden fields. @param rest  HTML: visible fields and buttons */
export function form(action: string, csrf: string, fields: Record<string, string>, rest: string): string {
  const hidden = Object.entries({ csrf, ...fields }).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
  )
  return html`<form class="stack tight" method="post" action="${action}">!${hidden.join('')}!${rest}</form>`
}
