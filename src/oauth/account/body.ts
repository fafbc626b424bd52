import type { FastifyReply } from 'fastify'
import { html } from 'ghtml'
import type { Texts } from '../../texts/en.ts'
import { OWN_CLIENT } from '../first-party.ts'
import { amountHtml } from '../../http/amount.ts'
import { ends, sendPage, timeHtml } from '../../http/page.ts'
import type { CoinCoverage, ShownTransfer, ShownCollectible, SentTransaction } from './slices.ts'

/** Renders the sentence about the action that the user has just taken, by its code in the address. */
export function doneHtml(words: Texts, { done }: Record<string, unknown>): string {
  if (typeof done !== 'string' || !Object.hasOwn(words.done, done)) return ''
  return html`<p class="notice" role="status">${words.done[done]!}</p>`
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
export const spamLast = <T extends { isSpam: boolean }>(all: T[]): T[] =>
  all.toSorted((a, b) => Number(a.isSpam) - Number(b.isSpam))

export const spamBadge = (words: Texts, { isSpam }: { isSpam: boolean }): string =>
  isSpam ? html` <span class="badge danger" title="${words.account.spamHint}">${words.account.spam}</span>` : ''

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
export const isListed = (coverage: CoinCoverage | null): boolean =>
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
    <a class="button quiet" href="/account/security">${texts.keep}</a>
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

type Short = 'signedOut' | 'unlinkedHere' | 'signedOutHint' | 'signedOutEverywhere' | 'erased' | 'erasedHint'

/** Sends a page of one sentence, after which there is no session. */
export const showShort = (reply: FastifyReply, words: Texts, title: Short, hint: Short): FastifyReply =>
  sendPage(reply, 200, {
    words,
    title: words.account[title],
    body: shortBody(words.account[title], words.account[hint], null),
  })

/** Renders a form that is posted with a CSRF token and hidden fields. @param rest  HTML: visible fields and buttons */
export function form(action: string, csrf: string, fields: Record<string, string>, rest: string): string {
  const hidden = Object.entries({ csrf, ...fields }).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
  )
  return html`<form class="stack tight" method="post" action="${action}">!${hidden.join('')}!${rest}</form>`
}
