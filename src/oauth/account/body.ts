import type { FastifyReply } from 'fastify'
import { html } from 'ghtml'
import type { Texts } from '../../texts/en.ts'
import { ends, sendPage } from '../../http/page.ts'
import type { CoinCoverage, ShownCollectible } from './slices.ts'

/** Renders the sentence about the action that the user has just taken, by its code in the address. */
export function doneHtml(words: Texts, { done }: Record<string, unknown>): string {
  if (typeof done !== 'string' || !Object.hasOwn(words.done, done)) return ''
  return html`<p class="notice" role="status">${words.done[done]!}</p>`
}

/** Returns the name of a collectible: its collection and id. */
export const collectibleName = ({ name, symbol, tokenId }: ShownCollectible): string =>
  `${name || symbol || '?'} #${shortId(tokenId)}`

/** Shortens an id. Ids may be hashes of 78 digits, which differ at their ends. */
export const shortId = (id: bigint | string): string => {
  const text = String(id)
  return text.length <= 20 ? text : ends(text)
}

/** Renders the sign of an asset: its picture, and without one the first letters of its symbol. */
export const assetSign = (
  text: string,
  { picture, kind = '' }: { picture: string | null; kind?: 'item' | '' },
): string =>
  picture === null
    ? html`<span class="coin ${kind}" aria-hidden="true">${Array.from(text).slice(0, 3).join('')}</span>`
    : pictureHtml(picture, kind)

/** Renders the picture of a token or collectible before its amount; nothing without a picture. */
export const smallSign = (picture: string | null, kind: 'item' | '' = ''): string =>
  picture === null ? '' : pictureHtml(picture, `small ${kind}`)

const pictureHtml = (src: string, kind: string): string =>
  html`<img class="coin ${kind}" src="${src}" alt="" width="36" height="36" loading="lazy" decoding="async" />`

/** Sorts suspected spam behind everything else. */
export const spamLast = <T extends { isSpam: boolean }>(all: T[]): T[] =>
  all.toSorted((a, b) => Number(a.isSpam) - Number(b.isSpam))

export const spamBadge = (words: Texts, { isSpam }: { isSpam: boolean }): string =>
  isSpam ? html` <span class="badge danger" title="${words.account.spamHint}">${words.account.spam}</span>` : ''

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
